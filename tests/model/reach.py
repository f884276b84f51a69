"""The objects that a program can reach, by the books of the whole world.

The machines' tables are not asked: they may be wrong. A root is a variable, a task, or a message on
its way. From an object the way goes on to the handles in its value, and from an alias to its
target.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from farref.protocol.ids import RRefId
from farref.protocol.messages import (
    AliasRef,
    Create,
    Descriptor,
    Fetch,
    Invoke,
    Message,
    Reply,
    Tell,
)

from .endpoint import ScriptedEndpoint
from .task import Task


def unreachable(endpoints: Iterable[ScriptedEndpoint], flying: Iterable[Message]) -> set[RRefId]:
    """The objects of *endpoints* that nothing reaches; *flying* are messages on their way."""
    endpoints = list(endpoints)
    roots = {rref for endpoint in endpoints for rref in roots_of(endpoint)}
    for message in flying:
        roots.update(requested(message), (each.rref for each in references_in(message)))
    edges: dict[RRefId, frozenset[RRefId]] = {}
    for endpoint in endpoints:
        edges |= edges_of(endpoint)
    owned = {rref for endpoint in endpoints for rref in endpoint.context.owners}
    return owned - reached(roots, edges)


def reached(roots: Iterable[RRefId], edges: Mapping[RRefId, Iterable[RRefId]]) -> set[RRefId]:
    """*roots*, and everything that *edges* lead to from there."""
    found, ahead = set[RRefId](), list(roots)
    while ahead:
        rref = ahead.pop()
        if rref not in found:
            found.add(rref)
            ahead += edges.get(rref, ())
    return found


def roots_of(endpoint: ScriptedEndpoint) -> Iterator[RRefId]:
    """The objects that code of *endpoint*, or a request of its, can reach at once."""
    where = endpoint.context.whereabouts
    yield from map(where, endpoint.variables.values())
    yield from endpoint.messages()
    yield from (each.rref for each in endpoint.unfinished)
    for opened in endpoint.opened.values():
        yield from map(where, endpoint.inside.get(opened, endpoint.loose.get(opened, ())))
    for task in endpoint.tasks:
        yield from (where(rref) for _, rref in task.frame)
        yield from _occupied(task)
    for waiting in endpoint.context.waiting.values():
        if waiting.rref is not None:
            yield waiting.rref
    for owner in endpoint.context.owners.values():
        if not owner.located:
            yield owner.rref  # its value is yet to come
        yield from (owner.rref for _ in owner.queue)


def _occupied(task: Task) -> Iterator[RRefId]:
    match task.message:
        case Reply() | Tell():
            pass
        case Create(rref=rref):
            yield rref
            if task.target is not None:
                yield task.target
        case _:
            if task.target is not None:
                yield task.target


def edges_of(endpoint: ScriptedEndpoint) -> dict[RRefId, frozenset[RRefId]]:
    """The objects that each object of *endpoint* leads to."""
    where = endpoint.context.whereabouts
    edges = {rref: frozenset(map(where, inside)) for rref, inside in endpoint.inside.items()}
    for rref, target in endpoint.stood.items():
        if rref not in endpoint.freed and rref not in endpoint.broken:
            edges[rref] = frozenset((where(target),))
    return edges


def references_in(message: Message) -> tuple[Descriptor, ...]:
    """The references that *message* brings."""
    cargo, moved = getattr(message, "cargo", None), getattr(message, "moved", None)
    inside = () if cargo is None else cargo.descriptors
    return inside if moved is None else (*inside, moved.fork)


def requested(message: Message) -> tuple[RRefId, ...]:
    """The objects that a request on its way is about."""
    match message:
        case Invoke(rref=rref) | Fetch(rref=rref) | AliasRef(rref=rref):
            return (rref,)
        case Create(rref=rref, target=target):
            return (rref,) if target is None else (rref, target)
        case _:
            return ()
