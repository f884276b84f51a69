"""A large new segment is written by two threads, and by one where the other can do nothing."""

from __future__ import annotations

import mmap
import os
import resource
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil
import pytest

from farref.serialization import mapping, shared
from farref.serialization.frozen import Frozen
from farref.serialization.mapping import PIECE, write_by_two
from farref.serialization.shared import Segment

from ..marks import SHARED_MEMORY
from ..waiting import PATIENCE, eventually
from .endpoint import TinyAddress
from .passing import arrived, opened, packed

pytestmark = [SHARED_MEMORY, pytest.mark.usefixtures("nothing_stays_open")]
PLACES = [0, PIECE, 2 * PIECE, 3 * PIECE]
SIZE = PLACES[-1] + 5


def numbers(size: int) -> Any:
    """Bytes other than zero; no two pieces have the same ones."""
    return np.frombuffer(bytearray(bytes(range(1, 252)) * (size // 251 + 1)), np.uint8)[:size]


@pytest.fixture(scope="module")
def value() -> Iterator[memoryview]:
    with memoryview(numbers(SIZE)) as made:
        yield made


@pytest.fixture
def file() -> Iterator[int]:
    """A new file in memory, of `SIZE` bytes."""
    descriptor = os.memfd_create("written by two")
    os.ftruncate(descriptor, SIZE)
    yield descriptor
    os.close(descriptor)


def is_written(file: int, at: int) -> bool:
    return os.pread(file, 1, at) > b"\0"


def written_by_caller(
    file: int, value: memoryview, before: Callable[[], object] = bool
) -> list[int]:
    """Write *value*; returns the places that the calling thread wrote, each after *before*."""
    places: list[int] = []

    def write(descriptor: int, view: memoryview, at: int) -> None:
        before()
        assert os.pwrite(descriptor, view, at) == len(view)
        places.append(at)

    write_by_two(file, value, write)
    return places


def test_both_write(file: int, value: memoryview) -> None:
    def the_other_has_written() -> None:
        eventually(lambda: is_written(file, SIZE - 1))

    places = written_by_caller(file, value, the_other_has_written)
    assert PLACES[-1] not in places
    assert os.pread(file, SIZE, 0) == value


class Helper:
    """The other thread's copies of pieces. When it has taken one, it waits before it copies."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, until: Callable[[], object]) -> None:
        self.pieces: deque[int]
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
        self._has_one.set()
        eventually(self._until)
        return int(self._madvise(address, size, advice))

    def await_it(self) -> None:
        """Wait until it has taken a piece."""
        assert self._has_one.wait(PATIENCE)


def test_a_page_that_cannot_be_made_is_left_to_the_caller(
    file: int, value: memoryview, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other thread gives its piece back when all others are written."""
    os.ftruncate(file, PLACES[-1])  # the kernel makes no page beyond the end of a file
    helper = Helper(monkeypatch, lambda: is_written(file, PLACES[-1] - 1))
    assert written_by_caller(file, value, helper.await_it) == PLACES
    assert os.pread(file, SIZE, 0) == value


def test_an_interrupted_writer_ends_the_other(
    file: int, value: memoryview, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> None:
        helper.await_it()
        raise KeyboardInterrupt

    helper = Helper(monkeypatch, lambda: not helper.pieces)
    with pytest.raises(KeyboardInterrupt):
        written_by_caller(file, value, interrupt)
    # It has copied the piece that it had taken, and no other.
    assert [is_written(file, at) for at in PLACES] == [False, False, False, True]


@pytest.mark.parametrize(("room", "stack"), [(PIECE, 0), (2 * SIZE, 1 << 30)], ids=str)
def test_without_memory_for_a_mapping_or_a_thread_one_thread_writes(
    file: int, value: memoryview, room: int, stack: int
) -> None:
    before = threading.stack_size(stack)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    now = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (now + room, limits[1]))
    try:
        places = written_by_caller(file, value)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
        threading.stack_size(before)
    assert places == PLACES
    assert os.pread(file, SIZE, 0) == value


def started_by(work: Callable[[], object]) -> int:
    """The number of threads that *work* starts."""
    starts = 0

    def count(_frame: object, event: str, function: object) -> None:
        nonlocal starts
        starts += event == "c_call" and getattr(function, "__name__", "") == "start_new_thread"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return starts


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core")
@pytest.mark.parametrize(("less", "cores", "threads"), [(0, 2, 1), (1, 2, 0), (0, 1, 0)])
def test_two_write_what_is_large_if_there_are_two_cores(
    less: int, cores: int, threads: int
) -> None:
    made: list[Segment | None] = []
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:cores])
    try:
        with mmap.mmap(-1, shared.BY_TWO - less) as zeros, memoryview(zeros) as view:
            assert started_by(lambda: made.append(Segment.of(view, writable=False))) == threads
    finally:
        os.sched_setaffinity(0, before)


def test_the_value_comes_as_it_was() -> None:
    value = numbers(shared.BY_TWO + 5)
    assert np.array_equal(opened(arrived(packed(value))), value)
    value = value[::-1].copy()
    assert np.array_equal(opened(arrived(packed(value))), value)  # in the memory of the first
    assert np.array_equal(Frozen.of(value, TinyAddress).thaw(), value)
