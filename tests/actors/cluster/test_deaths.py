"""Real deaths, by kill -9: every wait ends (G6), and the dead endpoint's references end (G5)."""

from __future__ import annotations

import os
import signal
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import ActorAddress, ChildActorExited

import farref
from farref import OwnerDiedError, RefActor, RRef, WorkerDiedError

from ...stopping import stop
from ..handles.test_freed import keep, let_go, use_kept
from ..helpers import Box, assert_nothing_held, hold, make_box, until

if TYPE_CHECKING:
    from pathlib import Path

    from farref import System

pytestmark = pytest.mark.processes


def kill(name: Any) -> None:
    os.kill(farref.rpc_sync(name, os.getpid), signal.SIGKILL)


def gone(system: System, name: str) -> bool:
    return until(system, lambda: name not in {info.name for info in system.workers()})


def test_a_worker_killed_during_a_call(process_system: System, gate: Path) -> None:
    process_system.worker("B")
    pid = farref.rpc_sync("B", os.getpid)
    box = Box()
    watch = weakref.ref(box)
    future = farref.rpc_async("B", hold, (gate, RRef(box)))
    del box
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerDiedError, match=r"worker B died before it replied"):
        future.result()
    assert until(process_system, lambda: watch() is None)
    assert_nothing_held(process_system)


def test_a_dead_worker_is_named_ever_after(process_system: System) -> None:
    info = process_system.worker("B")
    process_system.worker("C")
    kill("B")
    assert gone(process_system, "B")
    for to in ("B", info, info.address):
        with pytest.raises(WorkerDiedError):
            farref.rpc_sync(to, pow, (2, 2))
        with pytest.raises(WorkerDiedError):
            farref.remote(to, pow, (2, 2))
        with pytest.raises(WorkerDiedError):
            process_system.tell(to, "hello")
    assert farref.rpc_sync("C", pow, (2, 2)) == 4
    assert_nothing_held(process_system)


def test_a_new_worker_may_take_the_name_and_is_another(process_system: System) -> None:
    old = process_system.worker("B")
    ref = farref.remote("B", make_box)
    ref.to_here()
    kill("B")
    assert gone(process_system, "B")
    new = process_system.worker("B")
    assert new != old
    assert farref.rpc_sync("B", pow, (2, 2)) == 4
    with pytest.raises(OwnerDiedError):
        ref.to_here()


def test_a_dead_owner(process_system: System, gate: Path) -> None:
    process_system.worker("B")
    process_system.worker("C")
    ref = farref.remote("B", make_box)
    slow = farref.remote("B", hold, (gate,))
    farref.rpc_sync("C", keep, (ref,))
    waiting = slow.future()
    kill("B")
    with pytest.raises(OwnerDiedError, match="the owner of"):
        waiting.result()
    for use in (ref.to_here, ref.rpc_sync().get, ref.owner, ref.remote().get):
        with pytest.raises(OwnerDiedError):
            use()
    with pytest.raises(OwnerDiedError):
        farref.rpc_sync("C", use_kept)
    with pytest.raises(OwnerDiedError):
        farref.rpc_sync("C", keep, (ref,))
    assert farref.rpc_sync("C", let_go) == 1
    del ref, slow, waiting, use
    assert_nothing_held(process_system)


def test_messages_to_the_dead_settle_their_references(process_system: System) -> None:
    """They are sent before the death is known, and will never be unpickled."""
    info = process_system.worker("B")
    box = Box()
    watch = weakref.ref(box)
    ref = RRef(box)
    del box
    pid = farref.rpc_sync("B", os.getpid)
    stop(pid)
    for _ in range(50):
        process_system.tell(info, [ref])
    os.kill(pid, signal.SIGKILL)
    del ref
    assert until(process_system, lambda: watch() is None)
    assert_nothing_held(process_system)


class Parent(RefActor):
    def __init__(self) -> None:
        super().__init__()
        self.child: ActorAddress | None = None
        self.dead: list[Any] = []
        self.ref: Any = None

    def receiveMsg_tuple(self, message: tuple[Any, ...], sender: ActorAddress) -> None:
        """Send references to a child that has only just been created."""
        self.child = self.createActor(Child)
        self.ref = message[0]
        self.send(self.child, (message[0], RRef(["the parent's"]), sender))

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(sender, self.child if message == "child" else len(self.dead))

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: ActorAddress) -> None:
        self.dead.append(message.childAddress)
        self.ref = None


class Child(RefActor):
    def __init__(self) -> None:
        super().__init__()
        self.kept: Any = None

    async def receiveMsg_tuple(self, message: tuple[Any, ...], sender: ActorAddress) -> None:
        mine, parents, asker = message
        self.kept = mine
        self.send(asker, (await mine, await parents))


def test_a_child_gets_references_at_once_and_its_death_is_noticed(process_system: System) -> None:
    parent = process_system.create(Parent)
    box = Box(4)
    watch = weakref.ref(box)
    ref = RRef(box)
    first, second = process_system.ask(parent, (ref,))
    assert (first.content, second) == (4, ["the parent's"])
    child = process_system.ask(parent, "child")
    kill(child)
    assert until(process_system, lambda: process_system.ask(parent, "dead") >= 1)
    del ref, box
    assert until(process_system, lambda: watch() is None)
    with pytest.raises(WorkerDiedError):
        farref.rpc_sync(child, pow, (2, 2))
    assert_nothing_held(process_system)
