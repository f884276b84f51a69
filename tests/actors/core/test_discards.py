"""The counts that have ended, and the threads that end more of them meanwhile."""

from __future__ import annotations

from farref.actors.core.discards import Discards
from farref.protocol.ids import ForkId, RRefId, WorkerId
from farref.protocol.messages import Descriptor

A = WorkerId("A", 1)
DESCRIPTOR = Descriptor(rref=RRefId(A, 1), fork=ForkId(A, 1), owner=A, parent=A)


class Handle:
    """An object that is counted."""


def ended_one() -> Discards:
    """The handle of an object has ended."""
    discards = Discards(lambda: None, lambda _: None)
    handle = Handle()
    discards.hold(handle, RRefId(A, 2))
    return discards


def test_a_message_that_is_given_up_while_few_are_settled_is_not_lost() -> None:
    discards = ended_one()
    few = discards.few(7)
    assert few is not None
    assert [each.rref for each in few] == [RRefId(A, 2)]
    discards.message((DESCRIPTOR,))  # another thread
    discards.settle_few(few)
    assert list(discards.ended) == [(DESCRIPTOR,)]
    assert not discards.holds


def test_a_handle_that_ends_while_few_are_settled_is_not_lost() -> None:
    discards = ended_one()
    few = discards.few(7)
    assert few is not None
    handle = Handle()
    later = discards.hold(handle, RRefId(A, 3))
    del handle  # in another thread
    discards.settle_few(few)
    assert list(discards.ended) == [later]
    assert list(discards.holds) == [later]
