"""Plain moves leave wrong messages and rare ones to the general machine.

The explorer compares the moves with the general machine for all that correct endpoints send
(`tests/model/plain.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from farref.protocol import plain, plain_loan
from farref.protocol.context import Context
from farref.protocol.effects import Send
from farref.protocol.empty import EMPTY
from farref.protocol.ids import CallId, ForkId, RRefId, WorkerId
from farref.protocol.messages import (
    Ack,
    Busy,
    Call,
    Cargo,
    Create,
    Delete,
    Descriptor,
    Fetch,
    Passing,
    Reply,
    Tell,
)

if TYPE_CHECKING:
    from farref.protocol.effects import Effect
    from farref.protocol.messages import Message
    from farref.protocol.state import Tables

A, B, C = (WorkerId(name, number) for number, name in enumerate("ABC", 1))
CARGO = Cargo(payload=b"")


def sent(effects: list[object]) -> Message:
    (only,) = (each.message for each in effects if isinstance(each, Send))
    return only


@dataclass
class Pair:
    """A has made an object at B; its creation is on the way."""

    a: Context
    b: Context
    rref: RRefId
    create: Create

    @classmethod
    def made(cls) -> Pair:
        a, b = Context(A), Context(B)
        rref, effects = a.create(B, CARGO)
        create = sent(list(effects))
        assert isinstance(create, Create)
        return cls(a, b, rref, create)

    def accept(self) -> Ack:
        """B accepts the creation, and the value is there."""
        ack = sent(list(self.b.take(A, self.create)))
        self.b.resolve(self.rref)
        assert isinstance(ack, Ack)
        return ack


def test_a_creation_with_ids_of_others() -> None:
    pair = Pair.made()
    for wrong in (
        replace(pair.create, rref=RRefId(C, 1)),
        replace(pair.create, fork=ForkId(C, 1)),
        replace(pair.create, call=CallId(C, 1)),
    ):
        assert plain.created(pair.b.state, A, wrong) is None
    assert not pair.b.owners
    assert plain.created(pair.b.state, A, pair.create) is not None


def test_an_acknowledgement_that_nobody_waits_for() -> None:
    pair = Pair.made()
    ack = pair.accept()
    assert not plain.acked(pair.a.state, B, replace(ack, fork=ForkId(A, 9)))
    assert not plain.acked(pair.a.state, C, ack)
    assert plain.acked(pair.a.state, B, ack)
    assert not plain.acked(pair.a.state, B, ack), "it comes a second time"


def test_a_delete_that_is_no_plain_one() -> None:
    pair = Pair.made()
    pair.accept()
    fork = pair.create.fork
    for wrong in (
        Delete(rref=pair.rref, forks=(fork, fork)),
        Delete(rref=pair.rref, forks=(ForkId(A, 9),)),
        Delete(rref=pair.rref, forks=(fork,), borrowers=((ForkId(A, 9), C),)),
    ):
        assert not plain.deleted(pair.b.state, A, wrong)
    assert not plain.deleted(pair.b.state, C, Delete(rref=pair.rref, forks=(fork,)))
    assert plain.deleted(pair.b.state, A, Delete(rref=pair.rref, forks=(fork,)))


def test_a_fetch_that_must_not_run() -> None:
    pair = Pair.made()
    pair.accept()
    call = CallId(A, 9)
    for wrong in (
        Fetch(call=call, rref=pair.rref, chain=(Busy(pair.rref, call),)),
        Fetch(call=call, rref=pair.rref, cancelled=True),
        Fetch(call=CallId(C, 9), rref=pair.rref),
    ):
        assert not plain.fetched(pair.b.state, A, wrong)
    assert plain.fetched(pair.b.state, A, Fetch(call=call, rref=pair.rref))


def test_an_endpoint_sends_itself_nothing() -> None:
    a = Context(A)
    assert plain.call(a.state, A, CARGO) is None
    assert plain.create(a.state, A, CARGO) is None
    assert plain.reply(a.state, CARGO, CallId(A, 1)) is None


def test_an_answer_to_a_request_that_does_not_run() -> None:
    pair = Pair.made()
    pair.accept()
    running = Fetch(call=CallId(A, 9), rref=pair.rref)
    assert plain.fetched(pair.b.state, A, running)
    assert plain.answer(pair.b.state, CARGO, CallId(A, 10), pair.rref) is None
    assert plain.answer(pair.b.state, CARGO, running.call, pair.rref) is not None


def test_a_last_handle_before_the_owner_knows_it() -> None:
    pair = Pair.made()
    assert plain.dropped(pair.a.state, pair.rref) is None


@pytest.mark.parametrize("mark", ["relayed", "refused"])
def test_a_reply_that_is_no_answer_of_the_object(mark: str) -> None:
    pair = Pair.made()
    assert plain.acked(pair.a.state, B, pair.accept())
    fetch = plain.fetch(pair.a.state, B, pair.rref)
    assert fetch is not None
    reply = Reply(call=fetch.call, cargo=CARGO)
    assert not plain.replied(pair.a.state, B, replace(reply, **{mark: True}))
    assert not plain.replied(pair.a.state, C, reply)
    pair.a.users[pair.rref].pending.discard(fetch.call)
    assert not plain.replied(pair.a.state, B, reply), "the object does not know the request"
    pair.a.users[pair.rref].pending.add(fetch.call)
    assert plain.replied(pair.a.state, B, reply)


@dataclass
class Loan:
    """A has lent its object at B to C."""

    a: Context
    c: Context
    rref: RRefId
    call: Call

    @classmethod
    def made(cls) -> Loan:
        pair = Pair.made()
        call = plain_loan.lend(pair.a.state, C, (pair.rref,), b"")
        assert call is not None
        return cls(pair.a, Context(C), pair.rref, call)

    @property
    def loan(self) -> Descriptor:
        (loan,) = self.call.cargo.descriptors
        return loan

    def brings(self, *loans: Descriptor) -> Call:
        return replace(self.call, cargo=Cargo(payload=b"", descriptors=loans))


def take(state: Tables, message: Call) -> list[Effect] | None:
    """The effects at C or A of *message* of A's; None if it is not plain."""
    return plain_loan.lent(state, A, message.call, message.cargo.descriptors)


def test_loans_that_no_correct_peer_makes() -> None:
    lent = Loan.made()
    loan, state = lent.loan, lent.c.state
    for wrong in (
        lent.brings(replace(loan, passing=Passing.FORK)),
        lent.brings(replace(loan, parent=B)),
        lent.brings(replace(loan, fork=ForkId(B, 1))),
        lent.brings(replace(loan, owner=C)),
        lent.brings(replace(loan, name=RRefId(A, 9))),
        lent.brings(loan, replace(loan, rref=RRefId(A, 9))),  # one fork twice
        lent.brings(replace(loan, rref=lent.c.own())),  # and B is said to own it
        replace(lent.call, call=CallId(B, 1)),
    ):
        assert take(state, wrong) is None
    assert not state.users
    assert take(state, lent.call) == []
    another = replace(loan, fork=ForkId(A, 9), owner=B if loan.owner != B else A)
    assert take(state, replace(lent.brings(another), call=CallId(A, 9))) is None


def test_an_object_that_is_lent_twice_in_a_call_is_given_back_in_the_general_way() -> None:
    """Each loan would look covered by the other one, and none would be settled."""
    lent = Loan.made()
    again = replace(lent.loan, fork=ForkId(A, lent.loan.fork.number + 1))
    message = lent.brings(lent.loan, again)
    assert take(lent.c.state, message) is None, "it would be held once"
    lent.c.take(A, message)
    assert len(lent.c.users[lent.rref].loans) == 2
    assert not plain_loan.given_back(lent.c.state, message.call)
    lent.c.reply(message.call, CARGO)
    assert not lent.c.users


def test_an_own_object_that_comes_twice_loses_each_handle_once() -> None:
    """The numbers of handles would agree: one is gone of another object."""
    a, b = Context(A), Context(B)
    rref, other = a.own(), a.own()
    tell = Tell(cargo=Cargo(descriptors=a.fork_all((rref,), B)))
    b.take(A, tell)
    b.hold(rref)
    loans = tuple(b.lend(rref, A) for _ in range(2))
    call = sent(list(b.call(A, Cargo(descriptors=loans))[1]))
    assert isinstance(call, Call)
    assert plain_loan.lent(a.state, B, call.call, loans) == []
    a.hold(rref)
    assert plain_loan.returned(a.state, CARGO, call.call, (rref, other)) is None
    assert a.owners[rref].handles == 2


def test_a_loan_that_was_not_made_does_not_end() -> None:
    """`Returned` names loans, and its sender may be any endpoint."""
    lent = Loan.made()
    user = lent.a.users[lent.rref]
    pins = dict(user.children)
    assert pins
    assert plain_loan.regained(lent.a.state, B, (lent.loan,))
    assert plain_loan.regained(lent.a.state, C, (replace(lent.loan, fork=ForkId(A, 9)),))
    assert user.children == pins
    assert plain_loan.regained(lent.a.state, C, (lent.loan,))
    assert not user.children


def test_an_entry_without_loans_has_the_empty_table_again() -> None:
    """There may be very many entries."""
    pair, c = Pair.made(), Context(C)
    pair.accept()
    tell = Tell(cargo=Cargo(descriptors=(pair.b.fork(pair.rref, C),)))
    c.take(B, tell)
    c.hold(pair.rref)
    c.release(tell.cargo.descriptors)
    call = plain_loan.lend(pair.a.state, C, (pair.rref,), b"")
    assert call is not None
    assert take(c.state, call) == []
    assert c.users[pair.rref].loans
    assert plain_loan.returned(c.state, CARGO, call.call) is not None
    assert c.users[pair.rref].loans is EMPTY


def test_an_endpoint_lends_itself_nothing() -> None:
    lent = Loan.made()
    assert plain_loan.lend(lent.a.state, A, (lent.rref,), b"") is None
    assert take(lent.a.state, lent.call) is None


def test_what_an_endpoint_does_not_hold_is_not_lent() -> None:
    lent = Loan.made()
    assert plain_loan.lend(lent.a.state, C, (lent.rref, RRefId(A, 9)), b"") is None


def test_a_reply_without_handles_that_were_not_there() -> None:
    lent = Loan.made()
    state, call = lent.c.state, lent.call.call
    assert take(state, lent.call) == []
    assert plain_loan.returned(state, CARGO, call, (lent.rref,)) is None, "there is no handle"
    lent.c.hold(lent.rref)
    assert plain_loan.returned(state, CARGO, call, (RRefId(A, 9),)) is None, "it did not come"
    assert plain_loan.returned(state, CARGO, CallId(A, 9), (lent.rref,)) is None
    reply = plain_loan.returned(state, CARGO, call, (lent.rref,))
    assert reply is not None
    assert not state.users
    assert plain.replied(lent.a.state, C, reply)
    assert not lent.a.users[lent.rref].children


def test_what_is_lost_is_not_lent() -> None:
    lent = Loan.made()
    lent.a.died(B)
    assert plain_loan.lend(lent.a.state, C, (lent.rref,), b"") is None
    lent.c.died(B)
    assert take(lent.c.state, lent.call) is None


def owing() -> tuple[Context, Call, RRefId]:
    """C owes B, which is dead, a `ChildAck` for an object of A's; A lends C this object."""
    a, b, c = (Context(each) for each in (A, B, C))
    rref = a.own()
    for sender, receiver in ((a, b), (b, c)):
        fork = sender.fork(rref, receiver.me)
        receiver.take(sender.me, Tell(cargo=Cargo(descriptors=(fork,))))
    c.died(B)
    call = plain_loan.lend(a.state, C, (rref,), b"")
    assert call is not None
    return c, call, rref


def test_a_loan_by_the_owner_that_ends_a_wait_goes_the_general_way() -> None:
    """The general machine drops the `ChildAck` to the dead."""
    c, call, rref = owing()
    assert c.users[rref].owed
    assert take(c.state, call) is None
    assert [each for each in c.take(A, call) if isinstance(each, Send) and each.to == B] == []
