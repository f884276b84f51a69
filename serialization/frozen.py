"""Frozen values: pickled once, when they are declared immutable, and read from shared memory.

A frozen value is kept in the form in which it is sent: its bytes, its buffers (each a segment if it
is large, see `shared`), and the handles of the references in it. Each use of the value, at its
owner or elsewhere, builds it anew from these, on the same read-only buffers. A handle keeps the
fetched value in the same form: it cannot become stale, so the next fetch takes no message.
"""

from __future__ import annotations

import sys
from typing import Any

from . import shared
from .library import Library
from .payload import Buffer, Payload
from .pickling import Pickled, Pickler, Reference, opened, pickle_value, unpickle
from .shared import IN_SLOT, Segment

ALONE = IN_SLOT.start
"""A buffer of so many bytes is in shared memory, if it is the only one of its value, and if the
process can spare a descriptor (`_placed`)."""
LIGHT = ALONE + 1024
"""A value of so few bytes, not counting shared memory, is sent along with the answer to a wait."""


class Frozen:
    """A value that never changes any more."""

    __slots__ = ("_opened", "kind", "pickled")

    def __init__(self, pickled: Pickled, kind: str, opened: list[Any] | None = None) -> None:
        self.pickled = pickled
        self.kind = kind
        """The value's type, where it is owned."""
        self._opened = opened
        """The buffers, from the first use on."""

    @classmethod
    def of(cls, value: object, inert: type, library: Library | None = None) -> Frozen:
        """*value* as it is now. *library*: see `Pickler`.

        Raises:
            SerializationError: something in it cannot be pickled.
            SharedMemoryFullError: there is no memory for it.
        """
        pickled = pickle_value(value, inert, _placed, _Freezer, library=library)
        return cls(pickled, type(value).__name__)

    @classmethod
    def arrived(
        cls, payload: Payload, references: tuple[Reference, ...], *, copy: bool = True
    ) -> Frozen:
        """A fetched value, with handles for the references in it. Raises the errors of `opened`.

        The message keeps the same read-only memory: if this is interrupted, it can be done again.
        """
        functions: Any = payload.functions  # definitions, since it arrived
        pickled = Pickled(payload.data, (), references, payload.inert, functions)
        return cls(pickled, "", opened(payload.buffers, copy=copy))

    @property
    def shared(self) -> int:
        """The number of the value's bytes in shared memory that its owner keeps."""
        return sum(len(each) for each in self.pickled.buffers if isinstance(each, Segment))

    @property
    def light(self) -> bool:
        """Whether a message with the value is small, and has nothing but its bytes."""
        pickled = self.pickled
        more = pickled.references or pickled.inert or pickled.functions
        return not more and pickled.size - self.shared <= LIGHT

    def thaw(self) -> Any:
        """Build the value anew. Raises `SerializationError`."""
        pickled = self.pickled
        if self._opened is None:
            self._opened = opened(pickled.buffers)
        references, functions = pickled.references, pickled.functions
        return unpickle(pickled.data, self._opened, pickled.inert, references, functions=functions)


class _Freezer(Pickler):
    """Makes more arrays go out of band: those with gaps, which it closes, and those of times."""

    def reducer_override(self, obj: Any) -> Any:
        numpy = sys.modules.get("numpy")  # a process that has not imported it has no arrays
        if numpy is None or type(obj) is not numpy.ndarray:
            return super().reducer_override(obj)
        if obj.dtype.kind in "mM":  # Python's buffers cannot have times, so they travel as numbers
            from .arrays import as_kind  # noqa: PLC0415 - NumPy is there

            plain = obj if obj.flags.forc else obj.copy()
            return as_kind, (plain.view("i8"), obj.dtype)
        if obj.dtype.hasobject or obj.flags.forc:
            return NotImplemented
        return numpy.ascontiguousarray(obj).__reduce_ex__(5)


def _placed(views: list[memoryview]) -> tuple[Buffer, ...]:
    """A read-only copy of each; large ones in shared memory, for all receivers that can open it."""
    least = shared.THRESHOLD
    if len(views) == 1 and IN_SLOT.stop >= least and shared.few_are_open():
        least = min(least, ALONE)
    return shared.copies(views, bytes, least=least, passing=False)
