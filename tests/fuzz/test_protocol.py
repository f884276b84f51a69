"""Protocol messages with any wrong field, to an endpoint in the middle of everything.

The endpoint refuses each with a `ProtocolError` and changes nothing, or takes it. If it takes it,
it changes nothing that belongs to others than the sender: no handle, no fork, no pin, no call; and
it frees no object that another endpoint holds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest

from farref.protocol.context import Context
from farref.protocol.effects import Free
from farref.protocol.errors import ProtocolError
from farref.protocol.ids import CallId, ForkId, Number, RRefId, WorkerId
from farref.protocol.messages import (
    KINDS,
    Call,
    Cargo,
    Create,
    Descriptor,
    Fetch,
    ForkRequest,
    Invoke,
    Message,
    Passing,
    Probe,
)
from farref.protocol.sharing import DISCIPLINES, Sharing

from ..model.foreign import A, B, C, reference, tell
from ..model.state import clone, freeze
from .cases import cases
from .wrong import wrong

D = WorkerId("D", 1)
STRANGER = WorkerId("A", 2)
WORKERS = (A, B, C, D, STRANGER)
SENDERS = (A, C, D, STRANGER)
"""Not B itself: its shell refuses messages that others send in its name."""


@cache
def endpoint(sharing: Sharing) -> Context:
    """B: an owner, a user, a lender and a borrower, with calls both ways; D is dead."""
    context = Context(B, sharing)
    loan = Passing.LOAN if DISCIPLINES[sharing].lends else Passing.FORK
    mine, shared = context.own(), context.own()
    context.fork_all((mine,), A)
    context.fork_all((mine,), C)
    context.fork_all((shared,), A)
    context.receive(C, tell(reference(RRefId(C, 1), ForkId(C, 1), C)))
    context.receive(A, tell(reference(RRefId(C, 2), ForkId(A, 1), C)))
    context.hold(RRefId(C, 1))
    context.fork_all((RRefId(C, 1),), A)
    context.receive(
        A, Create(call=CallId(A, 1), rref=RRefId(A, 1), fork=ForkId(A, 2), cargo=Cargo())
    )
    context.receive(C, ForkRequest(rref=RRefId(A, 1), fork=ForkId(A, 3)))
    context.receive(C, ForkRequest(rref=RRefId(A, 2), fork=ForkId(A, 4)))
    context.receive(A, Fetch(call=CallId(A, 2), rref=mine))
    context.receive(C, Invoke(call=CallId(C, 1), rref=mine, cargo=Cargo()))
    lent = Cargo(descriptors=(reference(RRefId(C, 3), ForkId(A, 5), C, loan),))
    context.receive(A, Call(call=CallId(A, 3), cargo=lent))
    context.receive(A, Call(call=CallId(A, 4), cargo=Cargo()))
    arguments = context.lend_all((mine, shared, RRefId(C, 1)), A)
    context.call(A, Cargo(descriptors=arguments))
    context.call(C, Cargo(descriptors=context.lend_all((mine,), C)))
    context.fetch(RRefId(C, 1))
    context.create(A, Cargo(descriptors=context.lend_all((shared,), A, replies=False)))
    context.create(C, Cargo(), RRefId(C, 1))
    context.died(D)
    return context


# ---- messages that could be right


def ids_in(context: Context) -> dict[type, list[Any]]:
    """The ids that this state could name, and a few more."""
    return {
        WorkerId: list(WORKERS),
        RRefId: [RRefId(who, number) for who in (A, B, C) for number in range(1, 5)],
        ForkId: [ForkId(who, number) for who in (A, B, C) for number in range(1, 12)],
        CallId: [CallId(who, number) for who in (A, B, C) for number in range(1, 7)],
    }


class MessageMaker:
    """Draws messages by the types of their fields, with ids of the state."""

    def __init__(self, rng: random.Random, ids: dict[type, list[Any]]) -> None:
        self.rng = rng
        self.ids = ids

    def one(self, kind: type) -> Any:
        return self.rng.choice(self.ids[kind])

    def some(self, make: Callable[[], Any], most: int = 3) -> tuple[Any, ...]:
        return tuple(make() for _ in range(self.rng.randint(0, most)))

    def message(self) -> Message:
        message: Message = self.value(self.rng.choice(KINDS))
        return message

    def value(self, kind: Any) -> Any:
        """A value of the type *kind*."""
        parts = get_args(kind)
        if kind in self.ids:
            return self.one(kind)
        if kind == Number:
            return self.rng.randint(0, 9)
        if kind is bool:
            return self.rng.random() < 0.2
        if kind in PLAIN:
            return PLAIN[kind]
        if NoneType in parts:
            return self.value(parts[0]) if self.rng.random() < 0.5 else None
        if get_origin(kind) is Literal:
            return self.rng.choice(parts)
        if get_origin(kind) is tuple:
            if parts[-1] is ...:
                return self.some(lambda: self.value(parts[0]))
            return tuple(map(self.value, parts))
        if issubclass(kind, Enum):
            return self.rng.choice(list(kind))
        made = {each.name: self.value(each.type) for each in msgspec.structs.fields(kind)}
        if kind is Descriptor and self.rng.random() < 0.8:  # as correct peers send them
            made |= {"parent": made["fork"].parent, "owner": made["rref"].creator}
        if kind is Probe and made["before"]:
            made["path"] = made["before"]
        return kind(**made)


PLAIN = {object: b"", str: ""}
"""The payload, and names for people: nothing depends on them."""


# ---- state that belongs to others


def of_others(context: Context, sender: WorkerId) -> Iterator[object]:
    """The state that *sender* must not be able to take away."""
    for owner in context.owners.values():
        yield from ((owner.rref, fork, who) for fork, who in owner.forks.items() if who != sender)
        yield from ((owner.rref, "handle", n) for n in range(owner.handles))
        yield from ((owner.rref, "message", n) for n in range(owner.messages))
        yield from (
            (owner.rref, "pending", call)
            for call in owner.pending
            if not _to(context, call, sender)
        )
        lent = getattr(owner, "lent", {})
        yield from ((owner.rref, "lent", fork) for fork, who in lent.items() if who != sender)
        yield from ((owner.rref, "queued", who) for who, _ in owner.queue.values() if who != sender)
    for user in context.users.values():
        yield from ((user.rref, "handle", n) for n in range(user.handles))
        yield from ((user.rref, "message", n) for n in range(user.messages))
        yield from (
            (user.rref, "child", fork) for fork, who in user.children.items() if who != sender
        )
        if user.owner != sender:
            yield from ((user.rref, "known", fork) for fork in user.known)
            yield from ((user.rref, "owed", fork) for fork in user.owed)
            yield from ((user.rref, "pending", call) for call in user.pending)
    yield from (
        (call, "waits") for call, waiting in context.waiting.items() if waiting.to != sender
    )


def _to(context: Context, call: CallId, sender: WorkerId) -> bool:
    waiting = context.waiting.get(call)
    return waiting is None or waiting.to == sender


def held_by_others(context: Context, rref: RRefId, sender: WorkerId) -> bool:
    owner = context.owners.get(rref)
    if owner is None:
        return False
    return bool(
        owner.handles or owner.messages or any(who != sender for who in owner.forks.values())
    )


@pytest.mark.parametrize("sharing", DISCIPLINES)
def test_protocol(sharing: Sharing) -> None:
    state = endpoint(sharing)
    before = freeze(state)
    ids = ids_in(state)
    pool = [each for kind in ids.values() for each in kind]

    def another(rng: random.Random, _: Any) -> Any:
        return rng.choice(pool)

    refused = taken = 0
    for case in cases(f"protocol {sharing}"):
        with case as rng:
            make = MessageMaker(rng, ids)
            message: Any = make.message()
            sender = rng.choice(SENDERS)
            if rng.random() < 0.75:
                message = wrong(rng, message, another)
            context = clone(state)
            theirs = set(of_others(context, sender))
            try:
                effects = context.receive(sender, message)
            except ProtocolError:
                refused += 1
                assert freeze(context) == before, "it was refused, and something changed"
                continue
            taken += 1
            left = set(of_others(context, sender))
            assert theirs <= left, f"{sender} took what is not its own: {theirs - left}"
            freed = [effect.rref for effect in effects if isinstance(effect, Free)]
            assert not [rref for rref in freed if held_by_others(state, rref, sender)]
    assert freeze(state) == before
    assert not (refused + taken) > 100 or (refused and taken), "one kind of case is missing"
