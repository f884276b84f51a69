"""The evidence of one search."""

from __future__ import annotations

from farref.protocol.ids import RRefId, WorkerId
from farref.protocol.messages import Grip
from farref.protocol.search import MAX_SET, Search

A = WorkerId("A", 1)


def seen(holders: list[int]) -> Search:
    """A search that finds for each object, by its number, the number of its only holder.

    One answer may bring more than was asked.
    """
    start = RRefId(A, 0)
    made = Search(A, start, [(A, (start,))], cuts=True)
    grips = [
        Grip(rref=RRefId(A, number), stamp=1, by=(RRefId(A, holder),), owned=True)
        for number, holder in enumerate(holders)
    ]
    made.see(A, [made.start], grips)
    return made


def test_a_search_keeps_no_more_grips_than_its_limit() -> None:
    """The objects of the further grips count as live, and so does what they lead to."""
    many = MAX_SET + 2
    made = seen([*range(1, many), 0])
    assert len(made.first) == MAX_SET
    assert made.live == {RRefId(A, number) for number in range(many)}


def test_what_the_further_objects_do_not_lead_to_may_be_garbage() -> None:
    rings = range(MAX_SET - 1)  # each holds itself
    led, beyond = MAX_SET - 1, MAX_SET
    assert seen([*rings, beyond, beyond]).live == {RRefId(A, led), RRefId(A, beyond)}
