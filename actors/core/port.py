"""An endpoint's access to its framework: post an envelope, be woken, look at the clock.

Only the *mailbox thread* of a process runs a stock Thespian transport, and may touch it.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any, Protocol

from thespian.actors import ActorAddress

MAX_INBOX = 100_000
"""The most messages that wait for an actor's handlers, or for a program to listen (`Port.full`)."""
MAX_INBOX_BYTES = 64 << 20
"""The same in bytes."""


class Connection(Protocol):
    def write_now(self, data: bytes) -> bool:
        """Send the bytes of a packet. In any thread.

        Never waits. False if it is not open, or other messages wait before these.
        """


class Port(Protocol):
    """An endpoint's access to its shell. Every method may be called in any thread."""

    @property
    def runs_by_itself(self) -> bool:
        """Whether its messages are handled although no code calls in."""

    send_raw: Callable[[ActorAddress, bytes], bool] | None = None
    """Sends the bytes of a packet, soon; never waits. False if Thespian must translate the
    address: `post` does. None if packets may not leave as bytes: this is not our own base."""

    connection_to: Callable[[ActorAddress], Connection | None] | None = None
    """The open connection to an address; None if there is none. None where packets may not leave
    as bytes."""

    def post(self, address: ActorAddress, message: object) -> None:
        """Send *message* as an ordinary Thespian message, soon."""

    def post_last(self, address: ActorAddress, message: object, patience: float) -> None:  # noqa: ARG002 - only ours waits
        """Post *message*. On our own base, wait until the actor has it, for *patience* seconds."""
        self.post(address, message)

    def wake(self) -> None:
        """Have the mailbox thread call `Endpoint.drain` soon. Takes no lock: finalizers call it."""

    def wait(self, future: concurrent.futures.Future[Any], timeout: float) -> bool:
        """Block until *future* is done, for at most *timeout* seconds. Returns whether it is."""

    def call_in(self) -> bool:
        """Run the actors once, on a base where they run only while the program calls in.

        False on every other base, and for actors.
        """
        return False

    def given_up(self) -> None:
        """React to being counted as dead: the endpoint has been closed. In the mailbox thread."""

    def holds_back(self, address: ActorAddress) -> bool:  # noqa: ARG002 - only ours can tell
        """Whether the last message posted to *address* is still unwritten by the transport."""
        return False

    def largest(self) -> int:
        """The most bytes that one message may have."""

    def full(self) -> bool:
        """Whether so many messages wait for the user that senders of more must wait."""
        return self.queued() >= MAX_INBOX

    def queued(self) -> int:
        """The number of messages that wait for the user."""

    def timers(self) -> int:
        """Wakeups of this process that have not come; 0 on a base that does not tell."""
        return 0
