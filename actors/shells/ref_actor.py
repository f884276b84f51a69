"""`RefActor`: a Thespian actor whose messages may contain references anywhere."""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import Any

from thespian.actors import Actor, ActorAddress, ActorTypeDispatcher

from ..core.current import frame
from .mailbox import Mailbox


class RefActor(ActorTypeDispatcher):
    """Subclass it and write handlers ``receiveMsg_Type(self, message, sender)``.

    A handler may be plain or `async`. Handlers run one at a time, in the order in which their
    messages arrived, and interleave only where an `async` one awaits. They run on an asyncio
    loop of the actor's own, so any asyncio library works in them. A plain handler that
    computes for long holds up the actor's other handlers, but never the protocol.

    `send`, `createActor` and `wakeupAfter` are Thespian's. A message to another `RefActor`,
    or to the program, may contain `RRef`s. `send` pickles it, so an error of pickling is raised
    there. It takes effect exactly once while both ends live, and messages arrive in the order
    in which they were sent (G3). A message to a plain Thespian actor is an ordinary Thespian
    message, and must contain no reference (`NotAnEndpointError`).

    A handler that raises is not run again. The sender gets Thespian's `PoisonMessage`, or,
    if it waits in `System.ask`, the exception itself. `PoisonMessage.poisonMessage` is None if the
    message cannot be read or sent back, for example because the owner of one of its references has
    died.

    A message without a handler is dropped. The actor logs one warning for each type of such
    messages, and an `ask` raises `NoHandlerError`. Define ``receiveUnrecognizedMessage(self,
    message, sender)`` to handle it.
    """

    _is_ref_actor = True
    _has_handlers = True

    def __init_subclass__(cls, *, handlers: bool = True, **more: Any) -> None:
        """Note whether the class has *handlers*, which run on a loop.

        They need asyncio then. It is loaded now, before the actors' processes are forked.
        """
        super().__init_subclass__(**more)
        cls._has_handlers = handlers
        if handlers:
            importlib.import_module("asyncio")

    def __new__(cls, *_args: Any, **_kwargs: Any) -> RefActor:
        """Make the actor with its mailbox, so that a subclass need not call our __init__."""
        self: RefActor = super().__new__(cls)
        self._mailbox = Mailbox(self)
        # An attribute of the instance hides the class's method: the framework calls the
        # mailbox, and the mailbox calls the class's method, decorated or not.
        self.receiveMessage = self._mailbox.receive
        return self

    def send(self, targetAddr: ActorAddress, msg: Any) -> None:  # noqa: N803 - Thespian's names
        """Send *msg* to the actor at *targetAddr*. Does not wait for it to arrive.

        If that actor is known to have died, *msg* becomes a dead letter, as in Thespian.

        Raises:
            SerializationError: it cannot be pickled; references in it are not forked.
            NotAnEndpointError: it contains references, and the target is a plain actor.
            OwnerDiedError: it contains a reference whose owner died.
        """
        self._mailbox.send(targetAddr, msg)

    def receiveUnrecognizedMessage(self, message: Any, sender: ActorAddress) -> None:
        """Drop a message without a handler, with a warning. Override it to handle the message."""
        self._mailbox.handlers.drop(message, sender)

    def createActor(self, *args: Any, **kwargs: Any) -> ActorAddress:
        """Create a child actor, like Thespian's `createActor`."""
        return self._mailbox.create(*args, **kwargs)

    def wakeupAfter(self, timePeriod: Any, payload: Any = None) -> None:  # noqa: N803 - Thespian's names
        """Get a `WakeupMessage` after *timePeriod* (a `timedelta`), as in Thespian."""
        self._mailbox.port.run(lambda: super(RefActor, self).wakeupAfter(timePeriod, payload))


def wait_to_begin(actor: Any, capabilities: Any = None, requirements: Any = None) -> None:
    """In place of ``__init__``: *actor* handles no message before `construct` has run that."""
    # Thespian gives these two to an ``__init__`` that has them.
    actor._given = {"capabilities": capabilities, "requirements": requirements}
    actor._mailbox.loop.hold()


async def construct(*args: Any, **kwargs: Any) -> None:
    """Run ``__init__`` of the actor that this runs on, on its loop, before its first handler."""
    actor: Any = frame().core.actor
    given = vars(actor).pop("_given")
    actor.__class__ = type(actor).__mro__[1]  # the class itself; see `api.creating`
    if not args and not kwargs:
        names = inspect.signature(actor.__init__).parameters
        kwargs = {name: value for name, value in given.items() if name in names}
    try:
        actor.__init__(*args, **kwargs)
    except BaseException:
        actor._mailbox.loop.release(drop=True)
        raise
    actor._mailbox.loop.release()


def _in_mailbox_thread(name: str) -> Any:
    """Thespian's method *name*, run in the thread that may touch its transport."""
    method = getattr(Actor, name)

    @functools.wraps(method)
    def run(self: RefActor, *args: Any, **kwargs: Any) -> Any:
        return self._mailbox.port.run(lambda: method(self, *args, **kwargs))

    return run


for _name in (
    "actorSystemShutdown",
    "deRegisterRemoteSystem",
    "handleDeadLetters",
    "loadActorSource",
    "notifyOnSourceAvailability",
    "notifyOnSystemRegistrationChanges",
    "preRegisterRemoteSystem",
    "registerSourceAuthority",
    "unloadActorSource",
    "updateCapability",
):
    setattr(RefActor, _name, _in_mailbox_thread(_name))
