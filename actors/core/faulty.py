"""Applies faults to an endpoint's packets (see `faults`), just before they leave.

Whether a rule strikes a packet depends on the seed, on the names of the two endpoints, on the
messages in the packet, and on the earlier packets from the one endpoint to the other, but not on
time or on other links. (But time decides which messages leave together, or are sent again.)
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable

import msgspec

from ...protocol.delivery import Packet
from ...protocol.ids import WorkerId
from ..base.interrupts import Condition
from ..wire.faults import ACKNOWLEDGEMENT, Counts, Faults, Rule
from .links import Outgoing

Leave = Callable[[Outgoing], None]


class Gate:
    """Drops, delays, copies or reorders an endpoint's packets."""

    def __init__(self, me: WorkerId, faults: Faults, leave: Leave) -> None:
        self._me = me
        self._leave = leave
        self._changed = Condition()
        self._cut: set[str] = set()
        self._held: dict[WorkerId, list[_Late]] = {}
        """Packets that wait until the next one to the same endpoint overtakes them."""
        self._late: list[tuple[float, int, _Late]] = []
        """A heap of packets that leave when they are due."""
        self._numbers = itertools.count()
        self._counts = Counts()
        self._runs = self._closed = False
        self.adopt(faults)

    def adopt(self, faults: Faults) -> None:
        with self._changed:
            self._seed = faults.seed
            self._rules = [rule for rule in faults.rules if rule.sender in (None, self._me.name)]
            self._dice: dict[str, random.Random] = {}
            self._seen: Counter[tuple[int, str, str]] = Counter()

    def cut(self, *names: str) -> None:
        with self._changed:
            self._cut.update(names)

    def heal(self, *names: str) -> None:
        with self._changed:
            self._cut.difference_update(names)

    def counts(self) -> Counts:
        with self._changed:
            return msgspec.structs.replace(self._counts, struck=self._counts.struck.copy())

    def close(self) -> None:
        """Forget the packets that are late."""
        with self._changed:
            self._closed = True
            self._late.clear()
            self._changed.notify()

    def post(self, to: WorkerId, packet: Packet) -> None:
        """Send *packet* as far as the rules let it through."""
        with self._changed:
            leaving, late = self._fate(to, packet)
        for _ in range(leaving):
            self._leave([(to, packet)])
        if late:  # only now: this packet has overtaken some of them
            with self._changed:
                self._postpone(late)

    # ---- the fate of a packet; under the lock

    def _fate(self, to: WorkerId, packet: Packet) -> tuple[int, list[_Late]]:
        """The number of copies that leave at once, and the copies that leave later."""
        kinds = kinds_of(packet)
        self._counts.sent += 1
        if to.name in self._cut:
            self._counts.cut += 1
            return 0, []
        copies, held_for = [0.0], 0.0
        for number, rule in enumerate(self._rules):
            if not self._strikes(number, rule, to.name, kinds):
                continue
            self._counts.struck.update(kinds)
            seconds = self._die(to.name).uniform(*rule.seconds)
            match rule.fault:
                case "drop":
                    self._counts.dropped += 1
                    return 0, []
                case "delay":
                    self._counts.delayed += 1
                    copies = [seconds + copy for copy in copies]
                case "duplicate":
                    self._counts.duplicated += 1
                    copies.append(seconds + copies[-1])
                case "reorder":
                    self._counts.reordered += 1
                    held_for = seconds
        now = time.monotonic()
        if held_for:
            held = [_Late(now + max(held_for, copy), to, packet) for copy in copies]
            self._held.setdefault(to, []).extend(held)
            return 0, held
        late = [_Late(now + copy, to, packet) for copy in copies if copy]
        for overtaken in self._held.pop(to, ()):
            if not overtaken.left:
                overtaken.left = True
                late.append(_Late(now, to, overtaken.packet))
        return copies.count(0.0), late

    def _strikes(self, number: int, rule: Rule, to: str, kinds: frozenset[str]) -> bool:
        if rule.receiver not in (None, to):
            return False
        meant = kinds if rule.kinds is None else kinds & rule.kinds
        if rule.first is not None:
            meant = frozenset(k for k in meant if self._seen[number, to, k] < rule.first)
        if not meant or (rule.chance < 1 and self._die(to).random() >= rule.chance):
            return False
        if rule.first is not None:
            self._seen.update((number, to, kind) for kind in meant)
        return True

    def _die(self, to: str) -> random.Random:
        if to not in self._dice:
            # The dice must repeat their throws; they are no secret.
            self._dice[to] = random.Random(f"{self._seed} {self._me.name} {to}")  # noqa: S311 - faults must repeat, not be secret
        return self._dice[to]

    # ---- late packets, in a thread that begins with the first of them

    def _postpone(self, late: list[_Late]) -> None:
        if self._closed:
            return
        for each in late:
            heapq.heappush(self._late, (each.due, next(self._numbers), each))
        if not self._runs:
            with contextlib.suppress(RuntimeError):  # none now: the next packet tries again
                threading.Thread(target=self._run, name="farref faults", daemon=True).start()
                self._runs = True
        self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                pause = self._late[0][0] - time.monotonic() if self._late else None
                if pause is None or pause > 0:
                    self._changed.wait(pause)
                    continue
                late = heapq.heappop(self._late)[2]
                leaves = self._leaves(late)
            if leaves:
                with contextlib.suppress(Exception):  # lost, like any packet that cannot be sent
                    self._leave([(late.to, late.packet)])

    def _leaves(self, late: _Late) -> bool:
        """Whether *late*, which is due, has not left and is let through. Under the lock."""
        if late.left:
            return False
        late.left = True
        waiting = self._held.get(late.to, [])
        if late in waiting:
            waiting.remove(late)
            if not waiting:
                del self._held[late.to]
        cut = late.to.name in self._cut
        self._counts.cut += cut
        return not cut


def kinds_of(packet: Packet) -> frozenset[str]:
    return frozenset(type(message).__name__ for message in packet.messages) or frozenset(
        (ACKNOWLEDGEMENT,)
    )


class _Late(msgspec.Struct, eq=False):
    """A packet that leaves at *due*."""

    due: float
    to: WorkerId
    packet: Packet
    left: bool = False
