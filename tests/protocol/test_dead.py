"""The dead as spans: against plain sets, in every order, in memory that grows with the living.

An endpoint that joins late knows the dead like one that saw them die.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, permutations, product

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from farref.protocol.context import Context
from farref.protocol.dead import Dead, Span
from farref.protocol.effects import Effect
from farref.protocol.ids import ForkId, RRefId, WorkerId
from farref.protocol.messages import Cargo, Create, Descriptor, ForkRequest, Passing, Report, Tell

NUMBERS = range(1, 7)
OWNER, FRIEND, GONE = (WorkerId(f"W{number}", number) for number in (1, 2, 3))


def life(number: int) -> WorkerId:
    return WorkerId(f"W{number}", number)


def flaw(dead: Dead, added: set[int]) -> str | None:
    """The fault in *dead*, compared with the numbers *added*."""
    if len(dead.firsts) != len(dead._lasts):
        return f"a span has one end: {dead.firsts}, {dead._lasts}"
    for number in range(10):
        if (life(number) in dead) != (number in added):
            return f"it is wrong about {number}, of {sorted(added)}"
    spans = dead.spans
    if any(first > last for first, last in spans):
        return f"a span ends before it begins: {spans}"
    if any(last + 1 >= first for (_, last), (first, _) in pairwise(spans)):
        return f"spans touch: {spans}"
    if len(dead) != len(spans):
        return f"it counts {len(dead)} spans of {spans}"
    return None


def every_order() -> Iterator[str]:
    """All faults of single deaths, in every order."""
    for order in permutations(NUMBERS):
        dead, added = Dead(), set[int]()
        for number in order:
            dead.add(life(number))
            added.add(number)
            if wrong := flaw(dead, added):
                yield wrong
                break


def every_three_spans() -> Iterator[str]:
    """All faults of spans that overlap, touch, contain each other, or are apart."""
    spans = [(first, last) for first in NUMBERS for last in NUMBERS if first <= last]
    for some in product(spans, repeat=3):
        dead, added = Dead(), set[int]()
        for first, last in some:
            dead.merge([(first, last)])
            added |= set(range(first, last + 1))
        if wrong := flaw(dead, added):
            yield wrong


def told_late(spans: list[Span]) -> Context:
    late = Context(OWNER, "borrow")
    late.outlive(spans)
    return late


def saw_them_die(spans: list[Span]) -> Context:
    early = Context(OWNER, "borrow")
    for first, last in spans:
        for number in range(first, last + 1):
            early.died(life(number))
            early.bury(life(number))
    return early


def introduced(context: Context) -> list[list[Effect]]:
    """The effects in *context* of late messages from `GONE`, its own and by a friend."""
    of_the_dead, lent = RRefId(GONE, 1), ForkId(OWNER, 1)
    reference = Descriptor(
        rref=RRefId(GONE, 2),
        fork=ForkId(FRIEND, 2),
        owner=GONE,
        parent=FRIEND,
        passing=Passing.FORK,
    )
    mine = context.own()
    (loan,) = context.lend_all((mine,), FRIEND)
    report = Report(
        rref=mine, fork=loan.fork, owner=OWNER, held=False, borrowers=((ForkId(FRIEND, 3), GONE),)
    )
    assert loan.fork == lent
    create = Create(
        call=replace(context.entries.allocate_call(None), caller=GONE),
        rref=RRefId(GONE, 9),
        fork=ForkId(GONE, 9),
        cargo=Cargo(),
        settled=0,
    )
    return [
        context.receive(GONE, create),
        context.receive(FRIEND, Tell(cargo=Cargo(descriptors=(reference,)))),
        context.receive(FRIEND, ForkRequest(rref=of_the_dead, fork=ForkId(FRIEND, 4))),
        context._finish(context.loans.ended(FRIEND, [report], [report])),
        context.drop(mine),
    ]


def joined_late() -> str | None:
    """The first difference between an endpoint that joins late and one that was always there."""
    spans = [(3, 4), (6, 6)]
    late, early = introduced(told_late(spans)), introduced(saw_them_die(spans))
    return None if late == early else f"{late} is not {early}"


def test_the_dead_are_exactly_those_who_died_in_every_order() -> None:
    assert next(every_order(), None) is None
    assert next(every_three_spans(), None) is None


def test_who_joins_late_does_what_one_does_that_was_here_all_the_time() -> None:
    assert joined_late() is None


@given(st.data())
def test_there_are_as_many_spans_as_living_ones(data: st.DataObject) -> None:
    living, dead, number = set[int](), Dead(), 2**62
    for dies in data.draw(st.lists(st.booleans(), max_size=400)):
        if dies and living:
            one = data.draw(st.sampled_from(sorted(living)))
            living.discard(one)
            dead.add(life(one))
        else:
            number += 1
            living.add(number)
        assert len(dead) <= len(living) + 1
    assert all(life(one) not in dead for one in living)
    again = Dead()
    again.merge(dead.spans)
    assert again.spans == dead.spans
