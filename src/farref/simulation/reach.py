"""The objects that any program can reach, in the true state of the whole world.

A root is a handle of a program or of a function, an object that a request is about, or a reference
in a message that has not been handled. From an object the way goes on to the handles in its value,
and from an alias to its target. The endpoints' counts are not asked: they may be wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.messages import Create, Fetch, Invoke, target_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..protocol.ids import RRefId
    from ..protocol.messages import Message
    from .jobs import Resident


def reachable(nodes: Iterable[Resident], flying: Iterable[Message]) -> set[RRefId]:
    """The objects that the living *nodes* can reach; *flying* are the messages to them."""
    nodes = list(nodes)
    roots = {rref for node in nodes for rref in _roots_of(node)}
    for message in flying:
        roots.update(_named(message))
    edges: dict[RRefId, list[RRefId]] = {}
    for node in nodes:
        for rref, led in _edges_of(node):
            edges.setdefault(rref, []).append(led)
    return closure(roots, lambda rref: edges.get(rref, ()))


def closure(begin: Iterable[RRefId], further: Callable[[RRefId], Iterable[RRefId]]) -> set[RRefId]:
    """All of *begin*, and all objects that *further* leads to from there."""
    found: set[RRefId] = set()
    todo = list(begin)
    while todo:
        each = todo.pop()
        if each not in found:
            found.add(each)
            todo += further(each)
    return found


def _roots_of(node: Resident) -> Iterator[RRefId]:
    context = node.context
    where = context.whereabouts
    yield from map(where, node.handles)
    for task in node.tasks:
        yield from map(where, task.handles)
        yield from _named(task.request)
    for waiting in context.waiting.values():
        if waiting.rref is not None:
            yield where(waiting.rref)
        yield from (each.rref for each in waiting.loans)
    for held in context.state.held.values():
        for send in held.values():
            yield from _named(send.message)
    for owner in context.owners.values():
        if not owner.located:
            yield owner.rref  # its value is yet to come
        for _, request in owner.queue.values():
            yield owner.rref
            yield from _named(request)


def _edges_of(node: Resident) -> Iterator[tuple[RRefId, RRefId]]:
    """The edges from the objects of *node*: to the handles in values, and to the targets."""
    where = node.context.whereabouts
    for rref, inside in node.inside.items():
        yield from ((rref, where(each)) for each in inside)
    for rref, owner in node.context.owners.items():
        if owner.alias is not None:
            yield rref, where(owner.alias.target)


def _named(message: object) -> Iterator[RRefId]:
    """The references in *message*, and the objects that it is about if it is a request."""
    cargo, moved = getattr(message, "cargo", None), getattr(message, "moved", None)
    for each in cargo.descriptors if cargo is not None else ():
        yield each.rref
    if moved is not None:
        yield moved.fork.rref
    if isinstance(message, Create | Fetch | Invoke):
        yield message.rref
        target = target_of(message)
        if target is not None:
            yield target
