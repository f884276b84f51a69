"""Creating an actor of a class that arrived as a pickle, for the registrar and the stewards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cloudpickle
from thespian.system.utilis import checkActorCapabilities

from ...serialization.failures import text_of
from ..base import descriptors
from ..hosting import bases
from ..hosting.classes import make_findable

if TYPE_CHECKING:
    from thespian.actors import Actor, ActorAddress

    from ..hosting.modules import Modules


class UnmadeError(Exception):
    """The actor was not created. The text says why."""


class UnfitError(UnmadeError):
    """This host lacks a capability that the class or its requirements ask for."""


def make(
    parent: Actor,
    pickled: bytes,
    requirements: dict[str, Any] | None,
    *,
    here: bool,
    modules: Modules,
) -> ActorAddress:
    """Create a child of *parent*, of the class in *pickled*: *here*, or where Thespian chooses.

    *modules* are those of this process; the child gets them as they are on disk now.

    Raises:
        UnfitError: the actor must be here, and does not fit.
        UnmadeError: the actor could not be unpickled, or not be created.
    """
    try:
        if _forks(parent):
            modules.renew()
        actor_class = make_findable(cloudpickle.loads(pickled))
        modules.note()
        capabilities = bases.capabilities_of(parent)
        if here and not checkActorCapabilities(actor_class, capabilities, requirements):
            raise UnfitError(  # noqa: TRY301 - passed on as it is
                f"no host that could be chosen is what {actor_class.__name__} needs"
            )
        return _created(parent, actor_class, requirements)
    except UnmadeError:
        raise
    except BaseException as error:  # unpickled code may do anything
        why = f"{type(error).__name__}: {text_of(error)}{descriptors.hint(error)}"
        raise UnmadeError(why) from None


def _forks(parent: Actor) -> bool:
    """Whether an actor is a process; on the in-process base none is."""
    return hasattr(parent._myRef, "_startChildActor")


def _created(parent: Actor, actor_class: type, requirements: dict[str, Any] | None) -> ActorAddress:
    """Call `createActor`. Raises the errors that Thespian would only log."""
    if not _forks(parent):
        address: ActorAddress = parent.createActor(actor_class, requirements)
        return address
    manager: Any = parent._myRef
    start = manager._startChildActor
    failures = []

    def starting(*args: Any, **kwargs: Any) -> Any:
        try:
            return start(*args, **kwargs)
        except OSError as error:
            failures.append(error)
            raise

    manager._startChildActor = starting
    try:
        address = parent.createActor(actor_class, requirements)
    finally:
        del manager._startChildActor
    for error in failures:
        raise error
    return address
