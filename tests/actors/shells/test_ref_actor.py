"""`RefActor`: handlers, plain and async, their order, and asyncio inside them."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import ActorAddress, ActorExitRequest, WakeupMessage

import farref
from farref import RefActor, RRef, WouldBlockError

from ...bases import PROCESSES
from ..helpers import hold, until

if TYPE_CHECKING:
    from pathlib import Path

    from farref import System


@dataclass
class Slow:
    number: int


@dataclass
class Finish:
    number: int


class Recorder(RefActor):
    """Records its messages and their times."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Any] = []
        self.finished: dict[int, asyncio.Event] = {}

    def receiveMsg_int(self, message: int, sender: ActorAddress) -> None:
        self.log.append(message)

    async def receiveMsg_Slow(self, message: Slow, sender: ActorAddress) -> None:
        self.log.append(("begin", message.number))
        await self.finished.setdefault(message.number, asyncio.Event()).wait()
        self.log.append(("end", message.number))

    def receiveMsg_Finish(self, message: Finish, sender: ActorAddress) -> None:
        self.finished.setdefault(message.number, asyncio.Event()).set()

    async def receiveMsg_tuple(self, message: tuple[RRef[Any]], sender: ActorAddress) -> None:
        self.send(sender, await message[0])

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        if message == "log":
            self.send(sender, list(self.log))
            return
        self.wakeupAfter(timedelta(milliseconds=10), payload=(message, sender))

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        text, asker = message.payload
        self.send(asker, text)

    def receiveMsg_RRef(self, message: RRef[Any], sender: ActorAddress) -> None:
        try:
            message.to_here()
        except WouldBlockError as error:
            self.send(sender, str(error))

    async def receiveMsg_list(self, message: list[Any], sender: ActorAddress) -> None:
        """Libraries for asyncio work: queues, locks, gather, subtasks, a server of its own."""
        queue: asyncio.Queue[int] = asyncio.Queue()

        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello\n")
        line = await reader.readline()
        writer.close()
        server.close()
        await asyncio.gather(*(queue.put(each) for each in message))
        async with asyncio.timeout(5), asyncio.Lock():
            got = [await queue.get() for _ in message]
        self.send(sender, (line, got))


class Relay(RefActor):
    async def receiveMsg_tuple(self, message: tuple[Any, ...], sender: ActorAddress) -> None:
        """Awaits calls on others, in several forms."""
        name, ref = message
        value = await ref
        power = await farref.rpc_async(name, pow, (value, 2))
        length = await ref.rpc_async().bit_length()
        made = farref.remote(name, pow, (power, 2))
        self.send(sender, [value, power, length, await made, await made.future()])


def test_handlers_run_in_the_order_sent(system: System) -> None:
    actor = system.create(Recorder)
    for number in range(200):
        system.tell(actor, number)
    assert system.ask(actor, "log") == list(range(200))


def test_async_handlers_interleave_where_they_await(system: System) -> None:
    actor = system.create(Recorder)
    system.tell(actor, Slow(1))
    system.tell(actor, 2)
    system.tell(actor, Slow(3))
    log = [("begin", 1), 2, ("begin", 3)]
    assert system.ask(actor, "log") == log
    for number in (3, 1):
        system.tell(actor, Finish(number))
        log.append(("end", number))
        assert until(system, lambda: system.ask(actor, "log") == log)


def test_a_handler_awaits_a_reference_while_others_run(system: System, gate: Path) -> None:
    actor = system.create(Recorder)
    ref = farref.remote("B", hold, (gate, [1, 2]))
    future = system.ask_async(actor, (ref,))
    system.tell(actor, 1)
    assert system.ask(actor, "log") == [1]
    assert not future.done()
    gate.touch()
    assert future.result() == [1, 2]


def test_libraries_of_asyncio_work_in_handlers(system: System) -> None:
    actor = system.create(Recorder)
    assert system.ask(actor, [1, 2, 3]) == (b"hello\n", [1, 2, 3])


def test_every_call_has_an_await_form_in_a_handler(system: System) -> None:
    actor = system.create(Relay)
    ref = RRef(5)
    assert system.ask(actor, ("B", ref)) == [5, 25, 3, 625, 625]


def test_a_blocking_call_in_a_handler_names_the_await_form(system: System) -> None:
    actor = system.create(Recorder)
    assert "`await`" in system.ask(actor, RRef(1))


def test_wakeups_work_as_in_thespian(system: System) -> None:
    actor = system.create(Recorder)
    assert system.ask(actor, "now then") == "now then"


def test_an_actor_serves_calls_like_a_worker(system: System) -> None:
    actor = system.create(Recorder, "recorder of calls")
    assert farref.rpc_sync(actor, pow, (2, 3)) == 8
    assert farref.remote("recorder of calls", pow, (2, 4)).to_here() == 16


class Local:
    """Makes a class that no module has."""

    @staticmethod
    def make() -> type:
        factor = 3

        class Times(RefActor):
            def receiveMsg_int(self, message: int, sender: ActorAddress) -> None:
                self.send(sender, message * factor)

        return Times


def test_a_class_defined_anywhere_after_the_system_started(system: System) -> None:
    actor = system.create(Local.make())
    assert system.ask(actor, 2) == 6


class LastWords(RefActor):
    def __init__(self) -> None:
        super().__init__()
        self.handled = 0
        self.heir: Any = None

    def receiveMsg_float(self, message: float, sender: ActorAddress) -> None:
        time.sleep(message)
        self.handled += 1

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.heir = message

    async def receiveMsg_ActorExitRequest(self, message: Any, sender: ActorAddress) -> None:
        await asyncio.sleep(0.01)
        with open(self.heir, "w", encoding="utf-8") as file:  # noqa: ASYNC230 - the last act
            file.write(str(self.handled))


# On Thespian's TCP base an exit request may overtake earlier messages, if both sides send.
@pytest.mark.parametrize(
    "process_system", [p for p in PROCESSES if p.values != ("multiprocTCPBase",)], indirect=True
)
@pytest.mark.processes
def test_an_actor_finishes_its_queue_before_it_exits(
    process_system: System, tmp_path: Path
) -> None:
    path = tmp_path / "will"
    actor = process_system.create(LastWords, "actor")
    process_system.tell(actor, str(path))
    for _ in range(5):
        process_system.tell(actor, 0.1)
    process_system.tell(actor, ActorExitRequest())
    assert until(process_system, lambda: path.exists() and path.read_text())
    assert path.read_text() == "5"
    assert until(process_system, lambda: "actor" not in [i.name for i in process_system.workers()])


class Late(LastWords):
    """Its loop is busy between its construction and its first handler."""

    def __init__(self) -> None:
        super().__init__()
        asyncio.get_running_loop().call_soon(time.sleep, 0.5)


@pytest.mark.processes
@pytest.mark.parametrize(("kind", "count"), [(LastWords, 20), (Late, 1)])
def test_an_exit_request_on_the_heels_of_creation_comes_last(
    process_system: System, tmp_path: Path, kind: type, count: int
) -> None:
    paths = [tmp_path / str(number) for number in range(count)]
    for path in paths:
        actor = process_system.create(kind)
        for message in (str(path), 0.0, ActorExitRequest()):
            process_system.tell(actor, message)
    assert until(process_system, lambda: all(p.exists() and p.read_text() == "1" for p in paths))


@pytest.mark.processes
def test_an_ask_of_one_who_dies_ends_at_once(process_system: System) -> None:
    actor = process_system.create(LastWords, "sleeper")
    pid = farref.rpc_sync(actor, os.getpid)
    process_system.tell(actor, 30.0)
    asked = process_system.ask_async(actor, object, timeout=30)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(farref.WorkerDiedError):
        asked.result()
