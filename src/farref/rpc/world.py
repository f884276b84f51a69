"""The world of this process: the ranks that have met here, and their names."""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass, field
from typing import Any

from ..actors.api import rpc
from ..actors.api.system import System
from ..actors.base.interrupts import Guard
from ..actors.wire.messages import WorkerInfo
from ..actors.wire.settings import LONGEST, timeouts_as_in_torch
from ..protocol.errors import SystemDownError, WorkerNotFoundError
from ..serialization.by_value import share_main
from .meeting import Meeting
from .missing import name_replacements
from .roster import MisfitError, Origin, Roster

NAME = re.compile(r"[A-Za-z0-9_:-]+")
FIRST = "farref rpc"
"""The capability of the system with the name of the endpoint that has the roster."""
KEEPER = "farref.rpc"
"""The name of the keeper's endpoint. No rank has it, since it has a dot."""
LONGEST_NAME = 127
"""The most characters of a rank's name. The limits of names are PyTorch's."""


@dataclass(frozen=True, slots=True)
class RankInfo:
    """A rank and its name, as PyTorch's `WorkerInfo`. Raises `MisfitError` for a bad name."""

    name: str
    id: int
    """The rank."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"the name of a rank must be a text, not {self.name!r}")
        if not self.name:
            raise MisfitError("Worker name must be non-empty")
        if not NAME.fullmatch(self.name):
            raise MisfitError(
                f"Worker name must match {NAME.pattern}, and {self.name!r} does not: it may have "
                "the letters a to z, digits, and the characters `-`, `_` and `:`"
            )
        if len(self.name) > LONGEST_NAME:
            raise MisfitError(
                f"Worker name must be shorter than {LONGEST_NAME + 1} characters, and "
                f"{self.name!r} has {len(self.name)}"
            )

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self.id}, name={self.name})"


@dataclass(eq=False)
class Ranks:
    """The ranks that have met, seen by one of them."""

    system: System
    meeting: Meeting
    names: dict[int, str]
    origins: dict[int, Origin]
    lost: tuple[int, ...] = ()
    """The ranks that have died, as far as this one knows."""
    pid: int = field(default_factory=os.getpid)
    own_calls: int = 0
    """Calls of this package's, such as the one that told that this rank has arrived."""
    begun: threading.Event = field(default_factory=threading.Event)
    """Set once this rank knows that all are there."""


class Here:
    """The state of this process."""

    world: Ranks | None = None
    roster: Roster | None = None
    """At rank 0, or at the keeper."""
    keeper: System | None = None
    """The system, at the keeper of ranks that come and leave when they like."""


_leaving = Guard()


def is_in_world() -> bool:
    """Whether this process is a rank now. A fork of a rank is none."""
    return Here.world is not None and Here.world.pid == os.getpid()


def enter(world: Ranks, *, same_program: bool) -> None:
    """Make this process a rank of *world*."""
    Here.world = world
    name_replacements(True)
    share_main(same_program)
    timeouts_as_in_torch(True)


def leave(world: Ranks) -> bool:
    """Make this process a rank of *world* no more. False if another thread has done it."""
    with _leaving:
        if Here.world is not world:
            return False
        Here.world = None
    name_replacements(False)
    share_main(False)
    timeouts_as_in_torch(False)
    return True


def current() -> Ranks:
    """The world of this process. Raises `SystemDownError` before `init_rpc`."""
    if Here.world is None or not is_in_world():
        raise SystemDownError(
            "RPC has not been initialized in this process; call farref.rpc.init_rpc() first"
        )
    return Here.world


def list_of_ranks() -> Roster:
    """At rank 0, or at the keeper. Raises `SystemDownError` if rank 0 has left."""
    if Here.roster is None:
        raise SystemDownError("rank 0 has left")
    if Here.keeper is not None:
        Here.roster.forget(dead(Here.keeper, Here.roster.names()))
    return Here.roster


def dead(system: System, names: dict[int, str]) -> list[int]:
    """Those of the ranks *names* that have died."""
    there = {info.name for info in system.workers()}
    return [rank for rank, name in names.items() if name not in there]


def names_of_ranks(world: Ranks) -> dict[int, str]:
    """The names of the ranks that are there, by rank. Asks the keeper if they come and leave."""
    if world.meeting.size > 0:
        return world.names
    there: dict[int, str] = rpc.rpc_sync(KEEPER, _names_here)
    return there


def _names_here() -> dict[int, str]:
    """Runs at the keeper."""
    return list_of_ranks().names()


def endpoint_of(to: Any) -> str | WorkerInfo:
    """The name of *to* in `farref`.

    Raises:
        SystemDownError: before `init_rpc`.
        WorkerNotFoundError: a RuntimeError; there is no such rank.
        ValueError: *to* is something else.
    """
    world = current()
    if isinstance(to, RankInfo):
        return to.name
    if isinstance(to, int) and not isinstance(to, bool):
        names = names_of_ranks(world)
        if to not in names:
            fixed = world.meeting.size > 0
            there = f"0 to {len(names) - 1}" if fixed else ", ".join(map(str, sorted(names)))
            raise WorkerNotFoundError(f"there is no rank {to}; ranks are {there}")
        return names[to]
    if to is None or isinstance(to, int | float):
        raise ValueError(f"`to` must be a name, a rank or a WorkerInfo, not {to!r}")
    found: str | WorkerInfo = to
    return found


def get_rpc_timeout() -> float:
    """The *rpc_timeout* in seconds, 0 for no limit. Raises `SystemDownError` before `init_rpc`."""
    limit = current().system.endpoint.core.settings.timeout
    return 0.0 if limit >= LONGEST else limit


def get_worker_info(worker_name: str | None = None) -> RankInfo:
    """The name and the rank of *worker_name*, or of this process.

    Does not block; without a *world_size* it asks the process that keeps the ranks.

    Raises:
        WorkerNotFoundError: a RuntimeError; no rank has that name.
        SystemDownError: a RuntimeError; before `init_rpc`.
    """
    world = current()
    if worker_name is None:
        return RankInfo(world.names[world.meeting.rank], world.meeting.rank)
    names = names_of_ranks(world)
    for rank, name in names.items():
        if name == worker_name:
            return RankInfo(name, rank)
    raise WorkerNotFoundError(
        f"no rank is named {worker_name!r}; the ranks are {', '.join(names.values())}"
    )
