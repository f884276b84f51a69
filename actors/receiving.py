"""What a program's endpoint does with a message that came, whatever base it runs on."""

from __future__ import annotations

import concurrent.futures
import queue
from typing import TYPE_CHECKING, Any

from . import ports
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
    Nudge,
    Serving,
    Spawned,
    Traced,
    Watch,
    Welcome,
    check_wire,
)

if TYPE_CHECKING:
    from .endpoint import Endpoint


class Receiver:
    """What both kinds of port do with a message that came in."""

    def __init__(self) -> None:
        self.endpoint: Endpoint | None = None
        self.inbox: queue.Queue[Any] = queue.Queue()
        self.joined: concurrent.futures.Future[Joined] = concurrent.futures.Future()
        self.serving: concurrent.futures.Future[Serving] = concurrent.futures.Future()

    def full(self) -> bool:
        """See `Port.full`."""
        return self.queued() >= ports.MAX_INBOX

    def queued(self) -> int:
        """See `Port.queued`."""
        return self.inbox.qsize()

    def timers(self) -> int:
        """See `Port.timers`."""
        return 0

    def dispatch(self, message: Any) -> None:
        """Have *message* take effect, or lie in the inbox. In the mailbox thread."""
        endpoint = self.endpoint
        if endpoint is None:
            return
        match message:
            case (
                Envelope()
                | Found()
                | Spawned()
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
            case Serving():
                if not self.serving.done():
                    check_wire(message)
                    self.serving.set_result(message)
            case Joined():
                if not self.joined.done() and endpoint.take(message):
                    self.joined.set_result(message)
            case Nudge() | Welcome():
                pass  # for actors
            case _:
                self.inbox.put(message)
