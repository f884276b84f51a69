"""What an endpoint counts, always, for programs and people to read.

Counting costs an addition for each message and packet, which is not to be measured beside sending
one. The numbers begin with the endpoint and only grow, except those with a *now*.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from ..protocol.messages import Call, Create, Fetch, Invoke, Reply, Tell
from .current import frame

if TYPE_CHECKING:
    from ..protocol.messages import Message
    from .endpoint import Endpoint

_LOADED = frozenset({Call, Create, Invoke, Reply, Tell})
_USER = _LOADED | {Fetch}


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
        self._bytes = 0
        self._packets = 0
        self._posting = threading.Lock()
        self.packets_received = 0
        self.messages_received = 0

    def sent(self, kind: type[Message], size: int) -> None:
        """A message is to leave, with *size* bytes of the user's. Under the endpoint's lock."""
        self._kinds[kind] = self._kinds.get(kind, 0) + 1
        self._bytes += size

    def packet_left(self) -> None:
        """A packet is posted. In any thread, without the endpoint's lock."""
        with self._posting:
            self._packets += 1

    def read(self, endpoint: Endpoint) -> Counters:
        """All counters of *endpoint*, whose tally this is. Takes its lock for a moment."""
        with endpoint.lock:
            kinds = dict(self._kinds)
            context = endpoint.context
            owners = len(context.owners)
            aliases = sum(owner.alias is not None for owner in context.owners.values())
            loans = context.loans.borrowed()
            borrowers = sum(
                not user.confirmed and (rref in loans or bool(getattr(user, "reported", ())))
                for rref, user in context.users.items()
            )
            users = len(context.users) - borrowers
            again, twice = endpoint.delivery.repeated()
            lent = sum(len(waiting.loans) for waiting in context.waiting.values())
            backlog = sum(1 for _ in endpoint.delivery.waiting())
        roles = {"owner": owners - aliases, "alias": aliases, "user": users, "borrower": borrowers}
        return Counters(
            references={role: count for role, count in roles.items() if count},
            control={kind.__name__: n for kind, n in kinds.items() if kind not in _USER},
            user={kind.__name__: n for kind, n in kinds.items() if kind in _USER},
            payload_bytes=self._bytes,
            packets_sent=self._packets,
            packets_received=self.packets_received,
            messages_received=self.messages_received,
            served=endpoint.server.served,
            errors=endpoint.server.errors,
            retransmissions=again,
            duplicates=twice,
            refused=endpoint.refused,
            deaths=endpoint.deaths.counted,
            lent=lent,
            borrowed=sum(map(len, loans.values())),
            in_flight=endpoint.calls.in_flight,
            waiting=endpoint.pool.waits + endpoint.chores.waits,
            inbox=endpoint.port.queued(),
            backlog=backlog,
            timers=endpoint.port.timers(),
        )


def counters() -> Counters:
    """The counters of the calling endpoint; `System.counters` tells those of all.

    Does not block, and costs a look at each reference that is held.

    Raises:
        SystemDownError: outside any system.
    """
    endpoint = frame().endpoint
    endpoint.turn()
    return endpoint.delivery.tally.read(endpoint)
