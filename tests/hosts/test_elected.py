"""The registrar's host is lost, and another host's takes over: with a real etcd, and real kills."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
import weakref
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import OwnerDiedError, RRef, System, WorkerDiedError
from farref.actors.hosting import directory
from farref.testing import assert_nothing_held, until

from ..actors.helpers import Box
from ..actors.scripts import started
from .network import Network, address
from .test_deaths import power_off
from .test_sharing import keep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

SILENCE = 1.0
STORE = "10.77.1.254"
"""The router's address. It is no host of the system, and has the etcd."""


@pytest.fixture
def registry(network: Network, tmp_path: Path) -> Iterator[str]:
    """A real etcd that every host reaches."""
    program = shutil.which("etcd")
    if program is None:
        pytest.skip("no etcd here: install the Debian package etcd-server")
    pytest.importorskip("etcd3gw", reason="no etcd3gw here: pip install 'farref[etcd]'")
    # Its gateway calls itself.
    subprocess.run([*network.command("router"), *["ip", "link", "set", "lo", "up"]], check=True)
    there, peers = f"http://{STORE}:2379", f"http://{STORE}:2380"
    command = [*network.command("router"), program, "--data-dir", str(tmp_path / "etcd")]
    command += ["--name", "one", "--listen-client-urls", there]
    command += ["--advertise-client-urls", there, "--listen-peer-urls", peers]
    command += ["--initial-advertise-peer-urls", peers, "--initial-cluster", f"one={peers}"]
    command += ["--unsafe-no-fsync"]
    with (tmp_path / "etcd.log").open("wb") as said:
        server = subprocess.Popen(command, stdout=said, stderr=said, cwd=tmp_path)
        try:
            _wait_for(network, tmp_path)
            yield f"etcd://{STORE}:2379"
        finally:
            server.terminate()
            server.wait(30)


def _wait_for(network: Network, folder: Path) -> None:
    look = f"import urllib.request as u; print(u.urlopen('http://{STORE}:2379/health').read())"
    command = [*network.command("A"), sys.executable, "-c", look]
    end = time.monotonic() + 60
    while True:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if '"health":"true"' in done.stdout:
            return
        assert time.monotonic() < end, (folder / "etcd.log").read_text()
        time.sleep(0.2)


FIRST = """
    import sys, time
    import farref

    options = dict(name=sys.argv[1], registry=sys.argv[2], host=sys.argv[3], key=sys.argv[4])
    with farref.System(**options, silence=1.0, orphan_grace=0.3, timeout=30) as system:
        system.worker("A1")
        print("ready", flush=True)
        time.sleep(600)
"""


class Three:
    """The hosts A, which began, B, which has joined, and C, where this program is."""

    def __init__(self, network: Network, system: System, first: subprocess.Popen[str]) -> None:
        self.network = network
        self.system = system
        self.first = first


@pytest.fixture
def three(network: Network, registry: str, key: Path, tmp_path: Path) -> Iterator[Three]:
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
                    assert until(it, lambda: len(it.hosts()) == 3)
                    yield Three(network, it, first)
            finally:
                second.terminate()
                second.communicate(timeout=30)
        first.kill()
    directory.remove(name)  # a vanished host could not do it


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
