"""The service: an actor that keeps every run of its system, and its functions for clients.

Clients call the functions at the end of this module on the service's endpoint. They are `async`, so
they run on the actor's loop, one step at a time. So nothing here needs a lock, no two nodes contend
for anything, and a call that waits (for a round, for a key, for news) holds up no other. Time is
the service's own monotonic clock. A node is removed when it leaves, when it is silent, or when its
endpoint dies (the registrar reports that).

If there is a standby, the service answers only after the standby has the change: see `standby`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable
from typing import Any

from ...printable import logger
from ...protocol.errors import (
    FetchTimeoutError,
    ProtocolError,
    RendezvousConnectionError,
    RendezvousError,
    RendezvousStateError,
)
from ...protocol.ids import WorkerId
from ...protocol.rendezvous.limits import RoundLimits, Timeouts
from ...protocol.rendezvous.state import Close, Command, Join, Leave, State
from ...protocol.store import Op, Table
from ..core.current import frame
from ..handles.front import Front
from ..wire.messages import WorkerInfo
from .hosted import Formed, Hosted
from .standby import Entry, Replica
from .starting import NAME

log = logger(__name__)


class Service(Replica):
    """All runs of one system."""

    def __init__(self, front: Front) -> None:
        super().__init__(front, repeat)
        self.runs: dict[str, Hosted] = {}
        self.cells = Table()
        """The states of runs that clients run themselves. The service does not read them."""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.core.on_deaths.append(self._died)

    # ---- requests of clients

    async def join(self, run: str, timeouts: Timeouts, join: Join, home: WorkerInfo) -> Formed:
        """Take part in the next round. Returns when it is formed."""
        hosted = self._hosted(run, timeouts, join)
        known = hosted.homes.setdefault(join.node, home)
        if known.id != home.id:
            raise RendezvousStateError(f"another endpoint takes part in run {run!r} as {join.node}")
        try:
            self.do(hosted, join)
            while (formed := hosted.formed(join)) is None:
                await hosted.changes()
                if hosted.state.seat(join.node) is None:
                    raise RendezvousStateError(
                        f"{join.node} waited for a round of run {run!r}, and is no longer in it: "
                        "it left, or counts as dead; join again"
                    )
                self.do(hosted, join)  # changes nothing, but raises if the run was closed
        except RendezvousError:
            self.do(hosted, Leave((join.node,)) if hosted.state.seat(join.node) else None)
            if hosted.state.seat(join.node) is None:
                hosted.homes.pop(join.node, None)
            await self.committed()
            raise
        await self.committed()
        return formed

    async def watch(self, run: str, node: WorkerId, number: int) -> str:
        """Wait for a reason why *node*, member of round *number*, should join again."""
        hosted = self._known(run)
        while (news := hosted.state.news(node, number)) is None:
            await hosted.changes()
        await self.committed()
        return news

    async def leave(self, run: str, node: WorkerId) -> None:
        if run in self.runs:
            self.do(self.runs[run], Leave((node,)))
            await self.committed()

    async def close(self, run: str, timeouts: Timeouts, join: Join) -> None:
        self.do(self._hosted(run, timeouts, join), Close())
        await self.committed()

    async def beat(self, nodes: Iterable[tuple[str, WorkerId]]) -> None:
        """Note that these *nodes* are alive."""
        for run, node in nodes:
            if run in self.runs:
                self.runs[run].run.heard(node, time.monotonic())

    async def about(self, run: str, node: WorkerId, number: int) -> tuple[bool, int]:
        """Whether the run is closed, and `waiting_for` *node*, last in round *number*."""
        await self.committed()  # an answer is never taken back
        state = self.runs[run].state if run in self.runs else None
        return (state.closed, state.waiting_for(node, number)) if state else (False, 0)

    # ---- the store

    async def change(self, run: str, number: int, node: WorkerId, op: Op) -> object:
        """Change the store of round *number*, once."""
        hosted = self._known(run)
        hosted.check_member(node, number)
        answer = self.record(Service.change_store, run, op)
        await self.committed()
        return answer

    async def values(
        self, run: str, number: int, node: WorkerId, keys: tuple[str, ...], seconds: float
    ) -> list[bytes]:
        """The values of *keys*, once all are there."""
        hosted = self._known(run)
        try:
            async with asyncio.timeout(seconds):
                hosted.check_member(node, number)
                while not hosted.table.has(keys):
                    await hosted.comes(keys)
                    hosted.check_member(node, number)
        except TimeoutError:
            missing = [key for key in keys if key not in hosted.table.values]
            raise FetchTimeoutError(
                f"nobody stored {missing[:5]} in round {number} of run {run!r} within {seconds:g} "
                "s; wait again, or set a longer timeout"
            ) from None
        found = [hosted.table.values[key] for key in keys]
        await self.committed()
        return found

    async def keys(self, run: str, number: int, node: WorkerId) -> list[str]:
        hosted = self._known(run)
        hosted.check_member(node, number)
        found = list(hosted.table.values)
        await self.committed()
        return found

    async def cell(self, op: Op) -> object:
        """Change the states of the runs that clients run themselves, once."""
        before = self.cells.values.get(op.keys[0])
        answer = self.change_cell(op)
        if self.cells.values.get(op.keys[0]) is not before:
            self.note(Service.change_cell, op)
        await self.committed()
        return answer

    # ---- changes of the data, which the standby repeats

    def begin(self, run: str, limits: RoundLimits, timeouts: Timeouts) -> None:
        """Begin *run*, or begin it again: the first node after everybody has left decides."""
        if run in self.runs:
            self.runs[run].begin_anew(timeouts)
        else:
            self.runs[run] = Hosted(run, State(limits), timeouts)

    def repeat_command(self, run: str, command: Command, home: WorkerInfo | None) -> None:
        """At a standby: repeat *command*."""
        self.runs[run].repeat(command, home)

    def change_store(self, run: str, op: Op) -> object:
        """Change the store of the run's round. Returns the answer."""
        return self.runs[run].change(op)

    def change_cell(self, op: Op) -> object:
        """Change the states that clients keep here. Returns the answer."""
        return self.cells.do(op)

    # ---- inside

    def _hosted(self, run: str, timeouts: Timeouts, join: Join) -> Hosted:
        hosted = self.runs.get(run)
        if hosted is None or (hosted.state.empty and hosted.timeouts != timeouts):
            self.record(Service.begin, run, join.limits, timeouts)
        return self.runs[run]

    def _known(self, run: str) -> Hosted:
        if run not in self.runs:
            raise RendezvousStateError(f"nobody has joined run {run!r}")
        return self.runs[run]

    def do(self, hosted: Hosted, command: Command | None) -> None:
        """Carry out *command*, and have the standby repeat it."""
        if command is not None:
            self._note_all(hosted, hosted.do(command))

    def _note_all(self, hosted: Hosted, commands: list[Command]) -> None:
        for command in commands:
            home = hosted.homes.get(command.node) if isinstance(command, Join) else None
            self.note(Service.repeat_command, hosted.name, command, home)
        if commands:
            self._arm()

    def _arm(self) -> None:
        """Set the one timer for everything that will be due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        pauses = [hosted.run.pause() for hosted in self.runs.values()] if self.leads else []
        pause = min((each for each in pauses if each is not None), default=None)
        if pause is not None and not self.core.closed:
            self._timer = self._loop.call_later(max(pause, 0.01), self._tick)

    def _tick(self) -> None:
        beats = self.core.port.runs_by_itself  # else actors run only while the program calls in
        for hosted in self.runs.values():
            self._note_all(hosted, hosted.tick(beats=beats))
        self._arm()

    # ---- deaths, and the standby

    def _died(self, workers: tuple[WorkerId, ...]) -> None:
        """These endpoints died. Called in the mailbox thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._endpoints_died, workers)

    def _endpoints_died(self, workers: tuple[WorkerId, ...]) -> None:
        for worker in workers:
            self.died(worker)
            if self.leads:
                self._gone(worker)

    def _gone(self, worker: WorkerId) -> None:
        self.cells.forget(worker)
        for hosted in self.runs.values():
            self.do(hosted, hosted.of_endpoint(worker))

    def copy(self) -> tuple[object, ...]:
        """All data, for a new standby."""
        return [hosted.copy() for hosted in self.runs.values()], self.cells

    def adopt(self, runs: list[tuple[Any, ...]], cells: Table) -> None:
        """At a new standby: take the leader's data."""
        self.runs = {run[0]: Hosted(*run) for run in runs}
        self.cells = cells

    def take_over(self) -> None:
        """Lead from now on: the leader is gone."""
        self.leads = True
        known = set(self.cells.callers())
        for hosted in self.runs.values():
            hosted.begin_anew(hosted.timeouts)
            known |= hosted.endpoints()
        for worker in known:
            if worker in self.core.context.dead:  # it died before the takeover
                self._gone(worker)
        self._arm()
        log.warning("%s took over, with %d runs", self.core.me, len(self.runs))


_services: dict[Front, Service] = {}


def _service() -> Service:
    """The service in the calling endpoint."""
    front: Front = frame().core.front
    if front not in _services:
        if not front.core.me.name.startswith(NAME):
            raise ProtocolError(f"{front.core.me} is not a rendezvous service")
        for ended in [each for each in _services if each.core.closed]:
            del _services[ended]
        _services[front] = Service(front)
    return _services[front]


ASKED = frozenset({"join", "leave", "close", "watch", "beat", "about"}) | frozenset(
    {"change", "values", "keys", "cell"}
)
"""The requests that clients may make."""


class NotLeadingError(RendezvousConnectionError):
    """A standby was asked."""


# ---- functions that clients and the two services call on the service's endpoint


async def ask(what: str, *args: Any) -> Any:
    """Have the service do *what*. Raises `NotLeadingError` at a standby."""
    service = _service()
    if not service.leads:
        raise NotLeadingError(f"{service.core.me} is only a standby")
    if what not in ASKED:
        raise ProtocolError(f"the rendezvous service has no request {what!r:.80}")
    return await getattr(service, what)(*args)


async def leads(standby: bool) -> bool:
    """Whether this service answers. The first caller decides whether it has a standby."""
    service = _service()
    service.want(standby)
    return service.leads


async def repeat(entries: list[Entry]) -> None:
    """Leader -> standby: repeat these entries."""
    _service().repeat(entries)
