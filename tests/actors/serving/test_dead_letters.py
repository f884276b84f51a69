"""Messages to an actor that dies are dead letters, as between Thespian's own actors."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import pytest
from thespian.actors import Actor as PlainActor
from thespian.actors import ActorAddress, DeadEnvelope

from farref import FetchTimeoutError, NotAnEndpointError, RefActor, RRef, System, WorkerDiedError

from ...waiting import eventually

pytestmark = pytest.mark.processes


T = TypeVar("T")


class Mortal(RefActor):
    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(sender, os.getpid())

    def receiveMsg_int(self, message: int, sender: ActorAddress) -> None:
        os._exit(message)


class Letters(RefActor):
    def __init__(self) -> None:
        super().__init__()
        self.dead: list[object] = []

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        if message == "begin":
            self.handleDeadLetters(True)
        self.send(sender, self.dead)

    def receiveMsg_DeadEnvelope(self, message: DeadEnvelope, sender: ActorAddress) -> None:
        self.dead.append(message.deadMessage)


class Sender(RefActor):
    def receiveMsg_tuple(self, message: tuple[Any, list[Any]], sender: ActorAddress) -> None:
        to, words = message
        for word in words:
            self.send(to, word)
        self.send(sender, "sent")


class Talker(RefActor):
    def receiveMsg_int(self, message: int, sender: ActorAddress) -> None:
        for number in range(message):
            self.send(sender, number)


@pytest.fixture
def system() -> Iterator[System]:
    with System() as started:
        yield started


def test_messages_to_a_dying_actor_are_dead_letters_and_nothing_else_is(system: System) -> None:
    letters, sender, mortal = map(system.create, (Letters, Sender, Mortal))
    system.ask(letters, "begin")
    killed(system.ask(mortal, "pid"), lambda: system.ask(sender, (mortal, ["a", "b"])))
    eventually(lambda: "b" in system.ask(letters, "?"))
    assert system.ask(sender, (mortal, ["c", 4])) == "sent"  # `send` does not raise
    eventually(lambda: 4 in system.ask(letters, "?"))
    assert system.ask(letters, "?") == ["a", "b", "c", 4]


def killed(pid: int, send: Callable[[], T]) -> T:
    """Kill the process *pid*, which receives nothing of that which *send* sends."""
    os.kill(pid, signal.SIGSTOP)
    sent = send()
    os.kill(pid, signal.SIGKILL)
    return sent


class Value:
    """Can be referenced weakly."""


@pytest.mark.parametrize("sharing", ["lend", "fork", "borrow"])
def test_a_dead_receiver_keeps_no_references(
    sharing: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with System(sharing=sharing, orphan_grace=0.2) as system:
        letters, sender, mortal = map(system.create, (Letters, Sender, Mortal))
        system.ask(letters, "begin")

        def send(last: str) -> weakref.ref[Value]:
            value = Value()
            ref = RRef(value)
            assert system.ask(sender, (mortal, [ref, [ref], last])) == "sent"
            return weakref.ref(value)

        early = killed(system.ask(mortal, "pid"), lambda: send("early"))
        eventually(lambda: system.ask(letters, "?") == ["early"])
        late = send("late")
        eventually(lambda: system.ask(letters, "?") == ["early", "late"])
        eventually(lambda: early() is None and late() is None, "the dead actor keeps them")
    shown = caplog.text
    assert "2 messages were on their way to Mortal-" in shown
    assert shown.count("dead letters hold no references") == 2


ASK: dict[str, Callable[..., Any]] = {
    "ask": System.ask,
    "ask_async": lambda *asked, **more: System.ask_async(*asked, **more).result(),
    "await": lambda *asked, **more: asyncio.run(_awaited(*asked, **more)),
}


async def _awaited(system: System, *asked: Any, **more: Any) -> Any:
    return await system.ask_async(*asked, **more)


@pytest.mark.parametrize("how", ASK)
def test_ask_returns_as_many_answers_as_it_is_told(system: System, how: str) -> None:
    talker, ask = system.create(Talker), partial(ASK[how], system)
    assert ask(talker, 3, answers=3) == [0, 1, 2]
    assert ask(talker, 1, answers=1) == [0]
    with pytest.raises(FetchTimeoutError):
        ask(talker, 1, timeout=0.2, answers=2)
    assert ask(talker, 1) == 0  # a late answer is no other question's
    with pytest.raises(WorkerDiedError):
        ask(system.create(Mortal), 1, answers=2)
    with pytest.raises(ValueError, match="at least 1"):
        ask(talker, 1, answers=0)
    with pytest.raises(NotAnEndpointError, match="`listen` for each answer"):
        ask(system.create(PlainActor), "x", answers=2)


PROGRAM = """
import logging, os, signal, sys, threading, time, farref
from tests.actors.serving.test_dead_letters import Talker
counted = threading.Event()
class Shown(logging.StreamHandler):
    def emit(self, record):
        super().emit(record)
        if "more with the same error" in record.getMessage():
            counted.set()
logging.getLogger().addHandler(Shown(sys.stderr))
with farref.System() as system:
    talker = system.create(Talker)
    print(system.ask(talker, 2), system.ask(talker, 1), flush=True)
    system.worker("B")
    pid = farref.rpc_sync("B", os.getpid)
    calls = [farref.rpc_async("B", time.sleep, (60,)) for _ in range(300)]
    os.kill(pid, signal.SIGKILL)
    calls[0].exception()
    calls[-1].exception()
    del calls[0], calls[-1], calls
    print(counted.wait(30))
"""


def test_what_nobody_looks_at_is_logged_in_full_once_and_counted() -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=100
    )
    assert run.stdout == "0 0\nTrue\n", run.stderr
    assert "dropped an answer of" in run.stderr
    assert "answers=n" in run.stderr
    told = [line for line in run.stderr.splitlines() if line.startswith("nobody looked at")]
    full = [line for line in told if line.endswith(":")]
    more = [
        int(line.split(": ")[1].split()[0].replace(",", "")) for line in told if line[-1] != ":"
    ]
    assert len(full) == 1
    assert len(full) + sum(more) == 298
