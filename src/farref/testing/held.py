"""The references that a system's endpoints hold, and the wait until there are none."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from ..actors.api.rpc import rpc_async
from ..actors.api.system import System
from ..actors.inspect.inspection import ReferenceInfo, references
from ..actors.shells.program import CallInPort
from ..protocol.errors import FarrefError, WorkerDiedError

PATIENCE = 20.0
"""Seconds: more than the wait of any usual test."""
EXPLAINED = 5
"""The most objects that a report explains: each explanation asks every endpoint."""


def until(system: System, condition: Callable[[], object], seconds: float = PATIENCE) -> bool:
    """Whether *condition* holds before *seconds* are over; the system runs meanwhile.

    The in-process base runs its actors only while the program calls into the library, so there
    this calls in again and again. On the other bases it only sleeps.
    """
    if isinstance(system._port, CallInPort):
        met = False

        def once() -> bool:  # the loop checks again after success; a condition may have effects
            nonlocal met
            met = met or bool(condition())
            return met

        return system._port.run_until(once, seconds)
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def references_everywhere(system: System) -> dict[str, list[ReferenceInfo]]:
    """The tables of every living endpoint (see `farref.references`), by name, without empty ones.

    An endpoint that dies while it is asked is left out, too, and so is a program that leaves.
    """
    futures = {}
    for info in system.workers():
        with suppress(WorkerDiedError):
            futures[info.name] = rpc_async(info, list_references, timeout=PATIENCE)
    found = {}
    for name, future in futures.items():
        with suppress(WorkerDiedError):
            if rows := future.result():
                found[name] = rows
    return found


def list_references() -> list[ReferenceInfo]:
    """This endpoint's table; collects garbage only if that can make a difference."""
    if references():
        gc.collect()
    return references()


def assert_nothing_held(system: System, seconds: float = 15.0) -> None:
    """Assert that within *seconds* no endpoint holds, owns or is pinned for anything (G5).

    Messages that the program never listened for hold references, so they are dropped first.

    Raises:
        AssertionError: with a line for each reference that is left, and the tree of the reasons
            why it is alive (`System.why`), for the first few.
    """

    def nothing() -> bool:
        while not system._port.inbox.empty():
            system.listen(timeout=1)
        return not references_everywhere(system)

    if not until(system, nothing, seconds):
        rows = list(itertools.chain(*references_everywhere(system).values()))
        text = "\n".join([*map(repr, rows), *_reasons(system, rows)])
        raise AssertionError(f"references are left after {seconds:g} s:\n{text}")


def _reasons(system: System, rows: list[ReferenceInfo]) -> Iterator[str]:
    """Why each object in *rows* is alive, one text each; of objects that contain others, once."""
    left = list(dict.fromkeys(row.rref for row in rows))
    told = set[str]()
    for rref in left:
        if rref in told:
            continue
        if len(told) >= EXPLAINED:
            yield f"and more; ask `farref refs --why ID` or `System.why`: {', '.join(left)}"[:200]
            return
        try:
            reason = system.why(rref, timeout=PATIENCE)
        except (LookupError, FarrefError) as error:
            yield f"{rref}: {error}"
            told.add(rref)
        else:
            yield f"why {reason}"
            told |= {step.rref for step in reason.walk() if step.kind == "reference"}
