"""Slots: the values that cross in them, and the moment from which a slot is free again."""

from __future__ import annotations

import itertools
import os
import pickle
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from farref import ProtocolError, SenderDiedError
from farref.serialization import shared, slots
from farref.serialization.by_pickle import dumps_soon, fits_slot
from farref.serialization.payload import Payload, said
from farref.serialization.shared import IN_SLOT
from farref.serialization.slots import MOST_KNOWN, SLOTS, InSlot, put

from ..actors.core.interrupting import Interrupting
from ..marks import SHARED_MEMORY
from .passing import arrived, in_child, limited, other_process

pytestmark = [SHARED_MEMORY, pytest.mark.usefixtures("nothing_stays_open")]
LEAST, MOST = IN_SLOT[0], IN_SLOT[-1]


@pytest.fixture(autouse=True)
def slots_end(nothing_stays_open: None) -> Iterator[None]:
    yield
    slots.forget()


def placed(value: Any) -> Payload:
    made = dumps_soon(value)
    assert made is not None
    assert made[1] is not None
    buffer = put(made[1])
    assert buffer is not None
    return Payload(made[0], (buffer,))


def buffer_of(payload: Payload) -> InSlot:
    (buffer,) = payload.buffers
    assert isinstance(buffer, InSlot)
    return buffer


def told(payload: Payload) -> Payload:
    """The payload as a message names it, before it has arrived."""
    copy: Payload = pickle.loads(pickle.dumps(payload))
    return copy


def opened(payload: Payload) -> Any:
    buffers = [each.buffer() if isinstance(each, InSlot) else each for each in payload.buffers]
    return pickle.loads(payload.data, buffers=buffers)


def one() -> InSlot:
    buffer = put(bytes(LEAST))
    assert buffer is not None
    return buffer


@pytest.mark.parametrize("free", [True, False], ids=["a free one", "a new one"])
def test_no_interrupt_loses_a_slot(monkeypatch: pytest.MonkeyPatch, free: bool) -> None:
    """But in the moment in which Python begins to let go of its buffer."""
    dropped: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: dropped.append(each.object))
    if free:
        one()
    places = 0
    for place in Interrupting("/slots.py").at_every_place(one):
        places = place
        own = slots._own
        left = len(own.free) + len(own.room)
        assert left == SLOTS or InSlot.__del__ in dropped, f"interrupted at place {place}"
        slots.forget()
        dropped.clear()
        if free:
            one()
    assert places > 3


VALUES: dict[str, Callable[[], Any]] = {
    "bytes": lambda: bytes(range(256)) * 200,
    "the fewest bytes": lambda: b"x" * LEAST,
    "the most bytes": lambda: b"x" * MOST,
    "an array": lambda: np.arange(10_000.0),
    "of two dimensions": lambda: np.arange(10_000, dtype=np.int32).reshape(100, 100),
    "of one number each": lambda: np.ones((1, LEAST, 1), np.bool_),
    "the smallest": lambda: np.ones(LEAST, np.uint8),
    "the largest": lambda: np.ones(MOST // 16, np.complex128),
    "a part of one": lambda: np.arange(30_000.0)[10_000:20_000],
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("writable", [True, False])
def test_what_crosses(name: str, writable: bool) -> None:
    for _ in range(2):  # the pickle is made once
        value = VALUES[name]()
        assert fits_slot(value)
        if type(value) is not bytes:
            value.flags.writeable = writable
        came = opened(arrived(placed(value)))
        assert type(came) is type(value)
        assert np.array_equal(came, value)
        if type(value) is not bytes:
            assert (came.dtype, came.shape) == (value.dtype, value.shape)
            assert came.flags.writeable == writable


@pytest.mark.parametrize(
    "value",
    [
        b"x" * (LEAST - 1),
        b"x" * (MOST + 1),
        bytearray(LEAST),
        "x" * LEAST,
        np.ones(LEAST - 1, np.uint8),
        np.ones(MOST + 1, np.uint8),
        np.ones((LEAST, 2), np.uint8)[:, 0],
        np.ones((LEAST, 2), np.uint8).T,
        np.ones(LEAST, object),
        np.ones(LEAST, [("a", np.uint8)]),
        np.ones(LEAST, np.uint8).view(np.recarray),
        [np.ones(LEAST, np.uint8)],
    ],
    ids=lambda value: f"{type(value).__name__} of {len(value)}",
)
def test_what_does_not(value: Any) -> None:
    made = dumps_soon(value)
    assert made is None or made[1] is None


def test_both_ends_have_their_own() -> None:
    value = np.zeros(LEAST, np.uint8)
    payload = placed(value)
    there = told(payload)
    value[:] = 1
    there.take()
    again = told(payload)
    again.take()  # the message comes once more, as the stream broke
    came = opened(there)
    assert came.sum() == 0
    came[:] = 2
    assert opened(again).sum() == 0


def test_a_slot_is_free_when_its_message_is_gone() -> None:
    names = set()
    for number in range(3 * SLOTS):
        payload = placed(np.full(LEAST, number, np.uint8))
        names.add(buffer_of(payload).name)
        there = arrived(payload)
        del payload
        assert opened(there)[0] == number
    assert len(names) == len(slots._known) == 1


def test_none_can_be_made() -> None:
    """There are no descriptors. Later there are, and no place for a slot has been lost."""
    code = """
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        held = [os.dup(0) for _ in range(len(os.listdir("/proc/self/fd")) - 1, 64)]
        assert [put(bytes(LEAST)) for _ in range(2 * SLOTS)] == [None] * 2 * SLOTS
        for each in held:
            os.close(each)
        assert None not in [put(bytes(LEAST)) for _ in range(SLOTS)]
    """
    limited(__name__, code)


def test_many_threads_make_no_more() -> None:
    def use() -> None:
        begin.wait()
        used.append(put(bytes(LEAST)))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            begin, used = threading.Barrier(3 * SLOTS), list[InSlot | None]()
            threads = [threading.Thread(target=use) for _ in range(3 * SLOTS)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            assert sum(each is not None for each in used) == SLOTS
            slots.forget()
    finally:
        sys.setswitchinterval(before)


def test_a_value_that_was_given_up() -> None:
    """The sender has given the receiver up for dead, and uses the slot for another value."""
    late = told(placed(b"x" * LEAST))
    other = one()
    late.take()
    with pytest.raises(SenderDiedError, match=f"{LEAST} bytes of a message are lost"):
        opened(late)
    assert other.slot is not None


@pytest.mark.parametrize("met", [False, True])
def test_the_sender_died(met: bool) -> None:
    """A receiver that has met the slot can still read it."""

    def send() -> object:
        return buffer_of(placed(b"a" * LEAST)).fields(), placed(b"b" * LEAST)

    with other_process(send) as (_, (fields, second)):
        if met:
            said(fields).take()
    second.take()
    if met:
        assert opened(second) == b"b" * LEAST
    else:
        with pytest.raises(SenderDiedError):
            opened(second)


def test_a_forked_child_has_its_own() -> None:
    mine = [placed(b"x" * LEAST)]
    there = told(mine[0])

    def look() -> bool:
        one()
        mine.clear()
        return not slots._known and one().name == one().name != buffer_of(there).name

    assert in_child(look) == "True"
    there.take()
    assert opened(there) == b"x" * LEAST


FIELDS = (os.getpid(), 3, "name", LEAST, True, 1)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *((0, -1), (0, "1"), (1, -1), (1, None), (2, b"n"), (3, MOST + 1), (3, -1), (3, "5")),
        *((5, -LEAST), (5, "1"), (5, 1.5)),
    ],
)
def test_fields_that_do_not_belong_there(place: int, value: Any) -> None:
    fields: Any = [*FIELDS]
    fields[place] = value
    with pytest.raises(ProtocolError, match="malformed fields"):
        said(tuple(fields)).take()


def test_another_file_in_its_place() -> None:
    number = os.memfd_create("farref", os.MFD_ALLOW_SEALING)
    try:
        buffer = said((os.getpid(), number, "farref-0123", LEAST, True, 1))
        buffer.take()
        with pytest.raises(SenderDiedError):
            buffer.buffer()
    finally:
        os.close(number)
    assert not slots._known


def test_slots_of_ended_processes_are_let_go_of() -> None:
    mine = placed(b"x" * LEAST)
    there = arrived(mine)
    slots._known["ended"] = memoryview(b"")
    slots._places["ended"] = os.getpid(), 999_999
    slots.forget_dead()
    assert [*slots._known] == [*slots._places] == [buffer_of(there).name]


def test_only_so_many_stay_mapped() -> None:
    kept: list[Payload] = []
    while len(kept) < MOST_KNOWN + SLOTS:
        kept += [placed(bytes([len(kept) + number]) * LEAST) for number in range(SLOTS)]
        slots.forget()  # as another process would, this one gets others
    for _ in range(2):
        for number, payload in enumerate(kept):
            there = arrived(payload)
            assert opened(there) == bytes([number]) * LEAST
        maps = Path("/proc/self/maps").read_text().splitlines()
        assert sum("r--p" in each and "memfd:farref" in each for each in maps) == MOST_KNOWN


def test_what_cannot_be_mapped_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may change meanwhile, if the sender has given the receiver up."""
    held = [placed(b"x" * LEAST)]
    there, late = told(held[0]), told(held[0])
    monkeypatch.setitem(sys.modules, "farref.serialization.mapping", None)  # it cannot be loaded
    there.take()
    assert opened(there) == b"x" * LEAST

    def give_up(_frame: object, event: str, function: object) -> None:
        if event == "c_return" and function is os.preadv:
            sys.setprofile(None)
            held.clear()  # the slot is free
            held.append(placed(b"y" * LEAST))

    sys.setprofile(give_up)
    try:
        late.take()
    finally:
        sys.setprofile(None)
    with pytest.raises(SenderDiedError):
        opened(late)
    assert not slots._known


def test_no_memory_is_left_to_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has arrived, so only the use of the value may fail."""

    def none_left(*_: object) -> Any:
        raise MemoryError("no memory is left")

    there = told(placed(b"x" * LEAST))
    monkeypatch.setattr(slots, "bytes", none_left, raising=False)
    there.take()
    with pytest.raises(MemoryError, match="no memory is left"):
        opened(there)


@pytest.mark.parametrize("threshold", [1, IN_SLOT.stop, IN_SLOT.stop + 1, 1 << 40])
def test_nothing_is_to_be_shared(monkeypatch: pytest.MonkeyPatch, threshold: int) -> None:
    """The advice of an error: a threshold so high that nothing is."""
    monkeypatch.setattr(shared, "THRESHOLD", threshold)
    for value in (bytes(LEAST), memoryview(bytearray(LEAST))):
        assert (put(value) is not None) == (threshold <= IN_SLOT.stop)


def test_it_goes_on_in_the_message() -> None:
    """The receiver passes the value on, unread; or the sender's own message has to go elsewhere."""
    value = np.arange(LEAST // 8)
    payload = placed(value)
    there = arrived(payload)
    for each, near in ((there, True), (there, False), (payload, False)):
        again = each.grounded(near=near)
        assert [type(buffer) for buffer in again.buffers] == [bytearray]
        assert np.array_equal(opened(again), value)
    assert payload.grounded(near=True) is payload
    assert there.size == payload.size == len(payload.data) + value.nbytes
    assert payload.framed == len(payload.data)
    assert shared.early
    del there
    assert not shared.early


# ---- both ends at once


class Stepwise:
    """Runs a function in a thread, one line of `slots` at a time."""

    def __init__(self, do: Callable[[], Any]) -> None:
        self._do = do
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self.over = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._paused.acquire()

    def _run(self) -> None:
        sys.settrace(self._seen)
        try:
            self._do()
        finally:
            sys.settrace(None)
            self.over = True
            self._paused.release()

    def _seen(self, frame: FrameType, event: str, _argument: object) -> Any:
        if frame.f_code.co_filename != slots.__file__:
            return None
        if event == "line":
            self._paused.release()
            self._go.acquire()
        return self._seen

    def step(self, lines: int) -> None:
        """Run so many lines, or all that are left."""
        for _ in range(lines):
            if self.over:
                break
            self._go.release()
            self._paused.acquire()

    def finish(self) -> None:
        while not self.over:
            self.step(1)
        self._thread.join()


def test_sender_and_receiver_line_by_line() -> None:
    """A receiver that was given up reads while the next value is written. It gets its own, or none.

    The ends change at any two lines, four times.
    """
    seen: Counter[str] = Counter()
    made: list[InSlot | None] = []
    for here, there, again in itertools.product(range(0, 20, 2), range(1, 24), range(0, 20, 4)):
        old = put(b"x" * LEAST)
        assert old is not None
        there_of_old = InSlot.said(old.fields())
        slot = old.slot
        del old
        reader = Stepwise(there_of_old.take)
        writer = Stepwise(lambda: made.append(put(b"y" * LEAST)))
        reader.step(here)
        writer.step(there)
        reader.step(again)
        writer.finish()
        reader.finish()
        new = made.pop()
        assert new is not None
        assert new.slot is slot
        try:
            assert there_of_old.buffer() == b"x" * LEAST
            seen["its own"] += 1
        except SenderDiedError:
            seen["none"] += 1
        assert new.content() == b"y" * LEAST
        del new
    assert min(seen["its own"], seen["none"]) > 100
