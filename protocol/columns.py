"""Many references of one message, in columns: two bytes for each, in place of a hundred.

The references of a message mostly have one creator, one owner and one parent. A `Columns` says
these once, for as many references as have them in common. Their numbers follow, each as the
difference to the one before, so a number takes a byte if the objects were made in a row. The
receiver makes the descriptors from it, which share the names of the endpoints: a reference that is
held takes less memory than one that came alone.

A message with fewer than `MANY` references has each as the row of its fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

import msgspec

from .errors import ProtocolError
from .ids import ForkId, RRefId, WorkerId
from .messages import Descriptor, Part, Passing

MANY = 8
"""A message with this many references or more has them in columns."""
MOST = 1_000_000
"""The most references of one message: otherwise a few bytes on the wire could fill the memory."""
LARGEST = 1 << 62
"""Larger numbers do not fit into a column. Ids are counted from 1."""

_encode = msgspec.msgpack.Encoder().encode


class Columns(Part, frozen=True):
    """Consecutive descriptors that differ only in the numbers of their objects and forks."""

    creator: WorkerId
    fork_parent: WorkerId
    """The parent in the names of the forks."""
    owner: WorkerId
    parent: WorkerId
    passing: Passing
    counted: bool
    name: RRefId | None
    numbers: tuple[int, ...]
    """The numbers of the objects: the first one, then the difference of each to the one before."""
    forks: tuple[int, ...]
    """The numbers of the forks, in the same way."""


def columns_of(descriptors: Iterable[Descriptor]) -> list[Columns] | None:
    """*descriptors* in columns; None if a number does not fit."""
    made: list[Columns] = []
    last: tuple[object, ...] = ()
    numbers: list[int] = []
    forks: list[int] = []
    number = fork = 0
    for each in descriptors:
        rref, forked = each.rref, each.fork
        creator, fork_parent, name = rref.creator, forked.parent, each.name
        same = creator, fork_parent, each.owner, each.parent, each.passing, each.counted, name
        if same != last:
            numbers, forks, number, fork, last = [], [], 0, 0, same
            # The lists are filled further; encoding takes a list for a tuple.
            made.append(Columns(*same, numbers, forks))  # type: ignore[arg-type]  # see above
        if rref.number >= LARGEST or forked.number >= LARGEST:
            return None
        numbers.append(rref.number - number)
        forks.append(forked.number - fork)
        number, fork = rref.number, forked.number
    return made


def descriptors_of(columns: Sequence[Columns]) -> tuple[Descriptor, ...]:
    """The descriptors in *columns*, which were decoded just now. Raises `ProtocolError`."""
    if sum(len(each.numbers) for each in columns) > MOST:
        raise ProtocolError(f"it brings more than {MOST} references")
    made: list[Descriptor] = []
    for each in columns:
        numbers, forks = list(accumulate(each.numbers)), list(accumulate(each.forks))
        if len(numbers) != len(forks) or not numbers:
            raise ProtocolError("its references are malformed: the columns differ in length")
        both = (*numbers, *forks)
        if min(both) < 0 or max(both) >= LARGEST:
            raise ProtocolError("its references are malformed: a number is out of range")
        creator, fork_parent, owner, parent = (
            each.creator,
            each.fork_parent,
            each.owner,
            each.parent,
        )
        passing, counted, name = each.passing, each.counted, each.name
        made += [
            Descriptor(
                rref=RRefId(creator, number),
                fork=ForkId(fork_parent, fork),
                owner=owner,
                parent=parent,
                passing=passing,
                counted=counted,
                name=name,
            )
            for number, fork in zip(numbers, forks, strict=True)
        ]
    return tuple(made)


def size_of(descriptors: tuple[Descriptor, ...]) -> int:
    """How many bytes of a packet *descriptors* take."""
    columns = columns_of(descriptors) if len(descriptors) >= MANY else None
    return len(_encode(columns or descriptors)) if descriptors else 0
