"""Many references of one message, in columns: two bytes for each, in place of a hundred.

The references of a message mostly have one creator, one owner and one parent. A `Columns` says
these once, for as many references as have them in common. Their numbers follow, each as the
difference to the one before, so a number takes a byte if the objects were made in a row. The
receiver makes the descriptors from it, which share the names of the endpoints: a reference that is
held takes less memory than one that came alone.

They travel in the place of the payload, as a pair with the payload's own placeholder (see
`packets`). Few references travel as rows, each decoded in C.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from .errors import ProtocolError
from .ids import ForkId, RRefId, WorkerId
from .messages import Cargo, Descriptor, Part, Passing

if TYPE_CHECKING:
    from collections.abc import Iterable

Carrier = TypeVar("Carrier", bound=msgspec.Struct)

MANY = 8
"""A message with so many references has them in columns."""
MOST = 1_000_000
"""The most references of one message: little on the wire takes much memory."""
LARGEST = 1 << 62
"""Larger numbers have no place in a column. Ids are counted from 1."""

_put = msgspec.structs.force_setattr


class Columns(Part, frozen=True):
    """Consecutive descriptors that differ only in the numbers of their objects and forks."""

    creator: WorkerId
    minter: WorkerId
    """The parent in the names of the forks."""
    owner: WorkerId
    parent: WorkerId
    passing: Passing
    counted: bool
    name: RRefId | None
    numbers: tuple[int, ...]
    """Of the objects; the first, then the difference of each to the one before."""
    forks: tuple[int, ...]
    """The same of the forks."""


def columns_of(descriptors: Iterable[Descriptor]) -> list[Columns] | None:
    """*descriptors* in columns; None if one has a number that fits into none."""
    made: list[Columns] = []
    last: tuple[object, ...] = ()
    numbers: list[int] = []
    forks: list[int] = []
    number = fork = 0
    for each in descriptors:
        rref, forked = each.rref, each.fork
        creator, minter, name = rref.creator, forked.parent, each.name
        same = creator, minter, each.owner, each.parent, each.passing, each.counted, name
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


def apart(message: Carrier, cargo: Cargo, payload: object) -> Carrier:
    """*message*, with its *cargo*, as it travels: with *payload*, and with columns if it may."""
    rows = cargo.descriptors
    columns = columns_of(rows) if len(rows) >= MANY else None
    if columns is None:
        travels = Cargo(payload=payload, descriptors=rows)
    else:
        travels = Cargo(payload=(payload, columns))
    return msgspec.structs.replace(message, cargo=travels)


def join(cargo: Cargo) -> None:
    """Undo `apart` in *cargo*, which was decoded just now and nobody has seen.

    Raises `ProtocolError`.
    """
    payload, columns = _pair(cargo)
    try:
        found = msgspec.convert(columns, tuple[Columns, ...])
    except msgspec.ValidationError as error:
        raise ProtocolError(f"its references are malformed: {error!s:.200}") from None
    if sum(len(each.numbers) for each in found) > MOST:
        raise ProtocolError(f"it brings more than {MOST} references")
    made: list[Descriptor] = []
    for each in found:
        numbers, forks = list(accumulate(each.numbers)), list(accumulate(each.forks))
        if len(numbers) != len(forks) or not numbers:
            raise ProtocolError("its references are malformed: the columns differ in length")
        both = (*numbers, *forks)
        if min(both) < 0 or max(both) >= LARGEST:
            raise ProtocolError("its references are malformed: a number is out of range")
        creator, minter, owner, parent = each.creator, each.minter, each.owner, each.parent
        passing, counted, name = each.passing, each.counted, each.name
        made += [
            Descriptor(
                rref=RRefId(creator, number),
                fork=ForkId(minter, fork),
                owner=owner,
                parent=parent,
                passing=passing,
                counted=counted,
                name=name,
            )
            for number, fork in zip(numbers, forks, strict=True)
        ]
    _put(cargo, "payload", payload)
    _put(cargo, "descriptors", tuple(made))


def has_columns(payload: object) -> bool:
    """Whether a cargo with this *payload*, decoded just now, has its references in columns."""
    return type(payload) is list and len(payload) == 2


def _pair(cargo: Cargo) -> tuple[Any, Any]:
    if cargo.descriptors:
        raise ProtocolError("it has references in rows and in columns")
    pair: Any = cargo.payload
    return pair[0], pair[1]
