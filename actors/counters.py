"""What an endpoint counts, always, for programs and people to read.

Counting costs an addition for each message and packet, which is not to be measured beside sending
one. The numbers begin with the endpoint and only grow, except `Counters.references`.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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
    packets_sent: int = 0
    packets_received: int = 0
    retransmissions: int = 0
    """Messages sent again, because they were not acknowledged in time."""
    duplicates: int = 0
    """Messages that came again, and were dropped."""
    refused: int = 0
    """Messages that came malformed, or from strangers."""

    def __add__(self, other: Counters) -> Counters:
        """Those of both, as if they were one endpoint."""
        return Counters(
            references=dict(Counter(self.references) + Counter(other.references)),
            control=dict(Counter(self.control) + Counter(other.control)),
            user=dict(Counter(self.user) + Counter(other.user)),
            payload_bytes=self.payload_bytes + other.payload_bytes,
            packets_sent=self.packets_sent + other.packets_sent,
            packets_received=self.packets_received + other.packets_received,
            retransmissions=self.retransmissions + other.retransmissions,
            duplicates=self.duplicates + other.duplicates,
            refused=self.refused + other.refused,
        )


class Tally:
    """What is counted while messages go in and out."""

    def __init__(self) -> None:
        self._kinds: dict[type, int] = {}
        self._bytes = 0
        self._packets = 0
        self._posting = threading.Lock()
        self.packets_received = 0

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
            loans = context.borrowed()
            borrowers = sum(
                not user.confirmed and (rref in loans or bool(getattr(user, "reported", ())))
                for rref, user in context.users.items()
            )
            users = len(context.users) - borrowers
            again, twice = endpoint.delivery.repeated()
        roles = {"owner": owners - aliases, "alias": aliases, "user": users, "borrower": borrowers}
        return Counters(
            references={role: count for role, count in roles.items() if count},
            control={kind.__name__: n for kind, n in kinds.items() if kind not in _USER},
            user={kind.__name__: n for kind, n in kinds.items() if kind in _USER},
            payload_bytes=self._bytes,
            packets_sent=self._packets,
            packets_received=self.packets_received,
            retransmissions=again,
            duplicates=twice,
            refused=endpoint.refused,
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
