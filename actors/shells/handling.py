"""Runs an actor's handlers: each message's once, on the actor's loop. Reports their errors.

A message from another endpoint is unpickled here, never in Thespian's thread. It holds its
references until the handler has ended.
"""

from __future__ import annotations

import logging
import threading
import types
from collections.abc import Callable
from typing import Any

from thespian.actors import Actor, ActorAddress, ActorSystemMessage, PoisonMessage, WakeupMessage

from ...printable import logger
from ...protocol.errors import NoHandlerError
from ...protocol.messages import Cargo, Descriptor
from ...serialization.errors import Failure
from ...serialization.failures import details_of, text_of
from ..base import forks
from ..core.current import running_in
from ..core.notices import notice
from ..serving.loop import Loop
from ..values.cell import Cell, CoroutineCell
from ..wire.messages import ReplyAddress
from .endpoint import Endpoint

log = logger(__name__)

HANDLER = "receiveMsg_"
"""The beginning of a handler's name; Thespian finds a handler by it."""
MOST_WARNED = 1000
"""The most types of messages that an actor warns of."""
LAST_WORDS = 2.0
"""Seconds for which an `async` handler of `ActorExitRequest` may await."""


class Handlers:
    def __init__(self, actor: Actor, loop: Loop, send: Callable[[ActorAddress, Any], None]) -> None:
        self._actor = actor
        self._loop = loop
        self._send = send
        self._warned: set[str] = set()
        """Types of messages without a handler that have been logged."""
        self.endpoint: Endpoint
        """The actor's endpoint. It is set before the first message is handled."""

    # ---- Thespian's thread

    def queue(self, message: Any, sender: ActorAddress) -> None:
        self._loop.queue(lambda: self._handle(message, sender, ()))

    def queue_cargo(self, cargo: Cargo, sender: ActorAddress) -> None:
        self._loop.queue(lambda: self._deliver(cargo, sender))

    def queue_last(self, message: Any, sender: ActorAddress) -> threading.Event:
        """Have the exit request handled. The event is set when that is done."""
        done = threading.Event()

        async def last() -> None:
            import asyncio  # noqa: PLC0415 - the running loop has loaded it

            try:
                handler = self._handle(message, sender, ())
                if handler is not None:
                    await asyncio.wait_for(handler, LAST_WORDS)
            finally:
                done.set()

        self._loop.queue(last)
        return done

    # ---- the loop's thread

    def _deliver(self, cargo: Cargo, sender: ActorAddress) -> Any:
        endpoint = self.endpoint
        try:
            message = endpoint.packer.open(cargo)
        except BaseException as error:
            endpoint.core.release(cargo.descriptors)
            self._report(None, sender, error)
            return None
        if endpoint.core.hooks is not None:
            return endpoint.core.hooks.handle(cargo, self._handle, message, sender)
        return self._handle(message, sender, cargo.descriptors)

    def _handle(
        self, message: Any, sender: ActorAddress, descriptors: tuple[Descriptor, ...]
    ) -> Any:
        """Handle *message*. If its handler is `async`, returns the coroutine for the rest."""
        endpoint = self.endpoint
        result = None
        try:
            with running_in(endpoint.core):
                # Of the class: the instance's attribute is the mailbox's method. A decorator such
                # as Thespian's `troupe` may have replaced the class's.
                result = type(self._actor).receiveMessage(self._actor, message, sender)
        except BaseException as error:  # `sys.exit()` in a handler must not end the loop
            self._report(message, sender, error)
        if type(result) is types.CoroutineType:  # `isinstance` asks the user's `__class__`
            return self._finish(CoroutineCell(result), message, sender, descriptors)
        del message
        endpoint.core.release(descriptors)
        return None

    async def _finish(
        self, handler: Cell, message: Any, sender: ActorAddress, descriptors: tuple[Descriptor, ...]
    ) -> None:
        endpoint = self.endpoint
        try:
            with running_in(endpoint.core):
                await handler.take()
        except BaseException as error:  # a CancelledError too, or the sender would never know
            if forks.pid != endpoint.core.pid:
                return  # a forked child only collects it
            self._report(message, sender, error)
        del message
        endpoint.core.release(descriptors)

    def drop(self, message: Any, sender: ActorAddress) -> None:
        """Tell a sender that waits that *message* has no handler, or else warn once of its type."""
        if isinstance(message, PoisonMessage):
            return  # an error of a message that this actor has sent; it is in a log already
        if isinstance(message, ActorSystemMessage) and not isinstance(message, WakeupMessage):
            return  # Thespian's own, which most actors ignore
        actor, kind = type(self._actor), type(message).__name__
        handlers = sorted(name for name in dir(actor) if name.startswith(HANDLER))
        text = (
            f"{actor.__name__} has no handler for a {kind}; it has "
            f"{', '.join(handlers) or 'none at all'}: add {HANDLER}{kind}, or "
            "receiveUnrecognizedMessage for all others"
        )
        me = self.endpoint.core.me
        if isinstance(sender, ReplyAddress):
            self._send(sender, Failure.of(NoHandlerError(text), me.name, f"the question {kind}"))
        elif kind not in self._warned and len(self._warned) < MOST_WARNED:
            self._warned.add(kind)
            notice(log, logging.WARNING, f"{me} dropped a message: {text}")

    def _report(self, message: Any, sender: ActorAddress, error: BaseException) -> None:
        """Log a handler's error, and tell the sender as Thespian does."""
        endpoint = self.endpoint
        details = details_of(error)
        if endpoint.core.hooks is not None:
            endpoint.core.hooks.raised(error)
        log.error("%s raised in a handler:\n%s", endpoint.core.me, details)
        try:
            with running_in(endpoint.core):
                if isinstance(sender, ReplyAddress):
                    what = f"the handler of {type(message).__name__}"
                    name = endpoint.core.me.name
                    self._send(sender, Failure.of(error, name, what, inert=ActorAddress))
                elif not isinstance(message, PoisonMessage | ActorSystemMessage):
                    self._return(message, sender, details)
        except BaseException as second:
            text = text_of(second)
            log.warning("%s cannot report its error to %s: %s", endpoint.core.me, sender, text)

    def _return(self, message: Any, sender: ActorAddress, details: str) -> None:
        """Return *message* as a `PoisonMessage`. If it cannot be sent, the sender gets None."""
        try:
            self._send(sender, PoisonMessage(message, details))
        except Exception:  # it has a reference of a dead owner, or the handler has changed it
            self._send(sender, PoisonMessage(None, details))
