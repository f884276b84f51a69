"""A program's endpoint and its incoming messages, on every base."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
from collections.abc import Callable
from typing import Any

from ..base.interrupts import new_future
from ..core.port import Port
from ..hosting import versions
from ..wire.messages import TO_ENDPOINTS, TO_SHELLS, Joined, LeaveSystem, Serving, check_wire
from .endpoint import Endpoint
from .inbox import ProgramInbox
from .ports import SelfRunning


class Receiver(Port):
    """The common part of a program's ports: dispatch of incoming messages."""

    def __init__(self) -> None:
        self.endpoint: Endpoint | None = None
        self.become: Callable[[Joined], Endpoint] | None = None
        """Makes the endpoint, once the registrar has given this program its identity."""
        self._early: list[Callable[[], object]] = []
        """Each takes one message that came before the endpoint was made."""
        self.inbox = ProgramInbox()
        self.joined: concurrent.futures.Future[Joined] = new_future()
        self.versions: concurrent.futures.Future[object] = new_future()
        self.serving: concurrent.futures.Future[Serving] = new_future()
        self.left: concurrent.futures.Future[None] = new_future()
        """Done when this host has left a system that goes on without it."""

    def queued(self) -> int:
        return self.inbox.qsize()

    def given_up(self) -> None:
        """Do nothing: the program learns it from its next error."""

    def begin(self, message: Any, again: Callable[[], object]) -> None:
        """Take *message* while there is no endpoint, or keep *again* to take it later.

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
        """Begin to pass messages to *endpoint*. In the mailbox thread."""

    def dispatch(self, message: Any) -> None:
        """Have *message* take effect, or put it into the inbox. In the mailbox thread."""
        endpoint = self.endpoint
        if isinstance(message, LeaveSystem):
            if not self.left.done():
                self.left.set_result(None)
            return
        if endpoint is None:
            self.begin(message, lambda: self.dispatch(message))
            return
        if isinstance(message, TO_ENDPOINTS):
            endpoint.take(message)
        elif not isinstance(message, TO_SHELLS):
            self.inbox.put(message)


class OutsidePort(Receiver, SelfRunning):
    """The common part where the actors are other processes: a background thread receives."""

    def __init__(self, asys: Any) -> None:
        super().__init__()
        self._main = asys._systemBase
        self._context = asys.private()
        self._base = self._context.__enter__()._systemBase
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="farref pump", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Stop listening. The actors are other processes and end themselves."""
        with contextlib.suppress(Exception):  # Thespian's shutdown may have closed it
            self._main.transport.close()

    def _run(self) -> None:
        raise NotImplementedError
