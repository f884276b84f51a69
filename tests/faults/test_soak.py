"""The soak: half a minute of it in every run of the tests; ten by `make soak`."""

from __future__ import annotations

import os
import random

import pytest

from .soak import soak

SEED = int(os.environ.get("FARREF_SOAK_SEED") or random.randrange(10**6))
"""Another one for each run; set it to repeat the choices of a failed run."""


@pytest.mark.processes
@pytest.mark.timeout(240)
def test_a_quarter_of_a_minute_of_traffic_with_kills_under_faults() -> None:
    print(f"FARREF_SOAK_SEED={SEED}")  # noqa: T201 - for a run that fails
    done = soak(15, SEED).done
    assert done["kill"] > 1
    assert done["cut"] > 1
    assert done["lend"] > 5
