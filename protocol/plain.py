"""The moves of plain requests, each in one function, as most requests need no more of the machines.

A plain request is a call or a fetch with which no reference travels, neither there nor back, while
nothing is held back, and nobody is dead. Each function here changes the tables as the `Context`
does for the same event, or returns that it has changed nothing; then the `Context` has to take the
event. The explorer compares both in every state (`tests/model/plain.py`).

======================  =====================================
here                    as
======================  =====================================
`call`                  `Context.call`
`fetch`                 `Context.fetch`, direct
`called`, `fetched`     `Context.take` of a `Call`, a `Fetch`
`reply`                 `Context.reply`, to a call
`answer`                `Context.reply` and `Context.done`, to a fetch
`replied`               `Context.take` of a `Reply`
======================  =====================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .empty import EMPTY_SET
from .ids import CallId
from .messages import Call, Fetch, Reply
from .state import Waiting

if TYPE_CHECKING:
    from .ids import RRefId, WorkerId
    from .messages import Cargo
    from .state import Tables


def call(state: Tables, to: WorkerId, cargo: Cargo) -> Call | None:
    """Run *cargo*, which has no reference, on *to*: the message to send."""
    if state.dead.firsts or to == state.me:
        return None
    state.calls = number = state.calls + 1
    made = CallId(state.me, number)
    state.waiting[made] = Waiting(to, None)
    return Call(call=made, cargo=cargo)


def fetch(state: Tables, to: WorkerId, rref: RRefId) -> Fetch | None:
    """Ask *to*, the owner of *rref*, for a copy of the value: the message to send."""
    user = state.users.get(rref)
    if (
        user is None
        or user.owner != to
        or state.dead.firsts
        or state.fetching
        or rref in state.names
    ):
        return None
    state.calls = number = state.calls + 1
    made, direct = CallId(state.me, number), not user.canonical
    message = Fetch(call=made, rref=rref, direct=direct)
    user.stamp += 1
    if user.pending:
        user.pending.add(made)
    else:
        user.pending = {made}
    if direct:  # it may have to be asked again elsewhere
        state.waiting[made] = Waiting(to, rref, fetch=message)
        state.fetching[rref] = made
    else:
        state.waiting[made] = Waiting(to, rref)
    return message


def called(state: Tables, sender: WorkerId, call: CallId) -> bool:
    """Whether *call*, which brings no reference, is only to be run."""
    return call.caller == sender and not state.dead.firsts


def fetched(state: Tables, sender: WorkerId, message: Fetch) -> bool:
    """Whether *message* has its object's turn at once."""
    owner = state.owners.get(message.rref)
    if (
        owner is None
        or owner.running is not None
        or owner.queue
        or owner.alias is not None
        or not owner.resolved
        or not owner.serial
        or message.chain
        or message.cancelled
        or not called(state, sender, message.call)
    ):
        return False
    owner.stamp += 1
    owner.running = message.call
    return True


def reply(state: Tables, cargo: Cargo, call: CallId) -> Reply | None:
    """Answer *call* by *cargo*, which has no reference: the message to send."""
    if call in state.serving or state.dead.firsts or call.caller == state.me:
        return None
    return Reply(call=call, cargo=cargo)


def answer(state: Tables, cargo: Cargo, call: CallId, rref: RRefId) -> Reply | None:
    """Answer the fetch *call* of *rref* by *cargo*; it has ended, and no request waits for that."""
    owner = state.owners.get(rref)
    if owner is None or owner.running != call or owner.queue:
        return None
    if not (owner.handles or owner.forks):  # it may be free now
        return None
    message = reply(state, cargo, call)
    if message is not None:
        owner.running = None
    return message


def replied(state: Tables, sender: WorkerId, message: Reply) -> bool:
    """Whether *message*, which brings no reference, is only to be settled."""
    call = message.call
    waiting = state.waiting.get(call)
    if (
        waiting is None
        or waiting.to != sender
        or waiting.loans
        or waiting.relay is not None
        or message.loans
        or message.relayed
        or message.refused
        or message.moved is not None
        or state.held
        or state.dead.firsts
    ):
        return False
    rref = waiting.rref
    if rref is None:
        if state.fetching:
            return False
    else:
        user = state.users.get(rref)
        if (
            user is None
            or not user.handles
            or call not in user.pending
            or call in state.named  # the name may end
        ):
            return False
        if state.fetching:
            if len(state.fetching) > 1 or state.fetching.get(rref) != call:
                return False
            del state.fetching[rref]
        user.canonical = True
        user.pending.discard(call)
        user.pending = user.pending or EMPTY_SET
    del state.waiting[call]
    return True
