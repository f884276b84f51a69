"""Messages to plain Thespian actors: ordinary ones, which must not contain a reference."""

from __future__ import annotations

from collections.abc import Iterable

from thespian.actors import ActorAddress

from ...protocol.errors import FarrefError, NotAnEndpointError
from ...protocol.messages import Descriptor
from ...serialization.contains import references_in
from ...serialization.pickling import Reference, dumps
from ..core.core import Internal


def refuse_references(message: object, address: ActorAddress) -> None:
    """Raise `NotAnEndpointError` if *message*, for a plain actor, contains a reference."""
    hooks = _NoReferences(address)
    try:
        dumps(message, hooks, inert=ActorAddress)
    except NotAnEndpointError:
        raise
    except FarrefError:  # pickling is up to the framework
        for reference in references_in(message, opaque=(Internal,)).references:
            hooks.fork((reference,))


class _NoReferences:
    """Pickling hooks that refuse every reference: a plain actor cannot hold one."""

    def __init__(self, address: ActorAddress) -> None:
        self._address = address

    def fork(self, references: tuple[Reference, ...]) -> tuple[Descriptor, ...]:
        raise NotAnEndpointError(
            f"{references[0]!r} cannot be sent to the plain Thespian actor at {self._address}, "
            "which cannot hold references; make it a RefActor, or send the value"
        )

    def abandon(self, descriptors: Iterable[Descriptor]) -> None:
        pass

    def join(self, _: tuple[Descriptor, ...]) -> tuple[Reference, ...]:
        raise AssertionError("nothing is unpickled here")
