"""When an endpoint searches for garbage in cycles, and its answers to the searches of others.

An object is suspected if its value contains handles, if it has been idle for `IDLE` seconds, and if
all its own handles here are in values. One search takes all suspects that are due. After each one
that finds an object alive, the next search from it waits twice as long. All work is done in threads
of the endpoint's own; the mailbox thread only starts it.
"""

from __future__ import annotations

import gc
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from functools import partial

import msgspec

from ...printable import logger
from ...protocol.effects import Effect, Garbage, Looked, Scan, Weigh
from ...protocol.holders import SOME
from ...protocol.ids import RRefId
from ...protocol.messages import Grip
from ...protocol.search import spread
from ..base.interrupts import Condition
from ..core.brief import Later
from ..core.core import Core, Internal
from ..values.objects import Objects
from .exact import is_exact
from .scan import Scanner

log = logger(__name__)

IDLE = 30.0
"""Seconds for which an object must be idle."""
LONGEST = 3600.0
"""The longest time between two searches from one object."""
SHARE = 100
"""The next look at all values comes after this many times the processor time of the last one."""
PATIENCE = 10.0
"""Seconds after which a search no longer waits for endpoints that do not answer a look."""
TOGETHER = 100_000
"""The most objects that one search begins with, if somebody waits for it."""
BESIDE = 10_000
"""The most objects that one search begins with, if nobody asked for it."""
KEPT = 10_000
"""The most objects that are kept for `collect`, of searches that nobody asked for."""
SHOWN = 20
"""The most objects of a ring that a line in the log names, besides the last one."""


class _Suspect(msgspec.Struct):
    stamp: int
    due: float
    wait: float


class Collector(Internal):
    """The searches of one endpoint, one at a time."""

    def __init__(self, core: Core, objects: Objects) -> None:
        self._core = core
        self.scanner = Scanner(core, objects)
        core.handlers |= {Scan: self._scan, Weigh: self._weigh, Looked: self._looked}
        self._weighing = threading.Lock()
        """Held while a search is weighed: by one thread at a time."""
        self._mode = core.settings.cycles
        self._looks_by_itself = self._mode != "off" and core.port.runs_by_itself
        self._suspects: dict[RRefId, _Suspect] = {}
        self._start: RRefId | None = None
        """The first object of the search under way; None if there is no search."""
        self._patient_until = 0.0
        self._ended = Condition(core.lock)
        self._found: dict[RRefId, Garbage] = {}
        """Garbage found and not yet taken by `collect`, by its first object."""
        self._kept = 0
        """The number of objects in `_found`."""
        self._asked = False
        """Whether `collect` is at work: it takes all findings."""
        self._look_at = time.monotonic() + IDLE
        self._looking = False
        self._warned = False
        self.searches = 0
        """Searches that ended."""
        self.collected = 0
        """Objects that searches from here found to be garbage."""

    # ---- answers

    def _scan(self, effect: Scan, _: Later) -> None:
        """Under the endpoint's lock."""
        self._core.chores.submit(self._answer, effect)

    def _answer(self, scan: Scan) -> None:
        core = self._core
        grips: tuple[Grip, ...] = ()
        try:
            self._warn()
            grips = self.scanner.answer(scan)
        except Exception:
            log.exception("%s could not search its values", core.me)
        self.scanner.step(lambda: core.context.scanned(scan.asker, scan.look, grips))

    def _warn(self) -> None:
        if not is_exact() and not self._warned:
            self._warned = True
            log.warning(
                "%s cannot tell exactly who holds an object in this Python: garbage in cycles is "
                "reported, not collected",
                self._core.me,
            )

    # ---- the judgement

    def _weigh(self, effect: Weigh, _: Later) -> None:
        """Under the endpoint's lock. All have answered, so the next looks have their time, too."""
        self._patient_until = time.monotonic() + PATIENCE
        self._core.chores.submit(self._evaluate, effect.start)

    def _evaluate(self, start: RRefId) -> None:
        core = self._core
        search = core.context.state.searches.get(start)
        if search is not None:
            with self._weighing:
                search.weigh()  # without the endpoint's lock: messages go on
            self.scanner.step(lambda: core.context.weigh_cycle(start))

    def _looked(self, effect: Looked, later: Later) -> None:
        """Under the endpoint's lock."""
        news = tuple(garbage for garbage in effect.garbage if self._keep(garbage))
        self.collected += sum(len(garbage.objects) for garbage in news)
        later.append(partial(self._log, news))
        if effect.over:
            self._start = None
            self.searches += 1
            self._ended.notify_all()

    def _keep(self, garbage: Garbage) -> bool:
        """Keep *garbage* for `collect`. Returns whether it is new: each find is reported once."""
        before = self._found.pop(garbage.objects[0], None)
        self._found[garbage.objects[0]] = garbage
        self._kept += len(garbage.objects) - (len(before.objects) if before is not None else 0)
        while self._kept > KEPT and len(self._found) > 1 and not self._asked:
            oldest = self._found.pop(next(iter(self._found)))
            self._kept -= len(oldest.objects)
        return garbage != before

    def _log(self, found: tuple[Garbage, ...]) -> None:
        for garbage in found:
            ring = list(map(str, garbage.ring[:SHOWN]))
            if len(garbage.ring) > SHOWN:
                ring += ["...", str(garbage.ring[-1])]
            log.info(
                "%s %s %d objects that only held each other: %s",
                self._core.me,
                "collects" if garbage.cut else "found",
                len(garbage.objects),
                " -> ".join(ring),
            )

    # ---- in the mailbox thread

    def deadline(self) -> float | None:
        """The time when `look` has work next; None if it never has.

        An endpoint that often wakes up to send a sign of life looks at these times. So searches
        never shorten its sleep.
        """
        if not self._looks_by_itself:
            return None
        if self._start is not None:
            return self._patient_until
        silence = self._core.settings.silence
        return None if silence is not None and silence <= IDLE else self._look_at

    def look(self, now: float) -> None:
        """Start to look for suspects, if it is time."""
        if not self._looks_by_itself:
            return
        if self._start is not None:
            if now >= self._patient_until:
                self._wait_no_more()
            return
        if now < self._look_at:
            return
        self._look_at = now + IDLE  # at the earliest
        if not self._looking and self._core.context.owners:
            self._looking = True
            self._core.chores.submit(self._look)

    def _look(self) -> None:
        # Measured by the clock, a look on a busy machine would put off the next one for too long.
        began = time.thread_time()
        try:
            self._begin(self._idle(time.monotonic()), cuts=self._mode == "collect")
        except Exception:
            log.exception("%s could not look for garbage in cycles", self._core.me)
        finally:
            self._look_at = time.monotonic() + max(IDLE, SHARE * (time.thread_time() - began))
            self._looking = False

    def _idle(self, now: float) -> list[RRefId]:
        holders = self.scanner.holders()
        with_handles = {holder for each in holders.values() for holder in each}
        core = self._core
        due: list[RRefId] = []
        self._suspects = {r: s for r, s in self._suspects.items() if r in with_handles}
        for rref in with_handles:
            owner = core.context.owners.get(rref)
            if owner is None:
                continue
            suspect = self._suspects.setdefault(rref, _Suspect(owner.stamp, now + IDLE, IDLE))
            if suspect.stamp != owner.stamp:
                self._suspects[rref] = _Suspect(owner.stamp, now + IDLE, IDLE)
            elif now >= suspect.due:
                due.append(rref)
        due.sort(key=lambda rref: (self._suspects[rref].due, rref))
        due = due[:BESIDE]
        for rref in due:
            suspect = self._suspects[rref]
            suspect.due = now + suspect.wait
            suspect.wait = min(2 * suspect.wait, LONGEST)
        return due

    # ---- one search

    def _begin(self, rrefs: list[RRefId], *, cuts: bool) -> bool:
        """Search from those of *rrefs* that may be garbage. False if there is a search already."""
        core = self._core
        worth = self._worth(rrefs, self.scanner.holders())
        cuts = bool(worth) and cuts and is_exact()  # without the lock: the first trial takes 3 ms
        begun: list[bool] = []

        def begin() -> list[Effect]:
            begun.append(self._start is None)
            if not worth or self._start is not None:
                return []
            self._start = worth[0]
            self._patient_until = time.monotonic() + PATIENCE
            return core.context.suspect_cycle(worth, cuts=cuts)

        core.step(begin)
        return begun == [True]

    def _worth(
        self, rrefs: list[RRefId], holders: Mapping[RRefId, Mapping[RRefId, int]]
    ) -> list[RRefId]:
        """Those of *rrefs* that only values here lead to, judging by the handles.

        This rules out most live objects without a search. Takes the endpoint's lock often, each
        time briefly.
        """
        leads: defaultdict[RRefId, list[RRefId]] = defaultdict(list)
        for rref, by in holders.items():
            for holder in by:
                leads[holder].append(rref)
        context, all_of_them = self._core.context, list(leads)
        alive: list[RRefId] = []
        with self._core.lock:
            standing = context.aliases.standing()
        for first in range(0, len(all_of_them), SOME):
            with self._core.lock:
                for rref in all_of_them[first : first + SOME]:
                    owner = context.owners.get(rref)
                    inside = sum(holders.get(rref, {}).values()) + len(standing.get(rref, ()))
                    if owner is None or not owner.at_rest or owner.handles > inside:
                        alive.append(rref)
        live: set[RRefId] = set()
        spread(live, alive, leads)
        return [rref for rref in rrefs if rref in leads and rref not in live]

    def _wait_no_more(self) -> None:
        """Other endpoints have not answered in time: their objects count as live."""
        core = self._core

        def give_up() -> list[Effect]:
            self._patient_until = time.monotonic() + PATIENCE
            return core.context.give_up_cycle(self._start) if self._start is not None else []

        core.step(give_up)

    # ---- at once, for `System.collect`

    def collect(self, seconds: float, *, cuts: bool) -> list[Garbage]:
        """Search from all objects that may be garbage. Any thread; blocks.

        Returns the findings, and those of earlier searches that were not asked for.
        """
        self._warn()
        core, end = self._core, time.monotonic() + seconds
        gc.collect()  # garbage of this process alone may hold an object
        core.step(list)  # release the dropped references
        while core.discards.ended and not core.closed:  # one step releases only so many
            core.step(list)
        holders = self.scanner.holders(anew=True)
        todo = sorted({holder for each in holders.values() for holder in each})
        self._asked = True
        while todo and not core.closed and time.monotonic() < end:
            self._wait(end)  # for a search that has begun by itself
            if self._begin(todo[:TOGETHER], cuts=cuts):
                todo = todo[TOGETHER:]
                self._wait(end)
        with core.lock:
            found, self._found = list(self._found.values()), {}
            self._kept, self._asked = 0, False
        return found

    def _wait(self, end: float) -> None:
        while True:
            with self._ended:
                while self._start is not None and time.monotonic() < self._patient_until:
                    if self._core.closed or time.monotonic() > end:
                        return
                    self._ended.wait(0.1)
                if self._start is None:
                    return
            self._wait_no_more()
