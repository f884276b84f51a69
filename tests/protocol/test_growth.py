"""A step takes as long with 10,000 of a thing as with 1,000: it looks at its own part of a table.

Each row fills a table with *number* things, and returns a step. The test counts the instructions of
Python in that step. So a loop over all names, or all held requests, is seen wherever it stands, on
any machine. A loop within a function in C is not seen: such a one needs a reader.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import pytest

from farref.protocol.context import Context
from farref.protocol.effects import Run, Send
from farref.protocol.ids import WorkerId
from farref.protocol.messages import Cargo, Fetch

from ..counting import functions, instructions

if TYPE_CHECKING:
    from collections.abc import Callable

    from farref.protocol.effects import Effect
    from farref.protocol.ids import CallId, RRefId
    from farref.protocol.sharing import Sharing

    Step = Callable[[], object]

FEW, MANY = 1_000, 10_000
A, B, C = (WorkerId(name, 2 * number) for number, name in enumerate("ABC", 1))
NOTHING = Cargo()


class Ends:
    """Endpoints in one process. A message arrives at once, unless its way is *shut*."""

    def __init__(self, sharing: Sharing) -> None:
        self.sharing = sharing
        self.ends = {me: Context(me, sharing) for me in (A, B, C)}
        self.shut: set[tuple[WorkerId, WorkerId]] = set()
        self.kept: list[tuple[WorkerId, Send]] = []
        """The messages that have not arrived, each with its sender."""
        self.fetches: list[Fetch] = []
        """The fetches that have their turn."""

    def __getitem__(self, me: WorkerId) -> Context:
        return self.ends[me]

    def join(self, number: int) -> list[WorkerId]:
        """More endpoints. Between any two numbers one is left out."""
        new = [WorkerId(f"w{each}", 100 + 2 * each) for each in range(number)]
        self.ends |= {me: Context(me, self.sharing) for me in new}
        return new

    def go(self, me: WorkerId, effects: list[Effect]) -> None:
        """Carry *effects* of a step of *me* out, and those that come of it."""
        ahead = deque((me, effect) for effect in effects)
        while ahead:
            who, effect = ahead.popleft()
            if isinstance(effect, Run) and isinstance(effect.request, Fetch):
                self.fetches.append(effect.request)
            elif isinstance(effect, Send):
                if (who, effect.to) in self.shut:
                    self.kept.append((who, effect))
                else:
                    more = self.ends[effect.to].take(who, effect.message)
                    ahead.extend((effect.to, each) for each in more)

    def deliver(self, place: int) -> None:
        """Let a kept message arrive."""
        sender, send = self.kept.pop(place)
        self.go(send.to, self.ends[send.to].take(sender, send.message))

    def asked(self, by: WorkerId, to: WorkerId) -> RRefId:
        """An object that *by* asks *to* for."""
        rref, effects = self[by].create(to, NOTHING)
        self.go(by, effects)
        return rref

    def made(self, by: WorkerId, to: WorkerId) -> RRefId:
        """The same, and the object has its value."""
        rref = self.asked(by, to)
        self.go(to, self[to].resolve(rref))
        return rref

    def alias(self, by: WorkerId, to: WorkerId, target: RRefId) -> RRefId:
        """An object that *by* asks *to* for, and that stands for *target*, which *to* has."""
        rref = self.asked(by, to)
        self.go(to, self[to].stand_for(rref, target))
        return rref

    def fetch(self, by: WorkerId, rref: RRefId, *, direct: bool = False) -> CallId:
        """*by* asks for the value; the owner answers as soon as it may."""
        call, effects = self[by].fetch(rref, direct=direct)
        self.go(by, effects)
        self.answer()
        return call

    def invoke(self, by: WorkerId, rref: RRefId) -> CallId:
        """*by* calls a method, which does not end."""
        call, effects = self[by].invoke(rref, NOTHING)
        self.go(by, effects)
        return call

    def answer(self) -> None:
        """All fetches that run end, and those that run after them."""
        while self.fetches:
            request = self.fetches.pop()
            to = next(me for me in (A, B, C) if request.rref in self[me].owners)
            self.go(to, self[to].reply(request.call, NOTHING))
            self.go(to, self[to].done(request.rref, request.call))


def references(ends: Ends, number: int) -> Step:
    for _ in range(number):
        ends.made(A, B)
    one = ends.made(A, B)
    return lambda: ends.fetch(A, one)


def unresolved_objects(ends: Ends, number: int) -> Step:
    for _ in range(number):
        ends.asked(A, B)
    return lambda: ends.made(A, B)


def direct_fetches(ends: Ends, number: int) -> Step:
    """`farref.get` of many references."""
    refs = [ends.made(A, B) for _ in range(number)]
    ends.shut.add((A, B))
    for each in refs:
        ends.fetch(A, each, direct=True)
    one = ends.made(A, C)
    return lambda: ends.fetch(A, one, direct=True)


def answers_of_direct_fetches(ends: Ends, number: int) -> Step:
    direct_fetches(ends, number)
    ends.shut.clear()

    def step() -> None:
        ends.deliver(0)
        ends.answer()

    return step


def held_requests(ends: Ends, number: int) -> Step:
    """Each waits for a fetch on its handle; another one is answered."""
    direct_fetches(ends, number)
    for rref in list(ends[A].users)[:number]:
        ends.invoke(A, rref)
    one = ends.made(A, C)
    return lambda: ends.fetch(A, one, direct=True)


def requests_held_on_one_handle(ends: Ends, number: int) -> Step:
    """The last one is taken back."""
    one = ends.made(A, B)
    ends.shut.add((A, B))
    ends.fetch(A, one, direct=True)
    calls = [ends.invoke(A, one) for _ in range(number)]
    return lambda: ends.go(A, ends[A].cancel(calls[-1]))


def a_ring_beside_held_requests(ends: Ends, number: int) -> Step:
    requests_held_on_one_handle(ends, number)
    other = ends.made(A, C)
    ends.invoke(A, other)
    ends.invoke(A, other)
    return lambda: ends.go(C, ends[C].suspect(other))


def queued_requests(ends: Ends, number: int) -> Step:
    """The last one is taken back."""
    one = ends.made(A, B)
    calls = [ends.invoke(A, one) for _ in range(number)]
    return lambda: ends.go(A, ends[A].cancel(calls[-1]))


def a_turn_in_a_queue(ends: Ends, number: int) -> Step:
    one = ends.made(A, B)
    first, *_ = [ends.invoke(A, one) for _ in range(number)]
    return lambda: ends.go(B, ends[B].done(one, first))


def calls_without_an_answer(ends: Ends, number: int) -> Step:
    for _ in range(number):
        ends.go(A, ends[A].call(B, NOTHING)[1])
    calls: list[CallId] = []

    def step() -> None:
        call, effects = ends[A].call(B, NOTHING)
        calls.append(call)
        ends.go(A, effects)
        ends.go(B, ends[B].reply(call, NOTHING))

    return step


def lent(ends: Ends, number: int, one: RRefId) -> Step:
    """A lends *one* to many calls, and to one more, which ends."""

    def lend() -> CallId:
        cargo = Cargo(descriptors=ends[A].lend_all((one,), B))
        call, effects = ends[A].call(B, cargo)
        ends.go(A, effects)
        return call

    for _ in range(number):
        lend()
    return lambda: ends.go(B, ends[B].reply(lend(), NOTHING))


def loans(ends: Ends, number: int) -> Step:
    return lent(ends, number, ends.made(A, C))


def loans_of_the_owner(ends: Ends, number: int) -> Step:
    return lent(ends, number, ends[A].own())


def users_of_one_object(ends: Ends, number: int) -> Step:
    """One more gets a reference, and lets go of it."""
    *users, last = ends.join(number + 1)
    one = ends[A].own()

    def share(to: WorkerId) -> None:
        cargo = Cargo(descriptors=ends[A].fork_all((one,), to))
        ends.go(A, ends[A].tell(to, cargo))
        ends[to].hold(one)
        ends.go(to, ends[to].release(cargo.descriptors))

    for each in users:
        share(each)

    def step() -> None:
        share(last)
        ends.go(last, ends[last].drop(one))

    return step


def peers(ends: Ends, number: int) -> Step:
    """Each has asked A for an object; one of them asks for another one."""
    joined = ends.join(number)
    for each in joined:
        ends.made(each, A)
        ends.made(A, each)
    return lambda: (ends.made(joined[0], A), ends.made(A, joined[0]))


def dead_peers(ends: Ends, number: int) -> Step:
    """Their numbers do not follow each other, so that each is remembered by itself."""
    for each in ends.join(number):
        ends[A].died(each)
        ends[A].bury(each)
    one = ends.made(A, B)
    return lambda: ends.fetch(A, one)


def creations_under_way(ends: Ends, number: int) -> Step:
    """No acknowledgement comes but the first."""
    ends.shut.add((B, A))
    for _ in range(number):
        ends.asked(A, B)
    ends.deliver(0)

    def step() -> None:
        ends.asked(A, B)
        ends.deliver(0)

    return step


def aliases_of_one_object(ends: Ends, number: int) -> Step:
    """A knows that all its names stand for it; it fetches by one, and gets one more."""
    target = ends.made(B, C)
    names = [ends.alias(A, B, target) for _ in range(number)]
    for each in names:
        ends.fetch(A, each)
    return lambda: (ends.fetch(A, names[-1]), ends.fetch(A, ends.alias(A, B, target)))


def aliases_that_wait(ends: Ends, number: int) -> Step:
    """Their target has no value yet; one more waits for it."""
    target = ends.asked(B, C)
    for _ in range(number):
        ends.alias(A, B, target)
    return lambda: ends.alias(A, B, target)


ROWS = (
    references,
    unresolved_objects,
    direct_fetches,
    answers_of_direct_fetches,
    held_requests,
    requests_held_on_one_handle,
    a_ring_beside_held_requests,
    queued_requests,
    a_turn_in_a_queue,
    calls_without_an_answer,
    loans,
    loans_of_the_owner,
    users_of_one_object,
    peers,
    dead_peers,
    creations_under_way,
    aliases_of_one_object,
    aliases_that_wait,
)


BY_SHARING = (loans, loans_of_the_owner, users_of_one_object)
"""Those that the disciplines of sharing do differently."""


def a_strangers_death(ends: Ends, number: int) -> Step:
    """It has nothing to do with a quarter of each of references, objects, aliases and calls."""
    target = ends.made(B, C)
    for _ in range(number // 4):
        ends.made(A, B)
        ends.made(B, A)
        ends.alias(A, B, target)
        ends.go(A, ends[A].call(B, NOTHING)[1])
    (stranger,) = ends.join(1)

    def step() -> None:
        for me in (A, B):
            ends.go(me, ends[me].died(stranger))
            ends[me].uncounted()
            ends.go(me, ends[me].bury(stranger))

    return step


@pytest.mark.parametrize("sharing", ["lend", "fork"])
def test_a_death_calls_no_function_for_what_it_does_not_change(sharing: Sharing) -> None:
    """It looks at all tables, but so briefly."""
    few, many = (functions(a_strangers_death(Ends(sharing), number)) for number in (FEW, MANY))
    assert few > 20
    assert many == few


@pytest.mark.parametrize(
    ("row", "sharing"),
    [
        *((row, "lend") for row in ROWS),
        *((row, sharing) for row in BY_SHARING for sharing in ("borrow", "fork")),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_a_step_looks_at_its_own_part(row: Callable[[Ends, int], Step], sharing: Sharing) -> None:
    few, many = (instructions(row(Ends(sharing), number)) for number in (FEW, MANY))
    assert few > 20
    assert many == few
