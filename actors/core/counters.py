"""The counters of an endpoint, always on, for programs and people to read.

Counting costs an addition for each message and packet, too little to measure beside sending one.
The numbers start at 0 with the endpoint and only grow, except those with a *now*.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import msgspec

from ...protocol.messages import Call, Create, Fetch, Invoke, Reply, Tell

_USER = frozenset({Call, Create, Fetch, Invoke, Reply, Tell})


LATENCY_STEPS = 4
"""Between a number of microseconds and its double, latencies are counted in so many steps: step *n*
has those from ``2 ** (n / LATENCY_STEPS)`` microseconds on."""


class Counters(msgspec.Struct, frozen=True):
    """The counters of one endpoint. Messages that it sends to itself do not count."""

    references: dict[str, int] = msgspec.field(default_factory=dict)
    """References that are there now, by role: owner, alias, user and borrower."""
    control: dict[str, int] = msgspec.field(default_factory=dict)
    """Control messages sent, by kind (see `farref.protocol.messages`)."""
    user: dict[str, int] = msgspec.field(default_factory=dict)
    """Messages sent that carry user data, by kind."""
    payload_bytes: int = 0
    """Bytes of pickled user data in those messages."""
    served: int = 0
    """Requests that it took up, of others and of its own: calls, creations, fetches."""
    errors: int = 0
    """Requests that ended with an exception."""
    packets_sent: int = 0
    packets_received: int = 0
    messages_received: int = 0
    retransmissions: int = 0
    """Messages sent again, because their acknowledgement did not come in time."""
    duplicates: int = 0
    """Messages that came a second time and were dropped."""
    refused: int = 0
    """Messages that were malformed, or came from outside the system."""
    deaths: int = 0
    """Endpoints that died since this one began, without those that left or exited in order."""
    lent: int = 0
    """Loans now in the calls that this endpoint waits for."""
    borrowed: int = 0
    """Loans now in the calls that wait or run here."""
    in_flight: int = 0
    """Calls and fetches of this endpoint that have no answer now."""
    waiting: int = 0
    """Requests of others that wait for a thread now."""
    inbox: int = 0
    """Messages that wait for its handlers now, or for the program to `listen`."""
    backlog: int = 0
    """Messages that it has sent and that have no acknowledgement now."""
    searches: int = 0
    """Searches for garbage in rings that it began and that have ended."""
    collected: int = 0
    """Objects that these searches found to be garbage."""
    pause: float = 0.0
    """The longest time in seconds for which a step of such a search has held up messages, or all
    threads."""
    timers: int = 0
    """Wakeups that its process has asked for and that have not come; on our own base only."""
    memory: int = 0
    """Bytes of main memory that its process uses now, those that it shares with others included;
    0 where the system does not tell."""
    threads: int = 0
    """Threads of its process now."""
    cpu: float = 0.0
    """Seconds of processor time that its process has used."""

    def __add__(self, other: Counters) -> Counters:
        """The sum of both, as if they were one endpoint."""
        both: dict[str, Any] = {}
        for name in self.__struct_fields__:
            mine, theirs = getattr(self, name), getattr(other, name)
            by_kind = isinstance(mine, dict)
            both[name] = dict(Counter(mine) + Counter(theirs)) if by_kind else mine + theirs
        both["pause"] = max(self.pause, other.pause)
        return Counters(**both)


class Tally:
    """The counts that grow as messages go in and out."""

    def __init__(self) -> None:
        self.kinds_sent: defaultdict[type, int] = defaultdict(int)
        """Messages that were sent, by kind. Under the endpoint's lock."""
        self.payload_bytes = 0
        self.packets_sent = 0
        self.packets_received = 0
        self.messages_received = 0

    def kinds(self, *, user: bool) -> dict[str, int]:
        """Messages sent, by kind: those with user data, or the others."""
        return {kind.__name__: n for kind, n in self.kinds_sent.items() if (kind in _USER) is user}
