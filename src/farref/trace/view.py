"""The owners' view of every fork, as it changes along a trace.

The note's three stages, and two ends of a fork that it does not number::

    unknown --> known --> deleted      a user of its own, from the fork to its Delete
    unknown --> home                   the fork reached the owner: it holds its own entry instead
    unknown --> joined                 it reached a user that the owner counts already, under
                                       another fork; that one stands for both

A fork that the owner itself made is known from the start. `View.take` is given the merged
records one by one and says which forks changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .records import Record


class Stage(Enum):
    """What the owner of an object knows of one fork of it."""

    UNKNOWN = "unknown"
    KNOWN = "known"
    DELETED = "deleted"
    HOME = "home"
    JOINED = "joined"

    @property
    def over(self) -> bool:
        """Whether the fork has come to an end."""
        return self not in (Stage.UNKNOWN, Stage.KNOWN)


@dataclass(slots=True)
class Fork:
    """One fork: of which object, and whose it is."""

    id: str
    rref: str
    holder: str
    stage: Stage


@dataclass(slots=True)
class Object:
    """One object: where it lives, and whether it lives still."""

    id: str
    owner: str
    freed: bool = False
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """*fork* is at *stage* from now on."""

    fork: Fork
    stage: Stage


class View:
    """All objects and forks that a trace has told of so far, in the order of their mention."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.forks: dict[str, Fork] = {}

    def take(self, record: Record) -> list[Change]:
        """One more step; the forks whose stage it changes."""
        match record.kind:
            case "send":
                return list(self._sent(record))
            case "receive":
                return list(self._received(record))
            case "known":
                fork, holder = record.text("fork"), record.text("holder")
                if holder == record.at and fork not in self.forks:
                    return []  # it created the object for itself: that is a handle, no fork
                return list(self._move([fork], Stage.KNOWN, record, holder))
            case "free":
                self._object(record.text("rref"), record.at).freed = True
            case "died":
                for each in self.objects.values():
                    each.lost |= each.owner == record.peer and not each.freed
            case "buried":
                return list(self._buried(record.at, record.peer))
            case _:
                pass
        return []

    def _sent(self, record: Record) -> Iterator[Change]:
        if record.message == "Create":
            self._object(record.text("rref"), record.peer)
            if record.peer != record.at:
                yield from self._mention(record, record.text("fork"), record.at)
        for carried in record.carries:
            self._object(carried.rref, carried.owner)
            fork = Fork(carried.fork, carried.rref, record.peer, Stage.UNKNOWN)
            if carried.owner == record.at:
                fork.stage = Stage.KNOWN
            self.forks[fork.id] = fork
            yield Change(fork, fork.stage)
        if record.message == "ForkRequest":
            self._object(record.text("rref"), record.peer)
        if record.message == "ChildAck":
            yield from self._child_ack(record)

    def _child_ack(self, record: Record) -> Iterator[Change]:
        fork = self.forks.get(record.text("fork"))
        if fork is None or fork.stage is not Stage.UNKNOWN:
            return
        owner = self.objects[fork.rref].owner
        fork.stage = Stage.HOME if owner == record.at else Stage.JOINED
        yield Change(fork, fork.stage)

    def _received(self, record: Record) -> Iterator[Change]:
        for carried in record.carries:
            fork = self.forks.get(carried.fork)
            if fork is None:  # its send was not recorded
                self._object(carried.rref, carried.owner)
                fork = Fork(carried.fork, carried.rref, record.at, Stage.UNKNOWN)
                self.forks[fork.id] = fork
                yield Change(fork, fork.stage)
            if carried.owner == record.at and not fork.stage.over:
                fork.stage = Stage.HOME
                yield Change(fork, fork.stage)
        if record.message == "Delete":
            yield from self._move(record.forks, Stage.DELETED, record, record.peer)

    def _mention(self, record: Record, fork_id: str, holder: str) -> Iterator[Change]:
        if fork_id not in self.forks:
            fork = Fork(fork_id, record.text("rref"), holder, Stage.UNKNOWN)
            self.forks[fork_id] = fork
            yield Change(fork, fork.stage)

    def _move(
        self, forks: Iterable[str], stage: Stage, record: Record, holder: str
    ) -> Iterator[Change]:
        self._object(record.text("rref"), record.at)
        for fork_id in forks:
            fork = self.forks.setdefault(
                fork_id, Fork(fork_id, record.text("rref"), holder, Stage.UNKNOWN)
            )
            fork.stage = stage
            yield Change(fork, stage)

    def _buried(self, owner: str, dead: str) -> Iterator[Change]:
        for fork in self.forks.values():
            mine = self.objects[fork.rref].owner == owner
            if mine and fork.holder == dead and not fork.stage.over:
                fork.stage = Stage.DELETED
                yield Change(fork, fork.stage)

    def _object(self, rref: str, owner: str) -> Object:
        return self.objects.setdefault(rref, Object(rref, owner))
