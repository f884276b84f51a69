"""The moves of plain requests, each in one function, as most requests need no more of the machines.

A plain request is a call, a fetch or a creation with which no reference travels, neither there nor
back, between two living endpoints; `plain_loan` has calls that lend some. Each function here
changes the tables as the `Context` does for the same event, or returns that it has changed nothing;
then the `Context` has to take the event. The explorer compares both in every state
(`tests/model/plain.py`).

======================  =====================================
here                    as
======================  =====================================
`call`                  `Context.call`
`fetch`                 `Context.fetch`, direct
`called`, `fetched`     `Context.take` of a `Call`, a `Fetch`
`reply`                 `Context.reply`, to a call
`answer`                `Context.reply` and `Context.done`, to a fetch
`replied`               `Context.take` of a `Reply`
`create`                `Context.create`, by a function
`created`, `acked`      `Context.take` of a `Create`, an `Ack`
`resolved`              `Context.resolve`
`dropped`               `Context.drop` of the last handle
`deleted`               `Context.take` of the last `Delete`
======================  =====================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import plain_loan
from .borrowing import BorrowingUser
from .creations import Asked, Seen
from .effects import Run
from .empty import EMPTY, EMPTY_SET
from .ids import CallId, ForkId, RRefId
from .messages import Ack, Call, Create, Delete, Fetch, Reply
from .state import Waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .ids import WorkerId
    from .messages import Cargo
    from .state import Tables


def call(state: Tables, to: WorkerId, cargo: Cargo) -> Call | None:
    """Run *cargo*, which has no reference, on *to*: the message to send."""
    if to == state.me or (state.dead.firsts and to in state.dead):
        return None
    state.calls = number = state.calls + 1
    made = CallId(state.me, number)
    state.waiting[made] = Waiting(to, None)
    return Call(call=made, cargo=cargo)


def fetch(state: Tables, to: WorkerId, rref: RRefId) -> Fetch | None:
    """Ask *to*, the owner of *rref*, for a copy of the value: the message to send."""
    user = state.users.get(rref)
    if user is None or user.owner != to or user.lost:
        return None
    if rref in state.fetching or state.held or (state.names and rref in state.names):
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
    return call.caller == sender and not (state.dead.firsts and sender in state.dead)


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
    caller = call.caller
    if call in state.serving or caller == state.me:
        return None
    if state.dead.firsts and caller in state.dead:
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
        or message.loans
        or message.relayed
        or message.refused
        or message.moved is not None
        or state.held
        or (state.dead.firsts and sender in state.dead)
    ):
        return False
    rref = waiting.rref
    if rref is None:
        loans = waiting.loans
        if loans and not plain_loan.regained(state, sender, loans):
            return False
    else:
        user = state.users.get(rref)
        if (
            user is None
            or waiting.relay is not None
            or waiting.loans
            or not user.handles
            or call not in user.pending
            or (state.named and call in state.named)  # the name may end
        ):
            return False
        if state.fetching.get(rref) == call:
            del state.fetching[rref]
        user.canonical = True
        user.pending.discard(call)
        user.pending = user.pending or EMPTY_SET
    del state.waiting[call]
    return True


def create(state: Tables, to: WorkerId, cargo: Cargo) -> Create | None:
    """Have *to* make an object by running *cargo*, with one handle here: the message to send."""
    if to == state.me or (state.dead.firsts and to in state.dead):
        return None
    me, number = state.me, state.rrefs + 1
    state.rrefs = number
    state.forks += 1
    state.calls += 1
    rref, fork = RRefId(me, number), ForkId(me, state.forks)
    user = state.users[rref] = state.discipline.user(rref, to, state.now)
    user.create(fork)
    user.handles = 1
    asked = state.asked.get(to)
    if asked is None:
        asked = state.asked[to] = Asked()
    settled = asked.add(number)
    return Create(call=CallId(me, state.calls), rref=rref, fork=fork, cargo=cargo, settled=settled)


def created(state: Tables, sender: WorkerId, message: Create) -> Ack | None:
    """Accept the creation, which brings no reference: the answer. The function is to be run."""
    rref, fork, call = message.rref, message.fork, message.call
    if (
        rref.creator != sender
        or fork.parent != sender
        or message.target is not None
        or rref in state.owners
        or not called(state, sender, call)
    ):
        return None
    owner = state.owners[rref] = state.discipline.owner(rref, rref, state.now, True)
    owner.forks = {fork: sender}
    seen = state.seen.get(sender)
    if seen is None:
        seen = state.seen[sender] = Seen()
    seen.add(rref.number, message.settled)
    state.making[rref] = call
    return Ack(rref=rref, fork=fork)


def acked(state: Tables, sender: WorkerId, message: Ack) -> bool:
    """Whether *message* only confirms a creation of this endpoint's, with a handle here."""
    rref = message.rref
    user, asked = state.users.get(rref), state.asked.get(sender)
    if (
        user is None
        or asked is None
        or rref.creator != state.me
        or not asked.awaits(rref.number)
        or user.requested != message.fork
        or not user.handles
        or user.known
        or user.owed
        or rref in state.creating
        or user.lost
    ):
        return False
    user.requested, user.known = None, (message.fork,)
    if asked.acknowledged(rref.number):
        del state.asked[sender]
    return True


def resolved(state: Tables, rref: RRefId) -> Sequence[Run] | None:
    """The value of *rref* is there: the fetch of it that can run now, if there is one."""
    owner = state.owners.get(rref)
    if owner is None or owner.asking or state.making.get(rref) in state.serving:
        return None
    runs: Sequence[Run] = ()
    if owner.queue:
        sender, request = next(iter(owner.queue.values()))
        if len(owner.queue) > 1 or type(request) is not Fetch:
            return None
        owner.running, owner.queue = request.call, EMPTY
        runs = (Run(sender, request),)
    elif not (owner.handles or owner.forks):  # it may be free now
        return None
    state.making.pop(rref, None)
    owner.created = owner.resolved = True
    owner.target = None
    return runs


def dropped(state: Tables, rref: RRefId) -> Delete | None:
    """The last handle of *rref* is gone, and nothing else needs it: the message to its owner."""
    user = state.users.get(rref)
    if (
        user is None
        or user.handles != 1
        or not user.known
        or type(user) is BorrowingUser  # it hands its table over
        or rref in state.names
        or user.lost
        or not user.at_rest
    ):
        return None
    del state.users[rref]
    return Delete(rref=rref, forks=tuple(sorted(user.known)))


def deleted(state: Tables, sender: WorkerId, message: Delete) -> bool:
    """Whether the object is free now, and has to be let go of."""
    rref, forks = message.rref, message.forks
    owner = state.owners.get(rref)
    if (
        owner is None
        or owner.handles
        or len(forks) != 1
        or len(owner.forks) != 1
        or owner.forks.get(forks[0]) != sender
        or owner.alias is not None
        or message.borrowers
        or (state.dead.firsts and sender in state.dead)
        or not owner.at_rest
    ):
        return False
    del state.owners[rref]
    return True
