"""Rings of objects over workers, and what searches make of them."""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import TYPE_CHECKING, Any

from farref import RRef, System, remote

from ...waiting import eventually
from ..helpers import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from farref import Garbage

NAMES = ("B", "C", "D")
HELD: dict[str, Any] = {}
"""Objects that code of a worker keeps."""


class Node:
    """An object that holds others."""

    def __init__(self) -> None:
        self.links: list[Any] = []

    def link(self, *refs: Any) -> None:
        self.links += refs

    def count(self) -> int:
        return len(self.links)

    def count_next(self) -> int:
        count: int = self.links[0].rpc_sync().count()
        return count


def release(name: str) -> None:
    """Let go of what a variable of this process holds, and end what it stands for."""
    match HELD.pop(name, None):
        case threading.Event() as ended:
            ended.set()
        case weakref.finalize() as finalizer:
            finalizer.detach()


def same(value: Any) -> Any:
    return value


def closed(nodes: list[Any]) -> list[Any]:
    """*nodes*; each has a reference to the next one now, the last one to the first."""
    for one, other in itertools.pairwise([*nodes, nodes[0]]):
        (one.local_value() if one.is_owner() else one.rpc_sync()).link(other)
    return nodes


def ring_of(*owners: str, kind: type[Node] = Node) -> list[Any]:
    """A ring of objects of *kind* on *owners*."""
    return closed([remote(owner, kind) for owner in owners])


def ring_here(number: int) -> list[Any]:
    """A ring of objects of this process."""
    return closed([RRef(Node()) for _ in range(number)])


def row_of(number: int) -> list[Any]:
    """Objects on workers in turn, each with references to its two neighbours."""
    nodes = [remote(NAMES[place % 3], Node) for place in range(number)]
    for one, other in itertools.pairwise(nodes):
        one.rpc_sync().link(other)
        other.rpc_sync().link(one)
    return nodes


def ids(nodes: list[Any]) -> set[str]:
    return {str(node.id) for node in nodes}


def objects_of(found: Iterable[Garbage]) -> set[str]:
    return {str(each) for garbage in found for each in garbage.objects}


def there(system: System, names: set[str]) -> set[str]:
    """The objects of *names* that exist."""
    rows = system.references(timeout=PATIENCE)
    return {row.rref for row in rows if row.role in ("owner", "alias")} & names


def search_until(
    system: System,
    condition: Callable[[], object],
    otherwise: Any = "nothing is found",
    found: set[str] | None = None,
) -> None:
    """Search until *condition* holds: one search may come while a count is on its way.

    Adds to *found* what the searches find.
    """

    def search() -> object:
        objects = objects_of(system.collect(timeout=PATIENCE))
        if found is not None:
            found.update(objects)
        return condition()

    eventually(search, otherwise)


def assert_goes(system: System, names: set[str]) -> None:
    search_until(system, lambda: not there(system, names), lambda: there(system, names))


def assert_stays(system: System, names: set[str]) -> None:
    """No search takes any of *names* for garbage, also not when all messages have arrived."""
    for _ in range(4):
        assert not objects_of(system.collect(timeout=PATIENCE)) & names
    assert there(system, names) == names


def found_in(system: System, **how: Any) -> tuple[Garbage, ...]:
    """What searches find, as soon as one finds anything."""
    found: tuple[Garbage, ...] = ()

    def find() -> object:
        nonlocal found
        found = system.collect(timeout=PATIENCE, **how)
        return found

    eventually(find, "nothing is found")
    return found
