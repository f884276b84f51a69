"""A second process with the service's data. It takes over when it has seen the service's end.

The leader sends every entry of its log, and answers only after the standby has it. So no answer is
ever lost: members keep their ranks, and no second group can form. A standby that dies is replaced,
and answers wait until the new one has all data. If no other process can be had, the service goes on
alone.

The standby takes over when it sees itself that the leader's *process* is gone. Silence alone proves
nothing: a leader that was stopped or cut off may come back, and then finds that none has replaced
it. So there are never two leaders.
"""

from __future__ import annotations

import asyncio
import functools
import os
from typing import TYPE_CHECKING, Any, Protocol

from ...printable import logger
from ...protocol.errors import FarrefError
from ..base import lives
from ..hosting import processes
from ..wire.settings import LONGEST
from .starting import NAME, start_service

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ...protocol.ids import WorkerId
    from ..core.core import Core
    from ..handles.front import Front
    from ..wire.messages import WorkerInfo
    from .hosted import Copy, Entry, Kept

    Remote = Callable[..., Coroutine[Any, Any, None]]

log = logger(__name__)

LOOK = 0.1
"""Seconds between two checks whether the process of a leader that counts as dead is gone."""


class Keeps(Protocol):
    """The service beside a `Standby`, at the leader or at the standby: see `Service`."""

    front: Front
    core: Core
    leads: bool

    def copy(self) -> list[Copy | Kept]:
        """All data."""

    def adopt(self, copies: list[Copy | Kept]) -> None:
        """Take the leader's data."""

    def repeat(self, entry: Entry) -> None:
        """Repeat *entry*, which the leader has done."""

    def take_over(self) -> None:
        """Lead from now on."""


class Standby:
    """The service's part for the standby, at the leader and at the standby."""

    def __init__(self, service: Keeps, stand_by: Remote, repeat: Remote) -> None:
        """The leader calls *stand_by* and *repeat* on its standby."""
        self._service = service
        self._stand_by = stand_by
        self._repeat = repeat
        name = service.core.me.name
        self._number = int(name.rpartition(" ")[2]) if name[-1].isdigit() else 1
        """The number of the last service that was started, as far as this one knows."""
        self._wanted: bool | None = None
        self._log: list[Entry] = []
        self._noted = 0
        self._acknowledged = 0
        self._news = asyncio.Event()
        self._acked = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None
        self._leader: tuple[WorkerId, lives.Watched | None, bool] | None = None
        self._waiting: asyncio.Task[None] | None = None

    # ---- at the leader

    def want(self, wanted: bool) -> None:
        """Have a standby from now on. The first call decides."""
        if self._wanted is None and self._service.leads:
            self._wanted = wanted and self._service.core.port.runs_by_itself
            if self._wanted:
                self._sender = asyncio.get_running_loop().create_task(self._send())

    def note(self, entry: Entry) -> None:
        """Add *entry* to the log for the standby."""
        if self._wanted:
            self._log.append(entry)
            self._noted += 1
            self._news.set()

    async def committed(self) -> None:
        """Wait until the standby has all entries so far. Returns at once if there is none."""
        number = self._noted
        while self._wanted and self._acknowledged < number:
            await self._acked.wait()

    async def _send(self) -> None:
        try:
            while True:
                try:
                    await self._feed(await self._recruit())
                except FarrefError as error:
                    if self._service.core.closed:
                        return
                    log.warning("the rendezvous service has lost its standby: %s", error)
        except Exception as error:  # no standby can be started
            log.warning("the rendezvous service goes on without a standby: %s", error)
        finally:
            self._wanted = False
            self._acknowledge(self._noted)

    async def _recruit(self) -> WorkerInfo:
        core = self._service.core
        self._number += 1
        name = f"{NAME} {self._number}"
        spawn = functools.partial(start_service, self._service.front.registrar_client, name)
        try:
            info: WorkerInfo = await self._in_pool(spawn)
        except FarrefError as error:
            raise RuntimeError(str(error)) from error
        self._log.clear()  # the copy contains these entries
        number = self._noted
        copies, host = self._service.copy(), processes.host()
        await self.call(info, self._stand_by, copies, core.me, os.getpid(), host)
        self._acknowledge(number)
        return info

    async def _feed(self, standby: WorkerInfo) -> None:
        while True:
            batch, self._log = self._log, []
            if batch:
                await self.call(standby, self._repeat, batch)
                self._acknowledge(self._acknowledged + len(batch))
            else:
                self._news.clear()
                await self._alive(standby)

    async def _alive(self, standby: WorkerInfo) -> None:
        """Wait for something to send. Raises if the standby dies meanwhile."""
        await self._news.wait()
        if standby.id in self._service.core.context.dead:
            raise FarrefError(f"{standby} died")

    def _acknowledge(self, number: int) -> None:
        self._acknowledged = number
        acked, self._acked = self._acked, asyncio.Event()
        acked.set()

    async def call(self, to: WorkerInfo, function: Any, *args: Any) -> Any:
        """Call *function* on another service. It answers as long as it lives."""
        future = self._service.front.calls.call(to, (function, args, {}), LONGEST, ())
        future.overlooked = True  # the end of a program does not wait for it
        return await future

    async def _in_pool(self, function: Callable[[], Any]) -> Any:
        """Run a function that blocks in a thread of the endpoint's pool."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()

        def run() -> None:
            try:
                result = function()
            except Exception as error:
                loop.call_soon_threadsafe(done.set_exception, error)
            else:
                loop.call_soon_threadsafe(done.set_result, result)

        self._service.core.chores.submit(run)
        return await done

    # ---- at both

    def died(self, worker: WorkerId) -> None:
        """Take the news that *worker* is dead, or counts as dead."""
        self._news.set()  # it may be the standby
        if self._leader is not None and self._leader[0] == worker and not self._service.leads:
            self._waiting = asyncio.get_running_loop().create_task(self._wait_for_the_end())

    # ---- at the standby

    def begin(self, copies: list[Copy | Kept], leader: WorkerId, pid: int, host: str) -> None:
        """Take the leader's data, and note the leader."""
        self._service.adopt(copies)
        here = host == processes.host()
        self._leader = leader, lives.Watched.of(pid) if here else None, here

    def repeat(self, entries: list[Entry]) -> None:
        """Repeat *entries*, which the leader has done."""
        if self._service.leads:
            raise FarrefError(f"{self._service.core.me} leads now, and is no standby")
        for entry in entries:
            self._service.repeat(entry)

    async def _wait_for_the_end(self) -> None:
        assert self._leader is not None  # noqa: S101 - `died` has looked
        leader, process, here = self._leader
        if not here:
            log.warning("%s was on another host, and may still run: no takeover", leader)
            return
        while process is not None and process.alive():  # noqa: ASYNC110 - nobody reports its end
            await asyncio.sleep(LOOK)
        self._service.take_over()
        self.want(True)
