"""A death is settled when all that asked to be counted for it have been answered."""

from __future__ import annotations

from farref.actors.cluster.tombstones import Tombstones
from farref.protocol.context import Context
from farref.protocol.effects import Send
from farref.protocol.ids import RRefId, WorkerId
from farref.protocol.messages import Ack, Cargo, Create, ForkRequest, Message

A, B, C, D = (WorkerId(name, number) for number, name in enumerate("ABCD", 1))


def test_an_announcement_is_outstanding_until_its_acknowledgement() -> None:
    owner, lender, borrower = (Context(who, "borrow") for who in (A, B, C))
    rref = owner.own()
    lender.receive(A, _call(owner, B, rref))
    borrower.receive(B, _call(lender, C, rref))
    borrower.died(D)  # any death may have cut the way to the owner
    [fork] = borrower.uncounted()
    owner.receive(C, ForkRequest(rref=rref, fork=fork))
    assert borrower.uncounted() == {fork}
    borrower.receive(A, Ack(rref=rref, fork=fork))
    assert borrower.uncounted() == frozenset()


def _call(context: Context, to: WorkerId, rref: RRefId) -> Message:
    cargo = Cargo(descriptors=context.lend_all((rref,), to))
    _, effects = context.call(to, cargo)
    [call] = [each.message for each in effects if isinstance(each, Send)]
    return call


def test_a_creation_that_is_held_back_delays_nothing() -> None:
    """It leaves when a function that may run for hours has returned."""
    context = Context(A)
    first, effects = context.create(B, Cargo())
    [created] = [each.message for each in effects if isinstance(each, Send)]
    assert isinstance(created, Create)
    context.receive(B, Ack(rref=first, fork=created.fork))
    context.create(B, Cargo(), first)
    context.died(C)
    assert context.uncounted() == frozenset()


def test_all_must_have_settled_all_deaths() -> None:
    """C may have to announce itself for A, and hears of that only by the death of B."""
    tombstones = Tombstones({}, {})

    def dies(dead: WorkerId, living: list[WorkerId]) -> None:
        tombstones.add([dead], "")
        tombstones.wait([dead], living, due=0)

    dies(A, [B, C, D])
    assert tombstones.settled(C, [A]) == ()
    assert tombstones.settled(D, [A]) == ()
    dies(B, [C, D])
    assert tombstones.agree() == ()
    tombstones.settled(C, [B])
    assert tombstones.agree() == ()
    tombstones.compact(1)
    assert list(tombstones.dying) == [A, B]
    tombstones.settled(D, [B])
    assert tombstones.agree() == (A, B)
    assert tombstones.agree() == ()
    assert tombstones.settled(D, [B]) == (B,)  # it joined, and was told of B, only now
    tombstones.compact(1)
    assert not tombstones.dying
    assert A in tombstones
    assert C not in tombstones
