"""`init_rpc`: this process becomes one of several ranks."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from ..actors.api import rpc
from ..actors.api.ending import named
from ..actors.api.system import System
from ..actors.base import addresses
from ..actors.base.errors import SystemAlreadyRuns
from ..actors.calls.futures import Future
from ..actors.hosting.processes import host
from ..protocol.errors import (
    FarrefError,
    FetchTimeoutError,
    SystemDownError,
    WorkerDiedError,
    WorkerNotFoundError,
)
from . import keeper
from .ending import end_world, wait_for_others
from .handles import as_in_torch
from .meeting import KEY, Meeting, meet
from .options import BackendType, RpcBackendOptions, TensorPipeRpcBackendOptions
from .roster import Listing, MisfitError, Origin, Roster
from .rounds import GRACE, WATCH, error_of, is_done, round_of
from .world import FIRST, Here, RankInfo, Ranks, current, dead, enter, is_in_world, list_of_ranks

LOOK = 0.05
"""Seconds between two looks for rank 0."""
FLUSH = 2.0
"""Seconds in which the others take the reason of a failed start, and leave."""


def init_rpc(
    name: str,
    backend: BackendType | None = None,
    rank: int = -1,
    world_size: int | None = None,
    rpc_backend_options: RpcBackendOptions | None = None,
) -> None:
    """Make this process an endpoint, *name*, and wait until all *world_size* ranks are there.

    Args:
        name: unique among the ranks; of letters, digits, ``-``, ``_`` and ``:``, shorter than 128.
        backend: a `BackendType`; farref has one transport, whatever it names.
        rank: of this process; -1: as *init_method* says, for ``env://`` in ``RANK``.
        world_size: the number of ranks; None: as *init_method* says, for ``env://`` in
            ``WORLD_SIZE``. If it does not say either, ranks come and leave when they like, and
            this waits for nobody.
        rpc_backend_options: `TensorPipeRpcBackendOptions`: *rpc_timeout* is the default of all
            waits, and limits this one; *init_method* is the meeting point.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: an argument, or a variable of the environment, is missing or out of range.
        RuntimeError: `init_rpc` was called before, or a rank did not come in time, or died.
    """
    if is_in_world():
        raise RuntimeError("RPC is already initialized in this process; call shutdown() first")
    RankInfo(name, 0)  # raises the errors of names
    options = TensorPipeRpcBackendOptions() if rpc_backend_options is None else rpc_backend_options
    if backend is not None and not isinstance(backend, BackendType):
        raise TypeError(
            "Argument backend must be a member of BackendType, such as "
            f"farref.rpc.BackendType.TENSORPIPE, not {backend!r}"
        )
    if not isinstance(options, RpcBackendOptions):
        raise TypeError(
            "Argument rpc_backend_options must be an instance of RpcBackendOptions, as "
            f"farref.rpc.TensorPipeRpcBackendOptions makes them, not {options!r}"
        )
    if not isinstance(options, TensorPipeRpcBackendOptions):
        raise TypeError(
            f"Could not infer backend for options {options!r}: `rpc_backend_options` must be a "
            "`TensorPipeRpcBackendOptions`"
        )
    meeting = meet(options.init_method, rank, world_size)
    end = time.monotonic() + options.limit
    meeting.wait_for_name(options.limit)
    threads = options.num_worker_threads
    chosen: dict[str, Any] = {"timeout": options.limit, "program": name, "threads": threads}
    if meeting.rank == 0 and meeting.size > 0:
        system, listing = _begin(meeting, name, chosen, end)
    else:
        system, listing = _find(meeting, name, chosen, end)
    as_in_torch(system)
    names, same_program, origins = listing
    world = Ranks(system, meeting, names, origins, own_calls=int(meeting.rank != 0))
    enter(world, same_program=same_program)
    if meeting.size == 0:
        return
    try:
        round_of(world, 0, end)  # before it, a rank may not know its own name
    except BaseException:
        end_world(world, graceful=False)
        raise
    world.begun.set()
    if world.lost:
        end_world(world, graceful=True)
        raise error_of(world)
    if meeting.rank == 0:
        _wait_for_beginnings(world)


# ---- rank 0


def _begin(
    meeting: Meeting, name: str, chosen: dict[str, Any], end: float
) -> tuple[System, Listing]:
    """Start the system, as rank 0, and wait for the others."""
    roster = Here.roster = Roster(meeting.size)
    reach: dict[str, Any] = {"host": meeting.host, "port": meeting.port, "key": meeting.key}
    if meeting.is_open:
        chosen |= reach
    patience = min(end, time.monotonic() + GRACE)
    system = None
    while system is None:
        try:
            system = System(name=meeting.system, capabilities={FIRST: name}, **chosen)
        except FarrefError as error:
            # The rank 0 of an older world was another process, and its system may end just now.
            if not _is_taken(error) or time.monotonic() > patience:
                raise type(error)(f"rank 0 cannot start at {meeting.point}: {error}") from error
            time.sleep(LOOK)
    try:
        future = _arrived(0, name, meeting.size, _main(), _origin())
        while not is_done(future, WATCH):
            for rank in dead(system, roster.names()):
                roster.refuse(WorkerDiedError(f"rank {rank} died before all had arrived"))
            if time.monotonic() > end:
                late = named([str(rank) for rank in roster.missing()]).replace(";", ",")
                roster.refuse(
                    FetchTimeoutError(
                        f"of {meeting.size} ranks {late} did not come to {meeting.point} within "
                        "the rpc_timeout; see whether they have started, with the same address"
                    )
                )
        return system, future.result()
    except BaseException as error:
        patience = min(end, time.monotonic() + GRACE) if isinstance(error, MisfitError) else 0.0
        while not roster.all_came and time.monotonic() < patience:
            time.sleep(LOOK)  # the others may come just now
        wait_for_others(system, FLUSH)
        system.shutdown(timeout=0)
        raise


def _is_taken(error: BaseException | None) -> bool:
    while error is not None:
        taken = isinstance(error, FileExistsError | SystemAlreadyRuns)
        if taken or getattr(error, "errno", None) == errno.EADDRINUSE:
            return True
        error = error.__cause__
    return False


def _arrived(rank: int, name: str, size: int, main: str, origin: Origin) -> Future[Listing]:
    """Runs at rank 0, or the keeper, for each rank. An error is the answer of all that wait."""
    roster = list_of_ranks()
    try:
        return roster.arrive(rank, name, size, main, origin)
    except MisfitError as error:
        if roster.may_begin:  # nobody waits in vain
            roster.refuse(MisfitError(f"the ranks do not fit together: {error}"))
        raise


def _wait_for_beginnings(world: Ranks) -> None:
    """Wait until the others know that all are there: rank 0 may leave at once, and end the system.

    It is not an error if one of them dies or leaves meanwhile.
    """
    asked = []
    for rank, name in world.names.items():
        if rank == 0:
            continue
        with contextlib.suppress(WorkerDiedError, WorkerNotFoundError):
            asked.append(rpc.rpc_async(name, _has_begun, timeout=GRACE))
    world.own_calls += len(asked)
    for future in asked:
        is_done(future, GRACE)


def _has_begun() -> bool:
    """Runs at the others."""
    return current().begun.wait(GRACE)


# ---- the others


def _find(
    meeting: Meeting, name: str, chosen: dict[str, Any], end: float
) -> tuple[System, Listing]:
    """Enter the system of rank 0, or of the keeper, and wait until all have who must."""
    here = meeting.is_here
    if not here and not meeting.is_open:
        raise ValueError(
            f"rank {meeting.rank} is not on the machine of rank 0 ({meeting.point}). Ranks of "
            "several machines need a shared key: make one with `farref key FILE`, copy it to each "
            f"machine, and set {KEY}=FILE there for every rank"
        )
    if here:
        enter_system = partial(System.attach, meeting.system, **chosen)
    else:
        first = addresses.at(meeting.host or "", meeting.port)
        enter_system = partial(System.join, first, key=meeting.key, **chosen)
    why: Exception | None = None
    while time.monotonic() < end:
        system = None
        try:
            system = enter_system()
            return system, _arrive(system, meeting, name, end + GRACE)
        except (SystemDownError, WorkerNotFoundError) as error:
            why = error  # rank 0 has not begun, or an older world ends
            if system is not None:
                system.shutdown(timeout=0)
            elif meeting.size == 0 and here:
                try:
                    keeper.start(meeting, end - time.monotonic())
                except SystemDownError as failure:  # maybe another rank has started one
                    why = failure
                else:
                    continue
            time.sleep(LOOK)
        except BaseException:
            if system is not None:
                system.shutdown(timeout=0)
            raise
    who = "rank 0" if meeting.size > 0 else "a rank of that machine"
    raise FetchTimeoutError(
        f"{who} did not start at {meeting.point} within the rpc_timeout; see whether it runs, "
        f"with the same address ({why})"
    ) from why


def _arrive(system: System, meeting: Meeting, name: str, end: float) -> Listing:
    first = system.hosts()[0].capabilities.get(FIRST)
    if first is None:
        raise SystemDownError(f"the system at {meeting.point} was not started by init_rpc")
    args = (meeting.rank, name, meeting.size, _main(), _origin())
    while True:
        left = max(1.0, end - time.monotonic())
        try:
            listing: Listing = rpc.rpc_sync(first, _arrived, args, timeout=left)
        except WorkerNotFoundError:  # its system runs, but it is not an endpoint yet
            if time.monotonic() > end:
                raise
            time.sleep(LOOK)
        except WorkerDiedError as error:
            if meeting.size == 0:
                raise SystemDownError(f"the keeper at {meeting.point} has ended") from error
            raise WorkerDiedError(f"rank 0 died before all ranks had arrived: {error}") from error
        else:
            return listing


# ---- shared


def _origin() -> Origin:
    return host(), os.getpid()


def _main() -> str:
    """Tells programs apart: a digest of the file that this process runs, or nothing."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if file is None:
        return ""
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return ""
