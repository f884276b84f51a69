"""The evidence of one search."""

from __future__ import annotations

import pytest

from farref.protocol import search
from farref.protocol.ids import ForkId, RRefId, WorkerId
from farref.protocol.messages import Grip
from farref.protocol.search import Search

A, B = WorkerId("A", 1), WorkerId("B", 1)


def test_a_search_keeps_no_more_grips_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """One answer may bring more than was asked. The objects of the further grips count as live."""
    monkeypatch.setattr(search, "MAX_SET", 3)
    objects = [RRefId(A, number) for number in range(1, 6)]
    made = Search(A, tuple(objects[:1]), cuts=True)
    chain = zip(objects, [*objects[1:], objects[0]], strict=True)
    made.see(A, objects[:1], [Grip(rref=each, stamp=1, by=(by,), owned=True) for each, by in chain])
    assert len(made.first) == 3
    assert made.live == set(objects)


def test_what_the_further_objects_lead_to_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_SET", 2)
    first, led, beyond = (RRefId(A, number) for number in range(1, 4))
    made = Search(A, (first, led), cuts=True)
    made.see(
        A,
        (first, led),
        [
            Grip(rref=first, stamp=1, by=(first,), owned=True),
            Grip(rref=led, stamp=1, by=(beyond,), owned=True),
            Grip(rref=beyond, stamp=1, others=((ForkId(A, 1), B),), owned=True),
        ],
    )
    assert made.live == {led, beyond}
