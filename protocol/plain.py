"""The moves of plain calls, each in one function: most calls need no more of the machines.

A call is plain if no reference travels with it or with its answer, and if nothing is held back for
a death or an alias. Each function here makes the same change as the `Context` does for the same
event, or none: then the general machine has to make it. The explorer compares the two in every
state (`tests/model/plain.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .ids import CallId
from .messages import Call, Reply
from .state import Waiting

if TYPE_CHECKING:
    from .ids import WorkerId
    from .messages import Cargo
    from .state import Tables


def call(state: Tables, to: WorkerId, cargo: Cargo) -> Call | None:
    """`Context.call`: the message to send. None if the general machine has to make the call."""
    if state.dead.firsts or cargo.descriptors or to == state.me:
        return None
    state.calls = number = state.calls + 1
    made = CallId(state.me, number)
    state.waiting[made] = Waiting(to, None)
    return Call(call=made, cargo=cargo)


def called(state: Tables, sender: WorkerId, message: Call) -> bool:
    """`Context.take` of a call that is to run, with nothing to note. False: it has to look."""
    return not (
        message.cargo.descriptors
        or message.call.caller != sender
        or state.held
        or state.fetching
        or state.dead.firsts
    )


def reply(state: Tables, call: CallId, cargo: Cargo) -> Reply | None:
    """`Context.reply`: the message to send. None if the general machine has to answer."""
    if (
        call in state.serving
        or cargo.descriptors
        or state.held
        or state.fetching
        or state.dead.firsts
        or call.caller == state.me
    ):
        return None
    return Reply(call=call, cargo=cargo)


def replied(state: Tables, sender: WorkerId, message: Reply) -> bool:
    """`Context.take` of the reply to a plain call, which is settled now. False: it has to look."""
    waiting = state.waiting.get(message.call)
    if (
        waiting is None
        or waiting.to != sender
        or waiting.rref is not None
        or waiting.loans
        or message.cargo.descriptors
        or message.loans
        or message.moved is not None
        or state.held
        or state.fetching
        or state.dead.firsts
    ):
        return False
    del state.waiting[message.call]
    return True
