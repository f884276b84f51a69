"""The abilities of an actor: create, send, exit, wake up, watch; on our base, in real processes."""

from __future__ import annotations

import atexit
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from thespian.actors import (
    Actor,
    ActorAddress,
    ActorExitRequest,
    ActorSystem,
    ChildActorExited,
    PoisonMessage,
)
from thespian.system import systemCommon

from farref import features
from farref.actors.base import (
    NoSuchSystem,
    SystemAlreadyRuns,
    TransportClosed,
    loop,
    system_base,
)

from ..ports import free_port
from ..waiting import eventually
from .kit import (
    PATIENCE,
    Echo,
    Flooder,
    Fragile,
    Hoarder,
    Introducer,
    OnHostB,
    Parent,
    Sizer,
    Waker,
    Watcher,
    alive,
    have_met,
    running,
)

pytestmark = pytest.mark.processes


def test_messages_of_every_size(system: ActorSystem) -> None:
    echo = system.createActor(Echo)
    for size in (0, 1, 1000, 65_536, 1_000_000, 30_000_000):
        assert system.ask(echo, bytes(size), PATIENCE) == bytes(size)
    array = np.arange(1_000_000)
    assert (system.ask(echo, {"array": array}, PATIENCE)["array"] == array).all()


@pytest.mark.slow
def test_a_message_of_gigabytes(system: ActorSystem) -> None:
    """It has more bytes than 31 bits can count: it takes ten seconds, and 7 GB of memory."""
    sizer = system.createActor(Sizer)
    array = np.zeros((1 << 31) + (1 << 28), np.uint8)
    array[-1] = 7
    assert system.ask(sizer, array, 5 * PATIENCE) == (array.nbytes, 7)


def test_a_child_is_addressed_before_it_runs(system: ActorSystem) -> None:
    parent = system.createActor(Parent)
    system.tell(parent, "create and send")
    for number in range(5):
        (echoed, _), is_child = system.listen(PATIENCE)
        assert (echoed, is_child) == (number, True)


def test_wakeups_come_in_order(system: ActorSystem) -> None:
    waker = system.createActor(Waker)
    asked = [(0.0, "now"), (0.01, "a"), (0.01, "b"), (0.01, "c"), (0.05, "late")]
    assert system.ask(waker, asked, PATIENCE) == ["now", "a", "b", "c", "late"]


def test_watches(system: ActorSystem) -> None:
    assert system.ask(system.createActor(Watcher), "go", PATIENCE) == (True, b"x")


def test_dead_letters_come_in_order(system: ActorSystem) -> None:
    handler = system.createActor(Hoarder)
    assert system.ask(handler, "collect dead letters", PATIENCE) == "ok"
    victim = system.createActor(Hoarder)
    system.tell(victim, ("die at", 0))
    for number in range(1, 200):
        system.tell(victim, number)
    expected = [("die at", 0), *range(1, 200)]
    eventually(lambda: system.ask(handler, "report", PATIENCE) == expected)
    assert system.ask(victim, "anybody?", PATIENCE) is None


def test_what_was_handled_and_acknowledged_is_no_dead_letter(system: ActorSystem) -> None:
    handler = system.createActor(Hoarder)
    assert system.ask(handler, "collect dead letters", PATIENCE) == "ok"
    victim = system.createActor(Hoarder)
    sender = system.createActor(Flooder)
    assert system.ask(sender, (victim, 1000, ""), PATIENCE) == "sent"
    eventually(lambda: len(system.ask(victim, "report", PATIENCE)) == 1000)
    pid = system.ask(victim, "pid", PATIENCE)
    system.tell(victim, ActorExitRequest())  # as it leaves, it acknowledges all that it handled
    eventually(lambda: not alive(pid))
    numbers = {m[0] for m in system.ask(handler, "report", PATIENCE) if isinstance(m, tuple)}
    assert not numbers


def test_a_message_that_waits_for_an_address_keeps_its_place(system: ActorSystem) -> None:
    collector = system.createActor(Hoarder)
    introducer = system.createActor(Introducer)
    system.ask(introducer, collector, PATIENCE)
    eventually(lambda: len(system.ask(collector, "report", PATIENCE)) >= 6)
    got = system.ask(collector, "report", PATIENCE)
    assert [m[:2] for m in got] == [(n, w) for n in range(3) for w in ("before", "after")]
    named = got[0][2]
    assert system.ask(named, "who are you?", PATIENCE) == "who are you?"


def test_a_message_that_cannot_be_unpickled_hurts_nobody(system: ActorSystem) -> None:
    echo = system.createActor(Echo)
    system.tell(echo, Fragile())
    assert system.ask(echo, "still there", PATIENCE) == "still there"


def test_a_message_that_cannot_be_pickled_is_an_error_of_the_sender(system: ActorSystem) -> None:
    echo = system.createActor(Echo)
    with pytest.raises(Exception, match="pickle"):
        system.tell(echo, lambda: None)
    assert system.ask(echo, "still there", PATIENCE) == "still there"


def test_a_handler_that_raises_poisons(system: ActorSystem) -> None:
    sender = system.createActor(Flooder)
    answer = system.ask(sender, (1, 2), PATIENCE)  # not three values
    assert isinstance(answer, PoisonMessage)


def test_another_program_joins_and_leaves() -> None:
    with running(name="shared") as first:
        second = ActorSystem(systemBase=system_base("shared", mode="join"), transientUnique=True)
        echo = second.createActor(Echo)
        assert second.ask(echo, "joined", PATIENCE) == "joined"
        second._systemBase.leave()
        with pytest.raises(TransportClosed):
            second.tell(echo, "gone")
        assert first.ask(echo, "still here", PATIENCE) == "still here"
        with pytest.raises(SystemAlreadyRuns):
            system_base("shared", mode="start")
    with pytest.raises(NoSuchSystem):
        system_base("shared", mode="join")


def test_a_name_can_be_used_again_at_once() -> None:
    for _ in range(5):
        with running(name="again") as system:
            assert system.ask(system.createActor(Echo), "hi", PATIENCE) == "hi"


def test_shutdown_kills_the_stuck() -> None:
    with running(shutdown_timeout=0.3) as system:
        stuck = system.createActor(Echo)
        pid = system.ask(stuck, "pid", PATIENCE)
        system.tell(stuck, "stick")
    assert not alive(pid)


def test_shutdown_while_children_start() -> None:
    with running() as system:
        parent = system.createActor(Parent)
        for _ in range(10):
            system.tell(parent, "create")


class Lingering(Actor):
    """Takes its time to exit, and counts the children of its class that have exited."""

    def __init__(self) -> None:
        super().__init__()
        self.exited: list[ActorAddress] = []

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case "child":
                self.send(sender, self.createActor(Lingering))
            case "exited":
                self.send(sender, len(self.exited))
            case "pid":
                self.send(sender, os.getpid())
            case ChildActorExited(childAddress=child):
                self.exited.append(child)
            case ActorExitRequest():
                time.sleep(0.3)


@pytest.mark.skipif(not features.has("pidfd"), reason="the parent only looks from time to time")
def test_an_exit_is_known_before_what_the_program_does_next() -> None:
    with running() as system:
        parent = system.createActor(Lingering)
        for number in (1, 2, 3):
            child = system.ask(parent, "child", PATIENCE)
            assert system.ask(child, "exited", PATIENCE) == 0
            system.tell(child, ActorExitRequest())
            assert system.ask(parent, "exited", PATIENCE) == number


def test_the_end_of_a_child_is_told_once() -> None:
    with running() as system:
        parent = system.createActor(Lingering)
        child = system.ask(parent, "child", PATIENCE)
        pid = system.ask(child, "pid", PATIENCE)
        system.tell(child, ActorExitRequest())
        eventually(lambda: not psutil.pid_exists(pid))  # the parent has seen its process's end
        assert system.ask(parent, "exited", PATIENCE) == 1


class Parting(Actor):
    """Sends its friend a last word when both are about to exit."""

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case (mine, others, friend, acquainted):
                self.mine, self.others, self.friend = mine, others, friend
                atexit.register(mine.rename, mine.with_suffix(".ended"))  # it is not killed
                if acquainted:  # there is a connection already
                    self.send(self.friend, "hello")
                self.send(sender, "ready")
            case "exit":
                self.send(self.myAddress, ActorExitRequest())
            case ActorExitRequest():
                self.mine.touch()
                eventually(self.others.exists)
                self.send(self.friend, "goodbye")


@pytest.mark.parametrize("acquainted", [True, False])
def test_two_that_leave_do_not_wait_for_each_other(
    acquainted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for patience in ("ACK_PATIENCE", "WRITE_PATIENCE"):
        monkeypatch.setattr(loop, patience, 1e6)
    monkeypatch.setattr(systemCommon, "MAX_SHUTDOWN_DRAIN_PERIOD", timedelta(days=1))
    with running() as system:
        pair = [system.createActor(Parting) for _ in range(2)]
        files = [tmp_path / "a", tmp_path / "b"]
        for number, each in enumerate(pair):
            last = (files[number], files[1 - number], pair[1 - number], acquainted)
            assert system.ask(each, last, PATIENCE) == "ready"
        for each in pair:
            system.tell(each, "exit")
        for file in files:
            eventually(file.with_suffix(".ended").exists)


def test_systems_of_one_machine_need_no_tcp() -> None:
    """Their ports only name them. An address says where its Unix socket is, and no port."""
    port_a, port_b = free_port("127.0.0.1"), free_port("127.0.0.1")
    leader = f"localhost:{port_a}"
    with (
        running(port=port_a, convention=leader) as a,
        running(port=port_b, convention=leader, capabilities={"B": True}) as b,
    ):
        echo = b.createActor(Echo)
        assert a.ask(echo, "next door", PATIENCE) == "next door"
        eventually(lambda: have_met(a))
        assert a.ask(a.createActor(OnHostB), "over there", PATIENCE) == "over there"
