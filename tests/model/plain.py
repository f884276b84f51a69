"""The plain moves beside the general machine: the same change in every state, or none.

A plain move (`farref.protocol.plain`) takes the place of a method of `Context`. Both are made here
on copies of each state that an endpoint reaches, whether or not the program makes the move there:
the requests to every peer and on every reference, the end of each handle, the answer to each
request that runs, the value of each object that has none, and each message that arrives. The tables
must be equal afterwards, and so must the effects.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cache, partial
from itertools import chain
from typing import Any

from farref.protocol import plain, plain_loan
from farref.protocol.context import Context
from farref.protocol.effects import Confirmed, Effect, Free, Run, Send, Settle
from farref.protocol.errors import FarrefError
from farref.protocol.ids import RRefId, WorkerId
from farref.protocol.messages import Ack, Call, Cargo, Create, Delete, Fetch, Reply
from farref.protocol.state import Tables

from .endpoint import ScriptedEndpoint
from .state import clone, discard, freeze
from .steps import Arrival
from .task import Stage
from .world import Taken

CARGO = Cargo(payload="plain")
STRANGER = WorkerId("stranger", 1)
"""An endpoint that sends what no correct one does."""
Plainly = Callable[[Tables], list[Effect] | None]
"""A plain move: the effects that its caller carries out; None: the general one is to be made."""
Generally = Callable[[Context], list[Effect]]
Pair = tuple[str, Plainly, Generally]
"""The name of a move, and both ways to make it."""


def differs(taken: Taken) -> str | None:
    """The first difference between the two ways to take the message that arrives."""
    return _difference(taken.before.context, _arrivals(taken))


def differs_here(endpoint: ScriptedEndpoint) -> str | None:
    """The first difference between the two ways to make a move of the endpoint's own."""
    context = endpoint.context
    pairs = chain(_requests(context), _answers(endpoint), _ends(context))
    return _difference(context, pairs)


def _difference(context: Context, pairs: Iterable[Pair]) -> str | None:
    before = cache(partial(freeze, context.state))
    for what, plainly, generally in pairs:
        flaw = _compared(context, before, plainly, generally)
        if flaw is not None:
            return f"{what}: {flaw}"
    return None


def _compared(
    context: Context, before: Callable[[], Hashable], plainly: Plainly, generally: Generally
) -> str | None:
    """The first difference; *before* returns the state of *context*, frozen."""
    state = clone(context.state)
    try:
        effects = plainly(state)
    except Exception as error:
        return f"the plain way raises {error!r}"
    if effects is None:
        return None if freeze(state) == before() else "it makes half a move"
    two = clone(context)
    try:
        other = generally(two)
    except FarrefError as error:
        return f"the general way raises {error}"
    after = freeze(two.state)
    discard(two)
    if effects != other:
        return f"{effects} instead of {other}"
    return None if freeze(state) == after else "the tables differ"


def _arrivals(taken: Taken) -> Iterator[Pair]:
    step = taken.step
    if not isinstance(step, Arrival):
        return
    message = step.message
    if not isinstance(message, Call | Fetch | Reply | Create | Ack | Delete):
        return
    if isinstance(message, Reply | Create) and message.cargo.descriptors:
        return
    for sender in (step.sender, STRANGER):

        def plainly(state: Tables, sender: WorkerId = sender) -> list[Effect] | None:
            match message:
                case Create():
                    ack = plain.created(state, sender, message)
                    return None if ack is None else [Send(sender, ack), Run(sender, message)]
                case Ack():
                    acked = plain.acked(state, sender, message)
                    return [Confirmed(message.rref)] if acked else None
                case Delete():
                    return [Free(message.rref)] if plain.deleted(state, sender, message) else None
                case Call() if message.cargo.descriptors:
                    loans = message.cargo.descriptors
                    effects = plain_loan.lent(state, sender, message.call, loans)
                    return None if effects is None else [*effects, Run(sender, message)]
                case Call():
                    runs = not message.chain and plain.called(state, sender, message.call)
                    return [Run(sender, message)] if runs else None
                case Fetch():
                    return [Run(sender, message)] if plain.fetched(state, sender, message) else None
            return [Settle(sender, message)] if plain.replied(state, sender, message) else None

        def generally(context: Context, sender: WorkerId = sender) -> list[Effect]:
            return context.take(sender, message)

        yield f"{message} of {sender}", plainly, generally


def _requests(context: Context) -> Iterator[Pair]:
    peers = {context.me, *(user.owner for user in context.users.values())}
    for mine in context.owners.values():
        peers.update(mine.forks.values())
    for peer in sorted(peers):

        def called(state: Tables, to: Any = peer) -> list[Effect] | None:
            made = plain.call(state, to, CARGO)
            return None if made is None else [Send(to, made)]

        def call(it: Context, to: Any = peer) -> list[Effect]:
            return it.call(to, CARGO)[1]

        def created(state: Tables, to: Any = peer) -> list[Effect] | None:
            made = plain.create(state, to, CARGO)
            return None if made is None else [Send(to, made)]

        def create(it: Context, to: Any = peer) -> list[Effect]:
            return it.create(to, CARGO)[1]

        yield f"a call to {peer}", called, call
        yield from _loans(context, peer)
        yield f"a creation on {peer}", created, create
    for rref, user in context.users.items():
        for owner in (user.owner, STRANGER):

            def fetched(state: Tables, to: Any = owner, rref: Any = rref) -> list[Effect] | None:
                made = plain.fetch(state, to, rref)
                return None if made is None else [Send(to, made)]

            def fetch(it: Context, rref: Any = rref) -> list[Effect]:
                return it.fetch(rref, direct=True)[1]

            yield f"a fetch of {rref} from {owner}", fetched, fetch


def _loans(context: Context, peer: WorkerId) -> Iterator[Pair]:
    """Calls to *peer* that lend each reference with a handle here alone, and all at once."""
    counts = context.users | context.owners | context.state.names
    held = [each for each, count in counts.items() if count.handles]
    for rrefs in [*((each,) for each in held), *([tuple(held)] if len(held) > 1 else [])]:

        def lent(state: Tables, rrefs: Any = rrefs) -> list[Effect] | None:
            made = plain_loan.lend(state, peer, rrefs, CARGO.payload)
            return None if made is None else [Send(peer, made)]

        def lend(it: Context, rrefs: Any = rrefs) -> list[Effect]:
            loans = it.lend_all(rrefs, peer)
            return it.call(peer, Cargo(payload=CARGO.payload, descriptors=loans))[1]

        yield f"a call to {peer} with {rrefs}", lent, lend


def _answers(endpoint: ScriptedEndpoint) -> Iterator[Pair]:
    for task in endpoint.tasks:
        request = task.message
        if task.refused or task.stage not in {Stage.ARRIVED, Stage.BEGUN}:
            continue
        if isinstance(request, Call):

            def replied(state: Tables, call: Any = request.call) -> list[Effect] | None:
                made = plain.reply(state, CARGO, call)
                return None if made is None else [Send(call.caller, made)]

            def reply(it: Context, call: Any = request.call) -> list[Effect]:
                return it.reply(call, CARGO)

            yield f"the reply to {request.call}", replied, reply
            yield from _returns(endpoint.context, request)
        elif isinstance(request, Fetch) and request.rref in endpoint.context.owners:

            def answered(state: Tables, of: Fetch = request) -> list[Effect] | None:
                made = plain.answer(state, CARGO, of.call, of.rref)
                return None if made is None else [Send(of.call.caller, made)]

            def answer(it: Context, of: Fetch = request) -> list[Effect]:
                return [*it.reply(of.call, CARGO), *it.done(of.rref, of.call)]

            yield f"the answer to {request.call}", answered, answer


def _returns(context: Context, request: Call) -> Iterator[Pair]:
    """The reply to *request*, when some handles are gone: of what it brought, or of others."""
    brought = {each.rref: None for each in request.cargo.descriptors}
    held = [each for each in brought for _ in range(_handles(context, each))]
    counts = context.users | context.owners | context.state.names
    others = [each for each in counts if each not in brought and _handles(context, each)]
    alone = {(each,) for each in (*held, *others)}
    for gone in {(), *alone, tuple(held), (*held, *others)}:

        def returned(state: Tables, gone: Any = gone) -> list[Effect] | None:
            made = plain_loan.returned(state, CARGO, request.call, gone)
            return None if made is None else [Send(request.call.caller, made)]

        def reply(it: Context, gone: Any = gone) -> list[Effect]:
            return [*it.drop(*gone), *it.reply(request.call, CARGO)]

        yield f"the reply to {request.call} without {gone}", returned, reply


def _handles(context: Context, rref: RRefId) -> int:
    """The handles that are called *rref*, also if it is an alias of another object."""
    name = context.state.names.get(rref)
    entry = name or context.users.get(rref) or context.owners.get(rref)
    return entry.handles if entry is not None else 0


def _ends(context: Context) -> Iterator[Pair]:
    for rref, user in context.users.items():
        if not user.handles:
            continue

        def dropped(state: Tables, rref: Any = rref, to: Any = user.owner) -> list[Effect] | None:
            made = plain.dropped(state, rref)
            return None if made is None else [Send(to, made)]

        def drop(it: Context, rref: Any = rref) -> list[Effect]:
            return it.drop(rref)

        yield f"the end of a handle of {rref}", dropped, drop
    for rref, owner in context.owners.items():
        if owner.resolved or owner.alias is not None:
            continue

        def resolved(state: Tables, rref: Any = rref) -> list[Effect] | None:
            runs = plain.resolved(state, rref)
            return None if runs is None else [*runs]

        def resolve(it: Context, rref: Any = rref) -> list[Effect]:
            return it.resolve(rref)

        yield f"the value of {rref}", resolved, resolve
