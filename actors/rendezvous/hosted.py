"""The service's data of one run: its state, the homes of its nodes, and its round's store."""

from __future__ import annotations

import asyncio
import json
import time
import weakref

import msgspec

from ...protocol.errors import RendezvousStateError
from ...protocol.ids import WorkerId
from ...protocol.rendezvous.limits import Timeouts
from ...protocol.rendezvous.observer import RendezvousRun
from ...protocol.rendezvous.state import Command, Join, Leave, State
from ...protocol.store import Op, Table
from ..wire.messages import WorkerInfo


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


class Hosted:
    """One run. Only the service's loop touches it."""

    def __init__(
        self,
        name: str,
        state: State,
        timeouts: Timeouts,
        homes: dict[WorkerId, WorkerInfo] | None = None,
        table: Table | None = None,
    ) -> None:
        self.name = name
        self.homes = homes or {}
        """The endpoint of each node."""
        self.table = table or Table()
        """The store of the round. Each round begins with a new one."""
        self.begin_anew(timeouts, state)
        self._list: tuple[int, dict[WorkerId, int], str, tuple[WorkerInfo, ...]] | None = None
        """The last round that was formed: its number, its ranks, and the rest of `Formed`."""
        self._changed = asyncio.Event()
        self._wanted = weakref.WeakValueDictionary[str, asyncio.Event]()
        """The keys that are waited for. The waits alone hold the events."""

    def begin_anew(self, timeouts: Timeouts, state: State | None = None) -> None:
        """Restart the clock: the standby takes over, or the first node of an empty run comes."""
        self.timeouts = timeouts
        self.run = RendezvousRun(state or self.state, timeouts, time.monotonic())

    @property
    def state(self) -> State:
        return self.run.state

    def copy(self) -> tuple[object, ...]:
        """All data, as the arguments for the same run at a standby."""
        return self.name, self.state, self.timeouts, self.homes, self.table

    # ---- changes

    def do(self, command: Command) -> list[Command]:
        """Do *command*, and everything that is due then. Returns what a standby has to repeat."""
        before = self.state
        self.run.do(command, time.monotonic())
        return self._after(before)

    def tick(self, *, beats: bool) -> list[Command]:
        """Do everything that is due. Returns what a standby has to repeat.

        *beats*: whether nodes send keep-alives. Otherwise none counts as silent.
        """
        before = self.state
        for node in () if beats else before.seats():
            self.run.heard(node, time.monotonic())
        self.run.tick(time.monotonic())
        return self._after(before)

    def repeat(self, command: Command, home: WorkerInfo | None) -> None:
        """At a standby: repeat *command*, which the leader has done. A `Join` comes with a home."""
        before = self.state
        if isinstance(command, Join) and home is not None:
            self.homes[command.node] = home
        self.run.state = before.apply(command)
        self._after(before)

    def change(self, op: Op) -> object:
        """Change the store. Returns the answer."""
        answer = self.table.do(op)
        for key in op.keys:
            if (event := self._wanted.pop(key, None)) is not None:
                event.set()
        return answer

    def _after(self, before: State) -> list[Command]:
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
        return log

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        for event in list(self._wanted.values()):
            event.set()
        self._wanted.clear()

    # ---- waits

    async def changes(self) -> None:
        """Wait for a change that may end a wait."""
        await self._changed.wait()

    async def comes(self, keys: tuple[str, ...]) -> None:
        """Wait until one of the missing *keys* may be there."""
        missing = next(key for key in keys if key not in self.table.values)
        event = self._wanted.setdefault(missing, asyncio.Event())
        await event.wait()

    # ---- questions

    def formed(self, join: Join) -> Formed | None:
        """The round that *join* asked for, once it is formed."""
        state = self.state
        if not state.complete or state.round <= join.after or join.node not in state.participants:
            return None
        if self._list is None or self._list[0] != state.round:
            members = [member.node for member in state.members]
            infos = [self.homes[node] for node in members]
            homes = {info: place for place, info in enumerate(dict.fromkeys(infos))}
            rows = [(node.name, homes[info]) for node, info in zip(members, infos, strict=True)]
            ranks = {node: rank for rank, node in enumerate(members)}
            self._list = state.round, ranks, json.dumps(rows), tuple(homes)
        number, ranks, text, infos_of_homes = self._list
        return Formed(number, ranks[join.node], text, infos_of_homes)

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
        return {home.id for home in self.homes.values()} | set(self.table.callers())

    def of_endpoint(self, worker: WorkerId) -> Leave | None:
        """The command that follows from the death of *worker*, if any."""
        self.table.forget(worker)
        homes = ((node, self.homes.get(node)) for node in self.state.seats())
        nodes = tuple(node for node, home in homes if home is not None and home.id == worker)
        return Leave(nodes) if nodes else None


def _count(state: State) -> int:
    return len(state.participants) + len(state.waiting) + len(state.spares)
