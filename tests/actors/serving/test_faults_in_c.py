"""A worker that faults in C ends at once, and says where; its callers learn how it ended."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING

import psutil
import pytest
from thespian.actors import Actor

import farref
from farref import OwnerDiedError, RefActor, System, SystemDownError, WorkerDiedError

from ...bases import PROCESSES

if TYPE_CHECKING:
    from thespian.actors import ActorAddress

pytestmark = pytest.mark.processes
PATIENCE = 60
"""Seconds for actions that should be immediate."""


def segmentation_fault() -> None:
    ctypes.string_at(0)


def bus_error() -> None:
    with tempfile.TemporaryFile() as file:
        file.truncate(mmap.PAGESIZE)
        mapped = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        file.truncate(0)
        mapped[0]


def stack_overflow() -> None:
    """In C alone: from Python 3.14 on, Python looks how much of the stack is left."""
    nested, extended = b"(" * 1_000_000, 1
    ctypes.CDLL(None).regcomp(ctypes.create_string_buffer(1_000), nested, extended)


def aborts() -> None:
    ctypes.PyDLL(None).abort()


def raises(number: int) -> None:
    """Send a signal to this thread, which keeps the interpreter, as one that faults does.

    While another thread ran, the dump of its stack could fault itself, in one of some thousand.
    """
    getattr(ctypes.PyDLL(None), "raise")(number)


def divides_by_zero() -> None:
    raises(signal.SIGFPE)  # Python itself checks before it divides


def runs_no_code() -> None:
    raises(signal.SIGILL)


def is_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def leaves() -> None:
    os._exit(3)


FAULTS: dict[str, Callable[[], None]] = {
    "SIGSEGV": segmentation_fault,
    "SIGBUS": bus_error,
    "SIGABRT": aborts,
    "SIGFPE": divides_by_zero,
    "SIGILL": runs_no_code,
}
OTHERS: dict[str, Callable[[], None]] = {
    "killed by SIGSEGV": stack_overflow,
    "killed by SIGKILL, by a user, or for lack of memory": is_killed,
    "exit code 3": leaves,
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("base", PROCESSES)
def test_a_fault_ends_the_worker_and_is_named(
    capfd: pytest.CaptureFixture[str], base: str, name: str
) -> None:
    with System(base) as system:
        system.worker("B")
        box = farref.remote("B", list)
        with pytest.raises(
            WorkerDiedError, match=rf"B died before it replied \(killed by {name}\)"
        ):
            farref.rpc_sync("B", FAULTS[name])
        with pytest.raises(OwnerDiedError, match=rf"died \(killed by {name}\)"):
            box.to_here()
        assert system.shutdown() == []  # no process had to be killed
    written = capfd.readouterr().err
    assert "Fatal Python error" in written
    assert f"in {FAULTS[name].__name__}" in written


@pytest.mark.parametrize("cause", OTHERS)
def test_other_ends_are_named(process_system: System, cause: str) -> None:
    process_system.worker("B")
    box = farref.remote("B", list)
    with pytest.raises(WorkerDiedError, match=cause):
        farref.rpc_sync("B", OTHERS[cause])
    with pytest.raises(OwnerDiedError, match=cause):
        box.to_here()


class Parent(RefActor):
    def receiveMsg_str(self, _message: str, sender: ActorAddress) -> None:
        self.send(sender, self.createActor(RefActor))


def test_a_child_of_an_actor_tells_its_cause_too(process_system: System) -> None:
    child = process_system.ask(process_system.create(Parent), "make")
    with pytest.raises(WorkerDiedError, match="killed by SIGSEGV"):
        farref.rpc_sync(child, segmentation_fault)


class Plain(Actor):
    def receiveMessage(self, message: object, _sender: ActorAddress) -> None:
        if message == "fault":
            segmentation_fault()


def test_a_plain_actor_ends_too(process_system: System) -> None:
    process_system.tell(process_system.create(Plain), "fault")
    assert process_system.shutdown() == []


def test_a_fault_ends_the_registrar_and_with_it_the_system(process_system: System) -> None:
    process_system.worker("B")
    registrar = psutil.Process(farref.rpc_sync("B", os.getppid))
    registrar.send_signal(signal.SIGSEGV)
    with pytest.raises(SystemDownError):
        farref.rpc_sync("B", signal.pause)
    registrar.wait(PATIENCE)
