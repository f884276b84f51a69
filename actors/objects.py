"""The objects that live at an endpoint: their values, from creation until they are freed.

The protocol counts who holds an object and knows nothing of its value; here is the value, and
nothing is counted. A value is never looked at under the endpoint's lock, and it is let go in a
thread for that: its finalizers are the user's code.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from ..protocol.effects import Loss
from ..protocol.errors import AliasCycleError, OwnerDiedError, ReferenceLostError, RefLostError
from ..serialization.failures import Failure
from ..serialization.frozen import Frozen
from . import sites

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.effects import Effect
    from ..protocol.ids import RRefId
    from .box import Box
    from .effects import Later
    from .endpoint import Endpoint
    from .rref import RRef

_LOSSES: dict[Loss, type[ReferenceLostError]] = {
    Loss.CREATOR: RefLostError,
    Loss.OWNER: OwnerDiedError,
    Loss.CYCLE: AliasCycleError,
}


class Stored(msgspec.Struct):
    """The value of an object that lives here, or the failure that took its place."""

    value: object
    on_delete: Callable[[Any], object] | None = None


class Objects:
    """The values of one endpoint's objects."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._values: dict[RRefId, Stored] = {}

    def own(self, value: object, on_delete: Callable[[Any], object] | None) -> RRefId:
        """Own *value*; the caller makes the handle that is counted here, `undisturbed`."""
        endpoint = self._endpoint
        endpoint.check_process()
        site = sites.here() if endpoint.sites.wanted else None
        with endpoint.lock:
            endpoint.context.state.now = time.monotonic()
            rref = endpoint.context.own()
            self._values[rref] = Stored(value, on_delete)
            if site is not None:
                endpoint.sites.note(rref, site, self._values)
        return rref

    def resolve(self, rref: RRefId, box: Box) -> None:
        """The value of a creation, or its `Failure`, is there, in *box*."""

        def move() -> list[Effect]:
            self._values[rref] = Stored(box.take())
            return self._endpoint.context.resolve(rref)

        self._endpoint.step(move)

    def stand_for(self, rref: RRefId, box: Box) -> None:
        """The result of a creation is a reference, in *box*: it is an alias of that object."""

        def move() -> list[Effect]:
            target: RRef[Any] = box.take()
            return self._endpoint.context.stand_for(rref, target.id)

        self._endpoint.step(move)

    def lose(self, rref: RRefId, why: Loss) -> list[Effect]:
        """The value of a creation will never come. Under the lock; returns what follows."""
        error = _LOSSES[why](f"{rref} has no value: {why.value}; create the object again")
        stored = Failure.of(error, self._endpoint.me.name, "its creation", str(rref))
        self._values[rref] = Stored(stored)
        return self._endpoint.context.resolve(rref)

    def free(self, rref: RRefId, later: Later) -> None:
        """Nobody holds it any more: let go of its value, and tell the program. Under the lock."""
        endpoint = self._endpoint
        stored = self._values.pop(rref, None)
        if stored is not None and stored.on_delete is not None:
            endpoint.server.run_on_delete(rref, stored.on_delete, stored.value)
        elif stored is not None:  # its own __del__ is the user's code
            endpoint.brief.submit(endpoint.chores, Stored, self._let_go, [stored], later=later)

    def _let_go(self, values: list[object]) -> None:
        started = time.perf_counter()
        values.clear()
        self._endpoint.brief.took(Stored, time.perf_counter() - started)

    def values(self) -> list[tuple[RRefId, object]]:
        """All objects that have a value, with it. Under the lock."""
        return [(rref, stored.value) for rref, stored in self._values.items()]

    def stored(self, rref: RRefId) -> Stored | None:
        """What is there of *rref*; None at a user, and before its creation is over."""
        return self._values.get(rref)

    def local_value(self, rref: RRefId) -> Any:
        """The very object, if it is not frozen.

        Raises what its creation raised, `ValueError` at a user.
        """
        endpoint = self._endpoint
        with endpoint.lock:
            rref = endpoint.context.whereabouts(rref)
            if rref not in endpoint.context.owners:
                owner = endpoint.context.owner_of(rref)
                raise ValueError(
                    f"{rref} is owned by {owner}, not by {endpoint.me}; use to_here() for a copy"
                )
            stored = self._values.get(rref)
        if stored is None:
            raise ValueError(f"{rref} has no value yet; wait for it with to_here() or await")
        if isinstance(stored.value, Failure):
            raise stored.value.rebuild()
        return stored.value.thaw() if isinstance(stored.value, Frozen) else stored.value
