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
from farref import (
    FetchTimeoutError,
    OwnerDiedError,
    RRef,
    SelfWaitError,
    System,
    WorkerDiedError,
)
from farref.actors.calls.queues import Queues
from farref.actors.inspect.counting import counters
from farref.protocol import deadlocks
from farref.protocol.context import Context
from farref.protocol.ids import CallId, RRefId, WorkerId
from farref.protocol.messages import Fetch
from farref.trace import read
from farref.trace.export.tracetest import trace_test
from farref.trace.merge import merge
from farref.trace.records import load
from farref.trace.replay import Player
from farref.tracetest.files import differences

from ...waiting import eventually
from ..helpers import assert_nothing_held, until

if TYPE_CHECKING:
    from pathlib import Path

WAITS = (
    *("method", "future", "function", "fetch", "aget", "chained", "every"),
    *("by value", "creation"),
    *("function that fetches", "function that calls"),
)
"""The ways in which one object waits for the next; see `Node`."""
AWAITS = ("await", "await function", "await value")
"""The ways in which one object awaits the next: it takes other calls meanwhile."""


A, B = WorkerId("A", 1), WorkerId("B", 1)


def test_a_queue_is_suspected_while_the_creation_of_its_object_has_not_come() -> None:
    """Its caller may hold it back, behind a request that waits for one in this queue."""
    context = Context(B, "lend")
    queues = Queues(context, lambda _: False)
    fetch = Fetch(call=CallId(A, 1), rref=RRefId(A, 2), copy=True, direct=False)
    context.receive(A, fetch)
    queues.arrived(fetch, lambda: 0.0)
    suspected = [bool(queues.look(0.2 * look)) for look in range(1, 5)]
    assert suspected == [True, True, False, True]


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
        following = self.next
        assert following is not None
        match how:
            case "method":
                return following.rpc_sync().end()
            case "future":
                return following.rpc_async().end().result()
            case "function":
                return farref.rpc_async("C", ask, (following,)).result()
            case "function that fetches":
                return farref.rpc_async("C", ask_copy, (following,)).result()
            case "function that calls":
                return farref.rpc_async("C", call_asker, (following,)).result()
            case "chained":
                return following.rpc_async().end().then(lambda future: future.result()).result()
            case "fetch":
                return following.to_here().end()
            case "aget":
                return farref.get([following])[0].end()
            case "every":
                ready, _ = farref.wait([following], timeout=20)
                return ready[0].to_here(timeout=20).end()
            case "by value":
                return farref.rpc_async("B", Node.end, (following,), resolve=True).result()
            case _:
                return following.remote().end().to_here()

    async def go_on(self, place: Path, count: int, how: str) -> Any:
        meet(place, count)
        following = self.next
        assert following is not None
        match how:
            case "await":
                return await following.rpc_async().end()
            case "await function":
                return await farref.rpc_async("C", ask_and_await, (following,))
            case _:
                return (await following).end()


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


def ring_of(nodes: list[RRef[Node]]) -> None:
    for node, following in zip(nodes, [*nodes[1:], nodes[0]], strict=True):
        node.rpc_sync().join(following)


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


@pytest.mark.parametrize("how", WAITS)
def test_of_two_objects_that_wait_for_each_other_one_is_refused(
    system: System, how: str, tmp_path: Path
) -> None:
    nodes = [farref.remote("B", make_node), farref.remote("C", make_node)]
    ring_of(nodes)
    values, refused = outcomes(set_out(nodes, tmp_path, how))
    assert values == ["end"]
    assert len(refused) == 1
    take_apart(nodes)
    assert [node.rpc_sync().end() for node in nodes] == ["end", "end"]


def test_the_error_names_the_ring(system: System, tmp_path: Path) -> None:
    nodes = [farref.remote("B", make_node), farref.remote("C", make_node)]
    ring_of(nodes)
    _, (text,) = outcomes(set_out(nodes, tmp_path, "method"))
    first, second = nodes
    assert f"go() of {first.id} on B waits for the reply of end() of {second.id}" in text
    assert f"go() of {second.id} on C waits for the reply of end() of {first.id}" in text
    take_apart(nodes)


@pytest.mark.parametrize("how", AWAITS)
def test_objects_that_await_each_other_are_in_no_ring(
    system: System, how: str, tmp_path: Path
) -> None:
    nodes = [farref.remote("B", make_node), farref.remote("C", make_node)]
    ring_of(nodes)
    assert outcomes(set_out(nodes, tmp_path / how, how)) == (["end", "end"], [])
    take_apart(nodes)


def test_one_that_awaits_is_enough_to_break_a_ring(system: System, tmp_path: Path) -> None:
    nodes = [farref.remote("B", make_node), RRef(Node()), farref.remote("C", make_node)]
    ring_of(nodes)
    ways = ("method", "await", "fetch")
    assert outcomes(set_out(nodes, tmp_path, *ways)) == (["end"] * 3, [])
    take_apart(nodes)


@pytest.mark.parametrize("how", ["method", "fetch"])
def test_a_ring_of_three_with_the_programs_own_object(
    system: System, how: str, tmp_path: Path
) -> None:
    nodes = [farref.remote("B", make_node), RRef(Node()), farref.remote("C", make_node)]
    ring_of(nodes)
    values, refused = outcomes(set_out(nodes, tmp_path, how))
    assert values == ["end", "end"]
    assert len(refused) == 1
    take_apart(nodes)


def test_a_ring_on_one_worker(system: System, tmp_path: Path) -> None:
    nodes = [farref.remote("B", make_node) for _ in range(4)]
    ring_of(nodes)
    values, refused = outcomes(set_out(nodes, tmp_path, "method"))
    assert values == ["end"] * 3
    assert len(refused) == 1
    take_apart(nodes)


def test_an_object_that_waits_for_itself_by_way_of_a_call_without_a_chain(
    system: System, tmp_path: Path
) -> None:
    node = farref.remote("B", make_node)
    ring_of([node])
    _, (text,) = outcomes(set_out([node], tmp_path, "function"))
    assert f"go() of {node.id} on B waits for the reply of C to ask()" in text
    take_apart([node])


@pytest.mark.parametrize(
    ("how", "function", "wait"),
    [
        ("function that fetches", ask_copy, "ask_copy() on C waits for the value of"),
        ("function that calls", call_asker, "call_asker() on C waits for the reply of B to"),
    ],
)
def test_a_wait_of_a_function_is_seen(
    system: System, how: str, function: Any, wait: str, tmp_path: Path
) -> None:
    node = farref.remote("B", make_node)
    for _ in range(20):  # now C has a connection to B
        assert farref.rpc_sync("C", function, (node,)) == "end"
    ring_of([node])
    _, (text,) = outcomes(set_out([node], tmp_path, how))
    assert wait in text
    take_apart([node])


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


def test_a_call_that_nobody_waits_for_is_in_no_ring(system: System, tmp_path: Path) -> None:
    nodes = [farref.remote("B", Sender), farref.remote("C", Sender)]
    futures = [
        node.rpc_async().send(other, tmp_path)
        for node, other in zip(nodes, reversed(nodes), strict=True)
    ]
    assert [future.result() for future in futures] == ["sent", "sent"]
    assert [node.rpc_sync().ended() for node in nodes] == ["end", "end"]


class Sender:
    """Calls another object without waiting, while its method runs for long."""

    def __init__(self) -> None:
        self.future: farref.Future[Any] | None = None

    def send(self, other: RRef[Sender], place: Path) -> str:
        meet(place, 2)
        self.future = other.rpc_async().end()
        time.sleep(1)  # longer than it takes to find a ring
        return "sent"

    def end(self) -> str:
        return "end"

    def ended(self) -> Any:
        future, self.future = self.future, None
        assert future is not None
        return future.result()


def test_nothing_is_sent_where_what_is_waited_for_waits_for_nothing(system: System) -> None:
    node = farref.remote("B", Busy)
    before = [farref.rpc_sync(worker, probes) for worker in "BC"]
    farref.rpc_sync("C", call_often, (node,))
    assert [farref.rpc_sync(worker, probes) for worker in "BC"] == before


class Busy:
    """An object with long methods that call no other object."""

    def work(self) -> None:
        time.sleep(0.3)  # longer than it takes to become suspected


def call_often(node: RRef[Busy]) -> None:
    for future in [node.rpc_async().work() for _ in range(5)]:
        future.result()


def probes() -> int:
    """The number of probes that this endpoint has sent."""
    return counters().control.get("Probe", 0)


@pytest.mark.processes
def test_a_ring_that_a_death_breaks(process_system: System, tmp_path: Path) -> None:
    for name in ("B", "C"):
        process_system.worker(name)
    pid = farref.rpc_sync("C", os.getpid)
    nodes = [farref.remote("B", make_node), farref.remote("C", make_node)]
    ring_of(nodes)
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


@pytest.mark.processes
def test_a_ring_of_more_waits_than_are_followed_ends_by_timeouts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(deadlocks, "MAX_HOPS", 1)
    with System(timeout=5) as system:
        nodes = [farref.remote(system.worker(name), make_node) for name in "BC"]
        ring_of(nodes)
        timed_out = 0
        for future in set_out(nodes, tmp_path, "method"):
            try:
                future.result(10)
            except FetchTimeoutError:
                timed_out += 1
        assert timed_out  # the first wait that ends breaks the ring, and may set the other free


@pytest.mark.processes
def test_a_recorded_ring_can_be_replayed_and_exported(tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    with System(timeout=20, trace=str(folder)) as system:
        nodes = [farref.remote(system.worker(name), make_node) for name in "BC"]
        ring_of(nodes)
        values, refused = outcomes(set_out(nodes, tmp_path / "meeting", "method"))
        assert (values, len(refused)) == (["end"], 1)
        take_apart(nodes)
        del nodes
    player = Player()
    for record in merge(load(folder)):
        player.take(record)
    assert player.broken == {}
    story = read(folder)
    assert any(record.message == "Probe" for record in story.records)
    test = tmp_path / "ring.txt"
    test.write_text(trace_test(story), encoding="utf-8")
    assert differences(test) == ""


@pytest.mark.processes
def test_recorded_turns_can_be_replayed_and_exported(tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    with System(timeout=20, trace=str(folder)) as system:
        first, second = (farref.remote(system.worker(name), Account) for name in "BC")
        alone = farref.remote("B", Account, serial=False)
        assert first.rpc_sync().visit_later([second, alone], 0.01) == 3
        del first, second, alone
    player = Player()
    for record in merge(load(folder)):
        player.take(record)
    assert player.broken == {}
    story = read(folder)
    done = {str(record.fields.get("do")) for record in story.records}
    assert {"pause", "resume", "done"} <= done
    test = tmp_path / "turns.txt"
    test.write_text(trace_test(story), encoding="utf-8")
    assert differences(test) == ""


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
