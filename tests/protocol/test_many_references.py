"""The work and the memory for each of many references: slopes, which are exact on any machine.

The bounds are the figures of Python 3.11, and a little more; other versions make fewer calls. A
later change that makes a reference dearer is seen here.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from farref.protocol.context import Context
from farref.protocol.effects import Effect, Send
from farref.protocol.ids import RRefId, WorkerId
from farref.protocol.messages import Cargo, Message, Tell
from farref.protocol.sharing import Sharing

from ..counting import functions
from ..packets import carried

A, B, C = (WorkerId(name, number) for number, name in enumerate("ABC", 1))
FEW, MANY = 100, 1_000


class World:
    """B owns objects, A uses them and passes them to C. Counts the functions of the steps."""

    def __init__(self, number: int, sharing: Sharing = "lend") -> None:
        self.ends = {me: Context(me, sharing) for me in (A, B, C)}
        self.rrefs = [self.ends[B].own() for _ in range(number)]
        self.number = number
        self.counts: dict[str, int] = {}
        self.sent: list[tuple[WorkerId, WorkerId, Message]] = []

    def counted(self, name: str, work: Callable[[], Any]) -> Any:
        made: list[Any] = []
        self.counts[name] = functions(lambda: made.append(work())) - 2  # those of this line
        return made[0]

    def post(self, me: WorkerId, effects: list[Effect]) -> None:
        self.sent += [(me, it.to, it.message) for it in effects if isinstance(it, Send)]

    def deliver(self) -> None:
        while self.sent:
            sender, to, message = self.sent.pop()
            self.post(to, self.ends[to].take(sender, message))

    def over_the_wire(self, message: Message) -> Any:
        return carried(message)[0]

    def give(self) -> None:
        """A gets all objects from B, and holds each once."""
        a, b = self.ends[A], self.ends[B]
        tell = Tell(cargo=Cargo(descriptors=b.fork_all(self.rrefs, A)))
        a.take(B, self.over_the_wire(tell))
        a.hold(*self.rrefs)
        a.release(tell.cargo.descriptors)

    def call(self, lender: WorkerId, *, to: WorkerId = C, keep: int = 0) -> None:
        """The *lender* passes all objects on in one call, which keeps the first *keep*."""
        a, c = self.ends[lender], self.ends[to]
        lent = self.counted("lend", lambda: a.lend_all(self.rrefs, to))
        call, (send,) = a.call(to, Cargo(descriptors=lent))
        assert isinstance(send, Send)
        message = self.over_the_wire(send.message)
        self.counted("take", lambda: c.take(lender, message))
        self.counted("hold", lambda: c.hold(*self.rrefs))
        self.counted("drop", lambda: c.drop(*self.rrefs[keep:]))
        effects = self.counted("reply", lambda: c.reply(call, Cargo()))
        (reply,) = [it for it in effects if isinstance(it, Send) and it.to == lender]
        self.post(to, [each for each in effects if each is not reply])
        self.post(lender, self.counted("settle", lambda: a.take(to, reply.message)))
        self.deliver()


def slopes(lender: WorkerId, sharing: Sharing) -> dict[str, float]:
    """For each step of a call with references: the functions for each reference."""
    few, many = World(FEW, sharing), World(MANY, sharing)
    for world in (few, many):
        if lender != B:
            world.give()
        world.call(lender)
        assert not world.ends[C].users
    more = MANY - FEW
    return {name: round((many.counts[name] - few.counts[name]) / more, 2) for name in many.counts}


@pytest.mark.parametrize(
    ("lender", "sharing", "expected"),
    [
        (A, "lend", {"lend": 0, "take": 0, "hold": 0, "drop": 0, "reply": 0, "settle": 0}),
        (B, "lend", {"lend": 2, "take": 2, "hold": 0, "drop": 0, "reply": 0, "settle": 1}),
        (A, "borrow", {"lend": 1, "take": 3, "hold": 0, "drop": 0, "reply": 5, "settle": 1}),
        (B, "borrow", {"lend": 2, "take": 3, "hold": 0, "drop": 0, "reply": 5, "settle": 2}),
    ],
)
def test_functions_for_each_reference_in_a_call(
    lender: WorkerId, sharing: Sharing, expected: dict[str, float]
) -> None:
    found = slopes(lender, sharing)
    assert all(found[name] <= most for name, most in expected.items()), found


def test_functions_for_each_reference_that_comes_in_bulk() -> None:
    """The callee keeps all: requests to the owner, its answers, those to the lender, deletes."""

    def counts(number: int) -> dict[str, int]:
        world, found = given(number), dict[str, int]()
        a, b, c = (world.ends[each] for each in (A, B, C))

        def bulk(to: Context, sender: WorkerId, effects: list[Effect]) -> list[Effect]:
            sends = [it for it in effects if isinstance(it, Send) and it.to == to.me]
            messages: list[Any] = [each.message for each in sends]
            assert len(messages) == number
            made: list[list[Effect]] = []
            name = type(messages[0]).__name__
            found[name] = functions(lambda: made.append(to.take_all(sender, messages)[0]))
            return made[0]

        call, (send,) = a.call(C, Cargo(descriptors=a.lend_all(world.rrefs, C)))
        assert isinstance(send, Send)
        c.take(A, send.message)
        c.hold(*world.rrefs)
        *requests, reply = c.reply(call, Cargo())
        assert isinstance(reply, Send)
        a.take(C, reply.message)
        bulk(a, C, bulk(c, B, bulk(b, C, requests)))
        bulk(b, C, c.drop(*world.rrefs))
        assert not c.users
        return found

    few, many = counts(FEW), counts(MANY)
    found = {name: (many[name] - few[name]) / (MANY - FEW) for name in many}
    assert found == {"ForkRequest": 3, "Ack": 4, "ChildAck": 3, "Delete": 4}


def test_the_loans_of_a_call_are_given_back_in_one_look() -> None:
    """Each was looked for among all of them, so a thousand took a million steps."""

    def steps(number: int) -> int:
        world = World(number)
        a, c = world.ends[B], world.ends[C]
        call, (send,) = a.call(C, Cargo(descriptors=a.lend_all(world.rrefs, C)))
        assert isinstance(send, Send)
        c.take(B, send.message)
        lines = 0

        def line(_frame: object, event: str, _argument: object) -> Any:
            nonlocal lines
            lines += event == "line"
            return line

        before = sys.gettrace()
        sys.settrace(line)
        try:
            c.give_all(world.rrefs, call)
        finally:
            sys.settrace(before)
        return lines

    assert steps(400) < 5 * steps(100)


def weight(make: Callable[[int], object]) -> tuple[float, float]:
    """Bytes, and objects that Python's collector tracks, for each of many things to *make*."""
    make(FEW)  # what is made once
    kept = []
    found = []
    tracemalloc.start(1)
    try:
        for number in (1_000, 11_000):
            gc.collect()
            before = tracemalloc.get_traced_memory()[0], len(gc.get_objects())
            kept.append(make(number))
            gc.collect()
            found.append(
                (tracemalloc.get_traced_memory()[0] - before[0], len(gc.get_objects()) - before[1])
            )
    finally:
        tracemalloc.stop()
    return tuple(round((b - a) / 10_000, 1) for a, b in zip(*found, strict=True))


def given(number: int) -> World:
    """A holds so many objects of B."""
    world = World(number)
    world.give()
    return world


def test_what_a_reference_takes_at_its_holder() -> None:
    """The entry, the names of object and fork, and the place in the table."""
    size, tracked = weight(lambda number: given(number).ends[A])
    assert size <= 400
    assert tracked == 0


def test_what_an_object_takes_at_its_owner() -> None:
    """With one fork: the entry, the names of object and fork, and the table of forks."""
    size, tracked = weight(lambda number: given(number).ends[B])
    assert size <= 620
    # From 3.14 on Python's collector tracks every dictionary: here the table of forks.
    assert tracked == (sys.version_info >= (3, 14))


def test_a_reference_that_was_lent_takes_no_more() -> None:
    def lend(number: int) -> Context:
        world = given(number)
        world.call(A)
        return world.ends[A]

    lent, tracked = weight(lend)
    held, tracked_before = weight(lambda number: given(number).ends[A])
    assert lent <= held + 1  # as a table of another size may be twice as large
    assert tracked == tracked_before


def test_one_more_fork_of_an_object_costs_the_same_however_many_there_are() -> None:
    context = Context(B)
    rref: RRefId = context.own()
    user = Context(C)

    def fork(times: int) -> None:
        for _ in range(times):
            tell = Tell(cargo=Cargo(descriptors=context.fork_all((rref,), C)))
            user.take(B, tell)
            user.hold(rref)
            user.release(tell.cargo.descriptors)

    fork(50)
    first = functions(lambda: fork(100))
    fork(5_000)
    assert functions(lambda: fork(100)) == first
    assert first <= 100 * 30
    assert functions(lambda: user.drop(*[rref] * 1_000)) < 20
