"""The program of one endpoint in a simulation: its requests and its references."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..protocol.messages import Cargo
from .jobs import Job, PendingRequest, Turn
from .oracle import WrongError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..protocol.ids import CallId, RRefId, WorkerId
    from ..protocol.messages import Busy
    from ..world.shell import Shell
    from .scene import Scene


class SimulatedProgram:
    """The requests that the code at the endpoint of *shell* can make."""

    def __init__(self, shell: Shell, scene: Scene) -> None:
        self.handles: list[RRefId] = []
        """The program's own; running functions have theirs."""
        self.asked: dict[CallId, PendingRequest] = {}
        """Unanswered requests, also those of the functions."""
        self._shell = shell
        self._scene = scene
        self._turns: dict[RRefId, int] = {}
        """Methods called so far on each reference."""

    def is_lost(self, rref: RRefId) -> bool:
        """Whether its owner is dead, as far as this endpoint knows."""
        user = self._shell.context.users.get(self._shell.context.whereabouts(rref))
        if user is None or not user.lost:
            return False
        if user.owner not in self._shell.context.dead:
            raise WrongError(
                "G4", f"{self._shell.me} believes that {rref} is lost, and {user.owner} lives"
            )
        return True

    def call(
        self, other: int, names: Sequence[RRefId], job: Job, chain: tuple[Busy, ...] = ()
    ) -> CallId | None:
        """Call a function on *other* with these references."""
        to = self._scene.at(other)
        if to is None or to in self._shell.context.dead:
            return None
        call, effects = self._shell.context.call(to, self._lent(to, names, job), chain)
        self.asked[call] = PendingRequest(to, chain=chain)
        self._shell.obey(effects)
        return call

    def make(
        self, to: WorkerId, names: Sequence[RRefId], job: Job, on: RRefId | None = None
    ) -> RRefId | None:
        """Make an object of *to* from these references, maybe by a method of the object *on*."""
        if to in self._shell.context.dead:
            return None
        job = job if on is None else self._in_turn(job, on)
        cargo = self._lent(to, names, job, replies=False)
        rref, effects = self._shell.context.create(to, cargo, on)
        # Now, because the creation may be held back and never leave.
        self._scene.oracle.made(rref, to, on)
        self.handles.append(rref)
        self._shell.obey(effects)
        return rref

    def invoke(
        self, on: RRefId, names: Sequence[RRefId], job: Job, chain: tuple[Busy, ...] = ()
    ) -> CallId:
        """Call a method of the object *on* with these references."""
        to = self._shell.context.owner_of(on)
        where = self._shell.context.whereabouts(on)
        cargo = self._lent(to, names, self._in_turn(job, on))
        call, effects = self._shell.context.invoke(on, cargo, chain)
        self.asked[call] = PendingRequest(to, where, chain)
        self._shell.obey(effects)
        return call

    def fetch(
        self, rref: RRefId, chain: tuple[Busy, ...] = (), *, copy: bool, direct: bool
    ) -> CallId:
        """Fetch the value, or (without *copy*) wait until there is one."""
        where, to = self._shell.context.whereabouts(rref), self._shell.context.owner_of(rref)
        call, effects = self._shell.context.fetch(rref, chain, copy=copy, direct=direct)
        self.asked[call] = PendingRequest(to, where, chain)
        self._shell.obey(effects)
        return call

    def tell(self, other: int, names: Sequence[RRefId], job: Job) -> None:
        """Send a one-way message."""
        to = self._scene.at(other)
        if to is None or to in self._shell.context.dead:
            return
        forks = self._shell.fork(to, self._usable(names))
        self._shell.obey(self._shell.context.tell(to, Cargo(payload=job, descriptors=forks)))

    def _lent(
        self, to: WorkerId, names: Sequence[RRefId], job: Job, *, replies: bool = True
    ) -> Cargo:
        lent = self._shell.lend(to, self._usable(names), replies=replies)
        return Cargo(payload=job, descriptors=lent)

    def _usable(self, names: Sequence[RRefId]) -> list[RRefId]:
        return [each for each in dict.fromkeys(names) if not self.is_lost(each)]

    def _in_turn(self, job: Job, on: RRefId) -> Job:
        self._turns[on] = self._turns.get(on, 0) + 1
        return replace(job, turn=Turn(self._shell.me, on, self._turns[on]))
