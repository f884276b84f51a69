"""The process of a worker or an actor ends in order as a Python program does."""

from __future__ import annotations

import atexit
import gzip
import multiprocessing.popen_fork
import os
import signal
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import Actor, ActorExitRequest

import farref
from farref import System
from farref.actors.base.outbox import Outbox
from farref.actors.shells import mailbox
from farref.actors.wire.messages import Lookup

from ...bases import PROCESSES
from ...waiting import PATIENCE, eventually
from ..scripts import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from farref.actors.base.outgoing import OutConnection

pytestmark = pytest.mark.processes
HANGS = 600
"""Seconds. The test fails if they are waited for."""
KEPT: dict[str, Any] = {}
last: Any = None


class Noisy:
    """Its finalizer writes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __del__(self) -> None:
        self.path.write_text("said")


def write(path: Path) -> None:
    atexit.register(path.write_text, "said")


def have_a_global(path: Path) -> None:
    global last  # noqa: PLW0603 - that is the test
    last = Noisy(path)


def open_a_file(path: Path) -> None:
    KEPT["file"] = file = path.open("w")
    file.write("said")


def open_a_zip(path: Path) -> None:
    KEPT["zip"] = file = gzip.open(path, "wt")  # noqa: SIM115 - that is the test
    file.write("said")


def own(path: Path) -> None:
    KEPT["ref"] = farref.RRef(Noisy(path))


def finalize(path: Path) -> None:
    KEPT["held"] = held = Noisy(path.with_name("never"))
    weakref.finalize(held, path.write_text, "said")


def start_a_thread(path: Path) -> None:
    def late() -> None:
        threading.main_thread().join()
        path.write_text("said")

    threading.Thread(target=late, daemon=False).start()


def raise_first(path: Path) -> None:
    write(path)
    atexit.register(int, "no number")
    sys.unraisablehook = sys.__unraisablehook__  # pytest's keeps the error


def hang_first(path: Path) -> None:
    write(path)
    atexit.register(hang)
    atexit.register(time.sleep, HANGS)


def hang() -> None:
    time.sleep(HANGS)


def hang_in_a_finalizer(path: Path) -> None:
    KEPT["hangs"] = farref.RRef(Hangs())
    own(path)


class Hangs:
    def __del__(self) -> None:
        threading.Event().wait()


def hang_in_a_thread(path: Path) -> None:
    threading.Thread(target=hang, name="endless", daemon=False).start()
    write(path)


def fork(path: Path) -> None:
    write(path)
    children = multiprocessing.get_context("fork")
    child = children.Process(target=write, args=(path.with_name("child"),))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert not path.exists()


CHILDREN_END = hasattr(multiprocessing.popen_fork, "atexit")
"""Whether Python runs the handlers of processes that `multiprocessing` forks, as from 3.14 on."""
LEAVES: dict[Callable[[Path], None], str] = {
    write: "",
    have_a_global: "",
    open_a_file: "",
    open_a_zip: "",
    own: "",
    finalize: "",
    start_a_thread: "",
    fork: "",
    raise_first: "ValueError: invalid literal",
    hang_first: "without waiting for hang, in {file}, line",
    hang_in_a_finalizer: "without waiting for Hangs.__del__, in {file}, line",
    hang_in_a_thread: "without waiting for the threads endless: its time is over",
}
"""What a function leaves behind that is to be done at the end; and what is then said."""


def content(path: Path) -> str:
    if not path.exists():
        return ""
    data = path.read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()


@pytest.mark.parametrize("leave", LEAVES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("base", PROCESSES)
def test_at_the_end_of_a_system(
    base: str, leave: Callable[[Path], None], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    programs = tmp_path / "program"
    write(programs)
    finalizer = weakref.finalize(test_at_the_end_of_a_system, programs.write_text, "said")
    try:
        with System(base) as system:
            system.worker("B")
            farref.rpc_sync("B", leave, (tmp_path / "worker",))
    finally:
        atexit.unregister(programs.write_text)
        finalizer.detach()
    said = capfd.readouterr().err
    assert content(tmp_path / "worker") == "said", said
    ended = {path.name for path in tmp_path.iterdir()}  # each by its own process
    assert ended == ({"worker", "child"} if leave is fork and CHILDREN_END else {"worker"})
    wanted = LEAVES[leave].format(file=__file__)
    assert wanted in said if wanted else not said
    if leave is hang_first:
        assert "for <built-in function sleep>: its time is over" in said


class Leaves:
    """Leaves things behind, in a handler and itself."""

    def leave(self, path: Path) -> int:
        self.noisy = Noisy(path.with_name("attribute"))
        self.path = path.with_name("itself")
        write(path)
        return os.getpid()

    def __del__(self) -> None:
        self.path.write_text("said")


class Leaver(Leaves, farref.RefActor):
    def receiveMsg_PosixPath(self, message: Path, sender: Any) -> None:
        self.send(sender, self.leave(message))


class PlainLeaver(Leaves, Actor):
    """The same, with no mailbox."""

    def receiveMessage(self, message: Any, sender: Any) -> None:
        if isinstance(message, Path):
            self.send(sender, self.leave(message))


class Parent(farref.RefActor):
    """Creates an actor by `createActor`, and has it leave things behind."""

    def receiveMsg_tuple(self, message: tuple[type, Path], sender: Any) -> None:
        self.asker = sender
        self.send(self.createActor(message[0]), message[1])

    def receiveMsg_int(self, message: int, sender: Any) -> None:
        self.send(self.asker, (message, sender))


def created(system: System, kind: type, path: Path) -> tuple[int, Any]:
    actor = system.create(kind)
    return system.ask(actor, path), actor


def created_by_an_actor(system: System, kind: type, path: Path) -> tuple[int, Any]:
    answer: tuple[int, Any] = system.ask(system.create(Parent), (kind, path))
    return answer


ENDS: dict[str, Callable[[System, int, Any], object]] = {
    "exit request": lambda system, _pid, actor: system.tell(actor, ActorExitRequest()),
    "SIGTERM": lambda _system, pid, _actor: os.kill(pid, signal.SIGTERM),
    "shutdown": lambda system, _pid, _actor: system.shutdown(),
    "end": lambda system, _pid, _actor: system.end(),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("create", [created, created_by_an_actor], ids=lambda each: each.__name__)
@pytest.mark.parametrize("kind", [Leaver, PlainLeaver])
def test_each_way_to_the_end(
    kind: type, create: Callable[..., tuple[int, Any]], end: str, tmp_path: Path
) -> None:
    with System() as system:
        pid, actor = create(system, kind, tmp_path / "handler")
        ENDS[end](system, pid, actor)
        wanted = {"attribute", "handler", "itself"}
        eventually(lambda: {p.name for p in tmp_path.iterdir() if content(p) == "said"} == wanted)


class Lingers(farref.RefActor):
    """Its end takes longer than two messages to its parent."""

    def receiveMsg_ActorExitRequest(self, _message: Any, _sender: Any) -> None:
        time.sleep(0.5)


class Elder(farref.RefActor):
    def receiveMsg_PosixPath(self, message: Path, sender: Any) -> None:
        write(message)
        self.send(sender, self.createActor(Lingers))


@pytest.mark.parametrize("base", PROCESSES)
def test_a_second_exit_request_waits_for_no_handler(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An actor that waits for the end of its child gets another one, at the latest at shutdown."""
    monkeypatch.setattr(mailbox, "LAST_HANDLERS", HANGS)
    with System(base) as system:
        elder = system.create(Elder)
        system.ask(elder, tmp_path / "end")
        system.tell(elder, ActorExitRequest())
        system.tell(elder, ActorExitRequest())
    assert content(tmp_path / "end") == "said"  # it was not killed


ONCE = """
    import atexit, os, sys, tempfile
    from pathlib import Path
    import farref
    from farref.actors.base import system_base

    here, temporary = Path(sys.argv[1]), []

    def leave():
        atexit.register(append)
        temporary.append(tempfile.TemporaryDirectory(dir=here))

    def open_a_file():
        global log
        log = (here / "log").open("w")
        log.write("logged")

    def append():
        with (here / "said").open("a") as file:
            file.write("said")

    if __name__ == "__main__":
        leave()
        with farref.System(system_base(start_method=sys.argv[2])) as system:
            system.worker("B")
            farref.rpc_sync("B", leave)
            farref.rpc_sync("B", open_a_file)
        print(Path(temporary[0].name).exists(), len(list(here.iterdir())))
        print((here / "said").read_text(), (here / "log").read_text())
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_each_process_ends_what_it_has_begun_and_once(method: str, tmp_path: Path) -> None:
    (folder := tmp_path / "folder").mkdir()
    assert run(tmp_path, ONCE, str(folder), method) == "True 3\nsaid logged\n"


def test_another_thread_may_read_that_a_farewell_has_arrived(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program that leaves would wait for something that has happened."""
    write_alone, looks = Outbox.write_alone, []

    def late(self: Outbox, connection: OutConnection, timeout: float) -> None:
        looks.append(timeout)
        eventually(lambda: not connection.unacked)
        write_alone(self, connection, timeout)

    with System() as system:
        last = threading.Thread(
            target=system._port.post_last,
            args=(system.endpoint.registrar_client.registrar, Lookup(-1), 600),
            daemon=True,
        )
        monkeypatch.setattr(Outbox, "write_alone", late)
        last.start()
        last.join(PATIENCE)
        assert looks
        assert not last.is_alive()
