"""A large new segment is written by two threads, and by one where the other can do nothing."""

from __future__ import annotations

import _thread
import mmap
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from farref.serialization import mapping, shared
from farref.serialization.frozen import Frozen

from ..marks import SHARED_MEMORY
from .endpoint import TinyAddress
from .passing import arrived, opened, packed

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    SHARED_MEMORY,
    pytest.mark.usefixtures("nothing_stays_open", "small_pieces"),
]
PIECE = 1 << 16
PATIENCE = 60.0
"""Seconds: one thread waits that long for the other."""
SIZES = {"pieces": 16 * PIECE, "a rest": 16 * PIECE + 5, "one piece": PIECE - 1}
two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core")


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "THRESHOLD", 1)
    monkeypatch.setattr(shared, "BY_TWO", 1)
    monkeypatch.setattr(mapping, "PIECE", PIECE)


class Writer:
    """The calling thread's writes of whole pieces, once they are done."""

    def __init__(self, before: Callable[[], object] = bool) -> None:
        self.pieces = 0
        self._before = before
        self._write = os.pwrite

    def __call__(self, descriptor: int, data: Any, at: int) -> int:
        if len(data) == PIECE:
            self._before()
        written = self._write(descriptor, data, at)
        self.pieces += len(data) == PIECE
        return written


class Helper:
    """The other thread's copies of pieces. When it has taken one, it waits before it copies."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, until: Callable[[], object]) -> None:
        self.pieces: deque[int] = deque()
        """Those that neither thread has taken."""
        self._has_one = threading.Event()
        self._until = until
        self._help, self._madvise = mapping._help, mapping._libc.madvise
        monkeypatch.setattr(mapping, "_help", self._begin)
        monkeypatch.setattr(mapping._libc, "madvise", self._make_pages)

    def _begin(self, memory: Any, view: memoryview, pieces: deque[int], ended: Any) -> None:
        self.pieces = pieces
        self._help(memory, view, pieces, ended)

    def _make_pages(self, address: int, size: int, advice: int) -> int:
        if advice == mapping._POPULATE_WRITE:
            self._has_one.set()
            end = time.monotonic() + PATIENCE
            while not self._until():
                time.sleep(0.001)
                if time.monotonic() > end:
                    self._until = lambda: True  # it waits in vain once
        return int(self._madvise(address, size, advice))

    def await_it(self) -> None:
        """Wait until it has taken a piece; not again if it has taken none in time."""
        self._has_one.wait(PATIENCE)
        self._has_one.set()


def numbers(size: int) -> Any:
    return np.random.default_rng(7).integers(0, 256, size, np.uint8)


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_the_value_comes_as_it_was(size: int) -> None:
    value = numbers(size)
    assert (opened(arrived(packed(value))) == value).all()
    assert (opened(arrived(packed(value[::-1].copy()))) == value[::-1]).all()  # in its memory
    assert (Frozen.of(value, TinyAddress).thaw() == value).all()


@two_cores
def test_both_write(monkeypatch: pytest.MonkeyPatch) -> None:
    helper = Helper(monkeypatch, lambda: writer.pieces)
    writer, value = Writer(helper.await_it), numbers(32 * PIECE)
    monkeypatch.setattr(os, "pwrite", writer)
    same = bool((opened(arrived(packed(value))) == value).all())  # no traceback keeps its memory
    assert 0 < writer.pieces < 32
    assert same


def test_a_small_one_is_written_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "BY_TWO", 16 * PIECE + 1)
    monkeypatch.setattr(mapping, "write_by_two", None)
    value = numbers(16 * PIECE)
    assert (opened(arrived(packed(value))) == value).all()


def test_one_core_has_one_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    cores, value = os.sched_getaffinity(0), numbers(16 * PIECE)
    monkeypatch.setattr(mapping, "write_by_two", None)
    os.sched_setaffinity(0, {min(cores)})
    try:
        payload = packed(value)
    finally:
        os.sched_setaffinity(0, cores)
    assert (opened(arrived(payload)) == value).all()


def _no_thread(*_: object) -> int:
    raise RuntimeError("can't start new thread")


def _no_mapping(*_: object) -> Any:
    raise OSError(12, "Cannot allocate memory")


PIECES = 16
WITHOUT: dict[str, tuple[object, str, object]] = {
    "the kernel is old": (mapping, "_POPULATE_WRITE", 9999),
    "no page": (mapping._libc, "madvise", lambda *_: -1),
    "no thread": (_thread, "start_new_thread", _no_thread),
    "no mapping": (mapping, "mapped_to_write", _no_mapping),
}


@two_cores
@pytest.mark.parametrize("without", WITHOUT)
def test_without_help_one_thread_writes_everything(
    without: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, value = Writer(), numbers(PIECES * PIECE)
    monkeypatch.setattr(*WITHOUT[without])
    if without == "no page":
        # The helper takes a piece first, and gives it back when all others are written.
        writer = Writer(Helper(monkeypatch, lambda: writer.pieces == PIECES - 1).await_it)
    monkeypatch.setattr(os, "pwrite", writer)
    payload = packed(value)
    assert writer.pieces == PIECES
    monkeypatch.undo()
    assert (opened(arrived(payload)) == value).all()


@two_cores
def test_an_interrupted_writer_ends_its_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        helper.await_it()
        raise KeyboardInterrupt

    made: list[Any] = []

    def seen(descriptor: int, size: int) -> Any:
        made.append(mapped(descriptor, size))
        return made[-1]

    helper = Helper(monkeypatch, lambda: not helper.pieces)
    mapped = mapping.mapped_to_write
    monkeypatch.setattr(mapping, "mapped_to_write", seen)
    monkeypatch.setattr(os, "pwrite", Writer(interrupt))
    with pytest.raises(KeyboardInterrupt):
        packed(numbers(32 * PIECE))
    copied = bytes(made[0][:: mmap.PAGESIZE])
    pages = PIECE // mmap.PAGESIZE
    assert any(copied[-pages:])  # the piece that it had taken
    assert not any(copied[:-pages])
