"""Messages to plain Thespian actors: ordinary ones, which must not contain a reference."""

from __future__ import annotations

from thespian.actors import ActorAddress

from ...protocol.errors import FarrefError, NotAnEndpointError
from ...serialization.contains import references_in
from ...serialization.pickling import pickle_value
from ..core.core import Internal


def refuse_references(message: object, address: ActorAddress) -> None:
    """Raise `NotAnEndpointError` if *message*, for a plain actor, contains a reference."""
    try:
        references = pickle_value(message, ActorAddress, lambda _: ()).references
    except FarrefError:  # pickling is up to the framework
        references = references_in(message, opaque=(Internal,)).references
    if references:
        raise NotAnEndpointError(
            f"{references[0]!r} cannot be sent to the plain Thespian actor at {address}, which "
            "cannot hold references; make it a RefActor, or send the value"
        )
