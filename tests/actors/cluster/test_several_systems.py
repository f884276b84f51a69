"""Several systems at once, and several programs in one system."""

from __future__ import annotations

import os
import uuid
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import ForeignReferenceError, RefActor, RRef, System, SystemDownError

from ...bases import BASES, PROCESSES
from ..conftest import GRACE
from ..helpers import Box, assert_nothing_held, until
from ..scripts import started

if TYPE_CHECKING:
    from thespian.actors import ActorAddress

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[3]
FINDS = (
    "env",
    f"PYTHONPATH={os.pathsep.join(filter(None, (str(ROOT), os.environ.get('PYTHONPATH'))))}",
)
"""Begins the command of a program that imports these tests."""


@pytest.mark.parametrize("base", BASES)
def test_two_at_once_in_one_program(base: str) -> None:
    with System(base) as outer:
        outer.worker("B")
        first = farref.remote("B", list, ((1,),))
        with System(base) as inner:
            inner.worker("B")
            second = farref.remote("B", list, ((2,),))
            assert second.to_here() == [2]
            assert first.to_here() == [1]
            assert first != second
            with pytest.raises(ForeignReferenceError):
                farref.rpc_sync("B", print, (first,))
            del second
            assert_nothing_held(inner)
        assert farref.rpc_sync("B", pow, (2, 2)) == 4
        del first
        assert_nothing_held(outer)


@pytest.mark.parametrize("base", BASES)
def test_one_after_the_other(base: str) -> None:
    for _ in range(3):
        with System(base) as system:
            system.worker("B")
            assert farref.rpc_sync("B", pow, (2, 2)) == 4


PEER = """
    import sys
    from pathlib import Path
    import farref
    from farref import RRef, System
    from tests.actors.cluster.test_several_systems import exchange
    from tests.actors.helpers import hold

    class Value:
        def __init__(self): self.calls = 0
        def call(self): self.calls += 1; return self.calls

    with System.attach(sys.argv[1], timeout=15) as system:
        me = farref.get_worker_info()
        mine = RRef(Value())
        theirs = farref.rpc_sync("program", exchange, (mine, me.name))
        assert theirs.to_here() == ["theirs"], theirs
        assert theirs.owner_name() == "program"
        assert system.endpoint.core.settings.timeout == 15
        made = farref.remote("B", list, ((1,),))
        assert made.to_here() == [1]
        print(me.name, flush=True)
        hold(Path(sys.argv[2]))
"""

_came: list[RRef[Any]] = []


def exchange(ref: RRef[Any], name: str) -> RRef[list[str]]:
    """Called by another program in this one."""
    assert ref.owner_name() == name
    _came.append(ref)
    return RRef(["theirs"])


@pytest.mark.parametrize("base", PROCESSES)
def test_programs_started_apart_share_references(base: str, tmp_path: Path, gate: Path) -> None:
    name = f"shared-{uuid.uuid4().hex[:8]}"
    box = Box()
    watch = weakref.ref(box)
    with System(base, name=name, timeout=20, orphan_grace=GRACE) as system:
        system.worker("B")
        with started(tmp_path, PEER, name, str(gate), on=FINDS) as process:
            assert until(system, lambda: _came or process.poll() is not None), "no peer"
            assert process.poll() is None, process.communicate()[1]
            ref = _came.pop()
            assert ref.rpc_sync().call() == 1
            assert ref.rpc_sync().call() == 2
            peer_info = ref.owner()
            assert peer_info in system.workers()
            held = farref.remote(peer_info, _box, (RRef(box),))
            assert held.to_here() is not None
            del box
            gate.touch()
            out, err = process.communicate(timeout=20)
            assert process.returncode == 0, err
            assert out.strip() == peer_info.name
        assert until(system, lambda: peer_info not in system.workers())
        with pytest.raises(farref.ReferenceLostError):
            ref.to_here()
        del ref, held
        assert farref.rpc_sync("B", pow, (2, 2)) == 4
        assert until(system, lambda: watch() is None)
        assert_nothing_held(system)


def _box(value: object) -> int:
    return 1


@pytest.mark.parametrize("base", PROCESSES)
def test_a_killed_program_is_noticed(base: str, tmp_path: Path, gate: Path) -> None:
    name = f"killed-{uuid.uuid4().hex[:8]}"
    with System(base, name=name, timeout=20, orphan_grace=GRACE) as system:
        system.worker("B")
        with started(tmp_path, PEER, name, str(gate), on=FINDS) as process:
            assert process.stdout
            assert process.stdout.readline().startswith("program-")
            ref = _came.pop()
            process.kill()
            process.wait(60)
        with pytest.raises(farref.ReferenceLostError):
            ref.to_here()
        del ref
        assert_nothing_held(system)


def test_an_in_process_system_has_no_door() -> None:
    with (
        System("simpleSystemBase", name="indoors"),
        pytest.raises(SystemDownError, match=r"no other can join"),
    ):
        System.attach("indoors")


ONE_AFTER_THE_OTHER = """
    import sys
    from farref import System

    for _ in range(12):
        with System(name=sys.argv[1]):
            pass
"""


def test_who_attaches_to_a_system_that_ends_hears_of_it_at_once(tmp_path: Path) -> None:
    name = f"ending-{uuid.uuid4().hex[:8]}"
    reasons = set()
    with started(tmp_path, ONE_AFTER_THE_OTHER, name) as program:
        while program.poll() is None:
            try:
                System.attach(name).shutdown()
            except SystemDownError as error:
                reasons.add(str(error))
    assert not any("did not answer" in each for each in reasons)  # which takes 30 s


class Counter(RefActor):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def receiveMsg_int(self, message: int, sender: ActorAddress) -> None:
        self.count += 1

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(sender, self.count)


@pytest.mark.parametrize("base", PROCESSES)
def test_what_a_program_sent_before_it_left_arrives(base: str) -> None:
    name = f"leaving-{uuid.uuid4().hex[:8]}"
    with System(base, name=name) as system:
        counter = system.create(Counter, "counter")
        for _ in range(3):
            visitor = System.attach(name)
            for number in range(20):
                visitor.tell("counter", number)
            visitor.shutdown()
        assert until(system, lambda: system.ask(counter, "count") == 60)


def test_the_innermost_system_is_the_one_that_was_entered_last() -> None:
    first, second = System(), System()
    with second, first:
        first.worker("only in the first")
        assert farref.rpc_sync("only in the first", abs, (-1,)) == 1
