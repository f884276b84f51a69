"""Many at once: calls in flight, threads of the program, messages to one that is behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from thespian.actors import ActorAddress

import farref
from farref import RefActor, RRef, System

from ...stopping import stopped
from ..helpers import PATIENCE, until


def test_many_calls_and_objects_in_flight(system: System) -> None:
    futures = [farref.rpc_async("BC"[n % 2], pow, (n, 2)) for n in range(1000)]
    refs = [farref.remote("BC"[n % 2], list, ((n,),)) for n in range(3000)]
    assert [future.result() for future in futures] == [n * n for n in range(1000)]
    assert farref.get(refs) == [[n] for n in range(3000)]


def test_many_threads_of_the_program(system: System) -> None:
    actor = system.create(Echo)
    ref = RRef([1])

    def work(number: int) -> None:
        for n in range(10):
            assert farref.rpc_sync("BC"[n % 2], pow, (number, 2)) == number**2
            assert system.ask(actor, (number, n, ref)) == (number, n, ref)
            assert farref.remote("B", list, ((n,),)).to_here() == [n]
            assert RRef(number).to_here() == number

    with ThreadPoolExecutor(12) as threads:
        assert list(threads.map(work, range(12), timeout=PATIENCE)) == [None] * 12


class Echo(RefActor):
    def receiveMsg_tuple(self, message: tuple[Any, ...], sender: ActorAddress) -> None:
        self.send(sender, message)


class Counter(RefActor):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def receiveMsg_int(self, message: int, sender: ActorAddress) -> None:
        assert message == self.count
        self.count += 1

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(sender, self.count)


def test_who_sends_too_much_waits_and_nothing_is_lost(
    system: System, limits: Callable[[dict[str, object]], None]
) -> None:
    limits({"actors.calls.calls.MAX_BACKLOG": 100})
    actor = system.create(Counter)
    before, most = farref.counters().backlog, 0
    for number in range(1000):
        system.tell(actor, number)
        most = max(most, farref.counters().backlog - before)
    assert most <= 101
    assert until(system, lambda: system.ask(actor, "count") == 1000)


@pytest.mark.processes
def test_a_fetch_comes_after_the_calls_that_wait_for_room() -> None:
    with System("farrefBase", timeout=PATIENCE) as system, ThreadPoolExecutor(1) as thread:
        system.worker("B")
        numbers = farref.remote("B", list)
        assert numbers.to_here() == []
        many = 1024 + 100  # so many may be in flight, and more
        with stopped(farref.rpc_sync("B", os.getpid)):
            appended = [numbers.rpc_async().append(number) for number in range(many)]
            found = thread.submit(numbers.to_here)
            assert until(system, lambda: farref.counters().in_flight == many + 1)
        assert found.result(PATIENCE) == list(range(many))
        assert not any(each.result() for each in appended)
