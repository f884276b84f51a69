"""What a program's endpoint does with a message that came, whatever base it runs on."""

from __future__ import annotations

import concurrent.futures
import queue
from typing import TYPE_CHECKING, Any

from . import ports, versions
from .wire import (
    Died,
    Down,
    Envelope,
    Found,
    Heard,
    Inspect,
    Inspected,
    Joined,
    Meddle,
    Meddled,
    Minted,
    Nudge,
    Serving,
    Spawned,
    Traced,
    Watch,
    Welcome,
    check_wire,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from .endpoint import Endpoint


class Receiver(ports.Port):
    """What both kinds of port do with a message that came in."""

    def __init__(self) -> None:
        self.endpoint: Endpoint | None = None
        self.become: Callable[[Joined], Endpoint] | None = None
        """Makes the endpoint, once the registrar has said who this program is."""
        self._early: list[Callable[[], object]] = []
        """Take, then, the messages that came before."""
        self.inbox: queue.Queue[Any] = queue.Queue()
        self.joined: concurrent.futures.Future[Joined] = concurrent.futures.Future()
        self.versions: concurrent.futures.Future[object] = concurrent.futures.Future()
        self.serving: concurrent.futures.Future[Serving] = concurrent.futures.Future()

    def full(self) -> bool:
        return self.queued() >= ports.MAX_INBOX

    def queued(self) -> int:
        return self.inbox.qsize()

    def timers(self) -> int:
        return 0

    def begin(self, message: Any, again: Callable[[], object]) -> None:
        """Take *message* while there is no endpoint, or have *again* take it once there is.

        In the mailbox thread.
        """
        match message:
            case (versions.TELL, theirs) if not self.versions.done():
                self.versions.set_result(theirs)
            case Serving():
                if not self.serving.done():
                    check_wire(message)
                    self.serving.set_result(message)
            case Joined() if self.become is not None:
                check_wire(message)
                endpoint = self.become(message)
                if endpoint.take(message):
                    self.endpoint = endpoint
                    self.serve(endpoint)
                    self.joined.set_result(message)
                    early, self._early = self._early, []
                    for each in early:
                        each()
            case _:
                self._early.append(again)

    def serve(self, endpoint: Endpoint) -> None:
        """*endpoint* is there: messages are for it from now on. In the mailbox thread."""

    def dispatch(self, message: Any) -> None:
        """Have *message* take effect, or lie in the inbox. In the mailbox thread."""
        endpoint = self.endpoint
        if endpoint is None:
            self.begin(message, lambda: self.dispatch(message))
            return
        match message:
            case (
                Envelope()
                | Found()
                | Spawned()
                | Minted()
                | Died()
                | Heard()
                | Down()
                | Meddled()
                | Meddle()
                | Watch()
                | Traced()
            ):
                endpoint.take(message)
            case Inspect() | Inspected():
                endpoint.take(message)
            case Nudge() | Welcome() | Joined() | Serving():
                pass  # for actors, or for a program that had not joined
            case _:
                self.inbox.put(message)
