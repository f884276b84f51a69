"""Additions of a system to its base; and the bell of the in-process base."""

from __future__ import annotations

import socket
import sys
import threading
import time
from pathlib import Path

import pytest
from thespian.actors import ActorSystem
from thespian.system import multiprocQueueBase

import farref
from farref import System, SystemDownError, rpc_sync
from farref.actors.base import addresses, system_base
from farref.actors.hosting import bases
from farref.actors.hosting.simple import Ring

pytestmark = pytest.mark.processes


@pytest.mark.skipif(sys.platform != "linux", reason="our base is Linux's")
def test_the_default_is_our_own() -> None:
    with System() as system:
        assert "on farrefBase" in repr(system)


@pytest.mark.long  # Thespian tries for 10 s
def test_a_port_that_somebody_else_took_first_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = [taken.getsockname()[1], addresses.free_port("127.0.0.1")]
        monkeypatch.setattr(addresses, "free_port", lambda _: ports.pop(0))
        with System("multiprocTCPBase") as system:
            system.worker("B")
            assert rpc_sync("B", pow, (2, 3)) == 8
    assert not ports


@pytest.mark.deep  # as above
def test_a_port_of_the_users_own_that_is_taken_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SystemDownError, match="did not start"):
            System("multiprocTCPBase", capabilities={"Admin Port": port})


def test_a_system_on_a_base_object() -> None:
    with System(system_base()) as system:
        system.worker("B")
        assert farref.rpc_sync("B", abs, (-1,)) == 1
        with pytest.raises(farref.SystemDownError, match="base object"):
            System.attach(system.name)


def test_whoever_waits_wakes_when_the_time_is_up_however_many_wait() -> None:
    for seconds in (0.0001, 0.0003, 0.001, 0.002, 0.01):
        ring, quiet = Ring(), threading.Event()
        waiting = [
            threading.Thread(target=_wait_again_and_again, args=(ring, seconds, quiet), daemon=True)
            for _ in range(12)
        ]
        for thread in waiting:
            thread.start()
        for _ in range(int(0.3 / seconds)):
            ring.set()
            time.sleep(seconds)
        quiet.set()
        for thread in waiting:
            thread.join(30)
        assert not any(thread.is_alive() for thread in waiting)


def _wait_again_and_again(ring: Ring, seconds: float, quiet: threading.Event) -> None:
    while not quiet.is_set():
        ring.wait(seconds)


def test_it_wakes_who_waits_and_the_next_who_does() -> None:
    ring = Ring()
    ring.set()
    ring.set()
    ring.wait(60)  # it was rung before
    waiting = threading.Thread(target=ring.wait, args=(60,), daemon=True)
    waiting.start()
    ring.set()
    waiting.join(30)
    assert not waiting.is_alive()


@pytest.mark.parametrize("name", bases.REFUSED)
def test_a_base_on_which_farref_does_not_run_is_refused_at_once(
    name: str, own_folder: Path
) -> None:
    with pytest.raises(ValueError, match=f"does not run on {name}: .*Choose one of farrefBase"):
        System(name)
    with pytest.raises(ValueError, match="does not run on"):
        System(f"thespian.system.{name}")
    with pytest.raises(ValueError, match="does not run on"):
        System.join("127.0.0.1", base=name)
    with pytest.raises(ValueError, match=r"no system base 'nosuch'\. Choose one of farrefBase, "):
        System("nosuch")
    with pytest.raises(ValueError, match="no system base"):
        System.join("127.0.0.1", base="nosuch")
    assert not list(own_folder.glob("*.json"))


def test_an_object_of_such_a_base_is_refused_too() -> None:
    base = multiprocQueueBase.ActorSystemBase.__new__(multiprocQueueBase.ActorSystemBase)
    with pytest.raises(ValueError, match="does not run on multiprocQueueBase"):
        System(base)


def test_a_running_actor_system_is_not_taken_over() -> None:
    running = ActorSystem("simpleSystemBase", logDefs=False, transientUnique=True)
    try:
        with pytest.raises(TypeError, match="cannot take over a running ActorSystem"):
            System(running)
    finally:
        running.shutdown()
