"""`rendezvous`: actors and programs meet, and meet again when one dies or another joins."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import secrets
import weakref
from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from ...protocol.errors import FarrefError, RendezvousError, RendezvousTimeoutError
from ...protocol.ids import WorkerId
from ...protocol.rendezvous.limits import RoundLimits, Timeouts
from ...protocol.rendezvous.state import Join
from ..core.current import frame
from ..wire.messages import WorkerInfo
from ..wire.settings import LONGEST, check_timeout
from .client import Client, blocking, client_of
from .handler import (
    RendezvousHandler,
    RendezvousHandlerRegistry,
    RendezvousParameters,
    checked_run_id,
)
from .hosted import Formed
from .store import AwaitableStore, Store

T = TypeVar("T")

LEAVING = 30.0
"""Seconds for which a dropped node tries to leave."""
BACKEND = "farref"
"""The name of the service as a backend."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a round."""

    rank: int
    """Its rank, from 0."""
    name: str
    """The node's name."""
    worker: WorkerInfo
    """Its endpoint, for `farref.remote`, `rpc_sync` and the like."""


@functools.lru_cache(maxsize=4)
def _members(text: str, homes: tuple[WorkerInfo, ...]) -> tuple[GroupMember, ...]:
    rows = enumerate(json.loads(text))
    return tuple(GroupMember(rank, name, homes[place]) for rank, (name, place) in rows)


class _News:
    """The reason to meet again, once there is one. Held by its listener and by the group."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.told = asyncio.Event()

    async def hear(self, client: Client, run: str, node: WorkerId, number: int) -> None:
        """Wait for the reason."""
        try:
            self.text = str(await client.ask("watch", run, node, number, seconds=LONGEST))
        except FarrefError as error:
            self.text = str(error)
        self.told.set()

    async def within(self, seconds: float) -> str | None:
        """Wait for the reason, for *seconds* at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.told.wait()
        return self.text


class _Presence:
    """A node's presence in a run. When nobody holds it any more, the node leaves the run.

    The `AwaitableRendezvous` and its groups hold it. When the program has dropped them all, the
    node cannot meet the others again, but its keep-alives would make them wait.
    """

    def __init__(self, client: Client, run: str, node: WorkerId) -> None:
        self._gone = weakref.finalize(self, _go, client, run, node)
        self._gone.atexit = False

    def end(self) -> None:
        """The node has left, so nothing is left to do when nobody holds this."""
        self._gone.detach()


def _go(client: Client, run: str, node: WorkerId) -> None:
    async def leave() -> None:
        client.let_go(run, node)
        await client.ask("leave", run, node, seconds=LEAVING)

    client.submit(leave())


class Group:
    """A round that was formed, seen by one of its members.

    The member takes part as long as somebody holds this, or the result of `rendezvous`.
    """

    def __init__(
        self, client: Client, node: WorkerId, run: str, formed: Formed, presence: _Presence
    ) -> None:
        self.run_id = run
        """The run's name."""
        self.round = formed.round
        """The round's number in the run, from 0."""
        self.rank = formed.rank
        """This member's rank, from 0 to `world_size` - 1."""
        self.members = _members(formed.members, formed.homes)
        """The members by rank. The list is the same at each of them."""
        self.store = Store(AwaitableStore(client, run, self.round, node))
        """The store of this round."""
        self._client = client
        self._presence = presence
        self._news = _News()
        client.submit(self._news.hear(client, run, node, self.round))

    @property
    def world_size(self) -> int:
        """The number of members."""
        return len(self.members)

    @property
    def news(self) -> str | None:
        """The reason to meet again: a member was lost, or others wait. None while all is well."""
        return self._news.text

    def wait_for_news(self, timeout: float | None = None) -> str | None:
        """Block until there are `news`, for *timeout* seconds at most (0 polls).

        Returns the news, or None if there were none. Raises `WouldBlockError` in a handler: await
        `change` there.
        """
        seconds = check_timeout(timeout, self._client.core.settings.timeout, poll=True)
        doing = self._news.within(seconds)
        return self._client.block(doing, "news of the group", "`await group.change()`")

    async def change(self) -> str | None:
        """Wait for `news` in a handler."""
        return await self._client.wait(self._news.within(LONGEST))

    def __repr__(self) -> str:
        return f"<round {self.round} of {self.run_id!r}: rank {self.rank} of {self.world_size}>"


class AwaitableRendezvous:
    """A node in a run of the system's rendezvous service. All its methods are awaited."""

    def __init__(
        self, client: Client, run: str, join: Join, timeouts: Timeouts, *, standby: bool
    ) -> None:
        self._client = client
        self._run = run
        self._join = join
        self._timeouts = timeouts
        self._standby = standby
        self._shut = False
        self._presence: _Presence | None = None
        """Set while the node takes part."""
        self.group: Group | None = None
        """The last round of this node."""

    async def next_rendezvous(self) -> Group:
        """Take part in the next round, and wait until it is formed.

        Raises:
            RendezvousTimeoutError: it was not formed within `RendezvousTimeouts.join` seconds.
            RendezvousClosedError, RendezvousGracefulExitError: the run was closed.
            RendezvousConnectionError: the service cannot be reached.
            RendezvousStateError: the run is for other numbers of nodes.
        """
        return await self._client.wait(self._next())

    async def is_closed(self) -> bool:
        """Whether the run was closed, so that no further round will be formed."""
        return self._shut or (await self._about())[0]

    async def num_nodes_waiting(self) -> int:
        """The number of late nodes that wait for the next round. If above 0, meet them.

        At least 1 if a member of this node's round was lost. 0 once the run is closed.
        """
        return (await self._about())[1]

    async def set_closed(self) -> None:
        """Close the run for all."""
        await self._ask("close", self._timeouts, self._join, seconds=self._timeouts.close)

    async def leave(self) -> None:
        """Leave the run, without closing it for the others."""
        self._absent()
        await self._ask("leave", self._join.node, seconds=self._timeouts.close)

    async def shutdown(self) -> bool:
        """Close the run and leave it; returns whether it succeeded. Safe to call again."""
        if not self._shut:
            try:
                await self.set_closed()
                await self.leave()
            except RendezvousError:
                return False
            self._shut = True
        return True

    # ---- inside

    async def _next(self) -> Group:
        client, core, node = self._client, self._client.core, self._join.node
        if core.address is None:
            raise AssertionError("an endpoint that runs code has joined")
        home = WorkerInfo(core.me, core.address)
        after = self.group.round if self.group is not None else -1
        join = replace(self._join, after=after)
        presence = self._presence = self._presence or _Presence(client, self._run, node)
        client.keep_alive(self._run, node, self._timeouts.keep_alive)
        formed: Formed | None = None
        limit = asyncio.timeout(self._timeouts.join)
        try:
            async with limit:
                asked = "join", self._run, self._timeouts, join, home
                formed = await client.ask(*asked, seconds=LONGEST, standby=self._standby)
        except TimeoutError:
            if not limit.expired():
                raise
            raise RendezvousTimeoutError(
                f"{node} waited {self._timeouts.join:g} s for a round of run {self._run!r}: fewer "
                f"than {self._join.limits.min_nodes} nodes came, or members of the last round "
                "neither left it nor joined again"
            ) from None
        finally:
            if formed is None:
                self._absent()
                with contextlib.suppress(RendezvousError):  # or the service will give it up
                    await self._ask("leave", node, seconds=self._timeouts.heartbeat)
        self.group = Group(client, node, self._run, formed, presence)
        return self.group

    def _absent(self) -> None:
        self._client.let_go(self._run, self._join.node)
        if self._presence is not None:
            self._presence.end()
            self._presence = None

    async def _about(self) -> tuple[bool, int]:
        number = self.group.round if self.group is not None and self._presence is not None else -1
        asked = "about", self._join.node, number
        closed, waiting = await self._ask(*asked, seconds=self._timeouts.heartbeat)
        return bool(closed), int(waiting)

    async def _ask(self, what: str, *args: Any, seconds: float) -> Any:
        doing = self._client.ask(what, self._run, *args, seconds=seconds, standby=self._standby)
        return await self._client.wait(doing)


class ActorRendezvous(RendezvousHandler):
    """A node in a run of the system's rendezvous service; made by `rendezvous`.

    It has the methods of `AwaitableRendezvous`, which block here. In a handler ``await`` it for the
    next round, and await the methods of `awaitable`. As a context manager (``with``, in a handler
    ``async with``) it leaves at the end. It also leaves once nobody holds it or one of its groups.
    """

    def __init__(self, awaitable: AwaitableRendezvous, client: Client, run: str) -> None:
        self.awaitable = awaitable
        """The same node for handlers: ``await meeting.awaitable.leave()``."""
        self._client = client
        self._run = run

    @property
    def group(self) -> Group | None:
        """The last round of this node."""
        return self.awaitable.group

    def get_backend(self) -> str:
        return BACKEND

    def get_run_id(self) -> str:
        return self._run

    def next_rendezvous(self) -> Group:
        """Take part in the next round. Blocks until it is formed.

        Raises the errors of `AwaitableRendezvous.next_rendezvous`, and `WouldBlockError` in a
        handler: write ``await meeting`` there.
        """
        return self._block(self.awaitable.next_rendezvous())

    is_closed = blocking(AwaitableRendezvous.is_closed)
    num_nodes_waiting = blocking(AwaitableRendezvous.num_nodes_waiting)
    set_closed = blocking(AwaitableRendezvous.set_closed)
    leave = blocking(AwaitableRendezvous.leave)
    shutdown = blocking(AwaitableRendezvous.shutdown)

    def __await__(self) -> Generator[Any, None, Group]:
        """Take part in the next round, in a handler: ``group = await meeting``."""
        return self.awaitable.next_rendezvous().__await__()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.awaitable.leave()

    def _block(self, doing: Coroutine[Any, Any, T]) -> T:
        return self._client.block(doing, "the rendezvous", "`await` it, or `.awaitable`'s methods")


def rendezvous(
    run_id: str,
    *,
    min_nodes: int,
    max_nodes: int | None = None,
    name: str | None = None,
    order: int | None = None,
    timeouts: Timeouts | None = None,
    standby: bool = True,
) -> ActorRendezvous:
    """Take part in run *run_id* with the calling endpoint. Does not wait.

    ::

        meeting = farref.rendezvous("training", min_nodes=2, max_nodes=4)
        group = meeting.next_rendezvous()         # in a handler: group = await meeting
        print(group.rank, group.world_size, group.members)
        group.store.set("loss", "0.5")

    Args:
        run_id: nodes with the same one take part in the same run.
        min_nodes: the least number of nodes in a round.
        max_nodes: the largest number of nodes in a round; *min_nodes* by default.
        name: this node's name; by default its endpoint's. A node that replaces a dead member
            under the same name gets its rank.
        order: a number. Newcomers with smaller numbers get smaller ranks; newcomers without one
            come last.
        timeouts: the limits for waits. Two of them concern the whole run: the length of its last
            call, and the time until a silent node is given up. For these the first node of the run
            decides, or the first one after everybody has left.
        standby: whether the service has a second process that takes over when the first is
            killed. The first node of any run of the system decides.

    Raises:
        ValueError: the run has no name, or the numbers are out of range.
        SystemDownError: outside any system.
    """
    checked_run_id(run_id)
    limits = RoundLimits(min_nodes, min_nodes if max_nodes is None else max_nodes)
    client = client_of(frame().core.front)
    node = WorkerId(name or client.core.me.name, secrets.randbits(63))
    join = Join(node=node, limits=limits, order=order)
    node_here = AwaitableRendezvous(client, run_id, join, Timeouts.of(timeouts), standby=standby)
    return ActorRendezvous(node_here, client, run_id)


def _create(params: RendezvousParameters) -> ActorRendezvous:
    return rendezvous(
        params.run_id,
        min_nodes=params.min_nodes,
        max_nodes=params.max_nodes,
        name=params.local_addr,
        timeouts=params.timeouts(),
    )


rendezvous_handler_registry = RendezvousHandlerRegistry()
"""The registered backends. ``"farref"`` is the rendezvous service of the caller's system."""
rendezvous_handler_registry.register(BACKEND, _create)
