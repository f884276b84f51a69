"""What of the user's travels in a message: pickled once, by the sender, and then inert.

The framework may pickle an envelope again, later, or never; so everything that must happen
exactly once (forking references) happens before, and the result contains nothing with
hooks: bytes, out-of-band buffers (or where in shared memory they are), and a side list of
addresses for the framework to translate in its own way.
"""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from .shared import Segment

Buffer = bytes | bytearray | Segment


class Origin(NamedTuple):
    """Where a message comes from, as far as the system notes that."""

    site: str | None = None
    """Of a creation: the line of the sending program that asked for it."""
    context: tuple[tuple[str, str], ...] = ()
    """The span that it was sent in, as the headers of OpenTelemetry's propagators."""


class Payload(msgspec.Struct, frozen=True, array_like=True, weakref=True):
    """One pickled object graph.

    *buffers* are the out-of-band buffers of pickle protocol 5, *inert* the objects that
    travel untouched beside the bytes (actor addresses), *peers* introduces the owners of
    the references inside, and *tag* is what the receiving shell must know before unpickling.
    """

    data: bytes
    buffers: tuple[Buffer, ...] = ()
    inert: tuple[object, ...] = ()
    peers: tuple[object, ...] = ()
    tag: object = None
    frozen: bool = False
    """It is a value that will never be another."""
    origin: Origin | None = None

    def __reduce__(self) -> tuple[type[Payload], tuple[object, ...]]:
        data, buffers, *others = _fields(self)
        # A frozen value's segments may be in several messages of one packet: pickle would make one
        # object of each, and whoever reads the first message closes it.
        apart = tuple([each.told() if isinstance(each, Segment) else each for each in buffers])
        return Payload, (data, apart, *others)

    @property
    def size(self) -> int:
        """Bytes of the user's in this payload, wherever they are."""
        return len(self.data) + sum(map(len, self.buffers))

    @property
    def framed(self) -> int:
        """Those that travel in the message itself."""
        if not self.buffers:
            return len(self.data)
        return len(self.data) + sum(
            len(each) for each in self.buffers if not isinstance(each, Segment)
        )

    def take(self) -> None:
        """It has arrived: open what it says is in shared memory. Raises `ProtocolError`."""
        for each in self.buffers:
            if isinstance(each, Segment):
                each.take()

    def grounded(self, *, near: bool = False) -> Payload:
        """The same with every buffer in the message itself, for a reader who may be anywhere.

        For one that is *near*, only those that it cannot be told of. Raises what `Segment.content`
        raises.
        """
        if not any(_goes(each, near=near) for each in self.buffers):
            return self
        return replace(self, buffers=grounded_buffers(self.buffers, near=near))


def grounded_buffers(buffers: tuple[Buffer, ...], *, near: bool = False) -> tuple[Buffer, ...]:
    """What `Payload.grounded` has in place of *buffers*. Raises what `Segment.content` raises."""
    return tuple(
        each.content() if isinstance(each, Segment) and _goes(each, near=near) else each
        for each in buffers
    )


def _goes(buffer: Buffer, *, near: bool) -> bool:
    """Whether its content goes in the message, as its reader cannot be told of the segment."""
    return isinstance(buffer, Segment) and (buffer.early or not near)


_fields = attrgetter(*Payload.__struct_fields__)
