"""Creating an actor of a class that arrived as a pickle; registrar and stewards do it."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

import cloudpickle
from thespian.system.utilis import checkActorCapabilities

from ..serialization.failures import text_of
from . import bases

if TYPE_CHECKING:
    from thespian.actors import Actor, ActorAddress


class UnmadeError(Exception):
    """It was not created. The text says why."""


class UnfitError(UnmadeError):
    """The class, or its requirements, ask for what this host is not capable of."""


def make_findable(actor_class: type) -> type:
    """Have the child that Thespian forks find *actor_class*, which it looks up by its name.

    A class of a function, of a notebook, or defined since the system started is in no module
    of this process; the child inherits the modules as they are now.
    """
    name = actor_class.__module__
    module = sys.modules.setdefault(name, types.ModuleType(name))
    if getattr(module, actor_class.__name__, None) is not actor_class:
        setattr(module, actor_class.__name__, actor_class)
    return actor_class


def make(
    parent: Actor, pickled: bytes, requirements: dict[str, Any] | None, *, here: bool
) -> ActorAddress:
    """A new child of *parent*, of the class in *pickled*; *here*, or wherever Thespian finds.

    Raises:
        UnfitError: it must be here, and does not fit.
        UnmadeError: it could not be unpickled, or not be created.
    """
    try:
        actor_class = make_findable(cloudpickle.loads(pickled))
        capabilities = bases.capabilities_of(parent)
        if here and not checkActorCapabilities(actor_class, capabilities, requirements):
            raise UnfitError(  # noqa: TRY301 - passed on as it is
                f"no host that could be chosen is what {actor_class.__name__} needs"
            )
        address: ActorAddress = parent.createActor(actor_class, requirements)
    except UnmadeError:
        raise
    except (Exception, SystemExit) as error:  # what it unpickles may do anything
        raise UnmadeError(f"{type(error).__name__}: {text_of(error)}") from None
    return address
