"""`init_rpc` and `shutdown`: this process as one of several ranks."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..actors.api import rpc
from ..actors.api.ending import Ending
from ..actors.api.system import System
from ..actors.looking.counting import counters
from ..actors.wire.settings import THREADS, timeouts_as_in_torch
from ..protocol.errors import (
    FarrefError,
    FetchTimeoutError,
    SystemDownError,
    WorkerDiedError,
    WorkerNotFoundError,
)
from ..protocol.ids import is_name
from ..serialization.plain import share_main
from .meeting import KEY, Meeting, meet
from .options import RpcBackendOptions, TensorPipeRpcBackendOptions
from .roster import Listing, Roster, Round

if TYPE_CHECKING:
    from ..actors.calls.futures import Future
    from ..actors.wire.messages import WorkerInfo

FIRST = "farref rpc"
"""The capability of the system that holds the name of rank 0."""
LOOK = 0.05
"""Seconds between two looks for rank 0."""
WATCH = 0.5
"""Seconds between two looks of rank 0 for dead ranks, while it waits for them."""
GRACE = 10.0
"""Seconds that the others wait longer than rank 0, which knows the reason; and seconds for which
rank 0 waits until the others have left."""


@dataclass(frozen=True, slots=True)
class RankInfo:
    """A rank and its name, as PyTorch's `WorkerInfo`."""

    name: str
    id: int
    """The rank."""

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self.id}, name={self.name})"


class Ranks:
    """The ranks that have met, seen by one of them."""

    def __init__(self, system: System, meeting: Meeting, names: tuple[str, ...]) -> None:
        self.system = system
        self.meeting = meeting
        self.names = names
        self.pid = os.getpid()
        self.own_calls = 0 if meeting.rank == 0 else 1
        """Calls of this module's: the first one told that this rank has arrived."""


class _Here:
    """The state of this process."""

    world: Ranks | None = None
    roster: Roster | None = None
    """At rank 0."""


def init_rpc(
    name: str,
    backend: object = None,  # noqa: ARG001 - PyTorch's: there is one
    rank: int = -1,
    world_size: int | None = None,
    rpc_backend_options: RpcBackendOptions | None = None,
) -> None:
    """Make this process an endpoint, *name*, and wait until all *world_size* ranks are there.

    Args:
        name: unique among the ranks.
        backend: ignored: farref has one transport.
        rank: of this process; -1: as *init_method* says, for ``env://`` in ``RANK``.
        world_size: the number of ranks; None: as *init_method* says, for ``env://`` in
            ``WORLD_SIZE``.
        rpc_backend_options: `TensorPipeRpcBackendOptions`: *rpc_timeout* is the default of all
            waits, and limits this one; *init_method* is the meeting point.

    Raises:
        ValueError: an argument, or a variable of the environment, is missing or out of range.
        RuntimeError: `init_rpc` was called before, or a rank did not come in time, or died.
    """
    if _Here.world is not None and _Here.world.pid == os.getpid():
        raise RuntimeError("this process has called init_rpc already; call shutdown() first")
    if not is_name(name):
        raise ValueError(f"the name of a rank must be a non-empty text in UTF-8, not {name!r}")
    options = TensorPipeRpcBackendOptions() if rpc_backend_options is None else rpc_backend_options
    if not isinstance(options, RpcBackendOptions):
        raise TypeError(
            f"rpc_backend_options must be farref.rpc.TensorPipeRpcBackendOptions, not {options!r}"
        )
    meeting = meet(options.init_method, rank, world_size)
    end = time.monotonic() + options.limit
    threads = getattr(options, "num_worker_threads", THREADS)
    chosen: dict[str, Any] = {"timeout": options.limit, "program": name, "threads": threads}
    if meeting.rank == 0:
        system, listing = _begin(meeting, name, chosen, end)
    else:
        system, listing = _find(meeting, name, chosen, end)
    names, same = listing
    share_main(same)
    timeouts_as_in_torch(True)
    world = _Here.world = Ranks(system, meeting, names)
    try:
        _, lost = _round(world, 0, end)  # before it, a rank may not know its own name
    except BaseException:
        _leave(world, graceful=False)
        raise
    if lost:
        _leave(world, graceful=False)
        raise _lost(world, lost)


# ---- the beginning


def _begin(
    meeting: Meeting, name: str, chosen: dict[str, Any], end: float
) -> tuple[System, Listing]:
    """Start the system, as rank 0, and wait for the others."""
    roster = _Here.roster = Roster(meeting.size)
    reach: dict[str, Any] = {"host": meeting.host, "port": meeting.port, "key": meeting.key}
    try:
        system = System(
            name=meeting.system,
            capabilities={FIRST: name},
            **(reach if meeting.is_open else {}),
            **chosen,
        )
    except FarrefError as error:
        raise type(error)(f"rank 0 cannot start at {meeting.point}: {error}") from error
    try:
        future = roster.arrive(0, name, meeting.size, _main())
        while not _is_done(future, WATCH):
            for rank, why in _dead(system, roster.names()).items():
                roster.refuse(WorkerDiedError(f"rank {rank} died before all had arrived: {why}"))
            if time.monotonic() > end:
                late = ", ".join(map(str, roster.missing()))
                roster.refuse(
                    FetchTimeoutError(
                        f"of {meeting.size} ranks {late} did not come to {meeting.point} within "
                        "the rpc_timeout; see whether they have started, with the same address"
                    )
                )
        return system, future.result()
    except BaseException:
        _flush(system)
        system.shutdown(timeout=0)
        raise


def _flush(system: System) -> None:
    """Give the others the time to take the answer and leave."""
    with contextlib.suppress(FarrefError):
        end = time.monotonic() + 2.0
        while len(system.workers()) > 1 and time.monotonic() < end:
            time.sleep(LOOK)


def _find(
    meeting: Meeting, name: str, chosen: dict[str, Any], end: float
) -> tuple[System, Listing]:
    """Enter the system of rank 0, and wait until all have."""
    here = meeting.is_here
    if not here and not meeting.is_open:
        raise ValueError(
            f"rank {meeting.rank} is not on the machine of rank 0 ({meeting.point}). Ranks of "
            "several machines need a shared key: make one with `farref key FILE`, copy it to each "
            f"machine, and set {KEY}=FILE there for every rank"
        )
    why: Exception | None = None
    while time.monotonic() < end:
        system = None
        try:
            if here:
                system = System.attach(meeting.system, **chosen)
            else:
                first = f"{meeting.host}:{meeting.port}"
                system = System.join(first, key=meeting.key, **chosen)
            return system, _arrive(system, meeting, name, end + GRACE)
        except (SystemDownError, WorkerNotFoundError) as error:
            why = error  # rank 0 has not begun, or an older world ends
            if system is not None:
                system.shutdown(timeout=0)
            time.sleep(LOOK)
        except BaseException:
            if system is not None:
                system.shutdown(timeout=0)
            raise
    raise FetchTimeoutError(
        f"rank 0 did not start at {meeting.point} within the rpc_timeout; see whether it runs, "
        f"with the same address ({why})"
    ) from why


def _arrive(system: System, meeting: Meeting, name: str, end: float) -> Listing:
    first = system.hosts()[0].capabilities.get(FIRST)
    if first is None:
        raise SystemDownError(f"the system at {meeting.point} was not started by init_rpc")
    args = (meeting.rank, name, meeting.size, _main())
    while True:
        left = max(1.0, end - time.monotonic())
        try:
            listing: Listing = rpc.rpc_sync(first, _arrived, args, timeout=left)
        except WorkerNotFoundError:  # its system runs, and it is no endpoint so far
            if time.monotonic() > end:
                raise
            time.sleep(LOOK)
        except WorkerDiedError as error:
            raise WorkerDiedError(f"rank 0 died before all ranks had arrived: {error}") from error
        else:
            return listing


def _arrived(rank: int, name: str, size: int, main: str) -> Future[Listing]:
    """Runs at rank 0."""
    roster = _list_of_ranks()
    try:
        return roster.arrive(rank, name, size, main)
    except ValueError as error:
        roster.refuse(ValueError(f"the ranks do not fit together: {error}"))  # nobody waits in vain
        raise


def _list_of_ranks() -> Roster:
    if _Here.roster is None:
        raise SystemDownError("rank 0 has left")
    return _Here.roster


def _main() -> str:
    """Tells programs apart: a digest of the file that this process runs, or nothing."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if file is None:
        return ""
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return ""


# ---- the end


def shutdown(graceful: bool = True, timeout: float = 0) -> None:
    """Leave, all ranks together. Blocks.

    Args:
        graceful: first wait until every rank has called this, and no call of anybody is
            unanswered. Meanwhile this process serves the others. Otherwise leave at once; if rank
            0 does that, the others' calls fail.
        timeout: seconds to wait; 0 is no limit.

    Raises:
        RuntimeError: before `init_rpc`; or a rank has died, or did not call this in time. This
            process has left then.
        ValueError: the timeout is negative.
    """
    world = current()
    if not timeout >= 0:
        raise ValueError(f"a timeout must be 0 (no limit) or more seconds, not {timeout}")
    end = time.monotonic() + (timeout or math.inf)
    try:
        if graceful:
            _part(world, end)
    finally:
        _leave(world, graceful=graceful)


def _leave(world: Ranks, *, graceful: bool) -> None:
    _Here.world = None
    share_main(False)
    timeouts_as_in_torch(False)
    try:
        if world.meeting.rank == 0 and graceful:
            _outlast(world.system)
    finally:
        _Here.roster = None
        world.system.shutdown(graceful=graceful, timeout=0)


def _part(world: Ranks, end: float) -> None:
    """Wait until nobody waits for anybody, round by round."""
    quiet, lost = False, tuple[str, ...]()
    while not quiet:
        _finish(world, end)
        made = sum(count for kind, count in counters().user.items() if kind != "Reply")
        quiet, lost = _round(world, made - world.own_calls, end)
    if lost:
        raise _lost(world, lost)


def _lost(world: Ranks, lost: tuple[str, ...]) -> WorkerDiedError:
    return WorkerDiedError(f"of {world.meeting.size} ranks some have died: {'; '.join(lost)}")


def _round(world: Ranks, calls: int, end: float) -> Round:
    """Wait until each rank has come to this round."""
    if world.meeting.rank == 0:
        return _lead_round(world, calls, end)
    world.own_calls += 1
    left = max(0.01, end + GRACE - time.monotonic())
    args = (world.meeting.rank, calls)
    answer: Round = rpc.rpc_sync(world.names[0], _ready, args, timeout=left)
    return answer


def _finish(world: Ranks, end: float) -> None:
    left = Ending(world.system.endpoint, last=False).wait(max(0.0, end - time.monotonic()))
    if left:
        raise FetchTimeoutError(f"shutdown() gives up waiting for {'; '.join(left)}")


def _ready(rank: int, calls: int) -> Future[Round]:
    """Runs at rank 0."""
    return _list_of_ranks().ready(rank, calls)


def _lead_round(world: Ranks, calls: int, end: float) -> Round:
    roster = _list_of_ranks()
    future = roster.ready(0, calls)
    while not _is_done(future, WATCH):
        for rank, why in _dead(world.system, roster.names()).items():
            roster.lose(rank, why)
        if time.monotonic() > end:
            raise FetchTimeoutError("not all ranks came in time")
    return future.result()


def _outlast(system: System) -> None:
    """Wait until the others have left: rank 0 ends the system."""
    with contextlib.suppress(FarrefError):
        end = time.monotonic() + GRACE
        while len(system.workers()) > 1 and time.monotonic() < end:
            time.sleep(0.005)


# ---- shared


def _is_done(future: Future[Any], seconds: float) -> bool:
    """Whether *future* is done, after *seconds* at most. The error of its outcome is not raised."""
    try:
        future.exception(seconds)
    except FetchTimeoutError:
        return future.done()
    return True


def _dead(system: System, names: dict[int, str]) -> dict[int, str]:
    """Those of the ranks *names* that have died, each with the reason."""
    there = {info.name for info in system.workers()}
    return {rank: f"{name!r} is gone" for rank, name in names.items() if name not in there}


def current() -> Ranks:
    """The world of this process. Raises `SystemDownError` before `init_rpc`."""
    if _Here.world is None or _Here.world.pid != os.getpid():
        raise SystemDownError("RPC is not initialized in this process; call init_rpc() first")
    return _Here.world


def endpoint_of(to: Any) -> str | WorkerInfo:
    """What *to* is called in `farref`. Raises `ValueError` if there is no such rank."""
    if isinstance(to, RankInfo):
        return to.name
    if isinstance(to, int) and not isinstance(to, bool):
        names = current().names
        if not 0 <= to < len(names):
            raise ValueError(f"there is no rank {to}; ranks are from 0 to {len(names) - 1}")
        return names[to]
    current()
    found: str | WorkerInfo = to
    return found


def get_worker_info(worker_name: str | None = None) -> RankInfo:
    """The name and the rank of *worker_name*, or of this process. Does not block.

    Raises:
        WorkerNotFoundError: a RuntimeError; no rank has that name.
        SystemDownError: a RuntimeError; before `init_rpc`.
    """
    world = current()
    if worker_name is None:
        return RankInfo(world.names[world.meeting.rank], world.meeting.rank)
    if worker_name not in world.names:
        raise WorkerNotFoundError(
            f"no rank is named {worker_name!r}; the ranks are {', '.join(world.names)}"
        )
    return RankInfo(worker_name, world.names.index(worker_name))
