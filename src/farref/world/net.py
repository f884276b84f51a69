"""A net in memory: endpoints by name, and the messages between them.

A message stays in flight until the caller delivers it, so the caller decides the order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..protocol.delivery import Packet
from ..protocol.ids import WorkerId
from ..protocol.messages import Message
from .shell import Shell

ShellT = TypeVar("ShellT", bound=Shell)


@dataclass(slots=True)
class Transit:
    """A message, or a packet of messages, on its way."""

    sender: WorkerId
    to: WorkerId
    what: Message | Packet
    text: str = ""
    """The message in words, for people."""
    number: int | None = None
    """A message's number between the two, from 0; those in packets come in order."""


class Net(Generic[ShellT]):
    """Endpoints, and the messages between them that have not arrived."""

    def __init__(self) -> None:
        self.endpoints: dict[str, ShellT] = {}
        self.flight: list[Transit] = []
        """The oldest first."""
        self._sent: Counter[tuple[WorkerId, WorkerId]] = Counter()

    def send(self, sender: WorkerId, to: WorkerId, message: Message) -> None:
        """Put *message* in flight."""
        self.flight.append(Transit(sender, to, message, number=self._sent[sender, to]))
        self._sent[sender, to] += 1

    def deliver(self, transit: Transit) -> None:
        """Take *transit* out of flight and give it to its receiver."""
        self.flight.remove(transit)
        self.arrive(transit)

    def arrive(self, transit: Transit) -> None:
        """Give the message in *transit* to its receiver."""
        if isinstance(transit.what, Packet):
            raise TypeError("there are no channels in this net")
        receiver = self.endpoints[transit.to.name]
        receiver.receive(transit.sender, transit.what, transit.number)

    def settle(self) -> None:
        """Deliver the oldest, again and again, until nothing is in flight."""
        while self.flight:
            self.deliver(self.flight[0])
