"""The check that a test leaves no segment of shared memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from farref.serialization import shared, slots

from ..waiting import eventually


@pytest.fixture
def nothing_stays_open() -> Iterator[None]:
    """The test leaves no segment, whether in use, unread or kept."""
    slots.forget()  # of earlier tests
    gc.collect()
    shared.recycler.empty()
    before = dict(shared._open)
    yield
    gc.collect()
    shared.recycler.empty()
    assert not shared.unread
    eventually(lambda: shared._open == before, lambda: shared._open)  # a thread closes large ones
    assert not shared._written
