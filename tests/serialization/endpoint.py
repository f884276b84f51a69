"""The smallest endpoint: a real protocol `Context` behind the pickler's hooks, no actors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from farref.protocol.context import Context
from farref.protocol.ids import RRefId, WorkerId
from farref.protocol.messages import Cargo, Descriptor, Tell
from farref.serialization.payload import Payload
from farref.serialization.pickling import Reference, loads, pickle_value, placed, share


class TinyHandle(Reference):
    """A reference that the collector does not end: the test drops it."""

    def __init__(self, rref: RRefId) -> None:
        self.rref = self._id = rref

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TinyHandle) and self.rref == other.rref

    def __hash__(self) -> int:
        return hash(self.rref)


class TinyAddress:
    """A stand-in for an actor's address: it must not be pickled."""

    def __reduce__(self) -> Any:
        raise AssertionError("an address was pickled")


class TinyEndpoint:
    """Sends to other endpoints of its kind, and receives from them."""

    def __init__(self, name: str, incarnation: int = 1) -> None:
        self.context = Context(WorkerId(name, incarnation))
        self._to = self.context.me

    def own(self) -> TinyHandle:
        return TinyHandle(self.context.own())

    def pack(
        self, value: object, to: TinyEndpoint | None = None, near: Callable[[], bool] = bool
    ) -> tuple[Payload, tuple[Descriptor, ...]]:
        self._to = (to or self).context.me
        return share(pickle_value(value, TinyAddress, lambda views: placed(views, near)), self)

    def unpack(
        self, sender: TinyEndpoint, payload: Payload, descriptors: tuple[Descriptor, ...]
    ) -> Any:
        cargo = Cargo(payload=payload, descriptors=descriptors)
        self.context.receive(sender.context.me, Tell(cargo=cargo))
        try:
            return loads(payload, descriptors, self)
        finally:
            self.context.release(descriptors)

    def forks(self, handle: TinyHandle) -> int:
        return len(self.context.owners[handle.rref].forks)

    # ---- the hooks

    def fork(self, references: tuple[Reference, ...]) -> tuple[Descriptor, ...]:
        return self.context.fork_all([each._id for each in references], self._to)

    def abandon(self, descriptors: Iterable[Descriptor]) -> None:
        self.context.abandon(descriptors)

    def join(self, descriptors: tuple[Descriptor, ...]) -> tuple[Reference, ...]:
        for each in descriptors:
            self.context.hold(each.rref)
        return tuple(TinyHandle(each.rref) for each in descriptors)
