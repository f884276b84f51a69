"""The soak: half a minute of it in every run of the tests; ten by `make soak`."""

from __future__ import annotations

import io
import os
import random

import pytest
from rich.console import Console

from ..wear.gauge import Figures, Lent
from .__main__ import table
from .soak import soak

SEED = int(os.environ.get("FARREF_SOAK_SEED") or random.randrange(10**6))
"""Another one for each run; set it to have the choices of a run that failed."""


def test_its_table_fits_into_80_columns() -> None:
    figures = Figures(Lent(1, 16, 123, 1_242_677, 149.9), 20.5, 10.7, 11_354)
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(table("program", [(3600, {"program": figures})]))
    assert "…" not in console.export_text()


@pytest.mark.processes
@pytest.mark.timeout(240)
def test_half_a_minute_of_traffic_with_kills_under_faults() -> None:
    print(f"FARREF_SOAK_SEED={SEED}")  # noqa: T201 - for a run that fails
    done = soak(30, SEED).done
    assert done["kill"] > 1
    assert done["cut"] > 1
    assert done["lend"] > 10
