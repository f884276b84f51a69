"""A silent endpoint counts as dead, and hears so if it comes back. With real SIGSTOPs."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import ActorAddress

import farref
from farref import GivenUpError, OwnerDiedError, RefActor, RRef, System, WorkerDiedError

from ...base.kit import alive
from ...bases import PROCESSES
from ...commands.kit import Terminal
from ...stopping import stop as stop_process
from ..conftest import GRACE
from ..helpers import Box, assert_nothing_held, hog, hold, somebody_waits, until
from ..scripts import write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.processes

SILENCE = 0.5
"""Seconds; with the default every test would take five."""


@pytest.fixture(params=PROCESSES)
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    with System(request.param, timeout=20, orphan_grace=GRACE, silence=SILENCE) as system:
        for name in "BC":
            system.worker(name)
        yield system


def stop(name: str) -> int:
    """Stop the worker; returns its pid."""
    pid: int = farref.rpc_sync(name, os.getpid)
    stop_process(pid)
    return pid


def given_up(system: System, name: str) -> bool:
    return until(system, lambda: name not in {info.name for info in system.workers()})


def test_a_stopped_worker_is_given_up_and_what_it_held_is_freed(system: System) -> None:
    box = Box()
    watch = weakref.ref(box)
    theirs = farref.remote("B", list, ((1,),))
    theirs.to_here()
    call = farref.rpc_async("B", time.sleep, (20,))
    farref.rpc_sync("B", keep, (RRef(box),))
    del box
    gc.collect()
    assert watch() is not None
    pid = stop("B")
    try:
        with pytest.raises(WorkerDiedError):
            call.result()
        assert given_up(system, "B")
        with pytest.raises(OwnerDiedError, match="its process is stopped"):
            theirs.to_here()
        assert until(system, lambda: watch() is None)
        system.worker("B")  # the name may be used again
        assert farref.rpc_sync("B", kept_here) == 0
        del theirs
        gc.collect()
        assert_nothing_held(system)
    finally:
        os.kill(pid, signal.SIGCONT)


kept: list[Any] = []


def keep(ref: RRef[Any]) -> None:
    kept.append(ref)


def kept_here() -> int:
    return len(kept)


def test_who_comes_back_is_told_and_ends(system: System, gate: Path, tmp_path: Path) -> None:
    """It resurrects nothing: all endpoints ignore its later messages."""
    told = tmp_path / "told"
    never = farref.remote("C", hold, (gate,))
    farref.rpc_async("B", write_what_a_wait_ends_with, (never, told))
    assert until(system, lambda: told.exists() and farref.rpc_sync("B", somebody_waits))
    box = Box()
    watch = weakref.ref(box)
    farref.rpc_sync("B", keep, (RRef(box),))
    heard: list[str] = []
    listener = RRef(heard)
    farref.rpc_sync("B", start_to_send, (listener,))
    assert until(system, lambda: len(heard) > 1)
    del box
    pid = stop("B")
    assert given_up(system, "B")
    gc.collect()
    assert until(system, lambda: watch() is None)
    number = len(heard)
    os.kill(pid, signal.SIGCONT)
    assert until(system, lambda: "start it again" in told.read_text())
    assert re.search(
        r"did not run for [\d.]+ s, as its process was stopped .*System\(silence=None\)",
        told.read_text(),
    )
    assert until(system, lambda: not alive(pid))
    assert len(heard) == number
    gate.touch()
    assert never.to_here() is None


def write_what_a_wait_ends_with(ref: RRef[Any], told: Path) -> None:
    told.touch()
    try:
        ref.to_here()
    except GivenUpError as error:
        told.write_text(f"GivenUpError: {error}")


def start_to_send(listener: RRef[list[str]]) -> None:
    def send() -> None:
        with suppress(GivenUpError):
            while True:
                listener.rpc_sync().append("B")

    threading.Thread(target=send, daemon=True).start()


@pytest.mark.long
def test_one_that_only_computes_is_not_given_up(system: System) -> None:
    """One call into C lets no other thread run, for several times the silence."""
    pid = farref.rpc_sync("B", os.getpid)
    assert farref.rpc_sync("B", hog, (4 * SILENCE,)) >= 4 * SILENCE
    assert farref.rpc_sync("B", os.getpid) == pid


class Silent(RefActor):
    """Made by another actor, and stopped."""

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(sender, os.getpid())


class Parent(RefActor):
    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(sender, self.createActor(Silent))


def test_actors_that_actors_made_are_watched_like_workers(system: System) -> None:
    parent = system.create(Parent)
    child = system.ask(parent, "make one")
    pid = system.ask(child, "your pid")
    stop_process(pid)
    try:
        with pytest.raises(WorkerDiedError):
            system.ask(child, "are you there?")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert until(system, lambda: not alive(pid))
    second = system.ask(parent, "make another")
    os.kill(system.ask(second, "your pid"), signal.SIGKILL)
    with pytest.raises(WorkerDiedError):
        system.ask(second, "are you there?")


SUSPENDED = """
    import os, signal, time
    import psutil
    import farref

    def after_ctrl_z(program, pids):
        while psutil.Process(program).status() != "stopped":
            time.sleep(0.01)
        # Two others are stopped, one after the other, and given up. The program is silent longer.
        for name, pid in pids.items():
            os.kill(pid, signal.SIGSTOP)
            try:
                farref.rpc_sync(name, abs, (-1,))
            except farref.WorkerDiedError:
                os.kill(pid, signal.SIGCONT)
        print("both are given up", flush=True)
        return farref.rpc_sync("program", abs, (-3,))

    if __name__ == "__main__":
        with farref.System(silence=0.5) as system:
            pids = {name: farref.rpc_sync(system.worker(name), os.getpid) for name in "CD"}
            answer = farref.rpc_async(system.worker("B"), after_ctrl_z, (os.getpid(), pids))
            print("press Ctrl-Z", flush=True)
            print("the answer is", answer.result(), flush=True)
"""


def test_a_program_that_a_person_suspends_is_waited_for(tmp_path: Path) -> None:
    with Terminal() as terminal:
        terminal.open("w", "bash --norc -i")
        terminal.type("w", f"{sys.executable} {write(tmp_path, SUSPENDED)}")
        terminal.screen("press Ctrl-Z")
        terminal.tmux("send-keys", "-t", "w", "C-z")
        terminal.screen("both are given up")
        terminal.type("w", "fg")
        terminal.screen("the answer is 3")


def test_silence_can_be_left_to_itself(tmp_path: Path) -> None:
    with System(silence=None, timeout=20) as system:
        system.worker("B")
        pid = stop("B")
        future = farref.rpc_async("B", pow, (2, 3))
        assert not until(system, future.done, 4 * SILENCE)
        os.kill(pid, signal.SIGCONT)
        assert future.result() == 8


@pytest.mark.parametrize("silence", [0, -1, float("nan")])
def test_a_silence_that_is_no_time_is_refused(silence: float) -> None:
    with pytest.raises(ValueError, match="seconds"):
        System("simpleSystemBase", silence=silence)


@pytest.mark.parametrize("base", PROCESSES)
def test_a_stopped_peer_holds_up_nobody_else(base: str) -> None:
    with System(base) as system:
        stopped = farref.rpc_sync(system.worker("B"), os.getpid)
        system.worker("C")
        stop_process(stopped)
        try:
            future = farref.rpc_async("B", len, (bytes(20_000_000),), timeout=3)
            assert not until(system, future.done, 1.5)  # past the first retransmission
            assert farref.rpc_sync("C", abs, (-1,)) == 1
            with pytest.raises(farref.FetchTimeoutError):
                future.result()
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert farref.rpc_sync("B", abs, (-2,)) == 2
