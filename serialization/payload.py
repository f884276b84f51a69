"""The user's data in a message: pickled once, by the sender, and then inert.

Thespian may pickle a message again, later, or never. So everything that must happen exactly once
(forking references) happens before. The result contains no objects with hooks: only bytes,
out-of-band buffers (or their places in shared memory), and a side list of addresses, which Thespian
translates in its own way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import astuple, replace

from .definitions import Definition, Exported
from .shared import Fields, Segment, copied, opened
from .slots import InSlot

Buffer = bytes | bytearray | Segment


class Origin(msgspec.Struct, frozen=True, array_like=True):
    """The origin of a message, as far as the system notes it."""

    site: str | None = None
    """For a creation: the line of the sending program that asked for it."""
    context: tuple[tuple[str, str], ...] = ()
    """The span that it was sent in, as the headers of OpenTelemetry's propagators."""


class Payload(msgspec.Struct, frozen=True, array_like=True, weakref=True):
    """One pickled object graph.

    *buffers* are the out-of-band buffers of pickle protocol 5. *inert* are the objects that
    travel unchanged beside the bytes (actor addresses). *peers* introduces the owners of the
    references inside. *tag* is information for the receiving shell, needed before unpickling.
    """

    data: bytes
    buffers: tuple[Buffer, ...] = ()
    inert: tuple[object, ...] = ()
    peers: tuple[object, ...] = ()
    tag: object = None
    frozen: bool = False
    """Whether the value never changes."""
    origin: Origin | None = None
    functions: tuple[Definition | Exported, ...] = ()
    """The definitions of the functions and classes in it; each is `Exported` on the wire."""
    plain: bool = False
    """Whether there are no persistent ids in it: its references fill holes (see `holes`), and a
    function that is called by value is not in the bytes."""

    def __reduce__(self) -> tuple[Callable[..., Payload], tuple[object, ...]]:
        data, buffers, *others = astuple(self)
        # A frozen value's segments may be in several messages of one packet. Pickle would make one
        # object of each, and the reader of the first message would close it. And no message may
        # fail for want of the module of a segment's class.
        apart = tuple([each.fields() if isinstance(each, Segment) else each for each in buffers])
        return _again, (data, apart, *others)

    @property
    def size(self) -> int:
        """All bytes of the user's data, in the message or in shared memory; not of definitions."""
        return len(self.data) + sum(map(len, self.buffers))

    @property
    def framed(self) -> int:
        """The bytes that travel in the message itself."""
        size = len(self.data)
        for each in self.functions:
            size += len(each.data)
        if not self.buffers:
            return size
        return size + sum(len(each) for each in self.buffers if not isinstance(each, Segment))

    def take(self) -> None:
        """On arrival: open its segments in shared memory. Raises `ProtocolError`."""
        for each in self.buffers:
            if isinstance(each, Segment):
                each.take()

    def grounded(self, *, near: bool = False) -> Payload:
        """The same payload with every buffer in the message itself, for a reader on any host.

        For a *near* reader, only the buffers whose place cannot be named any more.
        Raises the errors of `Segment.content`.
        """
        buffers = grounded_buffers(self.buffers, near=near)
        return self if buffers is self.buffers else replace(self, buffers=buffers)


def said(fields: Fields) -> Segment:
    """The segment, or the buffer in a slot, that a message names by *fields*."""
    in_slot = type(fields[-1]) is not int or fields[-1] > 0
    return InSlot(fields) if in_slot else Segment.said(fields)


def _again(data: bytes, buffers: tuple[Any, ...], *others: Any) -> Payload:
    """The payload of a pickle, which names each segment by its fields."""
    made = tuple([said(each) if type(each) is tuple else each for each in buffers])
    return Payload(data, made, *others)


def grounded_buffers(buffers: tuple[Buffer, ...], *, near: bool = False) -> tuple[Buffer, ...]:
    """The buffers of `Payload.grounded`, *buffers* themselves if they need no change.

    Raises the errors of `Segment.content`.
    """
    segments = [each for each in buffers if isinstance(each, Segment)]
    moving = [each for each in segments if each.early or not near]  # the reader cannot open these
    if not moving:
        return buffers
    # A segment of several buffers goes whole, so that each of them finds its place.
    made = opened(buffers, lambda it: it.content() if it.parts or it in moving else it)
    return tuple(copied(each) if type(each) is memoryview else each for each in made)
