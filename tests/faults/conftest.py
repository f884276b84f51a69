"""Systems with faulty links, and retransmission so quick that a test of it takes moments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from farref import System
from farref.protocol import delivery
from farref.testing import Faults, assert_nothing_held, delay, drop, duplicate, reorder, set_faults

RETRY = 0.05
"""Seconds before the first retransmission. Processes are forked from here, and inherit it."""
GRACE = 0.5

PLANS = {
    "lost": (drop(0.3),),
    "late": (delay(0.5, seconds=(0.0, 0.1)),),
    "twice": (duplicate(0.5),),
    "overtaken": (reorder(0.5),),
    "all at once": (drop(0.2), delay(0.2), duplicate(0.2), reorder(0.2)),
    "first three": (drop(first=3),),
}
"""The faults, by the names that the tests use."""


@pytest.fixture(autouse=True, scope="package")
def quick_retries() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delivery, "FIRST_RETRY", RETRY)
        patch.setattr(delivery, "LAST_RETRY", 2 * RETRY)
        yield


@contextmanager
def faulty(base: str, *rules: Any, names: str = "BCD", **settings: Any) -> Iterator[System]:
    """A system with workers, in which nothing is held in the end."""
    faults = Faults(*rules, seed=7)
    with System(base, timeout=30, orphan_grace=GRACE, faults=faults, **settings) as system:
        for name in names:
            system.worker(name)
        yield system
        set_faults(system, Faults())  # the guarantees need no faults; only quicker
        assert_nothing_held(system)
