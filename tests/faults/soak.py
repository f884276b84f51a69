"""Random reference traffic for minutes, under faults; every few seconds a worker is killed.

The program makes, lends, keeps, nests, sends and drops references at random, on six workers. Every
call must end with the right value, or with the error of a death that did happen. In the end no
endpoint holds anything, and the endpoints that lived throughout have not grown.

The seed decides the choices. The reference that a choice falls on, and the times of the kills,
depend on the processes too.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import random
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

import psutil
from thespian.actors import ActorAddress

import farref
from farref import (
    Future,
    OwnerDiedError,
    RefActor,
    RefLostError,
    RRef,
    System,
    WorkerDiedError,
    WorkerInfo,
)
from farref.protocol.ids import RRefId, WorkerId
from farref.protocol.sharing import Sharing
from farref.testing import (
    Faults,
    assert_nothing_held,
    cut,
    delay,
    drop,
    duplicate,
    heal,
    reorder,
    set_faults,
    until,
)

from ..actors.helpers import Box, make_box
from ..wear.gauge import Figures, gauge

WORKERS = tuple(f"W{number}" for number in range(6))
SURVIVOR = WORKERS[0]
"""Never killed, so that its memory can be measured."""
IN_FLIGHT = 48
HELD = 60
"""The most references that the program keeps; a worker keeps half as many."""
GRACE = 2.0
KILLS = 3.0
CUTS = 4.0
"""Seconds between cuts."""
OUTAGE = 0.4
BRIEF = 100.0
"""A shorter run, in seconds, is measured only at its beginning and end."""
READINGS = 10
"""The number of measurements of costs, besides those at the beginning and the end."""
MORE = 30
"""Growth below this is fine for timers, threads and descriptors: there were many in between."""
GROWTH = 15e6
"""The bytes that a process may grow after the first third: memory that the allocator keeps."""

_kept: deque[Any] = deque(maxlen=HELD // 2)


class Hoarder(RefActor):
    """A worker that also keeps its messages' references, and sends them on."""

    def receiveMsg_tuple(self, message: tuple[Any, ...], sender: ActorAddress) -> None:
        ref, *onward = message
        _kept.append(ref)
        if onward:
            with contextlib.suppress(farref.FarrefError):  # it died, or the value's owner did
                self.send(onward[0], (ref, *onward[1:]))


def read(ref: RRef[Box]) -> Any:
    return ref.to_here().content


def keep(ref: RRef[Box]) -> None:
    _kept.append(ref)


def give(number: int) -> Any:
    there = list(_kept)  # other threads change it
    return there[number % len(there)] if there else None


def make_here(number: int) -> RRef[Box]:
    _kept.append(ref := RRef(Box(number)))
    return ref


def make_there(name: str, number: int) -> Any:
    return [farref.remote(name, make_box, (number,))]


def make_by_way(name: str, number: int) -> Any:
    """An alias of an object that *name* makes."""
    return farref.remote(name, make_box, (number,))


def let_go(number: int) -> None:
    with contextlib.suppress(IndexError):
        for _ in range(number):
            _kept.popleft()


def boxes(number: int) -> Iterator[Any]:
    for each in range(number):
        yield each if each % 3 else RRef(Box(each))


def numbers_of(ref: RRef[Any], number: int, ahead: int | None) -> list[Any]:
    items = itertools.islice(ref.stream(ahead=ahead), number)
    return [each if isinstance(each, int) else each.to_here().content for each in items]


def lend_on(name: str, function: Any, ref: RRef[Box]) -> Any:
    return farref.rpc_sync(name, function, (ref,))


def same(value: Any) -> Any:
    return value


def content_of(box: RRef[Box]) -> Any:
    """The value behind a reference in a box."""
    return read(box.to_here().content[0])


class Soak:
    """One run. `step` makes one choice; `check` verifies the results that have come back."""

    def __init__(self, system: System, seed: int) -> None:
        self.system = system
        self.random = random.Random(seed)
        self.fate = random.Random(f"{seed} kills")
        self.infos: dict[str, WorkerInfo] = {}
        self.killed: set[WorkerId] = set()
        self.held: list[tuple[RRef[Any], Any]] = []
        """References, each with the content of its box."""
        self.flying: deque[tuple[str, Future[Any], Callable[[Any], None], Any]] = deque()
        self.aliases: set[RRefId] = set()
        """All references so far that may stand for another owner's object."""
        self.mend: tuple[float, str, str] | None = None
        """The time to heal the cut link, and its two ends."""
        self.done: Counter[str] = Counter()
        self.sizes: dict[str, list[int]] = {"program": [], SURVIVOR: []}
        self.readings: list[tuple[float, dict[str, Figures]]] = []
        """The idle costs of both processes, and the seconds since the beginning."""
        for name in WORKERS:
            self.start(name)
        self.survivor = farref.rpc_sync(SURVIVOR, os.getpid)

    def start(self, name: str) -> None:
        address = self.system.create(Hoarder, name)
        self.infos[name] = self.system.endpoint.registrar_client.find(address)

    # ---- choices

    def step(self) -> None:
        action = self.random.choices(ACTIONS, WEIGHTS)[0]
        one, other = self.random.sample(WORKERS, 2)
        number = self.random.randrange(10**6)
        try:
            action(self, one, other, number)
        except (WorkerDiedError, OwnerDiedError) as error:
            self.allow(action.__name__, error)
        while len(self.held) > HELD:
            self.held.pop(self.random.randrange(10**6) % len(self.held))
        while len(self.flying) > IN_FLIGHT:
            self.land()

    def pick(self, number: int) -> tuple[RRef[Any], Any]:
        if not self.held:
            self.held.append((RRef(Box(number)), number))
        return self.held[number % len(self.held)]

    def fly(
        self, what: str, future: Future[Any], expect: Callable[[Any], None], about: Any = None
    ) -> None:
        self.flying.append((what, future, expect, about))

    def land(self) -> None:
        what, future, expect, about = self.flying.popleft()
        if not future.done() and self.mend is not None:  # it may wait for the very link that is cut
            until(self.system, lambda: future.done() or self.mend_if_due(), 2 * OUTAGE)
        try:
            expect(future.result())
        except farref.FarrefError as error:
            self.allow(what, error, about)
        else:
            self.done[what] += 1

    def allow(self, what: str, error: farref.FarrefError, about: RRef[Any] | None = None) -> None:
        """Only a killed worker may be the reason."""
        fine = isinstance(error, WorkerDiedError | OwnerDiedError) and bool(self.killed)
        known = about is not None and about.id not in self.aliases
        if isinstance(error, OwnerDiedError) and what == "fetch" and about is not None and known:
            context = self.system.endpoint.core.context
            fine = context.users[context.whereabouts(about.id)].owner in self.killed
        if isinstance(error, RefLostError):
            fine = any(str(worker) in str(error) for worker in self.killed)
        if not fine:
            raise AssertionError(f"{what} failed, and nobody's death explains it") from error
        self.done[f"{what}: {type(error).__name__}"] += 1

    def create(self, one: str, other: str, number: int) -> None:
        self.held.append((farref.remote(self.infos[one], make_box, (number,)), number))

    def own(self, one: str, other: str, number: int) -> None:
        self.held.append((RRef(Box(number)), number))

    def made_here(self, one: str, other: str, number: int) -> None:
        def got(ref: RRef[Any]) -> None:
            self.held.append((ref, number))

        self.fly("make here", farref.rpc_async(self.infos[one], make_here, (number,)), got)

    def made_there(self, one: str, other: str, number: int) -> None:
        def got(refs: list[RRef[Any]]) -> None:
            self.held.append((refs[0], number))

        future = farref.rpc_async(self.infos[one], make_there, (other, number))
        self.fly("make there", future, got)

    def lend(self, one: str, other: str, number: int) -> None:
        ref, content = self.pick(number)
        self.fly("lend", farref.rpc_async(self.infos[one], read, (ref,)), equal(content))

    def keep(self, one: str, other: str, number: int) -> None:
        ref, _ = self.pick(number)
        self.fly("keep", farref.rpc_async(self.infos[one], keep, (ref,)), equal(None))

    def lend_on(self, one: str, other: str, number: int) -> None:
        ref, content = self.pick(number)
        function, result = ((read, content), (keep, None), (same, ref))[number % 3]
        future = farref.rpc_async(self.infos[one], lend_on, (other, function, ref))
        self.fly("lend on", future, equal(result))

    def give_back(self, one: str, other: str, number: int) -> None:
        ref, content = self.pick(number)

        def got(back: RRef[Any]) -> None:
            assert back == ref
            self.held.append((back, content))

        self.fly("return", farref.rpc_async(self.infos[one], same, (ref,)), got)

    def take(self, one: str, other: str, number: int) -> None:
        def got(ref: RRef[Any] | None) -> None:
            if ref is not None:
                future = ref.rpc_async().get()
                self.fly("fetch", future, lambda _: None, ref)

        self.fly("take", farref.rpc_async(self.infos[one], give, (number,)), got)

    def tell(self, one: str, other: str, number: int) -> None:
        ref, _ = self.pick(number)
        onward = (self.infos[other].address,) if number % 2 else ()
        self.system.tell(self.infos[one], (ref, *onward))

    def nest(self, one: str, other: str, number: int) -> None:
        ref, content = self.pick(number)
        if isinstance(content, int):  # one level: the value read is known then
            outer = farref.remote(self.infos[one], make_box, ([ref],))
            self.fly(
                "nest", farref.rpc_async(self.infos[other], content_of, (outer,)), equal(content)
            )

    def fetch(self, one: str, other: str, number: int) -> None:
        ref, content = self.pick(number)
        self.fly("fetch", ref.rpc_async().get(), equal(content), ref)

    def method(self, one: str, other: str, number: int) -> None:
        ref, _ = self.pick(number)
        made = ref.remote().get()
        self.fly("method", farref.rpc_async(self.infos[one], same, (made,)), equal(made))

    def alias(self, one: str, other: str, number: int) -> None:
        ref, content = self.pick(number)
        self._alias(farref.remote(self.infos[one], same, (ref,)), content)

    def chain(self, one: str, other: str, number: int) -> None:
        self._alias(farref.remote(self.infos[one], make_by_way, (other, number)), number)

    def _alias(self, ref: RRef[Any], content: Any) -> None:
        self.aliases.add(ref.id)
        self.held.append((ref, content))

    def pipeline(self, one: str, other: str, number: int) -> None:
        ref, content = self.pick(number)
        again = farref.remote(self.infos[one], same, (ref,)).remote().get()
        expected = equal(content) if isinstance(content, int) else lambda _: None
        self.fly("pipeline", again.future(), expected)

    def stream(self, one: str, other: str, number: int) -> None:
        length, taken = number % 40, number % 50
        ref = farref.remote(self.infos[one], boxes, (length,))
        ahead = (None, 0, 3, 100)[number % 4]
        future = farref.rpc_async(self.infos[other], numbers_of, (ref, taken, ahead))
        self.fly("stream", future, equal([*range(min(length, taken))]), ref)

    def by_value(self, one: str, other: str, number: int) -> None:
        ref, content = self.pick(number)
        future = farref.rpc_async(self.infos[one], Box.get, (ref,), resolve=True)
        self.fly("by value", future, equal(content))

    def drop(self, one: str, other: str, number: int) -> None:
        if self.held:
            self.held.pop(number % len(self.held))

    def let_go(self, one: str, other: str, number: int) -> None:
        future = farref.rpc_async(self.infos[one], let_go, (number % 8,))
        self.fly("let go", future, equal(None))

    # ---- faults of the system

    def kill(self) -> None:
        """Kill a worker with its messages in flight, and start another of its name."""
        name = self.fate.choice(WORKERS[1:])
        info = self.infos[name]
        self.killed.add(info.id)
        pid = farref.rpc_sync(info, os.getpid)
        os.kill(pid, signal.SIGKILL)
        assert until(self.system, lambda: info not in self.system.workers())
        self.start(name)
        self.done["kill"] += 1

    def part(self) -> None:
        """Cut a link, for a while."""
        one, other = self.fate.sample([*WORKERS, "program"], 2)
        cut(self.system, one, other)
        self.mend = (time.monotonic() + OUTAGE, one, other)
        self.done["cut"] += 1

    def mend_if_due(self) -> bool:
        """Whether no link is cut any more."""
        if self.mend is not None and time.monotonic() > self.mend[0]:
            heal(self.system, *self.mend[1:])
            self.mend = None
        return self.mend is None

    def read(self, seconds: float) -> None:
        """Let nothing happen for a moment, and measure the costs."""
        faults = self.system.endpoint.core.settings.faults
        set_faults(self.system, Faults())
        while self.mend is not None:
            self.mend_if_due()
        while self.flying:
            self.land()
        self.readings.append((seconds, gauge(SURVIVOR)))
        if faults is not None:
            set_faults(self.system, faults)

    def look(self) -> None:
        for name, pid in (("program", os.getpid()), (SURVIVOR, self.survivor)):
            self.sizes[name].append(psutil.Process(pid).memory_info().rss)

    def finish(self) -> None:
        """Wait for all results, let everything go, and check that nothing is left."""
        set_faults(self.system, Faults())
        while self.flying:
            self.land()
        self.held.clear()
        for info in self.infos.values():
            farref.rpc_sync(info, let_go, (HELD,))
        gc.collect()
        time.sleep(2 * GRACE)
        for info in self.infos.values():  # forwarded messages have come since
            farref.rpc_sync(info, let_go, (HELD,))
        assert_nothing_held(self.system)
        for name, first in self.readings[0][1].items():
            last = self.readings[-1][1][name]
            for what in ("timers", "threads", "fds"):
                was, now = first[what], last[what]
                assert now < was + MORE, f"{name} has {now} {what}, and had {was}"
        for name, sizes in self.sizes.items():
            grown = sizes[-1] - sizes[len(sizes) // 3]
            assert grown < GROWTH, f"{name} grew by {grown / 1e6:.1f} MB: {sizes}"


def equal(expected: Any) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        assert value == expected

    return check


ACTIONS, WEIGHTS = zip(
    (Soak.create, 6),
    (Soak.own, 3),
    (Soak.made_here, 3),
    (Soak.made_there, 2),
    (Soak.lend, 6),
    (Soak.keep, 4),
    (Soak.lend_on, 5),
    (Soak.give_back, 4),
    (Soak.take, 3),
    (Soak.tell, 5),
    (Soak.nest, 4),
    (Soak.fetch, 4),
    (Soak.method, 3),
    (Soak.alias, 4),
    (Soak.chain, 4),
    (Soak.pipeline, 4),
    (Soak.by_value, 3),
    (Soak.stream, 3),
    (Soak.drop, 16),
    (Soak.let_go, 4),
    strict=True,
)


def soak(
    seconds: float,
    seed: int,
    progress: Callable[[float, Counter[str]], None] | None = None,
    sharing: Sharing = "lend",
) -> Soak:
    """Run for *seconds*; returns the run with its results and readings.

    Raises `AssertionError` for a finding.
    """
    faults = Faults(drop(0.05), delay(0.1), duplicate(0.05), reorder(0.1), seed=seed)
    with System(timeout=30, orphan_grace=GRACE, faults=faults, sharing=sharing) as system:
        run = Soak(system, seed)
        start = time.monotonic()
        kills, cuts, looks = start + KILLS, start + CUTS, start
        run.read(0)
        readings = start + seconds / (READINGS + 1)
        while (now := time.monotonic()) < start + seconds:
            run.step()
            run.mend_if_due()
            if now > kills and run.mend is None:
                run.kill()
                kills = now + KILLS
            if now > cuts and run.mend is None:
                run.part()
                cuts = now + CUTS
            if now > readings and seconds > BRIEF:
                run.read(now - start)
                readings = now + seconds / (READINGS + 1)
            if now > looks:
                run.look()
                looks = now + 1
                if progress:
                    progress(now - start, run.done)
        run.read(seconds)
        run.finish()
        return run
