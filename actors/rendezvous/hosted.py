"""The service's data of one run: its state, the homes of its nodes, and its round's store."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING

import msgspec

from ...protocol.errors import RendezvousStateError
from ...protocol.rendezvous import Join, Leave, RendezvousRun, State
from ...protocol.store import Op, Table

if TYPE_CHECKING:
    from ...protocol.ids import WorkerId
    from ...protocol.rendezvous import Command, Timeouts
    from ..wire.messages import WorkerInfo


class Home(msgspec.Struct, frozen=True):
    """A node's endpoint, and whether it sends keep-alives."""

    info: WorkerInfo
    beats: bool


class Begun(msgspec.Struct, frozen=True):
    """A new run, or one that begins again with other timeouts after everybody has left."""

    run: str
    state: State
    timeouts: Timeouts


class Done(msgspec.Struct, frozen=True):
    """A command that changed the state. *home*: for a join, the node's home."""

    run: str
    command: Command
    home: Home | None = None


class StoreChanged(msgspec.Struct, frozen=True):
    """A change of the round's store."""

    run: str
    op: Op


class Kept(msgspec.Struct, frozen=True):
    """The state of a run that clients run themselves, by compare-and-set."""

    run: str
    state: bytes
    version: int


Entry = Begun | Done | StoreChanged | Kept
"""The entries that a standby repeats, in order."""


class Formed(msgspec.Struct, frozen=True):
    """Service -> node: the round that the node is a member of, and each member's endpoint.

    *members* is made once for all members, and parsed once in each process. It has the name of
    each member and the index of its home in *homes*. A thousand lists of a thousand members would
    be a million objects.
    """

    round: int
    rank: int
    members: str
    homes: tuple[WorkerInfo, ...]


class _Listed(msgspec.Struct, frozen=True):
    """The answer to all members of a round."""

    round: int
    ranks: dict[WorkerId, int]
    text_and_homes: tuple[str, tuple[WorkerInfo, ...]]


class Copy(msgspec.Struct):
    """All data of one run, for a new standby."""

    run: str
    state: State
    timeouts: Timeouts
    homes: dict[WorkerId, Home]
    table: Table


class Hosted:
    """One run. Only the service's loop touches it."""

    def __init__(self, name: str, state: State, timeouts: Timeouts) -> None:
        self.name = name
        self.timeouts = timeouts
        self.run = RendezvousRun(state, timeouts, time.monotonic())
        self.homes: dict[WorkerId, Home] = {}
        self.table = Table()
        """The store of the round. Each round begins with a new one."""
        self._list: _Listed | None = None
        self._changed = asyncio.Event()
        self._wanted: dict[str, list[asyncio.Future[None]]] = {}
        """The waits for each key."""

    @property
    def state(self) -> State:
        """The run's state."""
        return self.run.state

    # ---- changes

    def do(self, command: Command) -> list[Entry]:
        """Do *command*, and everything that is due then. Returns the entries for a standby."""
        before = self.state
        self.run.do(command, time.monotonic())
        return self._after(before)

    def tick(self) -> list[Entry]:
        """Do everything that is due. Returns the entries for a standby."""
        before = self.state
        for node in before.seats():
            home = self.homes.get(node)
            if home is not None and not home.beats:
                self.run.heard(node, time.monotonic())
        self.run.tick(time.monotonic())
        return self._after(before)

    def repeat(self, command: Command) -> None:
        """At a standby: repeat *command*, which the leader has done."""
        before = self.state
        self.run.state = before.apply(command)
        self._after(before)

    def change(self, op: Op) -> object:
        """Change the store. Returns the answer."""
        answer = self.table.do(op)
        for key in op.keys:
            for waiter in self._wanted.pop(key, ()):
                if not waiter.done():
                    waiter.set_result(None)
        return answer

    def _after(self, before: State) -> list[Entry]:
        log, self.run.log = self.run.log, []
        after = self.state
        if after is before:
            return []
        begun = after.round != before.round
        if begun:
            self.table = Table()
        fewer = _count(after) < _count(before)
        if fewer or begun:
            needed = after.seats().keys() | {member.node for member in after.members}
            self.homes = {node: home for node, home in self.homes.items() if node in needed}
        if fewer or begun or after.closed or after.complete:
            self._wake()  # one more join while a round forms ends no wait
        return [
            Done(self.name, each, self.homes.get(each.node) if isinstance(each, Join) else None)
            for each in log
        ]

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        wanted, self._wanted = self._wanted, {}
        for waiters in wanted.values():
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    # ---- waits

    async def changes(self) -> None:
        """Wait for a change that may end a wait."""
        await self._changed.wait()

    async def comes(self, keys: tuple[str, ...]) -> None:
        """Wait until one of the missing *keys* may be there."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        missing = next(key for key in keys if key not in self.table.values)
        self._wanted.setdefault(missing, []).append(waiter)
        try:
            await waiter
        finally:
            waiters = self._wanted.get(missing, [])
            if waiter in waiters:
                waiters.remove(waiter)
            if not waiters:
                self._wanted.pop(missing, None)

    # ---- questions

    def formed(self, join: Join) -> Formed | None:
        """The round that *join* asked for, once it is formed."""
        state = self.state
        if not state.complete or state.round <= join.after or join.node not in state.participants:
            return None
        if self._list is None or self._list.round != state.round:
            self._list = self._listed()
        return Formed(state.round, self._list.ranks[join.node], *self._list.text_and_homes)

    def _listed(self) -> _Listed:
        members = [member.node for member in self.state.members]
        infos = [self.homes[node].info for node in members]
        homes = {info: place for place, info in enumerate(dict.fromkeys(infos))}
        rows = [(node.name, homes[info]) for node, info in zip(members, infos, strict=True)]
        ranks = {node: rank for rank, node in enumerate(members)}
        return _Listed(self.state.round, ranks, (json.dumps(rows), tuple(homes)))

    def check_member(self, node: WorkerId, number: int) -> None:
        """Raise `RendezvousStateError` unless *node* is in round *number*, the current one."""
        state = self.state
        if not state.complete or state.round != number or node not in state.participants:
            raise RendezvousStateError(
                f"the store of round {number} of run {self.name!r} is not for {node}: "
                + (
                    f"round {number} is over"
                    if state.round != number or not state.complete
                    else "it is no member, or has left; join, and use the store of your own round"
                )
            )

    def endpoints(self) -> set[WorkerId]:
        """The endpoints that this run depends on: the nodes' homes, and callers of the store."""
        return {home.info.id for home in self.homes.values()} | set(self.table.callers())

    def of_endpoint(self, worker: WorkerId) -> Leave | None:
        """The command that follows from the death of *worker*, if any."""
        nodes = tuple(n for n in self.state.seats() if self._lives_at(n, worker))
        self.table.forget(worker)
        return Leave(nodes) if nodes else None

    def _lives_at(self, node: WorkerId, worker: WorkerId) -> bool:
        home = self.homes.get(node)
        return home is not None and home.info.id == worker

    # ---- a standby

    def copy(self) -> Copy:
        """All data of this run."""
        return Copy(self.name, self.state, self.timeouts, self.homes, self.table)

    @classmethod
    def of(cls, copy: Copy) -> Hosted:
        """The run of *copy*, at a standby."""
        self = cls(copy.run, copy.state, copy.timeouts)
        self.homes, self.table = copy.homes, copy.table
        return self

    def begin_anew(self, timeouts: Timeouts) -> None:
        """Restart the clock: the standby takes over, or the first node of an empty run comes."""
        self.timeouts = timeouts
        self.run = RendezvousRun(self.state, timeouts, time.monotonic())


def _count(state: State) -> int:
    return len(state.participants) + len(state.waiting) + len(state.spares)
