"""The registrar's host is lost, and another host's takes over: with a real etcd, and real kills."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import OwnerDiedError, RRef, System, WorkerDiedError
from farref.testing import assert_nothing_held, until

from ..actors.helpers import Box
from ..actors.scripts import expect, started
from ..etcd import Etcd
from ..stopping import stop
from .network import ROUTER, Network, address
from .test_cuts import LENGTHS, survive_a_cut
from .test_deaths import forget, power_off
from .test_sharing import keep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

SILENCE = 1.0


@pytest.fixture
def etcd(network: Network, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Etcd]:
    """As many servers as the test asks for, on the router, which is no host of the system."""
    router = network.command("router")
    number = getattr(request, "param", 1)
    near = partial(network.on, "A")
    with Etcd(tmp_path, number, host=ROUTER, on=router, near=near) as etcd:
        yield etcd


FIRST = """
    import sys, time
    import farref

    options = dict(name=sys.argv[1], registry=sys.argv[2], host=sys.argv[3], key=sys.argv[4])
    with farref.System(**options, silence=1.0, orphan_grace=0.3, timeout=30) as system:
        system.worker("A1")
        print("ready", flush=True)
        while True:  # as in `test_deaths`
            time.sleep(0.1)
"""


class Three:
    """The hosts A, which began, B, which has joined, and C, where this program is."""

    def __init__(self, network: Network, system: System, first: subprocess.Popen[str]) -> None:
        self.network = network
        self.system = system
        self.first = first


@pytest.fixture
def three(network: Network, etcd: Etcd, key: Path, tmp_path: Path) -> Iterator[Three]:
    registry = etcd.spec
    name = f"elected-{uuid.uuid4().hex[:8]}"
    arguments = (name, registry, address("A"), str(key))
    join = [sys.executable, "-m", "farref", "join", f"{registry}/{name}"]
    join += ["--key", str(key), "--host", address("B")]
    with started(tmp_path, FIRST, *arguments, on=network.command("A")) as first:
        expect(first)
        with subprocess.Popen([*network.command("B"), *join], stdout=subprocess.PIPE) as second:
            try:
                with (
                    network.on("C"),
                    System.join(f"{registry}/{name}", key=key, host=address("C"), timeout=30) as it,
                ):
                    assert until(it, lambda: len(it.hosts()) == 3, 60)
                    yield Three(network, it, first)
            finally:
                second.terminate()
                second.communicate(timeout=60)
        first.kill()
    forget(name)  # a vanished host could not do it


@contextlib.contextmanager
def flying(worker: str) -> Iterator[list[int]]:
    """Calls to *worker* that pass references, one after the other. None fails; the list grows."""
    over, done = threading.Event(), list[int]()

    def fly() -> None:
        while not over.is_set():
            box = RRef([len(done)])
            assert farref.rpc_sync(worker, fetched, (box,)) == [len(done)]
            done.append(len(done))

    with ThreadPoolExecutor(1) as thread:
        outcome = thread.submit(fly)
        try:
            yield done
        finally:
            over.set()
        outcome.result(30)


def fetched(ref: RRef[Any]) -> Any:
    time.sleep(0.005)  # some call is always under way, and the processor is left to the others
    return ref.to_here()


def test_the_first_host_loses_its_power(three: Three) -> None:
    """Calls and references go on; then names, deaths and the end of references do, too."""
    system = three.system
    system.worker("B1", on=address("B"))
    theirs = farref.remote("A1", list, ((1,),))
    assert theirs.to_here() == [1]
    box = Box()
    watch = weakref.ref(box)
    farref.rpc_sync("B1", keep, (RRef(box),))
    del box
    with flying("B1") as done:
        power_off(three.network, "A")
        before = len(done)
        system.worker("B2", on=address("B"))  # by the next registrar
        assert len(done) > before
        assert farref.rpc_sync("B2", pow, (2, 2)) == 4
        with pytest.raises(OwnerDiedError):  # by the news of the next registrar
            farref.rpc_sync("B2", fetched, (theirs,))
        assert until(system, lambda: len(system.hosts()) == 2)
    gc.collect()
    assert watch() is not None  # B1 holds it
    os.kill(farref.rpc_sync("B1", os.getpid), signal.SIGKILL)
    with pytest.raises(WorkerDiedError):
        farref.rpc_sync("B1", pow, (2, 2))
    assert until(system, lambda: watch() is None)
    del theirs
    assert_nothing_held(system)


def test_a_registrar_that_comes_back_is_not_believed(three: Three) -> None:
    """The first host is frozen until another one has the role. Then it goes on."""
    system, network = three.system, three.network
    system.worker("B1", on=address("B"))
    pids = network.processes("A")
    for pid in pids:
        stop(pid)
    try:
        system.worker("B2", on=address("B"))
        assert until(system, lambda: len(system.hosts()) == 2)
        assert "A1" not in [info.name for info in system.workers()]
        there = system.worker("A1", on=address("C"))  # its name is free
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    # Only the program is left there, which sleeps: it has heard that it is in no system any more.
    assert until(system, lambda: network.processes("A") == [three.first.pid])
    assert [host.address for host in system.hosts()] == [address("B"), address("C")]
    assert system.worker("B3", on=address("B")).name == "B3"
    assert farref.rpc_sync("A1", os.getpid) == farref.rpc_sync(there, os.getpid)
    assert farref.rpc_sync("B1", pow, (2, 2)) == 4
    assert_nothing_held(system)


def test_the_first_host_is_cut_off_for_good(three: Three) -> None:
    """It ends by itself: it finds neither a registrar nor the store."""
    system, network = three.system, three.network
    system.worker("B1", on=address("B"))
    with flying("B1"):
        network.run("A", "ip link set net0 down")
        try:
            system.worker("B2", on=address("B"))
            assert until(system, lambda: network.processes("A") == [three.first.pid])
        finally:
            network.run("A", "ip link set net0 up")
            network.run("A", f"ip route add default via {ROUTER}")
    assert [host.address for host in system.hosts()] == [address("B"), address("C")]


def test_the_first_host_leaves(three: Three) -> None:
    """The program that began ends: only its host leaves, and another has the role at once."""
    system = three.system
    three.first.send_signal(signal.SIGINT)
    three.first.communicate(timeout=60)
    assert [host.address for host in system.hosts()] == [address("B"), address("C")]
    system.worker("B1", on=address("B"))
    assert farref.rpc_sync("B1", pow, (2, 2)) == 4


@pytest.mark.parametrize("etcd", [1, 3], indirect=True)
def test_a_server_of_the_store_is_killed(three: Three, etcd: Etcd) -> None:
    """The leader of three: the others go on. The only one: new names wait until it is back."""
    system = three.system
    system.worker("B1", on=address("B"))
    with flying("B1") as done, ThreadPoolExecutor(1) as thread:
        port = etcd.kill_leader()
        before = len(done)
        making = thread.submit(system.worker, "B2", on=address("B"))
        if not etcd.running:
            with pytest.raises(TimeoutError):  # longer than a host goes on without a registrar
                making.result(7 * SILENCE)
            etcd.start(port)
        making.result(60)
        assert [host.address for host in system.hosts()] == [address(each) for each in "ABC"]
        assert farref.rpc_sync("B2", pow, (2, 2)) == 4
    assert len(done) > before


@pytest.mark.parametrize("part", LENGTHS)
def test_a_cut_shorter_than_silence_loses_nobody(three: Three, part: float) -> None:
    """Between the registrar's host and another one; both reach the etcd."""
    survive_a_cut(three.system, three.network, part, SILENCE)
