"""A step takes as long with 10,000 of a thing as with 1,000: it looks at its own part of a table.

Each row fills a table with *number* things, and returns a step. The test counts the instructions of
Python in that step. So a loop over all names, or all held requests, is seen wherever it stands, on
any machine. A loop within a function in C is not seen: such a one needs a reader.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from farref.protocol.ids import CallId, RRefId, WorkerId
from farref.protocol.messages import KINDS, Cargo
from farref.protocol.sharing import Sharing
from farref.protocol.wellformed import prepare

from ..counting import functions, instructions
from .counting import World

Step = Callable[[], object]
FEW, MANY = 1_000, 10_000
A, B, C = "ABC"
prepare(*KINDS)  # else the first message of a kind would take longer


def alias(world: World, target: RRefId) -> RRefId:
    """An object that A asks B for, and that stands for *target*, which B has."""
    rref = world.remote(A, B)
    task = world.running(B)
    world[B].context.hold(target)  # the one that the function returns
    task.handles.append(target)
    task.alias(target)
    return rref


def invoke(world: World, rref: RRefId) -> CallId:
    """A calls a method, which does not end."""
    call, effects = world[A].context.invoke(rref, Cargo())
    world.rest(world[A], effects)
    return call


def cancel(world: World, call: CallId) -> None:
    """A takes *call* back."""
    world.rest(world[A], world[A].context.cancel(call))


def references(world: World, number: int) -> Step:
    for _ in range(number):
        world.made(A, B)
    one = world.made(A, B)
    return lambda: world.fetch(A, one)


def unresolved_objects(world: World, number: int) -> Step:
    for _ in range(number):
        world.remote(A, B)
    return lambda: world.made(A, B)


def direct_fetches(world: World, number: int) -> Step:
    """`farref.get` of many references."""
    refs = [world.made(A, B) for _ in range(number)]
    world.shut.add((A, B))
    for each in refs:
        world.fetch(A, each, direct=True)
    one = world.made(A, C)
    return lambda: world.fetch(A, one, direct=True)


def answers_of_direct_fetches(world: World, number: int) -> Step:
    direct_fetches(world, number)
    world.shut.clear()
    return world.deliver_first


def held_requests(world: World, number: int) -> Step:
    """Each waits for a fetch on its handle; another one is answered."""
    direct_fetches(world, number)
    for rref in list(world[A].context.users)[:number]:
        invoke(world, rref)
    one = world.made(A, C)
    return lambda: world.fetch(A, one, direct=True)


def requests_held_on_one_handle(world: World, number: int) -> Step:
    """The last one is taken back."""
    one = world.made(A, B)
    world.shut.add((A, B))
    world.fetch(A, one, direct=True)
    calls = [invoke(world, one) for _ in range(number)]
    return lambda: cancel(world, calls[-1])


def a_ring_beside_held_requests(world: World, number: int) -> Step:
    requests_held_on_one_handle(world, number)
    other = world.made(A, C)
    invoke(world, other)
    invoke(world, other)
    return lambda: world.rest(world[C], world[C].context.suspect(other))


def queued_requests(world: World, number: int) -> Step:
    """The last one is taken back."""
    one = world.made(A, B)
    calls = [invoke(world, one) for _ in range(number)]
    return lambda: cancel(world, calls[-1])


def a_turn_in_a_queue(world: World, number: int) -> Step:
    one = world.made(A, B)
    first, *_ = [invoke(world, one) for _ in range(number)]
    return lambda: world.rest(world[B], world[B].context.done(one, first))


def calls_without_an_answer(world: World, number: int) -> Step:
    for _ in range(number):
        world.call(A, B)
    return lambda: world.call(A, B).end()


def lent(world: World, number: int, one: RRefId) -> Step:
    """A lends *one* to many calls, and to one more, which ends."""
    for _ in range(number):
        world.call(A, B, one)
    return lambda: world.call(A, B, one).end()


def loans(world: World, number: int) -> Step:
    return lent(world, number, world.made(A, C))


def loans_of_the_owner(world: World, number: int) -> Step:
    return lent(world, number, world.own(A))


def users_of_one_object(world: World, number: int) -> Step:
    """One more gets a reference, and lets go of it."""
    one = world.own(A)

    def share(to: str) -> None:
        world.tell(A, to, one).keep(one).end()

    for each in peers_of(number):
        share(each)

    def step() -> None:
        share("last")
        world.drop("last", one)

    return step


def peers_of(number: int) -> list[str]:
    """The names of so many endpoints."""
    return [f"w{each}" for each in range(1, number + 1)]


def peers(world: World, number: int) -> Step:
    """Each has asked A for an object; one of them asks for another one."""
    for each in peers_of(number):
        world.made(each, A)
        world.made(A, each)
    return lambda: (world.made("w1", A), world.made(A, "w1"))


def dead_peers(world: World, number: int) -> Step:
    """Their numbers do not follow each other, so that each is remembered by itself."""
    for each in peers_of(number):
        world[A].context.died(world[each].me)
        world[A].context.bury(world[each].me)
    one = world.made(A, B)
    return lambda: world.fetch(A, one)


def creations_under_way(world: World, number: int) -> Step:
    """No acknowledgement comes but the first."""
    world.shut.add((B, A))
    for _ in range(number):
        world.remote(A, B)
    world.deliver_first()

    def step() -> None:
        world.remote(A, B)
        world.deliver_first()

    return step


def aliases_of_one_object(world: World, number: int) -> Step:
    """A knows that all its names stand for it; it fetches by one, and gets one more."""
    target = world.made(B, C)
    names = [alias(world, target) for _ in range(number)]
    for each in names:
        world.fetch(A, each)

    def step() -> None:
        world.fetch(A, names[-1])
        world.fetch(A, alias(world, target))

    return step


def aliases_that_wait(world: World, number: int) -> Step:
    """Their target has no value yet; one more waits for it."""
    target = world.remote(B, C)
    for _ in range(number):
        alias(world, target)
    return lambda: alias(world, target)


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


def a_strangers_death(world: World, number: int) -> Step:
    """It has nothing to do with a quarter of each of references, objects, aliases and calls."""
    target = world.made(B, C)
    for _ in range(number // 4):
        world.made(A, B)
        world.made(B, A)
        alias(world, target)
        world.call(A, B)
    stranger = WorkerId("stranger", 1)

    def step() -> None:
        for node in (world[A], world[B]):
            world.rest(node, node.context.died(stranger))
            node.context.uncounted()
            world.rest(node, node.context.bury(stranger))

    return step


@pytest.mark.parametrize("sharing", ["lend", "fork"])
def test_a_death_calls_no_function_for_what_it_does_not_change(sharing: Sharing) -> None:
    """It looks at all tables, but so briefly."""
    few, many = (functions(a_strangers_death(World(sharing), number)) for number in (FEW, MANY))
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
def test_a_step_looks_at_its_own_part(row: Callable[[World, int], Step], sharing: Sharing) -> None:
    few, many = (instructions(row(World(sharing), number)) for number in (FEW, MANY))
    assert few > 20
    assert many == few
