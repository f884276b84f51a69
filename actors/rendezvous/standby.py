"""A second process with the service's data. It takes over when it has seen the service's end.

The leader sends every entry of its log, and answers only after the standby has it. So no answer is
ever lost: members keep their ranks, and no second group can form. A standby that dies is replaced,
and answers wait until the new one has all data. If no other process can be started, the service
goes on alone.

The standby takes over when it sees itself that the leader's *process* is gone. Silence alone proves
nothing: a leader that was stopped or cut off may come back, and then finds that no other has
replaced it. So there are never two leaders.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ...printable import logger
from ...protocol.errors import FarrefError
from ...protocol.ids import WorkerId
from ..base import lives
from ..handles.front import Front
from ..hosting import processes
from ..wire.messages import WorkerInfo
from ..wire.settings import LONGEST
from .starting import NAME, start_service

T = TypeVar("T")
Entry = tuple[Callable[..., object], tuple[Any, ...]]
"""A method of the service that changes its data, and the arguments. The standby calls it, too."""

log = logger(__name__)

LOOK = 0.1
"""Seconds between two checks whether the process of a leader that counts as dead is gone."""


class Replica(ABC):
    """A service that leads, or stands by for another one. Only the loop of its actor touches it."""

    def __init__(
        self, front: Front, repeat: Callable[[list[Entry]], Coroutine[Any, Any, None]]
    ) -> None:
        """The leader calls *repeat* on the endpoint of its standby."""
        self.front = front
        self.core = front.core
        name = self.core.me.name
        self.leads = name == NAME
        """Whether this service answers. A standby does not until it takes over."""
        self._repeat = repeat
        self._number = 1 if self.leads else int(name.rpartition(" ")[2])
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

    @abstractmethod
    def copy(self) -> tuple[Any, ...]:
        """All data."""

    @abstractmethod
    def adopt(self, *data: Any) -> None:
        """Take the leader's data, which its `copy` returned."""

    @abstractmethod
    def take_over(self) -> None:
        """Lead from now on: the leader is gone."""

    # ---- at the leader

    def want(self, wanted: bool) -> None:
        """Have a standby from now on. The first call decides."""
        if self._wanted is None and self.leads:
            self._wanted = wanted and self.core.port.runs_by_itself
            if self._wanted:
                self._sender = asyncio.get_running_loop().create_task(self._send())

    def record(self, change: Callable[..., T], *args: Any) -> T:
        """Call the method *change* here, and then at the standby, too. Returns its answer."""
        answer = change(self, *args)
        self.note(change, *args)
        return answer

    def note(self, change: Callable[..., object], *args: Any) -> None:
        """Have the standby call the method *change*."""
        if self._wanted:
            self._log.append((change, args))
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
                    if self.core.closed:
                        return
                    log.warning("the rendezvous service has lost its standby: %s", error)
        except Exception as error:  # no standby can be started
            log.warning("the rendezvous service goes on without a standby: %s", error)
        finally:
            self._wanted = False
            self._acknowledge(self._noted)

    async def _recruit(self) -> WorkerInfo:
        self._number += 1
        name = f"{NAME} {self._number}"
        try:
            info = await asyncio.to_thread(start_service, self.front.registrar_client, name)
        except FarrefError as error:
            raise RuntimeError(str(error)) from error
        self._log.clear()  # the copy contains these entries
        number = self._noted
        leader = self.core.me, os.getpid(), processes.host()
        await self._tell(info, [(type(self).stand_by, leader), (type(self).adopt, self.copy())])
        self._acknowledge(number)
        return info

    async def _feed(self, standby: WorkerInfo) -> None:
        while True:
            batch, self._log = self._log, []
            if batch:
                await self._tell(standby, batch)
                self._acknowledge(self._acknowledged + len(batch))
                continue
            self._news.clear()
            await self._news.wait()
            if standby.id in self.core.context.dead:
                raise FarrefError(f"{standby} died")

    async def _tell(self, standby: WorkerInfo, entries: list[Entry]) -> None:
        """Have *standby* repeat *entries*. It answers as long as it lives."""
        future = self.front.calls.call(standby, (self._repeat, (entries,), {}), LONGEST, ())
        future.overlooked = True  # the end of a program does not wait for it
        await future

    def _acknowledge(self, number: int) -> None:
        self._acknowledged = number
        acked, self._acked = self._acked, asyncio.Event()
        acked.set()

    # ---- at both

    def died(self, worker: WorkerId) -> None:
        """*worker* is dead, or counts as dead."""
        self._news.set()  # it may be the standby
        if self._leader is not None and self._leader[0] == worker and not self.leads:
            self._waiting = asyncio.get_running_loop().create_task(self._wait_for_the_end())

    # ---- at the standby

    def repeat(self, entries: list[Entry]) -> None:
        """Repeat *entries*, which the leader has done."""
        if self.leads:
            raise FarrefError(f"{self.core.me} leads now, and is no standby")
        for change, args in entries:
            change(self, *args)

    def stand_by(self, leader: WorkerId, pid: int, host: str) -> None:
        """Take over when the process *pid* of *leader*, on *host*, is gone."""
        here = host == processes.host()
        self._leader = leader, lives.Watched.of(pid) if here else None, here

    async def _wait_for_the_end(self) -> None:
        assert self._leader is not None  # noqa: S101 - `died` has looked
        leader, process, here = self._leader
        if not here:
            log.warning("%s was on another host, and may still run: no takeover", leader)
            return
        while process is not None and process.alive():  # noqa: ASYNC110 - nobody reports its end
            await asyncio.sleep(LOOK)
        self.take_over()
        self.want(True)
