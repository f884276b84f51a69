"""Slots: values of middle size cross in memory that both processes keep mapped.

To open and map a segment (`shared`) takes longer than to copy 100 KB, and to pass as much through a
socket takes seven copies. So a sender keeps a few segments of one size, its *slots*, and a receiver
keeps those mapped that it has met. The sender copies a value into a free slot. The receiver copies
it out before it acknowledges the message. Then the slot is free for the next value, whoever gets
it. If no slot is free, the value goes in the message.

**Nobody gets the bytes of another value.** Each use of a slot has a number. The sender writes the
number before the bytes, and the message names it. The receiver looks for it before it copies, and
again afterwards. It finds another one only if the sender has given the receiver up for dead: then
the value is lost, like one in a segment.

**Nothing can be left behind**, as with all segments: a slot has no name in any folder. If a process
forks, the child has slots of its own.
"""

from __future__ import annotations

import contextlib
import os
from itertools import count
from struct import Struct
from typing import TYPE_CHECKING

from ..protocol.errors import ProtocolError
from . import shared
from .shared import IN_SLOT, Segment, early

if TYPE_CHECKING:
    from .mapping import Memory
    from .shared import Row

MOST = IN_SLOT[-1]
"""The bytes of the largest value."""
SLOTS = 8
"""The most slots of one process. While a program fetches one value after the other it uses two."""
MOST_KNOWN = 64
"""The most slots of others that one process keeps mapped; it forgets the one that it met first."""
_HEAD = 64
"""The bytes before the value: the number, and a gap, as copies are faster from whole lines."""
_KINDS = str, int
_numbers = count(1)
_number = Struct("<Q")
_number_in = _number.unpack_from


class Slot:
    """A segment that this process writes to again and again."""

    __slots__ = ("home", "memory", "name", "place", "segment")

    def __init__(self, segment: Segment, memory: Memory, home: list[Slot]) -> None:
        self.segment = segment
        self.name = segment.name
        self.place = segment.row()[:2]
        self.memory = memory
        self.home = home
        """The list to go back to. It is another one in a forked child."""


class InSlot(Segment):
    """A buffer in a slot: of this process, or one that a message names."""

    __slots__ = ("number", "slot")

    def __init__(
        self, source: tuple[int, int], name: str, size: int, number: int, *, writable: bool
    ) -> None:
        self._source = source
        self._descriptor = -1
        self._content = self.trouble = None
        self.name = name
        self.size = size
        self.writable = writable
        self.number = number
        """That of this use of the slot."""
        self.slot: Slot | None = None
        """Ours; None if a message names it."""

    def row(self) -> Row:
        return *self._source, self.name, self.size, self.writable, self.number

    @classmethod
    def said(cls, row: Row) -> InSlot:
        process, descriptor, name, size, writable, number = row
        return cls((process, descriptor), name, size, number, writable=writable)

    def take(self) -> None:
        """Copy it out of the slot. Raises `ProtocolError` for malformed fields."""
        if self._content is not None or self.trouble is not None:
            return
        size, number, kinds = self.size, self.number, (type(self.name), type(self.size))
        if kinds != _KINDS or type(number) is not int or not (0 <= size <= MOST and number > 0):
            raise ProtocolError("a slot with malformed fields")
        view = _known.get(self.name) or self._met()
        if view is None:
            return
        if _number_in(view)[0] == number:
            part = view[_HEAD : _HEAD + size]
            content = bytearray(part) if self.writable else bytes(part)
            if _number_in(view)[0] == number:
                self._content = content
                early.add(id(self))
                return
        self.trouble = self._gone()

    def _met(self) -> memoryview | None:
        """The whole slot, which is mapped from now on; None if it cannot be opened."""
        whole = Segment(self._source, self.name, _HEAD + MOST, writable=False)
        whole.open()
        self.trouble = whole.trouble
        if self.trouble is not None:
            return None
        try:
            view = memoryview(whole.buffer(copy=False))
        except MemoryError:  # no more mappings; it is closed again
            whole.open()
            return memoryview(whole.content())
        if len(_known) >= MOST_KNOWN:
            with contextlib.suppress(StopIteration, RuntimeError, KeyError):  # other threads do so
                del _known[next(iter(_known))]
        _known[self.name] = view
        return view

    def content(self) -> bytes | bytearray:
        slot = self.slot
        if slot is None:
            return super().content()
        found = slot.memory[_HEAD : _HEAD + self.size]
        return bytearray(found) if self.writable else found

    def __del__(self) -> None:
        slot = self.slot
        if slot is not None:
            slot.home.append(slot)
        if self._content is not None:
            early.discard(id(self))


_slots: list[Slot] = []
"""Those of this process."""
_free: list[Slot] = []
"""Those that no message is in. The last one used is the next: the processor has it at hand."""
_known: dict[str, memoryview] = {}
"""The slots of others, by their names."""


def put(buffer: bytes | memoryview) -> InSlot | None:
    """A copy of the contiguous bytes of *buffer*, at most `MOST`; None if no slot is free.

    If the buffer is read-only, so is the receiver's copy. Runs none of the user's code, and raises
    nothing. Thread-safe.
    """
    try:
        try:
            slot: Slot | None = _free.pop()
        except IndexError:
            slot = _made()
        if slot is None:
            return None
        view, number, memory = memoryview(buffer), next(_numbers), slot.memory
        one = InSlot(slot.place, slot.name, view.nbytes, number, writable=not view.readonly)
        one.slot = slot
        _number.pack_into(memory, 0, number)  # first: an old number with new bytes would be wrong
        memory[_HEAD : _HEAD + view.nbytes] = view
    except MemoryError:
        return None
    return one


def _made() -> Slot | None:
    """A new slot; None if there are enough, or it cannot be made. May raise `MemoryError`."""
    if len(_slots) >= SLOTS:
        return None
    segment = Segment.of(memoryview(bytes(_HEAD + MOST)), writable=False, passing=True)
    memory = shared.memory_of(segment) if segment is not None else None
    if segment is None or memory is None:
        return None
    slot = Slot(segment, memory, _free)
    _slots.append(slot)
    return slot


def forget() -> None:
    """Let go of all slots, in a forked child for example: there they are the parent's."""
    global _free
    free, _free = _free, []
    free.clear()
    _slots.clear()
    _known.clear()


os.register_at_fork(after_in_child=forget)
