"""What an endpoint counts, always, for programs and people to read.

Counting costs an addition for each message and packet, which is not to be measured beside sending
one. The numbers begin with the endpoint and only grow, except those with a *now*.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from ...protocol.messages import Call, Create, Fetch, Invoke, Reply, Tell

if TYPE_CHECKING:
    from ...protocol.messages import Message

_USER = frozenset({Call, Create, Fetch, Invoke, Reply, Tell})


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of one endpoint. Messages that it sends to itself do not count."""

    references: dict[str, int] = field(default_factory=dict)
    """References that are there now, by role: owner, alias, user and borrower."""
    control: dict[str, int] = field(default_factory=dict)
    """Control messages sent, by kind (`farref.protocol.messages`)."""
    user: dict[str, int] = field(default_factory=dict)
    """Messages sent that carry something of the user's, by kind."""
    payload_bytes: int = 0
    """Bytes of the user's in those, pickled."""
    served: int = 0
    """Requests of others, and its own to itself, that it took up: calls, creations, fetches."""
    errors: int = 0
    """Those that ended with an exception."""
    packets_sent: int = 0
    packets_received: int = 0
    messages_received: int = 0
    retransmissions: int = 0
    """Messages sent again, because they were not acknowledged in time."""
    duplicates: int = 0
    """Messages that came again, and were dropped."""
    refused: int = 0
    """Messages that came malformed, or from nobody of the system."""
    deaths: int = 0
    """Endpoints that died since this one is there; not those that left, or exited in order."""
    lent: int = 0
    """Loans now in the calls that it waits for."""
    borrowed: int = 0
    """Loans now in the calls that wait or run here."""
    in_flight: int = 0
    """Its own calls and fetches that are not answered now."""
    waiting: int = 0
    """Requests of others that wait for a thread now."""
    inbox: int = 0
    """Messages that wait for its handlers now, or for the program to `listen`."""
    backlog: int = 0
    """Messages that it has sent and that are not acknowledged now."""
    timers: int = 0
    """Wakeups that its process has asked for and that have not come; on our own base."""

    def __add__(self, other: Counters) -> Counters:
        """Those of both, as if they were one endpoint."""
        both: dict[str, Any] = {}
        for each in fields(self):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            by_kind = isinstance(mine, dict)
            both[each.name] = dict(Counter(mine) + Counter(theirs)) if by_kind else mine + theirs
        return Counters(**both)


class Tally:
    """What is counted while messages go in and out."""

    def __init__(self) -> None:
        self._kinds: dict[type, int] = {}
        self.payload_bytes = 0
        self.packets_sent = 0
        self._posting = threading.Lock()
        self.packets_received = 0
        self.messages_received = 0

    def sent(self, kind: type[Message], size: int) -> None:
        """A message is to leave, with *size* bytes of the user's. Under the endpoint's lock."""
        self._kinds[kind] = self._kinds.get(kind, 0) + 1
        self.payload_bytes += size

    def packet_left(self) -> None:
        """A packet is posted. In any thread, without the endpoint's lock."""
        with self._posting:
            self.packets_sent += 1

    def kinds(self, *, user: bool) -> dict[str, int]:
        """Messages sent, by kind: those that carry something of the user's, or the others."""
        return {kind.__name__: n for kind, n in self._kinds.items() if (kind in _USER) is user}
