"""Segments are written again when nobody reads them: never sooner, and not kept for long."""

from __future__ import annotations

import errno
import mmap
import os
import pickle
import random
import resource
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farref import SenderDiedError, SharedMemoryFullError
from farref.serialization import recycling, shared
from farref.serialization.frozen import Frozen
from farref.serialization.mapping import copy_into, mapped_to_write
from farref.serialization.payload import Payload
from farref.serialization.shared import Segment

from ..actors.core.interrupting import Interrupting
from ..marks import SHARED_MEMORY
from ..waiting import eventually
from .endpoint import TinyAddress
from .passing import Late, arrived, in_child, interrupted_everywhere, opened, other_process, packed

pytestmark = [SHARED_MEMORY, pytest.mark.usefixtures("nothing_stays_open")]
SIZE = 1 << 20
LARGE = shared.LOOKED_AT
"""So much is taken only after a look at the free memory."""


def filled(number: int, size: int = SIZE) -> Any:
    return np.full(size, number, np.uint8)


def file_of(payload: Payload) -> int:
    """The number of its segment's file."""
    (segment,) = payload.buffers
    assert isinstance(segment, Segment)
    return os.fstat(segment._descriptor).st_ino


def sent(number: int, size: int = SIZE) -> int:
    """Send an array, which its reader lets go; returns the number of its file."""
    payload = packed(filled(number, size))
    array = opened(arrived(payload))
    assert (array == number).all()
    return file_of(payload)


# ---- when a segment is written again


def test_it_is_when_nobody_reads_it() -> None:
    assert len({sent(number) for number in range(5)}) == 1


def test_its_pages_are_mapped_together() -> None:
    """A page by itself costs the kernel a microsecond: four times its copy."""
    arrays = [filled(number, 16 * SIZE) for number in range(2)]
    packed(arrays[0])
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    packed(arrays[1])
    faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
    assert kept() == 1
    assert faults < 16 * SIZE // mmap.PAGESIZE // 2


@pytest.mark.parametrize("unread", [0, shared.MOST_UNREAD], ids=["used", "early"])
def test_a_large_one_is_free_as_soon_as_its_reader_has_dropped_it(unread: int) -> None:
    """If another thread closed it at the reader, the next value would come too soon."""
    others = [arrived(packed(filled(0, shared.THRESHOLD))) for _ in range(unread)]
    assert len({sent(number, shared.SLOW_TO_FREE) for number in range(5)}) == 1
    assert len(shared.unread) == len(others)


def test_sizes_need_not_be_the_same_but_waste_little() -> None:
    first = sent(1)
    for size in (SIZE - 1, SIZE // 2):
        payload = packed(filled(2, size))
        assert file_of(payload) == first
        assert (opened(arrived(payload)) == 2).all()
        del payload
    assert file_of(packed(filled(3, SIZE + 1))) != first
    assert file_of(packed(filled(3, SIZE // 4))) != first


def test_what_came_read_only_stays_so() -> None:
    first, value = sent(1), filled(2)
    value.flags.writeable = False
    payload = packed(value)
    assert file_of(payload) == first
    array = opened(arrived(payload))
    assert (array == 2).all()
    assert not array.flags.writeable


# ---- when it is not


READERS: dict[str, Callable[[Payload], Any]] = {
    "the message lives": lambda payload: payload,
    "a reader has it open": arrived,
    "a reader has it mapped": lambda payload: opened(arrived(payload)),
}


@pytest.mark.parametrize("why", READERS)
def test_it_is_not_while_somebody_needs_it(why: str) -> None:
    payload = packed(filled(1))
    file, held = file_of(payload), [READERS[why](payload) for _ in range(2)]
    del payload
    while held:
        assert sent(2) != file
        one = held.pop()
        assert ((opened(arrived(one)) if isinstance(one, Payload) else one) == 1).all()
        del one
    assert file in map(file_of, [packed(filled(3)), packed(filled(4))])


def test_it_is_not_while_a_child_of_the_reader_has_it_mapped() -> None:
    payload = packed(filled(1))
    file, array = file_of(payload), opened(arrived(payload))
    del payload
    ready, done = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(ready[1], b"x")
        os.read(done[0], 1)
        os._exit(int((array == 1).all()))
    os.read(ready[0], 1)
    del array
    assert sent(2) != file
    os.write(done[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    assert file in map(file_of, [packed(filled(3)), packed(filled(4))])
    for each in (*ready, *done):
        os.close(each)


def test_it_is_not_while_the_sender_itself_has_it_mapped() -> None:
    payload = packed(filled(1))
    file, array = file_of(payload), opened(payload)  # sent to itself
    del payload
    assert sent(2) != file
    assert (array == 1).all()


def test_a_frozen_value_is_neither_made_of_one_nor_becomes_one() -> None:
    file = sent(1)
    frozen = Frozen.of(filled(2), TinyAddress)
    (segment,) = frozen.pickled.buffers
    assert isinstance(segment, Segment)
    theirs = os.fstat(segment._descriptor).st_ino
    assert theirs != file
    array = frozen.thaw()
    del frozen, segment
    assert file_of(packed(filled(3))) == file
    assert file_of(packed(filled(3))) != theirs
    assert (array == 2).all()


def test_one_that_cannot_be_sealed_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by an older kernel: readers refuse a segment without its seals."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EINVAL, "no such seal")

    with monkeypatch.context() as patch:
        patch.setattr("fcntl.fcntl", refuse)
        assert not packed(filled(1)).framed < SIZE
    assert kept() == 0


# ---- latecomers


@pytest.mark.parametrize("size", [SIZE, SIZE - 1, SIZE // 2])
def test_an_old_message_finds_another_name(size: int) -> None:
    payload = packed(filled(1))
    old: Payload = pickle.loads(pickle.dumps(payload))
    file = file_of(payload)
    del payload
    new = packed(filled(2, size))
    assert file_of(new) == file
    old.take()
    with pytest.raises(SenderDiedError, match="gave this process up"):
        opened(old)
    assert (opened(arrived(new)) == 2).all()


@pytest.mark.parametrize("looks", [False, True], ids=["is interrupted", "is looked at"])
@pytest.mark.parametrize("again", [False, True], ids=["in new memory", "in its memory"])
def test_an_old_message_never_finds_the_bytes_of_another(
    monkeypatch: pytest.MonkeyPatch, again: bool, looks: bool
) -> None:
    """At every place of the sending of the other, which is interrupted or looked at.

    What an interrupt leaves half written is not used again.
    """
    monkeypatch.setattr(sys, "unraisablehook", lambda each: ignored.append(each.exc_type))
    ignored: list[Any] = []
    old, new = list[Payload](), list[Payload]()

    def begin() -> None:
        """Send a value, whose message arrives only later."""
        shared.recycler.empty()
        payload = packed(filled(1, SIZE // 8))
        old[:] = [pickle.loads(pickle.dumps(payload))]
        if not again:
            new.append(payload)

    def send() -> None:
        new.append(packed(filled(2, SIZE // 8)))

    looking = Interrupting("/shared.py", "/mapping.py", handler=lambda *_: old[0].take())
    found: Counter[int] = Counter()
    begin()
    for place in looking.at_every_place(send) if looks else interrupted_everywhere(send):
        old[0].take()
        try:
            values = set(opened(old[0]).tolist())
        except SenderDiedError:
            values = {0}
        assert values in ({0}, {1}), f"place {place}"
        found += Counter(values)
        assert all((opened(arrived(each)) == 2).all() for each in new[not again :]), place
        new.clear()
        assert (opened(arrived(packed(filled(3, SIZE // 8)))) == 3).all(), place
        begin()
    assert found[1]
    assert bool(found[0]) == again
    assert {*ignored} <= {Late}


# ---- another process reads it


@pytest.mark.parametrize("size", [SIZE, shared.SLOW_TO_FREE])
@pytest.mark.parametrize("how", ["open", "mapped"])
def test_a_reader_that_is_killed_reads_no_more(how: str, size: int) -> None:
    payload = packed(filled(1, size))
    message, held = pickle.dumps(payload), list[Any]()

    def read() -> None:
        there: Payload = pickle.loads(message)
        there.take()
        held.append(opened(there) if how == "mapped" else there)

    with other_process(read) as (_, said):
        assert said is None
        file = file_of(payload)
        del payload
        other = packed(filled(2, size))
        assert file_of(other) != file
    assert file_of(packed(filled(3, size))) == file


# ---- the limits of keeping


def kept() -> int:
    return len(shared.recycler._kept)


def test_it_is_kept_before_it_is_asked_who_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watching thread ends when nothing is kept, and may be ending at that moment."""
    seen = []
    monkeypatch.setattr(shared.recycler, "_watch", lambda: seen.append(kept()))
    payload = packed(filled(1))
    del payload
    assert seen == [1]
    assert kept() == 0, "there was no thread to be had"


def test_a_few_are_kept() -> None:
    payloads = [packed(filled(1, shared.THRESHOLD)) for _ in range(2 * recycling.MOST)]
    assert kept() == 0
    del payloads
    assert kept() == len(shared._written) == recycling.MOST


def test_so_many_bytes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recycling, "MOST_BYTES", 3 * LARGE)
    payloads = [packed(filled(1, LARGE)) for _ in range(5)]
    del payloads
    assert kept() == 2  # each is a little larger than its value


def test_what_is_larger_than_all_that_is_kept_is_kept_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recycling, "MOST_BYTES", 3 * LARGE)
    packed(filled(1, 3 * LARGE))
    assert kept() == 1
    (descriptor,) = shared._written
    small = packed(filled(1, shared.THRESHOLD))
    packed(filled(2, 3 * LARGE))
    assert kept() == 1
    assert descriptor in shared._written, "it has been written to again"
    del small
    assert kept() == 1, "the smaller one came last, and the other made room"
    eventually(lambda: descriptor not in shared._written)  # a thread closes it


def test_nothing_is_kept_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "available", lambda: 4 * LARGE)
    packed(filled(1, LARGE))  # which is a little larger
    assert kept() == 0
    monkeypatch.setattr(shared, "available", lambda: 4 * (LARGE + 1000))
    packed(filled(1, LARGE))
    assert kept() == 1


def test_one_that_is_kept_needs_no_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    file = sent(1, LARGE)
    monkeypatch.setattr(shared, "available", lambda: LARGE - 1)
    assert sent(2, LARGE) == file
    with pytest.raises(SharedMemoryFullError):
        packed([filled(3, LARGE // 2), filled(4, LARGE // 2)])
    with pytest.raises(SharedMemoryFullError):
        packed(filled(5, LARGE))  # and what was kept is closed


def test_what_is_kept_is_given_up_before_there_is_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed(filled(1))
    monkeypatch.setattr(shared, "available", lambda: 0 if kept() else 1 << 40)
    shared.check_room(LARGE)
    assert kept() == 0


def test_old_ones_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    for pause in ("SECONDS", "LOOKS"):
        monkeypatch.setattr(recycling, pause, 0.01)
    for _ in range(3):  # the watching thread ends, and another one begins
        packed(filled(1))
        eventually(lambda: not shared._open and not shared.recycler._watched)


def test_a_forked_child_keeps_and_maps_nothing() -> None:
    """Nothing of the sent values, whether their messages live or not."""
    packed(filled(1))
    payload = packed(filled(2, 4 * SIZE))

    def look() -> object:
        mapped = "memfd:farref" in Path("/proc/self/maps").read_text()
        return mapped, kept(), len(shared._written), file_of(packed(filled(3))) > 0

    assert in_child(look) == "(False, 0, 0, True)"
    assert kept() == 1
    assert (opened(arrived(payload)) == 2).all()


# ---- many at once


def test_threads_that_send_and_keep_and_let_go() -> None:
    """Other threads' sends never change a held array, written to or not."""
    wrong: list[str] = []

    def work(number: int) -> None:
        rng = random.Random(number)
        held: list[tuple[Any, int]] = []
        for turn in range(60):
            mark = (number * 60 + turn) % 251
            array = opened(arrived(packed(filled(mark, rng.choice([SIZE // 2, SIZE])))))
            if rng.random() < 0.3:
                array[:] = mark = mark + 1
            held.append((array, mark))
            if len(held) > 4:
                held.pop(rng.randrange(len(held)))
            if not all((array == mark).all() for array, mark in held):
                wrong.append(f"{number}: turn {turn}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_more_than_fits_is_not_copied() -> None:
    descriptor = os.memfd_create("farref")
    os.ftruncate(descriptor, 4096)
    memory = mapped_to_write(descriptor, 4096)
    copy_into(memory, memoryview(b"text"))
    assert os.pread(descriptor, 5, 0) == b"text\0"
    with pytest.raises(AssertionError, match="do not fit"):
        copy_into(memory, memoryview(bytes(4097)))
    memory.close()
    os.close(descriptor)
