"""When an endpoint searches for garbage in cycles, and its answers to the searches of others.

An object is suspected if its value contains handles, if it has been idle for `IDLE` seconds, and if
all its own handles here are in values. After each search that finds it alive, the next one waits
twice as long. All work is done in threads of the endpoint's own; the mailbox thread only starts it.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...protocol.effects import Looked, Scan
from ..core.core import Internal
from .scan import Scanner, is_exact

if TYPE_CHECKING:
    from ...protocol.effects import Effect
    from ...protocol.ids import RRefId
    from ..core.brief import Later
    from ..core.core import Core
    from ..values.objects import Objects

log = logging.getLogger(__name__)

IDLE = 30.0
"""Seconds for which an object must be idle."""
LONGEST = 3600.0
"""The longest time between two searches from one object."""
PATIENCE = 60.0
"""Seconds after which a search is given up."""
AT_ONCE = 4
"""The most searches of an endpoint at the same time."""


@dataclass(frozen=True, slots=True)
class Garbage:
    """Objects that only hold each other: the result of a search."""

    objects: tuple[RRefId, ...]
    ring: tuple[RRefId, ...]
    """One of the rings among them, from an object back to it."""
    cut: int
    """The number of objects with a value that was dropped; 0 if they were only reported."""


@dataclass(slots=True)
class _Suspect:
    """An object with handles in its value."""

    stamp: int
    due: float
    wait: float


class Collector(Internal):
    """The searches of one endpoint."""

    def __init__(self, core: Core, objects: Objects) -> None:
        self._core = core
        self.scanner = Scanner(core, objects)
        core.handlers |= {Scan: self._scan, Looked: self._looked}
        self._mode = core.settings.cycles
        self._suspects: dict[RRefId, _Suspect] = {}
        self._running: dict[RRefId, float] = {}
        """The searches under way, and the time at which each is given up."""
        self._ended = threading.Condition(core.lock)
        self._found: dict[RRefId, Garbage] = {}
        """Garbage found and not yet taken by `collect`."""
        self._look_at = time.monotonic() + IDLE
        self._looking = False
        self._warned = False
        self.searches = 0
        """Searches that ended."""
        self.collected = 0
        """Objects that searches from here found to be garbage."""

    # ---- answers; under the endpoint's lock

    def _scan(self, effect: Scan, _: Later) -> None:
        self._core.chores.submit(self._answer, effect)

    def _answer(self, effect: Scan) -> None:
        core, scanner = self._core, self.scanner
        try:
            self._warn()
            with scanner.alone:
                made = scanner.prepare(effect.rrefs)
                core.step(
                    lambda: core.context.scanned(
                        effect.asker, effect.look, effect.rrefs, scanner.compare(made)
                    )
                )
        except Exception:
            log.exception("%s could not search its values", core.me)

    def _warn(self) -> None:
        if not is_exact() and not self._warned:
            self._warned = True
            log.warning(
                "%s cannot tell exactly who holds an object in this Python: garbage in cycles is "
                "not collected",
                self._core.me,
            )

    def _looked(self, effect: Looked, _: Later) -> None:
        self._running.pop(effect.start, None)
        self.searches += 1
        if effect.garbage:
            self._suspects.pop(effect.start, None)
            self.collected += len(effect.garbage)
            garbage = Garbage(effect.garbage, effect.ring, effect.cut)
            self._found[effect.start] = garbage
            log.info(
                "%s %s %d objects that only held each other: %s",
                self._core.me,
                "collects" if effect.cut else "found",
                len(effect.garbage),
                " -> ".join(map(str, effect.ring)),
            )
        self._ended.notify_all()

    # ---- in the mailbox thread

    def deadline(self) -> float | None:
        """The time when `look` has work next; None if it never has."""
        if self._mode == "off" or not self._core.port.runs_by_itself:
            return None
        return self._look_at

    def look(self, now: float) -> None:
        """Start to look for suspects, if it is time."""
        due = self.deadline()
        if due is None or now < due:
            return
        self._look_at = now + IDLE
        if not self._looking and (self._core.discards.counted or self._running):
            self._looking = True
            self._core.chores.submit(self._look)

    def _look(self) -> None:
        try:
            for rref in self._idle(time.monotonic()):
                self._begin(rref, cuts=self._mode == "collect")
        except Exception:
            log.exception("%s could not look for garbage in cycles", self._core.me)
        finally:
            self._looking = False

    def _idle(self, now: float) -> list[RRefId]:
        """The objects to suspect now."""
        holders = self.scanner.holders()
        with_handles = {holder for each in holders.values() for holder in each}
        core = self._core
        found: list[RRefId] = []
        with core.lock:
            self._suspects = {r: s for r, s in self._suspects.items() if r in with_handles}
            for rref, end in list(self._running.items()):
                if now > end:
                    self._running.pop(rref)
                    core.context.give_up_cycle(rref)
            for rref in sorted(with_handles - self._running.keys()):
                owner = core.context.owners.get(rref)
                if owner is None:
                    continue
                suspect = self._suspects.setdefault(rref, _Suspect(owner.stamp, now + IDLE, IDLE))
                if suspect.stamp != owner.stamp:
                    self._suspects[rref] = _Suspect(owner.stamp, now + IDLE, IDLE)
                elif now >= suspect.due and len(self._running) + len(found) < AT_ONCE:
                    suspect.due = now + suspect.wait
                    suspect.wait = min(2 * suspect.wait, LONGEST)
                    if self._may_be(rref, holders.get(rref)):
                        found.append(rref)
        return found

    def _may_be(self, rref: RRefId, holders: dict[RRefId, int] | None) -> bool:
        context = self._core.context
        owner = context.owners.get(rref)
        inside = sum(holders.values()) if holders else 0
        inside += len(context.aliases.standing_for(rref))
        return owner is not None and owner.handles <= inside and context.cycles.may_be_garbage(rref)

    def _begin(self, rref: RRefId, *, cuts: bool) -> None:
        core = self._core

        def begin() -> list[Effect]:
            self._running[rref] = time.monotonic() + PATIENCE
            return core.context.suspect_cycle(rref, cuts=cuts)

        core.step(begin)

    # ---- at once, for `System.collect`

    def collect(self, seconds: float, *, cuts: bool) -> list[Garbage]:
        """Search from each object that may be garbage, one after the other. Any thread; blocks.

        Returns the findings, and those of earlier searches that were not asked for.
        """
        self._warn()
        core, end = self._core, time.monotonic() + seconds
        gc.collect()  # garbage of this process alone may hold an object
        core.step(list)  # settle the dropped references
        holders = self.scanner.holders(anew=True)
        with core.lock:
            inside = {holder for each in holders.values() for holder in each}
            todo = sorted(rref for rref in inside if self._may_be(rref, holders.get(rref)))
        for rref in todo:
            with core.lock:
                known = {each for garbage in self._found.values() for each in garbage.objects}
                skip = rref in known or not self._may_be(rref, holders.get(rref))
            if skip or time.monotonic() > end:
                continue
            self._begin(rref, cuts=cuts)
            with self._ended:
                while rref in self._running and not core.closed and time.monotonic() < end:
                    self._ended.wait(0.1)
        with core.lock:
            found, self._found = list(self._found.values()), {}
        return found
