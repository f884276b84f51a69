"""Rounds: all ranks wait for each other, and rank 0 looks for dead ranks meanwhile."""

from __future__ import annotations

import time
from typing import Any

from ..actors.api import rpc
from ..actors.api.ending import named
from ..actors.calls.futures import Future
from ..protocol.errors import FetchTimeoutError, SystemDownError, WorkerDiedError
from .roster import Round
from .world import Ranks, dead, list_of_ranks

WATCH = 0.5
"""Seconds between two looks of rank 0 for dead ranks, while it waits for them."""
LATER = 0.25
"""The same seconds at the end: a shutdown keeps its timeout."""
GRACE = 10.0
"""Seconds that the others wait longer than rank 0, which knows the reason; and seconds for which
rank 0 waits until the others have left."""


def round_of(world: Ranks, calls: int, end: float) -> bool:
    """Wait until each rank has come to this round. This rank has made *calls* calls.

    Returns whether no rank has made calls since the round before; notes the lost ranks in *world*.
    """
    if world.meeting.rank == 0:
        answer = _lead(world, calls, end)
    else:
        world.own_calls += 1
        grace = GRACE if not world.begun.is_set() else LATER
        left = max(0.01, end + grace - time.monotonic())
        args = (world.meeting.rank, calls)
        try:
            answer = rpc.rpc_sync(world.names[0], _ready, args, timeout=left)
        except FetchTimeoutError as error:
            raise FetchTimeoutError(
                f"not all {world.meeting.size} ranks came in time: rank 0 does not answer, or "
                "waits for the others"
            ) from error
        except (WorkerDiedError, SystemDownError) as error:  # the system ends with rank 0
            world.lost = (0,)
            raise error_of(world) from error
    quiet, world.lost = answer
    return quiet


def _ready(rank: int, calls: int) -> Future[Round]:
    """Runs at rank 0."""
    return list_of_ranks().ready(rank, calls)


def _lead(world: Ranks, calls: int, end: float) -> Round:
    roster = list_of_ranks()
    future = roster.ready(0, calls)
    while not is_done(future, min(WATCH, max(0.0, end - time.monotonic()))):
        for rank in dead(world.system, roster.names()):
            roster.lose(rank)
        if time.monotonic() > end:
            raise FetchTimeoutError("not all ranks came in time")
    return future.result()


def is_done(future: Future[Any], seconds: float) -> bool:
    """Whether *future* is done, after *seconds* at most. The error of its outcome is not raised."""
    try:
        future.exception(seconds)
    except FetchTimeoutError:
        return future.done()
    return True


def error_of(world: Ranks) -> WorkerDiedError:
    """The error for the deaths of the lost ranks."""
    said = named([f"rank {rank}: {world.names[rank]!r} is gone" for rank in world.lost])
    return WorkerDiedError(f"of {world.meeting.size} ranks some have died: {said}")
