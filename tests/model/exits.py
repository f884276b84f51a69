"""The exits of the machines: each does what the rest of its method does, in fewer steps.

An exit is the plain case at the beginning of a method, or of a loop in it: one condition, the
changes, the effects. Its `if` has the mark ``# exit``. The rest of the method is complete. So a
machine without exits behaves the same. Both machines are tried here on copies of each state of the
tables that an endpoint reaches, whether or not the program moves so: requests to every peer and on
every reference, the end of each handle, the answer to each request that runs, the value of each
object that has none, and each message that arrives, also from an endpoint that may not send it.
Their effects must be equal, and their tables afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from itertools import chain
from operator import methodcaller
from typing import Any

from msgspec.structs import replace

from farref.protocol.context import Context
from farref.protocol.errors import FarrefError
from farref.protocol.ids import RRefId, WorkerId
from farref.protocol.messages import Call, Cargo, Fetch, Invoke, Message, Passing
from farref.protocol.requests import ElsewhereError

from .endpoint import ScriptedEndpoint
from .source import are_cut, cut
from .state import clone, discard, freeze
from .steps import Arrival
from .task import Stage
from .world import Taken

CARGO = Cargo(payload="plain")
STRANGER = WorkerId("stranger", 1)
"""An endpoint that sends what no correct one does."""
Move = Callable[[Context], object]
Result = tuple[object, Hashable]
"""The effects of a move, or its error; and the tables afterwards."""


class Exits:
    """Compares the two machines, by each move once in each state of the tables.

    An endpoint has many more states: they differ in its variables and tasks, too.
    """

    def __init__(self) -> None:
        self._compared: dict[Hashable, set[str]] = {}

    def differs(self, taken: Taken) -> str | None:
        """The first difference when the two take the message that arrives."""
        return self._difference(taken.before.context, _arrivals(taken))

    def differs_here(self, endpoint: ScriptedEndpoint) -> str | None:
        """The first difference when the two make a move of the endpoint's own."""
        context = endpoint.context
        moves = chain(_requests(context), _answers(endpoint), _ends(context))
        return self._difference(context, moves)

    def _difference(self, context: Context, moves: Iterator[tuple[str, Move]]) -> str | None:
        if are_cut():
            return None
        compared = self._compared.setdefault((context.me, freeze(context)), set())
        new = {what: move for what, move in moves if what not in compared}
        if not new:
            return None
        compared.update(new)
        shipped = {what: _result(context, move) for what, move in new.items()}
        with cut():
            for what, move in new.items():
                expected, (effects, tables) = _result(context, move), shipped[what]
                if effects != expected[0]:
                    return f"{what}: {effects} instead of {expected[0]}"
                if tables != expected[1]:
                    return f"{what}: the tables differ"
        return None


def _result(context: Context, move: Move) -> Result:
    two = clone(context)
    try:
        effects = move(two)
    except (FarrefError, ElsewhereError) as error:
        effects = repr(error)
    except Exception as error:
        effects = f"a fault, {error!r}"
    tables = freeze(two.state)
    discard(two)
    return effects, tables


def _arrivals(taken: Taken) -> Iterator[tuple[str, Move]]:
    step = taken.step
    if isinstance(step, Arrival):
        message: Message = step.message
        cases = [(step.sender, message), (STRANGER, message)]
        if isinstance(message, Call | Invoke) and message.cargo.descriptors:
            forks = tuple(replace(e, passing=Passing.FORK) for e in message.cargo.descriptors)
            cargo = replace(message.cargo, descriptors=forks)
            cases.append((step.sender, replace(message, cargo=cargo)))  # by "lend" nobody does this
        for sender, each in cases:
            yield f"{each} of {sender}", methodcaller("take", sender, each)


def _requests(context: Context) -> Iterator[tuple[str, Move]]:
    peers = {context.me, *(user.owner for user in context.users.values())}
    for mine in context.owners.values():
        peers.update(mine.forks.values())
    counts = context.users | context.owners | context.state.names
    held = [each for each, count in counts.items() if count.handles]
    some = [*((each,) for each in held), *([tuple(held)] if len(held) > 1 else [])]
    for peer in sorted(peers):
        yield f"a call to {peer}", methodcaller("call", peer, CARGO)
        yield f"a creation on {peer}", methodcaller("create", peer, CARGO)
        for rrefs in some:

            def lend(it: Context, to: WorkerId = peer, rrefs: Any = rrefs) -> object:
                loans = it.lend_all(rrefs, to)
                return it.call(to, Cargo(payload=CARGO.payload, descriptors=loans))

            yield f"a call to {peer} with {rrefs}", lend
    for rref in held:
        for copy, direct, follow in ((True, True, True), (True, True, False), (False, False, True)):
            fetch = methodcaller("fetch", rref, copy=copy, direct=direct, follow=follow)
            yield f"a fetch of {rref}, {copy, direct, follow}", fetch
        yield f"a method of {rref}", methodcaller("invoke", rref, CARGO)
        yield f"a method of {rref} at a stranger", methodcaller("invoke", rref, CARGO, (), STRANGER)

        def within(it: Context, rref: Any = rref) -> object:
            return it.create(it.owner_of(rref), CARGO, it.whereabouts(rref))

        yield f"a creation by a method of {rref}", within


def _answers(endpoint: ScriptedEndpoint) -> Iterator[tuple[str, Move]]:
    for task in endpoint.tasks:
        request = task.message
        if task.refused or task.stage not in {Stage.ARRIVED, Stage.BEGUN}:
            continue
        if isinstance(request, Call | Invoke):
            yield from _returns(endpoint.context, request)
        about = request.rref if isinstance(request, Fetch | Invoke) else None
        owner = endpoint.context.owners.get(about) if about is not None else None
        if owner is not None and owner.has_begun(request.call):  # type: ignore[union-attr]  # not a `Tell`

            def answer(it: Context, rref: Any = about, call: Any = request.call) -> object:  # type: ignore[union-attr]
                return [*it.reply(call, CARGO), *it.done(rref, call)]

            yield f"the answer to {request}", answer


def _returns(context: Context, request: Call | Invoke) -> Iterator[tuple[str, Move]]:
    """The reply to *request*, when some handles are gone: of what it brought, or of others."""
    brought = {each.rref: None for each in request.cargo.descriptors}
    held = [each for each in brought for _ in range(_handles(context, each))]
    counts = context.users | context.owners | context.state.names
    others = [each for each in counts if each not in brought and _handles(context, each)]
    alone = {(each,) for each in (*held, *others)}
    for gone in {(), *alone, tuple(held), (*held, *others)}:

        def reply(it: Context, gone: Any = gone) -> object:
            return [*it.drop(*gone), *it.reply(request.call, CARGO)]

        yield f"the reply to {request.call} without {gone}", reply


def _handles(context: Context, rref: RRefId) -> int:
    """The handles that are called *rref*, also if it is an alias of another object."""
    name = context.state.names.get(rref)
    entry = name or context.users.get(rref) or context.owners.get(rref)
    return entry.handles if entry is not None else 0


def _ends(context: Context) -> Iterator[tuple[str, Move]]:
    for rref, user in context.users.items():
        if user.handles:
            yield f"the end of a handle of {rref}", methodcaller("drop", rref)
    for rref, owner in context.owners.items():
        if not owner.resolved and owner.alias is None:
            for serial in (True, False):
                resolve = methodcaller("resolve", rref, serial=serial)
                yield f"the value of {rref}, serial: {serial}", resolve
