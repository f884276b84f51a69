"""What people read of a system: rates, latencies and events, from one overview and the one before.

Counters only grow, so their differences are the rates. An endpoint without an earlier overview has
none yet.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping

import msgspec

from ..actors.api.system import System
from ..actors.hosting.children import LEFT
from ..actors.inspect.overview import (
    EndpointOverview,
    NewObject,
    Overview,
    StreamInfo,
    quantile,
)

SHARE = 0.02
"""The part of a core that the answers of all endpoints may take."""
MOST_EVENTS = 200
"""Deaths and errors that are remembered."""


class EndpointFigures(msgspec.Struct, frozen=True):
    name: str
    host: str
    silent: str
    """The reason why it does not answer; empty if it does. Otherwise the rest is unknown."""
    calls: float | None = None
    """Requests that it began to serve, a second."""
    errors: float | None = None
    """Requests that raised exceptions, a second."""
    p50: float | None = None
    """The median latency in seconds of the calls and fetches of other endpoints to it: from the
    caller's request until its answer."""
    p99: float | None = None
    queue: int = 0
    """Requests and messages that wait here."""
    in_flight: int = 0
    """Its own requests that have no answer."""
    threads: int = 0
    cpu: float | None = None
    """The fraction of a core that its process uses."""
    memory: int = 0
    """Bytes."""
    objects: int = 0
    """Objects that it owns."""
    references: int = 0
    """References to objects of others that it holds."""


class ObjectFigures(msgspec.Struct, frozen=True):
    """Objects of one owner that have one type and were created by one line."""

    count: int
    type: str
    owner: str
    site: str


class StreamFigures(msgspec.Struct, frozen=True):
    """An iterator over which somebody iterates."""

    rref: str
    owner: str
    items: int
    rate: float | None
    """Items a second."""
    state: str


class Event(msgspec.Struct, frozen=True):
    """A death, or an exception."""

    time: float
    """Seconds since the epoch."""
    kind: str
    """``death`` or ``error``."""
    endpoint: str
    text: str
    """In one line."""
    details: str = ""
    """The traceback."""


class Figures(msgspec.Struct, frozen=True):
    """All figures of one moment."""

    system: str
    time: float
    """Seconds since the epoch."""
    endpoints: tuple[EndpointFigures, ...]
    """By name."""
    objects: tuple[ObjectFigures, ...]
    """The largest group first."""
    newest: tuple[NewObject, ...]
    """The newest objects first."""
    streams: tuple[StreamFigures, ...]
    """The fastest first."""
    holds: tuple[tuple[str, str, int], ...]
    """Who holds what: a holder, an owner, and the number of the owner's objects."""
    events: tuple[Event, ...]
    """The newest first."""
    refused: int
    """Messages that endpoints have refused since they began."""

    @property
    def hosts(self) -> int:
        """The number of hosts with an endpoint."""
        return len({each.host for each in self.endpoints})


class Looks:
    """Makes the figures of each overview, with the help of the one before."""

    def __init__(self) -> None:
        # Endpoints by their names in full: a short name may mean another one later.
        self._before: dict[str, tuple[float, EndpointOverview]] = {}
        self._latencies: dict[str, dict[str, dict[int, int]]] = {}
        """Those of the look before: by caller and callee."""
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._gone: set[str] = set()
        self._errors: dict[str, float] = {}
        """When the latest error of each endpoint was."""

    def look(self, system: System, every: float, timeout: float) -> tuple[Figures, float]:
        """The figures of *system* now, and when to look again, if possible *every* few seconds.

        Waits at most *timeout* seconds for an endpoint. Raises `SystemDownError`.
        """
        overview = system.overview(timeout=timeout, latencies=max(10.0, 3 * every))
        took = sum(each.took for each in overview.endpoints.values())
        return self.figures(overview), time.monotonic() + max(every, took / SHARE)

    def figures(self, overview: Overview) -> Figures:
        """The figures of *overview*, which is later than those before."""
        now, full, found = time.monotonic(), overview.in_full, overview.endpoints.items()
        latencies = self._new_latencies(overview)
        endpoints = [
            self._endpoint(name, self._before.get(full[name]), each, now, latencies[full[name]])
            for name, each in found
        ]
        for name, why in overview.silent.items():
            _, last = self._before.get(full[name], (0.0, None))
            endpoints.append(EndpointFigures(name, last.host if last is not None else "", why))
        self._note_events(overview)
        streams = [
            StreamFigures(stream.rref, name, stream.items, items, stream.state)
            for name, each in found
            for stream, items in self._streams(self._before.get(full[name]), each, now)
        ]
        self._before = {full[name]: (now, each) for name, each in found}
        objects = [
            ObjectFigures(group.count, group.type, name, group.site)
            for name, each in found
            for group in each.groups
        ]
        newest = [(name, new) for name, each in found for new in each.newest]
        newest.sort(key=lambda item: newest_first(item[1].age, item[0], item[1].rref))
        return Figures(
            system=overview.system,
            time=overview.time,
            endpoints=tuple(sorted(endpoints, key=lambda each: each.name)),
            objects=tuple(sorted(objects, key=lambda each: -each.count)),
            newest=tuple(new for _, new in newest),
            streams=tuple(sorted(streams, key=lambda each: (-(each.rate or 0), -each.items))),
            holds=tuple(
                (name, owner, count)
                for name, each in found
                for owner, count in sorted(each.holds.items())
            ),
            events=tuple(self._events),
            refused=sum(each.counters.refused for _, each in found),
        )

    def _new_latencies(self, overview: Overview) -> defaultdict[str, Counter[int]]:
        """For each endpoint: the latencies of the calls to it since the look before."""
        new: defaultdict[str, Counter[int]] = defaultdict(Counter)
        full, before = overview.in_full, self._latencies
        self._latencies = {
            full[name]: {full[callee]: counts for callee, counts in each.latencies.items()}
            for name, each in overview.endpoints.items()
        }
        for caller, callees in self._latencies.items():
            for callee, counts in callees.items():
                new[callee] += Counter(counts) - Counter(before.get(caller, {}).get(callee, {}))
        return new

    @staticmethod
    def _streams(
        before: tuple[float, EndpointOverview] | None, each: EndpointOverview, now: float
    ) -> Iterator[tuple[StreamInfo, float | None]]:
        """Each stream of an endpoint, and its items a second."""
        then, last = before if before is not None else (now, None)
        had = {stream.rref: stream.items for stream in last.streams} if last is not None else {}
        for stream in each.streams:
            new = stream.items - had.get(stream.rref, 0)
            yield stream, new / max(1e-3, now - then) if last is not None else None

    @staticmethod
    def _endpoint(
        name: str,
        before: tuple[float, EndpointOverview] | None,
        each: EndpointOverview,
        now: float,
        latencies: Mapping[int, int],
    ) -> EndpointFigures:
        counters, calls, errors, cpu = each.counters, None, None, None
        if before is not None:
            then, last = before
            seconds = max(1e-3, now - then)
            calls = max(0, counters.served - last.counters.served) / seconds
            errors = max(0, counters.errors - last.counters.errors) / seconds
            cpu = max(0.0, counters.cpu - last.counters.cpu) / seconds
        owned = counters.references.get("owner", 0)
        return EndpointFigures(
            name=name,
            host=each.host,
            silent="",
            calls=calls,
            errors=errors,
            p50=quantile(latencies, 0.5),
            p99=quantile(latencies, 0.99),
            queue=counters.waiting + counters.inbox,
            in_flight=counters.in_flight,
            threads=counters.threads,
            cpu=cpu,
            memory=counters.memory,
            objects=owned,
            references=sum(counters.references.values()) - owned,
        )

    def _note_events(self, overview: Overview) -> None:
        """Remember the deaths and errors that are new in *overview*."""
        new = []
        full = overview.in_full
        for name, cause in overview.gone.items():
            if full[name] not in self._gone:
                self._gone.add(full[name])
                if cause != LEFT:  # each viewer that leaves does so
                    new.append(Event(overview.time, "death", name, cause))
        for name, each in overview.endpoints.items():
            last = self._errors.get(full[name], 0.0)
            for error in each.errors:
                if error.time > last:
                    text = f"{error.where}: {error.type}: {error.message}"
                    new.append(Event(error.time, "error", name, text, error.text))
                    self._errors[full[name]] = error.time
        self._events.extendleft(sorted(new, key=lambda event: event.time))


def newest_first(age: float, owner: str, rref: str) -> tuple[float, str, int, str]:
    """The place of an object among others. Those of one age, as people read it, go by owner.

    Endpoints do not answer at one moment, so their ages differ by chance.
    """
    shown = round(age, 1 if age < 10 else None)
    return shown, owner, -int(rref.rpartition("/")[2]), rref
