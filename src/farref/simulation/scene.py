"""The common part of a simulation's endpoints: virtual time, network, oracle and rings.

Time jumps from one event to the next.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING

from ..actors.wire import codec
from .network import Network
from .oracle import Oracle
from .reach import reachable
from .rings import WaitGraph

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..protocol.delivery import Packet
    from ..protocol.effects import Looked
    from ..protocol.ids import RRefId, WorkerId
    from ..protocol.messages import Message
    from .jobs import Resident
    from .plan import Plan


LATE = 5.0
"""Seconds after which a message under way is late. The packets with it were lost three times."""


class Scene:
    """Time, and everything between the endpoints in *places*, some of which are empty."""

    def __init__(self, plan: Plan, places: Sequence[Resident | None]) -> None:
        self.plan = plan
        self.now = 0.0
        self.network = Network(plan.seed, plan.loss)
        self.oracle = Oracle()
        self.rings = WaitGraph(self.oracle, self.living, self._is_late)
        self.done: Counter[str] = Counter()
        self._places = places
        self._events: list[tuple[float, int, Resident | None, Callable[[], object]]] = []
        self._order = itertools.count()
        self._ticks: dict[WorkerId, float] = {}
        self._flying: defaultdict[tuple[WorkerId, WorkerId], deque[tuple[float, Message]]]
        self._flying = defaultdict(deque)
        """For each sender and receiver, the messages that have not been handed over, each with the
        time when it left."""

    # ---- the endpoints

    def living(self) -> list[Resident]:
        """All living endpoints."""
        return [each for each in self._places if each is not None]

    def at(self, number: int) -> WorkerId | None:
        """The endpoint at that place now."""
        there = self._places[number]
        return there.me if there is not None else None

    def freed(self, rref: RRefId) -> None:
        """Tell the oracle that the owner of *rref* has freed it."""
        self.oracle.freed(rref, self.living())

    def settled(self) -> bool:
        """Whether all living endpoints have settled all deaths: the registrar's part."""
        dead = self.oracle.dead
        return not any(
            each.settles() or any(worker not in each.context.dead for worker in dead)
            for each in self.living()
        )

    # ---- messages under way

    def posted(self, sender: WorkerId, to: WorkerId, message: Message) -> None:
        """Note that *message* of *sender* is on its way."""
        self._flying[sender, to].append((self.now, message))

    def handed_over(self, sender: WorkerId, to: WorkerId) -> None:
        """Note that *to* has taken the next message of *sender*."""
        left, _ = self._flying[sender, to].popleft()
        if self.now - left > LATE:
            self.rings.disturbed(self.now)

    def will_not_come(self, sender: WorkerId, to: WorkerId) -> None:
        """Note that *to* takes no further message of *sender*."""
        self._flying.pop((sender, to), None)

    def _is_late(self) -> bool:
        """Whether a message to a living endpoint is late."""
        return any(self.now - sent[0][0] > LATE for sent in self._coming() if sent)

    def _coming(self) -> list[deque[tuple[float, Message]]]:
        """The messages under way to the living endpoints."""
        here = {each.me for each in self.living()}
        return [sent for (_, to), sent in self._flying.items() if to in here]

    # ---- searches for garbage in rings

    def reached(self) -> set[RRefId]:
        """All objects that a program can reach."""
        flying = (message for sent in self._coming() for _, message in sent)
        return reachable(self.living(), flying)

    def collected(self, rref: RRefId, node: Resident) -> None:
        """Tell the oracle that *node* drops the value of *rref*, as it is garbage."""
        self.oracle.found([rref], self.reached(), node)

    def looked(self, effect: Looked, node: Resident) -> None:
        """Tell the oracle of the garbage that a search of *node* has found, to be freed."""
        found = [rref for each in effect.garbage if each.cut for rref in each.objects]
        if found:
            self.done["garbage"] += len(found)
            self.oracle.found(found, self.reached(), node)

    # ---- time

    @property
    def quiet(self) -> bool:
        """Whether nothing will happen any more."""
        return not self._events

    def later(self, seconds: float, who: Resident | None, do: Callable[[], object]) -> None:
        """Call *do* in that many seconds, unless *who*, if given, has died by then."""
        heapq.heappush(self._events, (self.now + seconds, next(self._order), who, do))

    def wake_at(self, who: Resident, due: float | None, tick: Callable[[], object]) -> None:
        """Call *tick* of *who* at *due*."""
        if due is not None and due < self._ticks.get(who.me, float("inf")):
            self._ticks[who.me] = due

            def wake() -> None:
                if self._ticks.get(who.me) == due:  # else an earlier one has replaced it
                    del self._ticks[who.me]
                    tick()

            self.later(max(0.0, due - self.now) + 1e-6, who, wake)

    def run_until(self, end: float) -> None:
        """Play all events that are due by *end*."""
        while self.step(end):
            pass
        self.now = max(self.now, end)

    def step(self, end: float) -> bool:
        """Play the next event. Returns False if there is none before *end*."""
        if not self._events or self._events[0][0] > end:
            return False
        at, _, who, do = heapq.heappop(self._events)
        self.now = max(self.now, at)
        self.rings.look(self.now)
        if who is not None and who.me in self.oracle.dead:
            return True
        if who is not None and who.asleep_until > self.now:
            heapq.heappush(self._events, (who.asleep_until, next(self._order), who, do))
        else:
            do()
        return True

    # ---- the network

    def send(self, sender: WorkerId, packets: list[tuple[WorkerId, Packet]]) -> None:
        """Send these packets of *sender*, as bytes."""
        for to, packet in packets:
            data, beside = codec.encode(sender, to, packet, _no_address, codec.LONGEST)
            for seconds in self.network.delays(sender.name, to.name, self.now):
                came = codec.read(data, to, {sender.incarnation: sender}, beside)
                if came is not None:  # always: the receiver knows the sender
                    self._carry(sender, to, came[1], seconds)

    def _carry(self, sender: WorkerId, to: WorkerId, packet: Packet, seconds: float) -> None:
        there = next((each for each in self.living() if each.me == to), None)
        if there is not None:
            self.later(seconds, there, lambda: there.take(sender, packet))


def _no_address(_: WorkerId) -> None:
    """In a simulation all know all."""
