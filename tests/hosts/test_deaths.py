"""Hosts that vanish, stop, or leave, and the first one's end: named errors, and nothing is left."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

import farref
from farref import (
    CreationError,
    FarrefError,
    OwnerDiedError,
    RRef,
    WorkerDiedError,
)
from farref.testing import assert_nothing_held, until

from ..actors.helpers import Box, hog, hold
from ..actors.scripts import expect, started
from ..bases import HOSTS
from ..stopping import stop
from .network import Network, address
from .test_sharing import keep

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Joining, Starting

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]


def entry(system: str) -> Path:
    """The file by which other programs here find *system*."""
    return Path(os.environ["XDG_RUNTIME_DIR"], "farref", f"{system}.json")


def forget(system: str) -> None:
    """Remove the entry of *system*, whose host has vanished."""
    entry(system).unlink(missing_ok=True)


def power_off(network: Network, host: str) -> None:
    """No other host hears from it any more, then everything on it ends."""
    network.cut(host)
    for pid in network.processes(host):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("base", HOSTS)
def test_a_host_vanishes(
    first: Starting, joined: Joining, network: Network, base: str, tmp_path: Path
) -> None:
    """Every endpoint on every host learns of it; everything there, or held there, is settled."""
    with first(base, silence=1.0) as system, joined("B", base=base), joined("C", base=base):
        system.worker("B1", on=address("B")), system.worker("B2", on=address("B"))
        system.worker("C1", on=address("C"))
        theirs = farref.remote("B1", list, ((1,),))
        theirs.to_here()
        box = Box()
        watch = weakref.ref(box)
        farref.rpc_sync("B2", keep, (RRef(box),))
        gate = tmp_path / "gate"
        waiting = farref.rpc_async("C1", what_a_wait_ends_with, (theirs, "B2", gate))
        assert until(system, lambda: farref.rpc_sync("B2", busy))
        del box
        power_off(network, "B")
        assert waiting.result() == ["WorkerDiedError", "OwnerDiedError"]
        with pytest.raises(OwnerDiedError):
            theirs.to_here()
        with pytest.raises(WorkerDiedError):
            farref.rpc_sync("B1", pow, (2, 2))
        gc.collect()
        assert until(system, lambda: watch() is None)
        assert [host.address for host in system.hosts()] == [address("A"), address("C")]
        assert farref.rpc_sync("C1", pow, (2, 4)) == 16
        network.heal()
        with joined("B", base=base):  # the machine was started again
            system.worker("B1", on=address("B"))
            assert farref.rpc_sync("C1", call, ("B1",)) == 4
        del theirs, waiting
        assert_nothing_held(system)


waits: list[None] = []


def busy() -> int:
    return len(waits)


def wait(gate: Path) -> None:
    waits.append(None)
    hold(gate)


def call(name: str) -> Any:
    return farref.rpc_sync(name, pow, (2, 2))


def what_a_wait_ends_with(ref: RRef[Any], name: str, gate: Path) -> list[str]:
    said = []
    uses: list[Callable[[], Any]] = [lambda: farref.rpc_sync(name, wait, (gate,)), ref.to_here]
    for use in uses:
        try:
            use()
        except FarrefError as error:
            said.append(type(error).__name__)
    return said


@pytest.mark.parametrize("base", HOSTS)
def test_a_host_that_is_killed_and_joins_again_stays(
    first: Starting, joined: Joining, network: Network, base: str
) -> None:
    """No knowledge of the previous life counts for the next, time and again."""
    with first(base, silence=60.0) as system:  # so no silence counts as a death
        for life in range(3):
            with joined("B", base=base) as program:
                assert program.stdout is not None
                assert program.stdout.readline()  # it has joined
                name = f"B{life}"
                system.worker(name, on=address("B"))
                assert not until(system, lambda: len(system.hosts()) != 2, 1.5)
                assert farref.rpc_sync(name, pow, (2, 2)) == 4
                assert [host.address for host in system.hosts()] == [address("A"), address("B")]
                for pid in network.processes("B"):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)


def test_it_vanishes_while_a_worker_is_made_there(
    first: Starting, joined: Joining, network: Network
) -> None:
    with first(silence=1.0) as system, joined("B"):
        system.worker("B1", on=address("B"))
        power_off(network, "B")
        with pytest.raises(CreationError, match=r"its host, .* is gone"):
            system.worker("B2", on=address("B"))
        assert system.worker("B2").name == "B2"  # the name is free


CONVENTION = {
    "CONVENTION_REREGISTRATION_PERIOD": "0:01",
    "CONVENTION_RESTART_PERIOD": "0:01",
    "CONVENTION_REGISTRATION_MISS_MAX": "5",
}
"""For Thespian, which reads it when it is imported. It looks after registrations once in a restart
period, not in a registration's."""
WATCHING = """
    import sys, time
    import farref
    from farref.testing import until

    options = dict(host=sys.argv[1], key=sys.argv[2], silence=60.0, timeout=70)
    with farref.System(**options) as system:
        system.worker("B1", on=sys.argv[3])
        call = farref.rpc_async("B1", time.sleep, (70,))
        assert not until(system, call.done, 7)  # it goes on registering, and stays
        print(farref.rpc_sync("B1", pow, (2, 2)), flush=True)
        print(type(call.exception()).__name__, *system.hosts())
"""


def test_thespian_tells_first(joined: Joining, network: Network, key: Path, tmp_path: Path) -> None:
    """Its convention misses registrations long before our own silence limit is over."""
    on = [*network.command("A"), "env", *map("=".join, CONVENTION.items())]
    arguments = (address("A"), str(key), address("B"))
    with joined("B", **CONVENTION), started(tmp_path, WATCHING, *arguments, on=on) as program:
        expect(program, "4")
        power_off(network, "B")
        out, err = program.communicate(timeout=80)
        assert out == f"WorkerDiedError {address('A')}\n", err


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "SIGKILL"])
def test_a_host_that_leaves(first: Starting, joined: Joining, how: str) -> None:
    """The others learn it at once, at any silence limit; also after a kill of the program."""
    with first(silence=None) as system, joined("B") as away:
        system.worker("B1", on=address("B"))
        theirs = farref.remote("B1", list, ((1,),))
        theirs.to_here()
        away.send_signal(getattr(signal, how))
        out, err = away.communicate(timeout=60)
        if how != "SIGKILL":
            assert (away.returncode, err) == (0, "")
            assert out.endswith("left\n")
        assert entry(system.name).exists()
        with pytest.raises(OwnerDiedError):
            theirs.to_here()
        assert until(system, lambda: len(system.hosts()) == 1)
        del theirs
        assert_nothing_held(system)


def test_a_signal_to_any_thread_of_a_host_has_it_leave(first: Starting, joined: Joining) -> None:
    """The kernel chooses the thread if the process is stopped when the signal comes."""
    with first(silence=None) as system, joined("B") as away:
        system.worker("B1", on=address("B"))
        (other, *_) = {each.id for each in psutil.Process(away.pid).threads()} - {away.pid}
        assert ctypes.CDLL(None).tgkill(away.pid, other, signal.SIGTERM) == 0
        assert away.communicate(timeout=60)[0].endswith("left\n")


def test_a_frozen_host_that_comes_back_is_fenced(
    first: Starting, joined: Joining, network: Network
) -> None:
    with first(silence=1.0) as system, joined("B") as away:
        system.worker("B1", on=address("B"))
        box = Box()
        watch = weakref.ref(box)
        farref.rpc_sync("B1", keep, (RRef(box),))
        pids = network.processes("B")
        for pid in pids:
            stop(pid)
        try:
            assert until(system, lambda: len(system.hosts()) == 1)
            del box
            gc.collect()
            assert until(system, lambda: watch() is None)
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        _, err = away.communicate(timeout=60)
        assert away.returncode == 1
        assert "counts as dead" in err or "is cut off" in err
        assert until(system, lambda: not network.processes("B"))
        assert_nothing_held(system)


@pytest.mark.parametrize("victim", ["the host agent", "the admin"])
def test_a_joined_host_without_the_frameworks_own(
    first: Starting, joined: Joining, network: Network, victim: str
) -> None:
    with first(silence=1.0) as system, joined("B") as away:
        system.worker("B1", on=address("B"))
        call = farref.rpc_async("B1", time.sleep, (60,))
        agent = farref.rpc_sync("B1", os.getppid)  # the worker's parent
        admin = psutil.Process(agent).ppid()
        os.kill(agent if victim == "the host agent" else admin, signal.SIGKILL)
        with pytest.raises(WorkerDiedError):
            call.result()
        _, err = away.communicate(timeout=60)
        assert away.returncode == 1
        assert "one of its processes here" in err
        assert until(system, lambda: len(system.hosts()) == 1)


def test_who_only_computes_is_not_given_up_elsewhere_either(
    first: Starting, joined: Joining
) -> None:
    with first(silence=1.0) as system, joined("B"):
        system.worker("B1", on=address("B"))
        pid = farref.rpc_sync("B1", os.getpid)
        assert farref.rpc_sync("B1", hog, (2.0,)) >= 2.0
        assert farref.rpc_sync("B1", os.getpid) == pid
        stop(pid)  # a stopped process is silent
        try:
            with pytest.raises(WorkerDiedError):
                farref.rpc_sync("B1", pow, (2, 2))
        finally:
            os.kill(pid, signal.SIGCONT)


FIRST = """
    import sys, time
    import farref

    options = dict(name=sys.argv[4], host=sys.argv[1], key=sys.argv[2])
    with farref.System(**options, silence=1.0, timeout=600) as system:
        system.worker("A1")
        system.worker("B1", on=sys.argv[3])
        farref.rpc_async("B1", farref.rpc_sync, ("A1", time.sleep, (60,)))
        print("ready", flush=True)
        while True:  # in one long sleep Python 3.14 would not see an earlier signal
            time.sleep(0.1)
"""


@pytest.mark.parametrize("how", ["in order", "killed", "vanished"])
def test_the_end_of_the_first_host(
    joined: Joining, network: Network, key: Path, how: str, tmp_path: Path
) -> None:
    """It ends the system for everybody: joined hosts are told, or notice; nothing is left."""
    name = f"first-{how.replace(' ', '-')}"
    arguments = (address("A"), str(key), address("B"), name)
    with joined("B") as away, started(tmp_path, FIRST, *arguments, on=network.command("A")) as here:
        expect(here)
        if how == "in order":
            here.send_signal(signal.SIGINT)
        elif how == "killed":
            here.kill()
        else:
            power_off(network, "A")
        out, err = away.communicate(timeout=60)
        if how == "in order":
            assert (away.returncode, err) == (0, "")
            assert out.endswith("has ended\n")
        else:
            assert away.returncode == 1
            assert "was killed" in err or "nothing was heard of its registrar for 1 s" in err
    forget(name)  # the vanished host could not do it
