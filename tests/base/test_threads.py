"""Thread rules: any thread sends at any time, one receives, callbacks keep their thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from thespian.actors import ActorExitRequest, ActorSystem

from ..waiting import eventually
from .kit import PATIENCE, Echo, Hoarder, Threaded, running

pytestmark = pytest.mark.processes


def at_once(threads: int, act: Callable[[int], object]) -> None:
    """*act* in many threads, with the number of each."""
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(act, range(threads)))


@contextmanager
def listening() -> Iterator[tuple[ActorSystem, list[Any]]]:
    """A system to which a thread listens for ever, and what it gets; shutdown ends the listen."""
    got: list[Any] = []
    with running() as system:

        def listen() -> None:
            while (message := system.listen(None)) is not None:
                got.append(message)

        listener = threading.Thread(target=listen)
        listener.start()
        yield system, got
        system._systemBase.shutdown()
        listener.join(PATIENCE)
        assert not listener.is_alive()


def in_order(got: list[tuple[int, int]], threads: int, count: int) -> bool:
    """Whether *count* messages of each thread have come, in its order."""
    return all([n for t, n in got if t == each] == [*range(count)] for each in range(threads))


def test_one_listens_for_ever_while_many_tell() -> None:
    with listening() as (system, got):
        echo = system.createActor(Echo)
        at_once(8, lambda thread: [system.tell(echo, (thread, number)) for number in range(300)])
        eventually(lambda: len(got) == 8 * 300)
        assert in_order(got, 8, 300)


def test_create_private_and_ask_beside_a_listener() -> None:
    with listening() as (system, _):

        def work(number: int) -> None:
            with system.private() as mine:
                echo = mine.createActor(Echo)
                for turn in range(20):
                    assert mine.ask(echo, (number, turn), PATIENCE) == (number, turn)

        at_once(5, work)


def test_large_messages_of_threads_do_not_mix(system: ActorSystem) -> None:
    echo = system.createActor(Echo)
    payloads = [bytes([n]) * 3_000_000 for n in range(4)]
    at_once(4, lambda thread: system.tell(echo, payloads[thread]))
    assert sorted(system.listen(PATIENCE) for _ in payloads) == payloads


@pytest.mark.parametrize("how", ["threads", "threads while busy"])
def test_threads_of_an_actor_send(system: ActorSystem, how: str) -> None:
    system.tell(system.createActor(Threaded), (how, 6, 200))
    assert in_order([system.listen(PATIENCE) for _ in range(6 * 200)], 6, 200)
    if how == "threads while busy":
        assert system.listen(PATIENCE) == "joined"


def test_a_wakeup_asked_for_by_a_thread_comes_to_the_main_thread(system: ActorSystem) -> None:
    actor = system.createActor(Threaded)
    assert system.ask(actor, "wake me from a thread", PATIENCE) == ("payload", True)


def test_dead_letters_of_a_teller_without_listener(system: ActorSystem) -> None:
    handler = system.createActor(Hoarder)
    assert system.ask(handler, "collect dead letters", PATIENCE) == "ok"
    victim = system.createActor(Echo)
    system.tell(victim, ActorExitRequest())
    eventually(lambda: system.ask(victim, "there?", 1) is None)
    at_once(5, lambda thread: system.tell(victim, thread))
    eventually(lambda: {*range(5)} <= {*system.ask(handler, "report", PATIENCE)})
