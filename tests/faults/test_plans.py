"""Whatever happens to packets, each message takes effect once, in order, and nothing is left."""

from __future__ import annotations

import collections
import gc
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
from thespian.actors import ActorAddress

import farref
from farref import RefActor, RRef, System
from farref.commands.demo import NAMES
from farref.examples.harness import Demo
from farref.testing import Rule, counts, delay, drop, until

from ..actors.calls.test_sharing import lend_on, read, same
from ..actors.handles.test_freed import keep, let_go, use_kept
from ..actors.helpers import Box, make_box
from ..bases import BASES, LINKS, about
from .conftest import PLANS, faulty

MOST = ("all at once", "first three")
"""The plans that find most."""


class Counter(RefActor):
    """Records its messages in the order of their arrival."""

    def __init__(self) -> None:
        super().__init__()
        self.got: list[int] = []

    def receiveMsg_tuple(self, message: tuple[int, Any], sender: ActorAddress) -> None:
        number, ref = message
        assert isinstance(ref, RRef)
        self.got.append(number)

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(sender, self.got)


class Adder:
    """An object behind a reference: methods run one at a time, in the order of each caller."""

    def __init__(self) -> None:
        self.got: list[tuple[str, int]] = []

    def add(self, who: str, number: int) -> int:
        self.got.append((who, number))
        return len(self.got)

    def total(self) -> int:
        return len(self.got)

    def all(self) -> list[tuple[str, int]]:
        return self.got


_calls: dict[str, list[int]] = collections.defaultdict(list)


def count(number: int) -> None:
    _calls[farref.get_worker_info().name].append(number)


def counted() -> list[int]:
    return sorted(_calls.pop(farref.get_worker_info().name))


def plans(base: str) -> Iterator[tuple[str, str, str]]:
    """What to try on *base*: its name, a discipline, and faults."""
    if about(base).own:
        yield from product([base], ["lend"], PLANS)
        yield from product([base], ["borrow", "fork"], MOST)
    else:
        yield from product([base], ["lend"], ["all at once"] if about(base).processes else MOST)


@pytest.fixture(
    params=[
        pytest.param(each, id="-".join(each), marks=base.marks)
        for base in BASES
        for each in plans(str(base.values[0]))
    ]
)
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    base, sharing, plan = request.param
    with faulty(base, *PLANS[plan], sharing=sharing) as system:
        yield system
        struck = sum((each.struck for each in counts(system).values()), collections.Counter())
        assert struck, "nothing went wrong"


def test_each_message_takes_effect_once_and_in_order(system: System) -> None:
    actor, ref, tally = system.create(Counter), RRef([1]), farref.remote("B", Adder)
    for number in range(40):
        system.tell(actor, (number, ref))
    adding = [tally.rpc_async().add("program", number) for number in range(40)]
    calls = [farref.rpc_async("BC"[number % 2], count, (number,)) for number in range(40)]
    theirs = farref.rpc_async("D", add_many, (tally, 40))
    farref.wait([tally])
    for future in (*adding, *calls, theirs):
        future.result()
    assert until(system, lambda: len(system.ask(actor, "got")) >= 40)
    assert system.ask(actor, "got") == list(range(40))
    assert farref.rpc_sync("B", counted) == list(range(0, 40, 2))
    assert farref.rpc_sync("C", counted) == list(range(1, 40, 2))
    assert tally.rpc_sync().total() == 80
    added = tally.rpc_sync().all()
    for name in ("program", "D"):
        assert [number for who, number in added if who == name] == list(range(40))


def add_many(tally: RRef[Adder], number: int) -> None:
    for future in [tally.rpc_async().add("D", n) for n in range(number)]:
        future.result()


def test_references_count_right(system: System) -> None:
    """Lent, kept, lent on, returned, nested, given in messages, and in futures."""
    mine, other = RRef(Box(1)), farref.remote("B", make_box, (2,))
    for ref in (mine, other):
        assert farref.rpc_sync("C", read, (ref,)).content == ref.to_here().content
        assert farref.rpc_sync("C", lend_on, ("D", read, ref)).content == ref.to_here().content
        assert farref.rpc_sync("C", lend_on, ("D", same, [ref])) == [ref]
        farref.rpc_sync("C", lend_on, ("D", keep, ref))
    first = [farref.rpc_async("BCD"[n % 3], read, ([mine, other][n % 2],)) for n in range(12)]
    assert [future.result().content for future in first] == [1, 2] * 6
    then = farref.remote("C", same, ([other],)).future().then(lambda done: done.result()[0])
    assert then.result() == other
    outer = farref.remote("C", make_box, ([mine, {"deep": RRef(other)}],))
    nested = farref.rpc_sync("B", open_up, (outer,))
    assert nested == other
    actor = system.create(Counter)
    system.tell(actor, (1, outer))
    del mine, other, first, then, outer, nested, ref
    gc.collect()
    assert farref.rpc_sync("D", use_kept).content == 1
    assert farref.rpc_sync("D", let_go) == 2
    assert until(system, lambda: system.ask(actor, "got") == [1])


def open_up(outer: RRef[Box]) -> Any:
    return outer.to_here().content[1]["deep"].to_here()


@pytest.mark.processes
@pytest.mark.parametrize("plan", MOST)
@pytest.mark.parametrize("name", NAMES)
def test_the_scenarios_of_the_notes(name: str, plan: str) -> None:
    demo = Demo.named(name)
    with faulty("farrefBase", *PLANS[plan], names="", sharing=demo.sharing) as system:
        demo.play(system)


@pytest.mark.parametrize("rule", [delay, drop])
@pytest.mark.parametrize("base", LINKS)
def test_creations_that_are_lost_or_late(base: str, rule: Callable[..., Rule]) -> None:
    """Fork requests, fetches, calls and deletes of others overtake them, and wait for them."""
    late = rule(
        kinds="Create", receiver="B", **({"seconds": 0.4} if rule is delay else {"first": 3})
    )
    with faulty(base, late) as system:
        ref = farref.remote("B", make_box, (3,))
        method = ref.remote().get()
        assert farref.rpc_sync("C", read, (ref,)).content == 3
        assert farref.rpc_sync("C", read, (method,)) == 3
        farref.rpc_sync("C", keep, ([farref.remote("B", make_box), ref],))
        for _ in range(5):
            farref.remote("B", make_box)  # dropped before B knows of it
        del ref, method
        assert farref.rpc_sync("C", let_go) == 1
        assert counts(system)["program"].struck["Create"] > 0


def test_every_kind_fails_three_times() -> None:
    """Rare kinds of messages pass the same checks."""
    with faulty("simpleSystemBase", drop(first=3), sharing="borrow") as system:
        ref = farref.remote("B", make_box)
        farref.rpc_sync("C", lend_on, ("D", keep, ref))
        system.tell(system.create(Counter), (1, ref))
        farref.remote("C", read, (ref,)).to_here()
        ref.rpc_sync().get()
        del ref
        farref.rpc_sync("D", let_go)
        wanted = {"Create", "Call", "Reply", "Fetch", "Invoke", "Tell", "ForkRequest", "Ack"}
        wanted |= {"ChildAck", "NotifyRefRemoved", "RefRemoved", "Returned", "Acknowledgement"}

        def failed() -> set[str]:
            of_all = sum((each.struck for each in counts(system).values()), collections.Counter())
            return {kind for kind, number in of_all.items() if number >= 3}

        assert until(system, lambda: failed() >= wanted), wanted - failed()
