"""Calls that wait for each other along different chains: one of them is soon refused (G6)."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import OwnerDiedError, RRef, SelfWaitError, System, WorkerDiedError
from farref.trace import read
from farref.trace.export.tracetest import trace_test
from farref.trace.merge import merge
from farref.trace.records import load
from farref.trace.replay import Player
from farref.tracetest.files import differences

from ...waiting import eventually
from ..helpers import assert_nothing_held, hold, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WAITS: dict[str, Callable[[RRef[Any]], Any]] = {
    "method": lambda it: it.rpc_sync().end(),
    "future": lambda it: it.rpc_async().end().result(),
    "function": lambda it: farref.rpc_async("C", ask, (it,)).result(),
    "fetch": lambda it: it.to_here().end(),
    "aget": lambda it: farref.get([it])[0].end(),
    "chained": lambda it: it.rpc_async().end().then(lambda future: future.result()).result(),
    "every": lambda it: farref.wait([it], timeout=20)[0][0].to_here(timeout=20).end(),
    "by value": lambda it: farref.rpc_async("B", Node.end, (it,), resolve=True).result(),
    "creation": lambda it: it.remote().end().to_here(),
    "function that fetches": lambda it: farref.rpc_async("C", ask_copy, (it,)).result(),
    "function that calls": lambda it: farref.rpc_async("C", call_asker, (it,)).result(),
}
"""The ways in which one object waits for the next."""
AWAITS: dict[str, Callable[[RRef[Any]], Any]] = {
    "await": lambda it: it.rpc_async().end(),
    "await function": lambda it: farref.rpc_async("C", ask_and_await, (it,)),
    "await value": lambda it: it,
}
"""The ways in which one object awaits the next: it takes other calls meanwhile."""


def meet(place: Path, count: int) -> None:
    """Wait until *count* methods have come here. Then each runs, and holds its object."""
    (place / f"{time.monotonic_ns()}-{random.random()}").touch()
    eventually(lambda: len(list(place.iterdir())) >= count, "the others did not come", 15)


class Node:
    """An object that waits for the next one."""

    def __init__(self) -> None:
        self.next: RRef[Node] | None = None

    def join(self, following: RRef[Node]) -> None:
        self.next = following

    def leave(self) -> None:
        self.next = None

    def end(self) -> str:
        return "end"

    def go(self, place: Path, count: int, how: str) -> Any:
        meet(place, count)
        assert self.next is not None
        return WAITS[how](self.next)

    async def go_on(self, place: Path, count: int, how: str) -> Any:
        meet(place, count)
        assert self.next is not None
        found = await AWAITS[how](self.next)
        return found.end() if how == "await value" else found


def ask(node: RRef[Node]) -> Any:
    return node.rpc_async().end().result()


def ask_copy(node: RRef[Node]) -> Any:
    """Waits; no object waits for it in its chain."""
    return node.to_here().end()


def call_asker(node: RRef[Node]) -> Any:
    return farref.rpc_sync("B", ask_copy, (node,))


async def ask_and_await(node: RRef[Node]) -> Any:
    return await node.rpc_async().end()


def make_node() -> Node:
    return Node()


def same(value: Any) -> Any:
    return value


def ring_at(where: str) -> list[RRef[Node]]:
    """A ring of objects at the workers with these names; a point is the program itself."""
    nodes = [RRef(Node()) if at == "." else farref.remote(at, make_node) for at in where]
    for node, following in zip(nodes, [*nodes[1:], nodes[0]], strict=True):
        node.rpc_sync().join(following)
    return nodes


def set_out(nodes: list[RRef[Node]], place: Path, *ways: str) -> list[farref.Future[Any]]:
    """Have each node call the next one, in the last way, or each in its own."""
    place.mkdir(exist_ok=True)
    ways = ways if len(ways) == len(nodes) else (ways[-1],) * len(nodes)
    return [
        getattr(node.rpc_async(), "go_on" if how in AWAITS else "go")(place, len(nodes), how)
        for node, how in zip(nodes, ways, strict=True)
    ]


def outcomes(futures: list[farref.Future[Any]]) -> tuple[list[Any], list[str]]:
    """The results, and the text of each refusal."""
    values: list[Any] = []
    refused: list[str] = []
    for future in futures:
        try:
            values.append(future.result())
        except SelfWaitError as error:
            refused.append(str(error))
    return values, refused


def take_apart(nodes: list[RRef[Node]]) -> None:
    for node in nodes:
        node.rpc_sync().leave()


RINGS = [
    *(("BC", (how,)) for how in (*WAITS, *AWAITS)),
    *(("B.C", (how,)) for how in ("method", "fetch")),
    ("BBBB", ("method",)),
    ("B.C", ("method", "await", "fetch")),
]


@pytest.mark.parametrize(("where", "ways"), RINGS)
def test_of_a_ring_one_is_refused_unless_one_awaits(
    system: System, where: str, ways: tuple[str, ...], tmp_path: Path
) -> None:
    nodes, refusals = ring_at(where), int(not set(ways) & AWAITS.keys())
    values, refused = outcomes(set_out(nodes, tmp_path, *ways))
    assert values == ["end"] * (len(where) - refusals)
    assert len(refused) == refusals
    take_apart(nodes)
    assert [node.rpc_sync().end() for node in nodes] == ["end"] * len(where)


NAMED = {
    "method": (
        "BC",
        "go() of {0} on B waits for the reply of end() of {1}",
        "go() of {1} on C waits for the reply of end() of {0}",
    ),
    "function": ("B", "go() of {0} on B waits for the reply of C to ask()"),
    "function that fetches": ("B", "ask_copy() on C waits for the value of {0}"),
    "function that calls": ("B", "call_asker() on C waits for the reply of B to ask_copy()"),
}


@pytest.mark.parametrize("how", NAMED)
def test_the_error_names_the_ring(system: System, how: str, tmp_path: Path) -> None:
    """Also the waits of functions without a chain, in any thread that runs them."""
    where, *waits = NAMED[how]
    node = farref.remote("B", make_node)
    for _ in range(20):  # now C has a connection to B, and knows that the functions are brief
        for function in (ask, ask_copy, call_asker):
            assert farref.rpc_sync("C", function, (node,)) == "end"
    nodes = ring_at(where)
    _, (text,) = outcomes(set_out(nodes, tmp_path, how))
    for wait in waits:
        assert wait.format(*(each.id for each in nodes)) in text
    take_apart(nodes)


def test_a_ring_through_an_alias(system: System, tmp_path: Path) -> None:
    first, second = farref.remote("B", make_node), farref.remote("C", make_node)
    alias = farref.remote("B", same, (second,))
    first.rpc_sync().join(alias)
    second.rpc_sync().join(first)
    values, refused = outcomes(set_out([first, second], tmp_path, "method"))
    assert values == ["end"]
    assert len(refused) == 1
    take_apart([first, second])


def test_a_ring_through_an_alias_of_what_is_not_there_yet(system: System, tmp_path: Path) -> None:
    """An object's maker waits for a method, which waits for an alias of that object."""
    node = farref.remote("B", make_node)
    made = farref.remote("C", wait_for, (node, tmp_path))
    alias = farref.remote("B", same, (made,))
    node.rpc_sync().join(alias)
    future = node.rpc_async().go(tmp_path, 2, "fetch")
    ends: list[Any] = []
    for each in (future, made.future()):
        try:
            ends.append(each.result())
        except SelfWaitError as error:
            ends.append(type(error))
    assert SelfWaitError in ends
    node.rpc_sync().leave()


def wait_for(node: RRef[Node], place: Path) -> Node:
    meet(place, 2)
    node.rpc_sync().end()
    return Node()


class Sender:
    """Calls another object without waiting, while its method runs for long."""

    def __init__(self) -> None:
        self.future: farref.Future[Any] | None = None

    def send(self, other: RRef[Sender], place: Path, gate: Path) -> str:
        meet(place, 2)
        self.future = other.rpc_async().end()
        hold(gate)
        return "sent"

    def end(self) -> str:
        return "end"

    def ended(self) -> Any:
        future, self.future = self.future, None
        assert future is not None
        return future.result()


LONGER = 0.5
"""Seconds: longer than it takes to suspect a ring, and to find it."""


def test_a_call_that_nobody_waits_for_is_in_no_ring(
    system: System, tmp_path: Path, gate: Path
) -> None:
    place, nodes = tmp_path / "meeting", [farref.remote(name, Sender) for name in "BC"]
    place.mkdir()
    futures = [
        node.rpc_async().send(other, place, gate)
        for node, other in zip(nodes, reversed(nodes), strict=True)
    ]
    assert not until(system, lambda: any(each.done() for each in futures), 2 * LONGER)
    gate.touch()
    assert [future.result() for future in futures] == ["sent", "sent"]
    assert [node.rpc_sync().ended() for node in nodes] == ["end", "end"]


class Busy:
    """An object with long methods that call no other object."""

    def work(self, gate: Path) -> None:
        hold(gate)


def call_often(node: RRef[Busy], gate: Path) -> None:
    for future in [node.rpc_async().work(gate) for _ in range(5)]:
        future.result()


def test_nothing_is_sent_where_what_is_waited_for_waits_for_nothing(
    system: System, gate: Path
) -> None:
    node, before = farref.remote("B", Busy), [*map(probes, "BC")]
    calls = farref.rpc_async("C", call_often, (node, gate))
    assert not until(system, lambda: [*map(probes, "BC")] != before or calls.done(), LONGER)
    gate.touch()
    calls.result()
    assert [*map(probes, "BC")] == before


def probes(name: str) -> int:
    """The probes that *name* has sent."""
    counters: farref.Counters = farref.rpc_sync(name, farref.counters)
    return counters.control.get("Probe", 0)


@pytest.mark.processes
def test_a_ring_that_a_death_breaks(process_system: System, tmp_path: Path) -> None:
    for name in ("B", "C"):
        process_system.worker(name)
    pid = farref.rpc_sync("C", os.getpid)
    nodes = ring_at("BC")
    futures = set_out(nodes, tmp_path, "method")
    assert until(process_system, lambda: len(list(tmp_path.iterdir())) == 2)
    os.kill(pid, signal.SIGKILL)
    ends: list[type] = []
    for future in futures:
        try:
            future.result()
        except (SelfWaitError, OwnerDiedError, WorkerDiedError) as error:
            ends.append(type(error))
    assert len(ends) == 2
    assert set(ends) & {OwnerDiedError, WorkerDiedError}
    nodes[0].rpc_sync().leave()
    del nodes, futures
    assert_nothing_held(process_system)


def check_record(folder: Path) -> list[Any]:
    """The records in *folder*; they can be replayed, and exported as a trace test that passes."""
    player = Player()
    for record in merge(load(folder)):
        player.take(record)
    assert player.broken == {}
    story, test = read(folder), folder.with_name("exported.txt")
    test.write_text(trace_test(story), encoding="utf-8")
    assert differences(test) == ""
    return list(story.records)


@pytest.mark.processes
def test_a_recorded_ring_can_be_replayed_and_exported(tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    with System(timeout=20, trace=str(folder)) as system:
        for name in "BC":
            system.worker(name)
        nodes = ring_at("BC")
        values, refused = outcomes(set_out(nodes, tmp_path / "meeting", "method"))
        assert (values, len(refused)) == (["end"], 1)
        take_apart(nodes)
        del nodes
    assert any(record.message == "Probe" for record in check_record(folder))


@pytest.mark.processes
def test_recorded_turns_can_be_replayed_and_exported(tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    with System(timeout=20, trace=str(folder)) as system:
        first, second = (farref.remote(system.worker(name), Account) for name in "BC")
        alone = farref.remote("B", Account, serial=False)
        assert farref.on(first).rpc_sync(Account.visit_later, [second, alone], 0.01) == 3
        del first, second, alone
    done = {str(record.fields.get("do")) for record in check_record(folder)}
    assert {"pause", "resume", "done"} <= done


# ---- at random


class Account:
    """An object with methods that call others, each from its own."""

    def visit(self, way: list[RRef[Account]], seconds: float) -> int:
        time.sleep(seconds)
        return 1 + (way[0].rpc_sync().visit(way[1:], seconds) if way else 0)

    async def visit_later(self, way: list[RRef[Account]], seconds: float) -> int:
        await asyncio.sleep(seconds)
        return 1 + (await way[0].rpc_async().visit_later(way[1:], seconds) if way else 0)


def visits(accounts: list[RRef[Account]], *, ordered: bool, seed: int) -> list[Any]:
    """Many calls at once, each along some of *accounts*."""
    rng = random.Random(seed)
    futures: list[tuple[int, farref.Future[Any]]] = []
    for number in range(30):
        way = rng.sample(range(len(accounts)), 3)
        way = sorted(way) if ordered else way
        first, *rest = (accounts[each] for each in way)
        verb = "visit" if number % 3 else "visit_later"
        futures.append((len(way), getattr(first.rpc_async(), verb)(rest, 0.03)))
    ends: list[Any] = []
    for length, future in futures:
        try:
            assert future.result() == length
            ends.append("ran")
        except SelfWaitError:
            ends.append("refused")
    return ends


def test_calls_in_one_order_are_never_refused(system: System) -> None:
    accounts = [farref.remote("BC"[number % 2], Account) for number in range(5)]
    assert set(visits(accounts, ordered=True, seed=1)) == {"ran"}


def test_calls_in_any_order_all_end(system: System) -> None:
    accounts = [farref.remote("BC"[number % 2], Account) for number in range(5)]
    ends = visits(accounts, ordered=False, seed=2)
    assert "ran" in ends
    assert "refused" in ends
    assert [account.rpc_sync().visit([], 0) for account in accounts] == [1] * 5
