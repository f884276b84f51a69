"""Slots: values of middle size cross in memory that both processes keep mapped.

A sender keeps a few segments of one size, its *slots*, and a receiver keeps those mapped that it
has met. The sender copies a value into a free slot, and the receiver copies it out before it
acknowledges the message: then the slot is free again, for any receiver. docs/values.md says why.

**Nobody gets the bytes of another value.** Each use of a slot has a number. The sender writes the
number before the bytes, and the message names it. The receiver looks for it before it copies, and
again afterwards. It finds another one only if the sender has given the receiver up for dead: then
the value is lost, like one in a segment.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from itertools import count
from operator import call
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING

from ..protocol.errors import FarrefError, ProtocolError
from . import shared
from .shared import IN_SLOT, Fields, Segment, early

if TYPE_CHECKING:
    from .mapping import Memory

MOST = IN_SLOT[-1]
"""The bytes of the largest value."""
SLOTS = 8
"""The most slots of one process. A program that fetches one value after the other uses one."""
MOST_KNOWN = 64
"""The most slots of others that one process keeps mapped; it forgets the one that it met first."""
_HEAD = 64
"""The bytes before the value: the number, and a gap, as copies are faster from whole lines."""
_KINDS = str, int
_numbers = count(1)
_number = Struct("<Q")
_number_in = _number.unpack_from


@dataclass(eq=False, slots=True)
class Slot:
    """A segment that this process writes to again and again."""

    segment: Segment
    memory: Memory
    home: Own


class Own:
    """The slots of this process. A forked child has others."""

    __slots__ = ("free", "room")

    def __init__(self) -> None:
        self.free: list[Slot] = []
        """Those without a message. The last one used is the next: the processor has it at hand."""
        self.room = [None] * SLOTS
        """For each slot that may still be made."""


class InSlot(Segment):
    """A buffer in a slot: of this process, or one that a message names.

    Its `number` is that of this use of the slot.
    """

    __slots__ = ("number", "slot")

    def __init__(self, fields: Fields) -> None:
        self.slot: Slot | None = None
        """Ours; None if a message names it."""
        self._content = self._trouble = None
        process, descriptor, self.name, self.size, self.writable, self.number = fields
        self._source = process, descriptor
        self._descriptor, self.parts = -1, 0

    def fields(self) -> Fields:
        return *self._source, self.name, self.size, self.writable, self.number

    @classmethod
    def said(cls, fields: Fields) -> InSlot:
        return cls(fields)

    def take(self) -> None:
        """Copy it out of the slot. Raises `ProtocolError` for malformed fields."""
        if self._content is not None or self._trouble is not None:
            return
        size, number, kinds = self.size, self.number, (type(self.name), type(self.size))
        if kinds != _KINDS or type(number) is not int or not (0 <= size <= MOST and number > 0):
            raise ProtocolError("a slot with malformed fields")
        try:
            view = _known.get(self.name) or self._met()
            if _number_in(view)[0] == number:
                part = view[_HEAD : _HEAD + size]
                content = bytearray(part) if self.writable else bytes(part)
                if _number_in(view)[0] == number:
                    self._content = content
                    early.add(id(self))
                    return
            self._trouble = self._gone()
        except ProtocolError:
            raise
        except (FarrefError, MemoryError) as error:  # the message has been taken: it must not fail
            self._trouble = error.with_traceback(None)

    def _met(self) -> memoryview:
        """The whole slot, which is mapped from now on. Raises the errors of `Segment.content`."""
        whole = Segment(self._source, self.name, _HEAD + MOST, writable=False)
        whole.open()
        try:
            view = memoryview(whole.buffer(copy=False))
        except MemoryError:  # no more mappings; it is closed again
            whole.open()
            found, later = whole.content(), whole.content()
            return memoryview(found if found[:_HEAD] == later[:_HEAD] else later)
        if len(_known) >= MOST_KNOWN:
            with contextlib.suppress(StopIteration, RuntimeError):  # other threads do so, too
                _let_go(next(iter(_known)))
        _known[self.name] = view
        _places[self.name] = self._source
        return view

    def content(self) -> bytes | bytearray:
        slot = self.slot
        if slot is None:
            return super().content()
        found = slot.memory[_HEAD : _HEAD + self.size]
        return bytearray(found) if self.writable else found

    def __del__(self, _early: set[int] = early) -> None:  # at Python's end the module is empty
        try:
            slot = self.slot
        except AttributeError:  # an interrupt has ended `__init__`
            return
        if slot is not None:
            slot.home.free.append(slot)
        if self._content is not None:
            _early.discard(id(self))


_own = Own()
_known: dict[str, memoryview] = {}
"""The slots of others, by their names."""
_places: dict[str, tuple[int, int]] = {}
"""The process and the descriptor of each of them."""


def put(buffer: bytes | memoryview) -> InSlot | None:
    """A copy of the contiguous bytes of *buffer*, at most `MOST`; None if no slot is free.

    Also None if `shared.THRESHOLD` is so high that nothing is to be shared.

    If the buffer is read-only, so is the receiver's copy. Runs none of the user's code.
    Thread-safe. May raise `MemoryError`.
    """
    if IN_SLOT.stop < shared.THRESHOLD:
        return None
    view, number = memoryview(buffer), next(_numbers)
    one = InSlot((0, 0, "", view.nbytes, not view.readonly, number))
    try:
        (one.slot,) = map(call, (_own.free.pop,))  # no interrupt comes between the two
    except IndexError:
        _make_for(one)
    slot = one.slot
    if slot is None:
        return None
    one.name, one._source, memory = slot.segment.name, slot.segment._source, slot.memory
    _number.pack_into(memory, 0, number)  # first: an old number with new bytes would be wrong
    memory[_HEAD : _HEAD + view.nbytes] = view
    return one


def _make_for(one: InSlot) -> None:
    """Give *one* a new slot, unless there are enough, or it cannot be made."""
    own, room = _own, list[None]()
    try:
        with contextlib.suppress(IndexError):
            room.extend(map(call, (own.room.pop,)))  # no interrupt comes between the two
        if not room:
            return
        segment = Segment.of(memoryview(bytes(_HEAD + MOST)), writable=False, passing=True)
        memory = shared.memory_of(segment) if segment is not None else None
        if segment is not None and memory is not None:
            one.slot = Slot(segment, memory, own)
    finally:
        if one.slot is None:
            own.room += room


def forget_dead() -> None:
    """Let go of the slots of processes that have ended."""
    for name, (process, descriptor) in list(_places.items()):
        if not Path(f"/proc/{process}/fd/{descriptor}").exists():
            _let_go(name)


def _let_go(name: str) -> None:
    _known.pop(name, None)
    _places.pop(name, None)


def forget() -> None:
    """Let go of all slots, in a forked child for example: there they are the parent's."""
    global _own
    own, _own = _own, Own()
    own.free.clear()  # each refers to it
    _known.clear()
    _places.clear()


os.register_at_fork(after_in_child=forget)
