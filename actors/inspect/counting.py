"""The counters of one endpoint, read from its parts."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from ..calls.calls import Calls
from ..cluster.deaths import Deaths
from ..core.core import Core, Internal
from ..core.counters import Counters
from ..core.current import frame
from ..core.delivery import Delivery
from ..cycles.collector import Collector
from ..handles.front import Front
from ..serving.server import Server


class Counting(Internal):
    def __init__(
        self,
        core: Core,
        *,
        delivery: Delivery,
        calls: Calls,
        server: Server,
        deaths: Deaths,
        collector: Collector,
    ) -> None:
        self.core = core
        self._delivery = delivery
        self.calls = calls
        self.server = server
        self._deaths = deaths
        self._collector = collector

    def read(self) -> Counters:
        """All counters. Takes the endpoint's lock for a moment."""
        core, delivery, server = self.core, self._delivery, self.server
        tally = delivery.tally
        with core.lock:
            control, sent = tally.kinds(user=False), tally.kinds(user=True)
            context = core.context
            owners = len(context.owners)
            aliases = sum(owner.alias is not None for owner in context.owners.values())
            loans = context.loans.borrowed()
            borrowers = sum(
                not user.confirmed and (rref in loans or bool(getattr(user, "reported", ())))
                for rref, user in context.users.items()
            )
            users = len(context.users) - borrowers
            again, twice = delivery.links.repeated()
            lent = sum(len(waiting.loans) for waiting in context.waiting.values())
            backlog = sum(1 for _ in delivery.links.waiting())
        roles = {"owner": owners - aliases, "alias": aliases, "user": users, "borrower": borrowers}
        return Counters(
            references={role: count for role, count in roles.items() if count},
            control=control,
            user=sent,
            payload_bytes=tally.payload_bytes,
            packets_sent=tally.packets_sent,
            packets_received=tally.packets_received,
            messages_received=tally.messages_received,
            served=server.served,
            errors=server.errors,
            retransmissions=again,
            duplicates=twice,
            refused=core.refused,
            deaths=self._deaths.counted,
            lent=lent,
            borrowed=sum(map(len, loans.values())),
            in_flight=self.calls.in_flight,
            waiting=core.pool.waits + core.chores.waits,
            inbox=core.port.queued(),
            backlog=backlog,
            searches=self._collector.searches,
            collected=self._collector.collected,
            pause=self._collector.scanner.pause,
            timers=core.port.timers(),
            memory=_resident(),
            threads=threading.active_count(),
            cpu=time.process_time(),
        )


def _resident() -> int:
    """The bytes of this process that are in main memory."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:  # no Linux, or no descriptor is left
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def counters() -> Counters:
    """The counters of the calling endpoint. For all endpoints, use `System.counters`.

    Does not block. Its cost grows with the number of references held.

    Raises:
        SystemDownError: outside any system.
    """
    front: Front = frame().core.front
    return front.count()
