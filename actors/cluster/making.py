"""Creating actors of classes that arrive as pickles, for the registrar and the host agents."""

from __future__ import annotations

from typing import Any

from thespian.actors import Actor, ActorAddress
from thespian.system.utilis import checkActorCapabilities

from ...protocol.wellformed import prepare
from ...serialization.definitions import load
from ...serialization.failures import text_of
from ..base.lacks import hint
from ..hosting import bases
from ..hosting.children import Children
from ..hosting.classes import make_findable
from ..hosting.modules import Modules
from ..wire.messages import Joined, Welcome


class UnmadeError(Exception):
    """The actor was not created. The text says why."""


class UnfitError(UnmadeError):
    """This host lacks a capability that the class or its requirements ask for."""


class Maker:
    """Creates the children of one actor, and knows the end of each."""

    def __init__(self, parent: Actor) -> None:
        self._parent = parent
        self._modules = Modules()
        self._children = Children(parent)
        self.cause = self._children.cause
        prepare(Welcome, Joined)  # the first messages of each child

    def make(
        self, pickled: bytes, requirements: dict[str, Any] | None, *, here: bool
    ) -> ActorAddress:
        """Create a child of the class in *pickled*: *here*, or where Thespian chooses.

        It gets the modules of this process as they are on disk now.

        Raises:
            UnfitError: the actor must be here, and does not fit.
            UnmadeError: the actor could not be unpickled, or not be created.
        """
        parent = self._parent
        try:
            if _forks(parent):
                self._modules.renew()
            actor_class = make_findable(load(pickled)[0])
            self._modules.note()
            capabilities = bases.capabilities_of(parent)
            if here and not checkActorCapabilities(actor_class, capabilities, requirements):
                raise UnfitError(  # noqa: TRY301 - passed on as it is
                    f"no possible host meets the requirements of {actor_class.__name__}"
                )
            address = _created(parent, actor_class, requirements)
        except UnmadeError:
            raise
        except BaseException as error:  # unpickled code may do anything
            why = f"{type(error).__name__}: {text_of(error)}{hint(error)}"
            raise UnmadeError(why) from None
        self._children.made(address)
        return address


def _forks(parent: Actor) -> bool:
    """Whether each actor is a process of its own, as on all bases but the in-process one."""
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
