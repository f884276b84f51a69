"""The program of one endpoint in a simulation: what it asks for, and what it keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING

from ..actors.recording.recorded import Recorded
from ..protocol.context import Context
from ..protocol.messages import Cargo
from .jobs import Asked, Error, Job, Turn, Value
from .oracle import WrongError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..actors.recording.tracing import Tracer
    from ..protocol.effects import Effect
    from ..protocol.ids import CallId, RRefId, WorkerId
    from .world import World


class Program(ABC):
    """What the code at the endpoint *me* can do with references."""

    def __init__(self, me: WorkerId, world: World, tracer: Tracer | None) -> None:
        self.me = me
        self.world = world
        context = Context(me, world.plan.sharing)
        self.context = Recorded(context, tracer) if tracer is not None else context
        self.handles: list[RRefId] = []
        """The program's own."""
        self.values: dict[RRefId, Value | Error] = {}
        self.asked: dict[CallId, Asked] = {}
        """Unanswered requests of the program's and of the tasks'."""
        self._turns: dict[RRefId, int] = {}
        """Methods called so far on each reference."""

    @abstractmethod
    def do(self, effects: list[Effect]) -> None:
        """Carry out *effects* of a step, and send what it has to say."""

    @abstractmethod
    def _obey(self, effects: list[Effect]) -> None:
        """Carry out *effects*."""

    def own(self) -> None:
        """``RRef(value)``."""
        rref = self.context.own()
        self.world.oracle.made(rref, self.me)
        self.world.oracle.accepted(rref)
        self._store(rref, Value(rref))
        self.handles.append(rref)

    def _store(self, rref: RRefId, value: Value | Error) -> None:
        self.values[rref] = value
        self.world.oracle.valued(rref)

    def is_lost(self, rref: RRefId) -> bool:
        """Its owner is dead, as far as this endpoint knows."""
        user = self.context.users.get(self.context.whereabouts(rref))
        if user is None or not user.lost:
            return False
        if user.owner not in self.context.dead:
            raise WrongError(
                "G4", f"{self.me} believes that {rref} is lost, and {user.owner} lives"
            )
        return True

    def lend(
        self, other: int, names: Sequence[RRefId], job: Job, chain: tuple[RRefId, ...] = ()
    ) -> CallId | None:
        """A call on *other* with these references."""
        to = self.world.at(other)
        if to is None or to in self.context.dead:
            return None
        call, effects = self.context.call(to, self._lent(to, names, job), chain)
        self.asked[call] = Asked(to, chain=chain)
        self._obey(effects)
        return call

    def make(
        self, to: WorkerId, names: Sequence[RRefId], job: Job, on: RRefId | None = None
    ) -> RRefId | None:
        """An object of *to*'s, made of these references, maybe by a method of the object *on*."""
        if to in self.context.dead:
            return None
        job = job if on is None else self._in_turn(job, on)
        cargo = self._lent(to, names, job, replies=False)
        rref, effects = self.context.create(to, cargo, on)
        # It may be held back, and never leave.
        self.world.oracle.made(rref, to, on)
        self.handles.append(rref)
        self._obey(effects)
        return rref

    def invoke(
        self, on: RRefId, names: Sequence[RRefId], job: Job, chain: tuple[RRefId, ...] = ()
    ) -> CallId:
        """A method of the object *on*, which gets these references."""
        to = self.context.owner_of(on)
        where = self.context.whereabouts(on)
        cargo = self._lent(to, names, self._in_turn(job, on))
        call, effects = self.context.invoke(on, cargo, chain)
        self.asked[call] = Asked(to, where, chain)
        self._obey(effects)
        return call

    def call(self, on: RRefId, names: Sequence[RRefId], job: Job) -> None:
        """A method of the object *on*, if the program has a handle of it still."""
        if on in self.handles and not self.is_lost(on):
            self.invoke(on, [each for each in names if each in self.handles], job)
            self.do([])

    def circle(self, places: Sequence[int], seconds: Sequence[float], *, direct: bool) -> None:
        """An alias at each of *places*, of the one before it; and the first one of the last one.

        The function that makes the first one is told of the last one while it runs. If that comes
        too late, there is no circle.
        """
        first = last = None
        for place, each in zip(places, seconds, strict=True):
            to = self.world.at(place)
            if to is not None:
                made = self.make(to, [last] if last else [], Job("circle", each, bare=True))
                first, last = first or made, made or last
        if first is not None and last is not None:
            self.tell(places[0], [last], Job("close", 0.0, into=first))
            self.fetch(last, copy=True, direct=direct)

    def ring(
        self, to: WorkerId, names: Sequence[RRefId], job: Job, *, alias: bool, made: bool
    ) -> None:
        """Methods of all *names*, each of which asks the next object, and the last one the first.

        With *alias* the first one is asked by way of an alias of it; with *made* the function that
        makes a further object is the last one of the ring.
        """
        objects, asked = list(names), list(names)
        if alias:
            asked[0] = self.make(to, names[:1], Job("alias", job.seconds, bare=True)) or names[0]
        last = self.make(to, asked[:1], job) if made else None
        following = [*asked[1:], last or asked[0]]
        for on, each in zip(objects, following, strict=True):
            self.call(on, [each], job)

    def _in_turn(self, job: Job, on: RRefId) -> Job:
        self._turns[on] = self._turns.get(on, 0) + 1
        return replace(job, turn=Turn(self.me, on, self._turns[on]))

    def fetch(
        self, rref: RRefId, chain: tuple[RRefId, ...] = (), *, copy: bool, direct: bool
    ) -> CallId:
        """The value, or whether there is one."""
        where, to = self.context.whereabouts(rref), self.context.owner_of(rref)
        call, effects = self.context.fetch(rref, chain, copy=copy, direct=direct)
        self.asked[call] = Asked(to, where, chain)
        self._obey(effects)
        return call

    def cancel(self, call: CallId) -> None:
        """Take back *call*, if it has not started."""
        self.asked[call].cancelled = True
        self.do(self.context.cancel(call))

    def tell(self, other: int, names: Sequence[RRefId], job: Job) -> None:
        """A one-way message."""
        to = self.world.at(other)
        if to is None or to in self.context.dead:
            return
        forks = tuple(self.context.fork(each, to) for each in self._usable(names))
        self._obey(self.context.tell(to, Cargo(payload=job, descriptors=forks)))

    def _lent(
        self, to: WorkerId, names: Sequence[RRefId], job: Job, *, replies: bool = True
    ) -> Cargo:
        lent = (self.context.lend(each, to, replies=replies) for each in self._usable(names))
        return Cargo(payload=job, descriptors=tuple(lent))

    def _usable(self, names: Sequence[RRefId]) -> list[RRefId]:
        return [each for each in dict.fromkeys(names) if not self.is_lost(each)]
