"""`shutdown`: the ranks leave, all together."""

from __future__ import annotations

import contextlib
import math
import time

from ..actors.api.ending import Ending, named
from ..actors.api.system import System
from ..actors.base.lives import Watched, wait_for_one
from ..actors.hosting.processes import host
from ..actors.inspect.counting import counters
from ..protocol.errors import FarrefError, FetchTimeoutError, SystemDownError
from .rounds import GRACE, error_of, round_of
from .world import Here, Ranks, current, leave

PARTING = 0.5
"""Seconds for which rank 0 waits for the others, at least, after the timeout of its shutdown."""
LINGER = 5.0
"""Seconds for which a rank that has left waits for the processes of dead ranks to end."""


def shutdown(graceful: bool = True, timeout: float = 0) -> None:
    """Leave, all ranks together. Blocks.

    Args:
        graceful: first wait until every rank has called this, and no call of anybody is
            unanswered. Meanwhile this process serves the others. Otherwise leave at once; if rank
            0 does that, the others' calls fail. Without a ``world_size`` this waits for the calls
            of this process only, and rank 0 is like the others.
        timeout: seconds to wait; 0 means no limit.

    Raises:
        RuntimeError: before `init_rpc`; or a rank has died (`WorkerDiedError`), or did not call
            this in time. This process has left then; and the process of the dead rank has ended,
            if it is on this host and needs no longer than `LINGER`.
        ValueError: the timeout is negative.
    """
    world = current()
    if not timeout >= 0:
        raise ValueError(f"a timeout must be 0 (no limit) or more seconds, not {timeout}")
    end = time.monotonic() + (timeout or math.inf)
    try:
        if graceful:
            _part(world, end)
    except KeyboardInterrupt:
        graceful = False  # at once
        raise
    finally:
        end_world(world, graceful=graceful, end=end)


def end_world(world: Ranks, *, graceful: bool, end: float = math.inf) -> None:
    """Leave *world*; rank 0 ends its system, if *graceful* after the others have left.

    Rank 0 waits for the others until *end*, or for `PARTING` at least: so they can take the reason.
    Then it waits until the processes of dead ranks have ended. `mp.spawn` and torchrun report the
    error of the process that ends first: so they report the cause.
    """
    if not leave(world):
        world.system.shutdown(graceful=graceful, timeout=0)  # wait for the thread that does it
        return
    core = world.system.endpoint.core
    core.ended = core.ended or SystemDownError(
        "this rank has left by rpc.shutdown(), and its references with it; call init_rpc() again, "
        "and create the objects anew"
    )
    gentle = False
    try:
        if Here.roster is not None and graceful:
            patience = min(GRACE, max(PARTING, end - time.monotonic()))
            wait_for_others(world.system, patience)
        gentle = graceful
    finally:
        # The others wait for futures of the roster. Were they forgotten before the system has
        # ended, the others would hear of that, and not that this rank is gone.
        roster, Here.roster = Here.roster, None
        world.system.shutdown(graceful=gentle, timeout=0)
        del roster
    if graceful:
        _wait_for_lost(world)


def _part(world: Ranks, end: float) -> None:
    """Wait until nobody waits for anybody, round by round."""
    quiet = False
    if world.meeting.size == 0:
        _finish(world, end)
        return
    while not quiet:
        _finish(world, end)
        made = sum(count for kind, count in counters().user.items() if kind != "Reply")
        quiet = round_of(world, made - world.own_calls, end)
    if world.lost:
        raise error_of(world)


def _finish(world: Ranks, end: float) -> None:
    left = Ending(world.system.endpoint, last=False).wait(max(0.0, end - time.monotonic()))
    if left:
        raise FetchTimeoutError(f"shutdown() gives up waiting for {named(left)}")


def _wait_for_lost(world: Ranks) -> None:
    end = time.monotonic() + LINGER
    for rank in world.lost:
        where, pid = world.origins[rank]
        process = Watched.of(pid) if where == host() else None
        if process is not None and process.running():
            wait_for_one([pid], timeout=max(0.0, end - time.monotonic()))


def wait_for_others(system: System, seconds: float) -> None:
    """At rank 0: wait until all others have left *system*, for *seconds* at most."""
    end = time.monotonic() + seconds
    with contextlib.suppress(FarrefError):
        while len(system.workers()) > 1 and time.monotonic() < end:
            time.sleep(0.005)
