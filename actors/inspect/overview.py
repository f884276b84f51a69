"""What each endpoint of a system does now, in few numbers: for `farref top`.

An endpoint answers from its counters and tables. Of a large table it looks at a part, evenly
spread, so that an answer takes milliseconds however many objects there are. The latencies of calls
are counted only while somebody looks: the first question makes the endpoint count for some seconds,
and each further question prolongs them. So nothing has to be switched off when a viewer dies.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import Any

import msgspec

from ...protocol.ids import RRefId
from ..base import addresses
from ..core.counters import LATENCY_STEPS, Counters
from ..recording.tracing import spell
from ..values.objects import Objects
from .counting import Counting
from .inspection import type_of

LOOKED_AT = 5_000
"""The most objects, and the most references, that one answer looks at."""
MOST_GROUPS = 50
"""The most groups of objects in one answer."""
NEWEST = 10
"""The most single objects in one answer."""


class ObjectGroup(msgspec.Struct, frozen=True):
    """Objects of one endpoint that have the same type and were created by the same line."""

    type: str
    """The type of the values; ``error: ...`` for errors, ``(not made yet)`` without a value."""
    site: str
    """``file:line in function``; empty unless the system notes that (``System(sites=True)``)."""
    count: int
    """The number of objects; an estimate if the endpoint has more than `LOOKED_AT`."""


class NewObject(msgspec.Struct, frozen=True):
    """One of the newest objects of an endpoint."""

    rref: str
    type: str
    site: str
    age: float
    """Seconds."""
    holders: int
    """The endpoints that the owner counts."""


class StreamInfo(msgspec.Struct, frozen=True):
    """An iterator over which somebody iterates."""

    rref: str
    items: int
    """The items that were taken from it."""
    state: str
    """Whether it makes an item, and for whom, waits for credit, or has ended."""


class RecentError(msgspec.Struct, frozen=True):
    """An exception that a request raised."""

    time: float
    """Seconds since the epoch."""
    where: str
    """The function or method that raised it."""
    type: str
    message: str
    text: str
    """The traceback."""


class EndpointOverview(msgspec.Struct, frozen=True):
    """What one endpoint does now."""

    host: str
    """The address of its host; empty if the system has one host only."""
    counters: Counters
    took: float
    """Seconds of a core that the endpoint needed for this answer."""
    latencies: dict[str, dict[int, int]]
    """For each endpoint that it has called: the calls and fetches that were answered while somebody
    looked, by the step of their latency (`LATENCY_STEPS`)."""
    groups: tuple[ObjectGroup, ...]
    """The objects that it owns, the largest group first."""
    newest: tuple[NewObject, ...]
    """The newest objects that it owns, the newest first."""
    holds: dict[str, int]
    """For each owner: the number of its objects to which this endpoint has references."""
    errors: tuple[RecentError, ...]
    """The latest errors, the oldest first."""
    streams: tuple[StreamInfo, ...] = ()
    """The iterators that it owns, at most `LOOKED_AT`, those with the most items first."""


class Overview(msgspec.Struct, frozen=True):
    """What a system does now. See `System.overview`."""

    system: str
    time: float
    """Seconds since the epoch."""
    endpoints: dict[str, EndpointOverview]
    """By name, as in a `Snapshot`."""
    silent: dict[str, str]
    """The endpoints that did not answer, and the reason for each."""
    gone: dict[str, str]
    """The endpoints that have died as far as this program knows, and how."""
    in_full: dict[str, str]
    """The full form of each name and id, as in a `Snapshot`."""


def quantile(latencies: Mapping[int, int], part: float) -> float | None:
    """The latency in seconds that the fraction *part* of all calls did not exceed; None if none.

    It is right to about a tenth, as latencies are counted in steps.
    """
    left = part * sum(latencies.values())
    for number, count in sorted(latencies.items()):
        left -= count
        if left <= 0:
            return float(2 ** ((number + 0.5) / LATENCY_STEPS)) / 1e6
    return None


def overview_of(counting: Counting, objects: Objects, seconds: float) -> EndpointOverview:
    """The overview of one endpoint. Its latencies are counted for *seconds* from now on."""
    began, core = time.thread_time(), counting.core
    with core.lock:
        owners, users = core.context.owners, core.context.users
        own, each = _part(owners)
        held, every = _part(users)
        newest = list(islice(reversed(owners), NEWEST))
        calls, now = counting.calls, time.monotonic()
        calls.timed_until = max(calls.timed_until, now + seconds)
        for key in [each for each in calls.latencies if each[0] in core.context.dead]:
            del calls.latencies[key]
        latencies = calls.latencies.copy()
        holds = Counter(users[rref].owner for rref in held)
        streams = sorted(core.front.pulls.streams().items(), key=lambda each: -each[1].items)
        new = [(rref, owners[rref].born, len(set(owners[rref].forks.values()))) for rref in newest]
    found: dict[str, dict[int, int]] = {}
    for (callee, number), count in latencies.items():
        found.setdefault(spell(callee), {})[number] = count

    def about(rref: RRefId) -> tuple[str, str]:
        stored = objects.stored(rref)
        kind = "(not made yet)" if stored is None else type_of(stored.value)
        return kind, core.sites.of(rref) or ""

    groups = Counter(map(about, own)).most_common(MOST_GROUPS)
    address = getattr(core.address, "addressDetails", None)
    host = getattr(address, "host", "")
    return EndpointOverview(
        host=host and addresses.place(host, getattr(address, "port", 0)),
        counters=counting.read(),
        latencies=found,
        groups=tuple(ObjectGroup(kind, site, each * count) for (kind, site), count in groups),
        newest=tuple(
            NewObject(spell(rref), *about(rref), max(0.0, now - born), holders)
            for rref, born, holders in new
        ),
        holds={spell(owner): every * count for owner, count in holds.items()},
        errors=tuple(RecentError(*each) for each in counting.server.recent.copy()),
        streams=tuple(
            StreamInfo(spell(rref), each.items, str(each)) for rref, each in streams[:LOOKED_AT]
        ),
        took=time.thread_time() - began,
    )


def _part(table: Mapping[Any, Any]) -> tuple[list[Any], int]:
    """At most `LOOKED_AT` keys, evenly spread, and the number that each of them stands for.

    Of so many keys in a row one is taken, at a place that changes: objects are often made in turns,
    at one endpoint after the other, or one of each type.
    """
    each = -(-len(table) // LOOKED_AT) or 1
    keys = list(table)
    places = (start + (start * 2654435761 >> 16) % each for start in range(0, len(keys), each))
    return [keys[place] for place in places if place < len(keys)], each
