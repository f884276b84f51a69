"""Real etcds on the router between the hosts: one, or a cluster of three."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from ..waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from .network import Network

HERE = "10.77.1.254"
"""The router's address. It is no host of the system."""
ASK = """
import json, sys, urllib.request as u
said = {}
for port in sys.argv[2:]:
    try:
        body = u.Request(f"http://{sys.argv[1]}:{port}/v3/maintenance/status", data=b"{}")
        said[port] = json.load(u.urlopen(body, timeout=2))
    except OSError:
        pass
print(json.dumps(said))
"""


class Etcds:
    """The servers of one store."""

    def __init__(self, network: Network, folder: Path, number: int) -> None:
        program = shutil.which("etcd")
        if program is None:
            pytest.skip("no etcd here: install the Debian package etcd-server")
        pytest.importorskip("etcd3gw", reason="no etcd3gw here: pip install 'farref[etcd]'")
        self._program = program
        self._network = network
        self._folder = folder
        self._ports = [2379 + 10 * each for each in range(number)]
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        # The gateway of an etcd calls itself.
        subprocess.run([*network.command("router"), *["ip", "link", "set", "lo", "up"]], check=True)
        for port in self._ports:
            self.start(port)
        self.wait()

    @property
    def spec(self) -> str:
        return "etcd://" + ",".join(f"{HERE}:{port}" for port in self._ports)

    def start(self, port: int) -> None:
        """Start a server, with the data that it had before."""
        here, peer = f"http://{HERE}:{port}", f"http://{HERE}:{port + 1}"
        cluster = ",".join(f"n{each}=http://{HERE}:{each + 1}" for each in self._ports)
        command = [*self._network.command("router"), self._program, "--unsafe-no-fsync"]
        command += ["--name", f"n{port}", "--data-dir", str(self._folder / f"etcd{port}")]
        command += ["--listen-client-urls", here, "--advertise-client-urls", here]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        command += ["--initial-cluster", cluster]
        with (self._folder / f"etcd{port}.log").open("ab") as said:
            self._running[port] = subprocess.Popen(command, stdout=said, stderr=said)

    def wait(self) -> None:
        """Wait until they have a leader."""
        log = self._folder / f"etcd{self._ports[0]}.log"
        eventually(
            lambda: any(int(each.get("leader", 0)) for each in self._ask().values()),
            lambda: log.read_text()[-2000:],
            60,
        )

    def _ask(self) -> dict[str, Any]:
        ports = [str(port) for port in self._running]
        command = [*self._network.command("A"), sys.executable, "-c", ASK, HERE, *ports]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        answers: dict[str, Any] = json.loads(said)
        return answers

    def kill_leader(self) -> int:
        """Kill the server that leads. Returns its port."""
        answers = self._ask()
        port = next(
            int(port)
            for port, each in answers.items()
            if each["leader"] == each["header"]["member_id"]
        )
        server = self._running.pop(port)
        server.kill()
        server.wait(30)
        return port

    def end(self) -> None:
        """End all."""
        for server in self._running.values():
            server.kill()
            server.wait(30)
