"""The objects that a program can reach, by the books of the whole world.

A root is a variable, a task, a request that waits, or a message on its way. From an object the way
goes on to the handles in its value, and from an alias to its target. The machines' counts are not
asked: they may be wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from farref.protocol.context import Context
from farref.protocol.ids import RRefId
from farref.protocol.messages import (
    AliasRef,
    Create,
    Descriptor,
    Fetch,
    Invoke,
    Message,
)
from farref.world.shell import Shell


class Books(Protocol):
    """What an endpoint's shell knows of its program: the explorer's and the simulation's."""

    inside: dict[RRefId, tuple[RRefId, ...]]

    @property
    def context(self) -> Context:
        """The tables of the endpoint."""

    def roots(self) -> Iterable[RRefId]:
        """The objects that its code reaches at once, and those that the code's messages name."""

    def targets(self) -> Mapping[RRefId, RRefId]:
        """The target of each object here that stands for another one."""


def reachable(endpoints: Iterable[Books], flying: Iterable[Message]) -> set[RRefId]:
    """The objects that *endpoints* reach; *flying* are messages on their way to them."""
    roots: set[RRefId] = set()
    edges: dict[RRefId, frozenset[RRefId]] = {}
    for endpoint in endpoints:
        roots.update(roots_of(endpoint))
        edges |= edges_of(endpoint)
    for message in flying:
        roots.update(named(message))
    return reached(roots, lambda rref: edges.get(rref, ()))


def unreachable(endpoints: Iterable[Books]) -> set[RRefId]:
    """The objects of *endpoints* that nothing reaches when no message is on its way."""
    endpoints = list(endpoints)
    owned = {rref for endpoint in endpoints for rref in endpoint.context.owners}
    return owned - reachable(endpoints, ())


def reached(roots: Iterable[RRefId], further: Callable[[RRefId], Iterable[RRefId]]) -> set[RRefId]:
    """*roots*, and everything that *further* leads to from there."""
    found, ahead = set[RRefId](), list(roots)
    while ahead:
        rref = ahead.pop()
        if rref not in found:
            found.add(rref)
            ahead += further(rref)
    return found


def roots_of(endpoint: Books) -> Iterator[RRefId]:
    """The objects that code of *endpoint*, or a request of its, can reach at once."""
    context = endpoint.context
    yield from endpoint.roots()
    for waiting in context.waiting.values():
        if waiting.rref is not None:
            yield context.whereabouts(waiting.rref)
        yield from (each.rref for each in waiting.loans)
    for held in context.state.held.values():
        for send in held.values():
            yield from named(send.message)
    for owner in context.owners.values():
        if not owner.located:
            yield owner.rref  # its value is yet to come
        for _, request in owner.queue.values():
            yield owner.rref
            yield from named(request)


def edges_of(endpoint: Books) -> dict[RRefId, frozenset[RRefId]]:
    """The objects that each object of *endpoint* leads to."""
    where = endpoint.context.whereabouts
    edges = {rref: frozenset(map(where, inside)) for rref, inside in endpoint.inside.items()}
    return edges | {rref: frozenset((where(to),)) for rref, to in endpoint.targets().items()}


def named(message: object) -> Iterator[RRefId]:
    """The references in *message*, and the objects that it is about if it is a request."""
    yield from requested(message)
    yield from (each.rref for each in references_in(message))


def references_in(message: object) -> tuple[Descriptor, ...]:
    """The references that *message* brings."""
    cargo, moved = getattr(message, "cargo", None), getattr(message, "moved", None)
    inside = () if cargo is None else cargo.descriptors
    return inside if moved is None else (*inside, moved.fork)


def requested(message: object) -> tuple[RRefId, ...]:
    """The objects that a request on its way is about."""
    match message:
        case Invoke(rref=rref) | Fetch(rref=rref) | AliasRef(rref=rref):
            return (rref,)
        case Create(rref=rref, target=target):
            return (rref,) if target is None else (rref, target)
        case _:
            return ()


def seen_blindly(shell: Shell) -> dict[RRefId, Counter[RRefId]]:
    """The handles in values, as if no variable had a handle of an object that a value holds.

    A search's first look may be so wrong: its second look must find that out.
    """
    held = Shell.held_by_values(shell)
    standing = shell.context.aliases.standing()
    for rref, counts in held.items():
        entry = shell.context.entries.find(rref)
        if entry is not None and counts:
            outside = entry.handles - len(standing.get(rref, ())) - counts.total()
            counts[min(counts)] += max(0, outside)
    return held
