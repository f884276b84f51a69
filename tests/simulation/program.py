"""The program of one endpoint in a simulation: its requests and its references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from farref.actors.recording.tracing import Tracer
from farref.protocol.context import Context
from farref.protocol.ids import CallId, RRefId, WorkerId
from farref.protocol.messages import Busy, Cargo
from farref.world.shell import Shell

from .jobs import Job, PendingRequest, Turn
from .oracle import WrongError

if TYPE_CHECKING:
    from .world import SimulatedWorld


class SimulatedProgram(Shell):
    """An endpoint whose program, and the functions that run there, make requests."""

    def __init__(self, context: Context, world: SimulatedWorld, tracer: Tracer | None) -> None:
        super().__init__(context, tracer)
        self.world = world
        self.handles: list[RRefId] = []
        """The program's own; running functions have theirs."""
        self.asked: dict[CallId, PendingRequest] = {}
        """Unanswered requests, also those of the functions."""
        self._turns: dict[RRefId, int] = {}
        """Methods called so far on each reference."""

    def is_lost(self, rref: RRefId) -> bool:
        """Whether its owner is dead, as far as this endpoint knows."""
        user = self.context.users.get(self.context.whereabouts(rref))
        if user is None or not user.lost:
            return False
        if user.owner not in self.context.dead:
            raise WrongError(
                "G4", f"{self.me} believes that {rref} is lost, and {user.owner} lives"
            )
        return True

    def call(
        self, other: int, names: Sequence[RRefId], job: Job, chain: tuple[Busy, ...] = ()
    ) -> CallId | None:
        to = self.world.at(other)
        if to is None or to in self.context.dead:
            return None
        call, effects = self.context.call(to, self._lent(to, names, job), chain)
        self.asked[call] = PendingRequest(to, chain=chain)
        self.obey(effects)
        return call

    def make(
        self, to: WorkerId, names: Sequence[RRefId], job: Job, on: RRefId | None = None
    ) -> RRefId | None:
        """Make an object of *to* from these references, maybe by a method of the object *on*."""
        if to in self.context.dead:
            return None
        job = job if on is None else self._in_turn(job, on)
        cargo = self._lent(to, names, job, replies=False)
        rref, effects = self.context.create(to, cargo, on)
        # Now, because the creation may be held back and never leave.
        self.world.oracle.made(rref, to, on)
        self.handles.append(rref)
        self.obey(effects)
        return rref

    def invoke(
        self, on: RRefId, names: Sequence[RRefId], job: Job, chain: tuple[Busy, ...] = ()
    ) -> CallId:
        to = self.context.owner_of(on)
        where = self.context.whereabouts(on)
        cargo = self._lent(to, names, self._in_turn(job, on))
        call, effects = self.context.invoke(on, cargo, chain)
        self.asked[call] = PendingRequest(to, where, chain)
        self.obey(effects)
        return call

    def fetch(
        self, rref: RRefId, chain: tuple[Busy, ...] = (), *, copy: bool, direct: bool
    ) -> CallId:
        """Fetch the value, or (without *copy*) wait until there is one."""
        where, to = self.context.whereabouts(rref), self.context.owner_of(rref)
        call, effects = self.context.fetch(rref, chain, copy=copy, direct=direct)
        self.asked[call] = PendingRequest(to, where, chain)
        self.obey(effects)
        return call

    def tell(self, other: int, names: Sequence[RRefId], job: Job) -> None:
        to = self.world.at(other)
        if to is None or to in self.context.dead:
            return
        forks = self.fork(to, self._usable(names))
        self.obey(self.context.tell(to, Cargo(payload=job, descriptors=forks)))

    def _lent(
        self, to: WorkerId, names: Sequence[RRefId], job: Job, *, replies: bool = True
    ) -> Cargo:
        lent = self.lend(to, self._usable(names), replies=replies)
        return Cargo(payload=job, descriptors=lent)

    def _usable(self, names: Sequence[RRefId]) -> list[RRefId]:
        return [each for each in dict.fromkeys(names) if not self.is_lost(each)]

    def _in_turn(self, job: Job, on: RRefId) -> Job:
        self._turns[on] = self._turns.get(on, 0) + 1
        return replace(job, turn=Turn(self.me, on, self._turns[on]))
