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
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import OwnerDiedError, RRef, System, WorkerDiedError
from farref.testing import assert_nothing_held, until

from ..actors.helpers import Box
from ..actors.scripts import started
from ..etcd import Etcd
from ..stopping import stop
from .network import ROUTER, Network, address
from .test_cuts import LENGTHS
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
        assert first.stdout
        assert first.stdout.readline() == "ready\n", first.stderr and first.stderr.read()
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


class Flying(threading.Thread):
    """Calls that pass references, one after the other, and their errors."""

    def __init__(self, worker: str) -> None:
        super().__init__(daemon=True)
        self._worker = worker
        self._over = threading.Event()
        self.done = 0
        self.errors: list[Exception] = []

    def run(self) -> None:
        while not self._over.is_set():
            try:
                box = RRef([self.done])
                assert farref.rpc_sync(self._worker, fetched, (box,)) == [self.done]
                self.done += 1
            except Exception as error:
                self.errors.append(error)
                return

    def end(self) -> None:
        self._over.set()
        self.join(30)


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
    flying = Flying("B1")
    flying.start()
    power_off(three.network, "A")
    before = flying.done
    system.worker("B2", on=address("B"))  # by the next registrar
    assert flying.done > before
    assert farref.rpc_sync("B2", pow, (2, 2)) == 4
    with pytest.raises(OwnerDiedError):  # by the news of the next registrar
        farref.rpc_sync("B2", fetched, (theirs,))
    assert until(system, lambda: len(system.hosts()) == 2)
    flying.end()
    assert not flying.errors
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
    flying = Flying("B1")
    flying.start()
    network.run("A", "ip link set net0 down")
    try:
        system.worker("B2", on=address("B"))
        assert until(system, lambda: network.processes("A") == [three.first.pid])
    finally:
        network.run("A", "ip link set net0 up")
        network.run("A", f"ip route add default via {ROUTER}")
    flying.end()
    assert not flying.errors
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
    flying = Flying("B1")
    flying.start()
    port = etcd.kill_leader()
    before = flying.done
    making = threading.Thread(target=system.worker, args=("B2",), kwargs={"on": address("B")})
    making.start()
    if not etcd.running:
        making.join(7 * SILENCE)  # longer than a host goes on without a registrar
        assert making.is_alive()
        etcd.start(port)
    making.join(60)
    assert [host.address for host in system.hosts()] == [address(each) for each in "ABC"]
    assert farref.rpc_sync("B2", pow, (2, 2)) == 4
    flying.end()
    assert not flying.errors
    assert flying.done > before


@pytest.mark.parametrize("part", LENGTHS)
def test_a_cut_shorter_than_silence_loses_nobody(three: Three, part: float) -> None:
    """Between the registrar's host and another one; both reach the etcd."""
    system, network = three.system, three.network
    system.worker("B1", on=address("B"))
    theirs = farref.remote("B1", list, ((1,),))
    assert theirs.to_here() == [1]
    network.cut("A", "B")
    time.sleep(part * SILENCE)
    network.heal()
    assert not until(system, lambda: len(system.hosts()) < 3, SILENCE + 4)
    assert [host.address for host in system.hosts()] == [address(each) for each in "ABC"]
    assert theirs.to_here() == [1]
    del theirs
