"""Frozen values: pickled once, when they are declared immutable, and read from shared memory.

A frozen value is kept as what it travels as: its bytes, its buffers, each a segment (see `shared`)
if it is large, and the handles of the references in it. Whoever wants the value, at its owner or
elsewhere, has it made anew from these, on the same read-only buffers. So a fetch copies nothing
that is large, and nobody can ever see a value that another has changed: not the owner's either,
which has no other than this.

Where it has been fetched it is kept in the same form, by the handle that it was fetched through: it
cannot become stale, so to fetch it again takes no message.

What has no buffers, such as a list or an array of objects, is made anew each time, and is
everybody's own to change. Arrays with gaps (slices, strides) are made contiguous first.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import shared
from .pickling import Pickled, Pickler, opened, pickle_value, unpickle
from .shared import Segment

if TYPE_CHECKING:
    from .payload import Buffer, Payload
    from .pickling import Reference


LIGHT = 4096
"""Bytes of a value, besides what is in shared memory, that are sent along unasked."""


class Frozen:
    """A value that nobody changes any more."""

    __slots__ = ("_opened", "kind", "pickled")

    def __init__(self, pickled: Pickled, kind: str, opened: list[Any] | None = None) -> None:
        self.pickled = pickled
        self.kind = kind
        """The value's type, where it is owned."""
        self._opened = opened
        """The buffers, once somebody wants the value."""

    @classmethod
    def of(cls, value: object, inert: type) -> Frozen:
        """*value* as it is now.

        Raises:
            SerializationError: something in it cannot be pickled.
            SharedMemoryFullError: there is no memory for it.
        """
        pickled = pickle_value(value, inert, _placed, _Freezer)
        return cls(pickled, type(value).__name__)

    @classmethod
    def arrived(
        cls, payload: Payload, references: tuple[Reference, ...], *, copy: bool = True
    ) -> Frozen:
        """One that was fetched, with handles for the references in it. Raises as `opened` does."""
        pickled = Pickled(payload.data, (), references, payload.inert)
        return cls(pickled, "", [opened(each, copy=copy) for each in payload.buffers])

    @property
    def shared(self) -> int:
        """Bytes of it that are its owner's, in shared memory."""
        return sum(len(each) for each in self.pickled.buffers if isinstance(each, Segment))

    @property
    def light(self) -> bool:
        """Whether a message with it is small, and brings nothing that is counted."""
        pickled = self.pickled
        return not pickled.references and not pickled.inert and pickled.size - self.shared <= LIGHT

    def thaw(self) -> Any:
        """The value, made anew. Raises `SerializationError`."""
        pickled = self.pickled
        if self._opened is None:
            self._opened = [opened(each) for each in pickled.buffers]
        return unpickle(pickled.data, self._opened, pickled.inert, pickled.references)


class _Freezer(Pickler):
    """An array with gaps goes out of band, too, as one without."""

    def reducer_override(self, obj: Any) -> Any:
        if _has_gaps(obj):
            return sys.modules["numpy"].ascontiguousarray(obj).__reduce_ex__(5)
        return super().reducer_override(obj)


def _has_gaps(obj: Any) -> bool:
    numpy = sys.modules.get("numpy")  # where nobody has imported it there are no arrays
    if numpy is None or type(obj) is not numpy.ndarray or obj.dtype.hasobject:
        return False
    return not (obj.flags.c_contiguous or obj.flags.f_contiguous)


def _placed(views: list[memoryview]) -> tuple[Buffer, ...]:
    """A read-only copy of each; the large ones shared, with whoever can open them."""
    shared.check_room(sum(view.nbytes for view in views if view.nbytes >= shared.THRESHOLD))
    return tuple(
        (view.nbytes >= shared.THRESHOLD and Segment.of(view, writable=False)) or bytes(view)
        for view in views
    )
