"""Rings of waits by the books of the whole world, to judge the machines' beliefs about them."""

from __future__ import annotations

from collections.abc import Iterable

from farref.protocol.ids import CallId, RRefId
from farref.protocol.messages import Create, Hop

from .endpoint import ScriptedEndpoint
from .task import Stage


def is_there(endpoints: Iterable[ScriptedEndpoint], path: tuple[Hop, ...]) -> bool:
    """Whether each wait of *path* lasts and leads to the next one, the last to the first."""
    living = {endpoint.me: endpoint for endpoint in endpoints}
    for hop, following in zip(path, (*path[1:], path[0]), strict=True):
        asker = living.get(hop.call.caller)
        if (
            asker is None
            or hop.call not in asker.context.waiting.keys() | asker.context.state.asking
        ):
            return False
        alias = hop.run == hop.call
        if not alias and (hop.call, hop.number) != asker.awaited(hop.run)[:2]:
            return False
        if _needs(living.values(), hop.call) != following.run:
            return False
    return True


def _needs(endpoints: Iterable[ScriptedEndpoint], call: CallId) -> CallId:
    """The request that has to end before *call* goes on; *call* itself, if it runs."""
    for endpoint in endpoints:
        for relayed, waiting in endpoint.context.waiting.items():
            if waiting.relay is not None and waiting.relay.request.call == call:
                return _needs(endpoints, relayed)
        for owner in endpoint.context.owners.values():
            if call in owner.asking or call in owner.queue:
                return _blocks(endpoint, owner.rref) or call
    return call


def _blocks(endpoint: ScriptedEndpoint, rref: RRefId) -> CallId | None:
    """The obstacle of the queue on *rref*: a task, or the open question about an alias's target."""
    for task in endpoint.tasks:
        if task.stage is Stage.IN_LINE and getattr(task.message, "rref", None) == rref:
            if isinstance(task.message, Create) and task.target is not None:
                return _blocks(endpoint, task.target)
            continue
        creates = isinstance(task.message, Create) and task.message.rref == rref
        if task.occupies == rref or creates:
            return task.message.call  # type: ignore[union-attr]  # it is a request
    for owner in endpoint.context.owners.values():
        for _, request in owner.queue.values():
            if isinstance(request, Create) and request.rref == rref:
                return _blocks(endpoint, owner.rref)
    alias = endpoint.context.owners[rref].alias
    return min(alias.asked, default=None) if alias is not None else None
