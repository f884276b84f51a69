"""Thread rules: any thread sends at any time, one receives, callbacks keep their thread."""

from __future__ import annotations

import threading

import pytest
from thespian.actors import ActorExitRequest, ActorSystem

from ..waiting import eventually
from .kit import PATIENCE, Echo, Hoarder, Threaded, running

pytestmark = pytest.mark.processes


def test_one_listens_for_ever_while_many_tell() -> None:
    threads, count = 8, 300
    with running() as system:
        echo = system.createActor(Echo)
        got: list[tuple[int, int]] = []
        complete = threading.Event()

        def listen() -> None:
            while (message := system.listen(None)) is not None:
                got.append(message)
                if len(got) == threads * count:
                    complete.set()

        def tell(thread: int) -> None:
            for number in range(count):
                system.tell(echo, (thread, number))

        listener = threading.Thread(target=listen)
        listener.start()
        tellers = [threading.Thread(target=tell, args=(n,)) for n in range(threads)]
        for each in tellers:
            each.start()
        for each in tellers:
            each.join(PATIENCE)
        assert complete.wait(PATIENCE)
        for thread in range(threads):  # the order of each thread is kept
            assert [n for t, n in got if t == thread] == list(range(count))
        base = system._systemBase
        base.shutdown()
        listener.join(PATIENCE)
        assert not listener.is_alive()  # shutdown ends a listen in progress


def test_create_private_and_ask_beside_a_listener() -> None:
    with running() as system:
        listener = threading.Thread(target=system.listen, args=(None,))
        listener.start()
        failures: list[Exception] = []

        def work(number: int) -> None:
            try:
                with system.private() as mine:
                    echo = mine.createActor(Echo)
                    for turn in range(20):
                        assert mine.ask(echo, (number, turn), PATIENCE) == (number, turn)
            except Exception as error:
                failures.append(error)

        workers = [threading.Thread(target=work, args=(n,)) for n in range(5)]
        for each in workers:
            each.start()
        for each in workers:
            each.join(2 * PATIENCE)
        assert not failures
        system._systemBase.shutdown()
        listener.join(PATIENCE)


def test_large_messages_of_threads_do_not_mix(system: ActorSystem) -> None:
    echo = system.createActor(Echo)
    payloads = [bytes([n]) * 3_000_000 for n in range(4)]
    tellers = [threading.Thread(target=system.tell, args=(echo, p)) for p in payloads]
    for each in tellers:
        each.start()
    got = [system.listen(PATIENCE) for _ in payloads]
    for each in tellers:
        each.join(PATIENCE)
    assert sorted(got) == payloads


@pytest.mark.parametrize("how", ["threads", "threads while busy"])
def test_threads_of_an_actor_send(system: ActorSystem, how: str) -> None:
    threads, count = 6, 200
    actor = system.createActor(Threaded)
    system.tell(actor, (how, threads, count))
    got = [system.listen(PATIENCE) for _ in range(threads * count)]
    for thread in range(threads):
        assert [n for t, n in got if t == thread] == list(range(count))
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
    threads = [threading.Thread(target=system.tell, args=(victim, n)) for n in range(5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE)
    eventually(
        lambda: (
            {0, 1, 2, 3, 4}
            <= {m for m in system.ask(handler, "report", PATIENCE) if isinstance(m, int)}
        )
    )
