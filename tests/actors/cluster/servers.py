"""The servers of a real etcd on loopback, which a test may stop, restart, slow down and fill."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Self

import pytest

from ...ports import free_ports
from ...waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

HERE = "127.0.0.1"


class RefusedError(Exception):
    """A server has refused a request. The text has its words."""


class Servers:
    """One etcd of *number* servers."""

    def __init__(self, folder: Path, number: int = 1, *options: str) -> None:
        program = shutil.which("etcd")
        if program is None:
            pytest.skip("no etcd here: install the Debian package etcd-server")
        pytest.importorskip("etcd3gw", reason="no etcd3gw here: pip install 'farref[etcd]'")
        self._folder = folder
        self._command = [program, "--unsafe-no-fsync", *options]
        ports = free_ports(2 * number)
        self._peers = dict(zip(ports[:number], ports[number:], strict=True))
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        for port in self._peers:
            self.start(port)
        self.wait()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.running.values():
            server.kill()
            server.wait(30)

    @property
    def spec(self) -> str:
        return "etcd://" + ",".join(f"{HERE}:{port}" for port in self._peers)

    def start(self, port: int) -> None:
        """Start a server, with the data that it had before."""
        here, there = f"http://{HERE}:{port}", f"http://{HERE}:{self._peers[port]}"
        all_of = ",".join(f"n{each}=http://{HERE}:{peer}" for each, peer in self._peers.items())
        command = [*self._command, "--name", f"n{port}"]
        command += ["--data-dir", str(self._folder / f"etcd{port}")]
        command += ["--listen-client-urls", here, "--advertise-client-urls", here]
        command += ["--listen-peer-urls", there, "--initial-advertise-peer-urls", there]
        command += ["--initial-cluster", all_of]
        with (self._folder / f"etcd{port}.log").open("ab") as said:
            self.running[port] = subprocess.Popen(command, stdout=said, stderr=said)

    def wait(self) -> None:
        """Wait until they answer."""
        eventually(self._answers, "the etcd answers", patience=60)

    def _answers(self) -> bool:
        try:
            return bool(self.post("/kv/range", {"key": coded("health")}))
        except (OSError, RefusedError):
            return False

    def post(self, path: str, body: dict[str, Any], port: int | None = None) -> dict[str, Any]:
        """The answer of the server at *port*, by default of the first. Raises `RefusedError`."""
        to = port or next(iter(self.running))
        url = f"http://{HERE}:{to}/v3{path}"
        try:
            with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=10) as said:
                answer: dict[str, Any] = json.load(said)
        except urllib.error.HTTPError as error:
            raise RefusedError(error.read().decode()) from error
        return answer

    def restart(self) -> None:
        """End each server in order, and start it again."""
        for port, server in list(self.running.items()):
            server.terminate()
            server.wait(60)
            self.start(port)
        self.wait()

    def compact(self) -> None:
        """Forget all but the last value of each key, and give the space back."""
        last = self.post("/kv/range", {"key": coded("x")})["header"]["revision"]
        with contextlib.suppress(RefusedError):  # an automatic one was quicker
            self.post("/kv/compaction", {"revision": last, "physical": True})
        for port in self.running:
            self.post("/maintenance/defragment", {}, port)

    def leader(self) -> tuple[int, dict[int, str]]:
        """The port of the server that leads, and the id of each."""
        ids, leader = {}, ""
        for port in self.running:
            said = self.post("/maintenance/status", {}, port)
            ids[port], leader = said["header"]["member_id"], said["leader"]
        return next(port for port, each in ids.items() if each == leader), ids

    def change_leader(self) -> None:
        """Have another server lead."""
        leader, ids = self.leader()
        other = next(each for port, each in ids.items() if port != leader)
        self.post("/maintenance/transfer-leadership", {"targetID": other}, leader)
        eventually(lambda: self.leader()[0] != leader, "another leads")

    def fill(self) -> None:
        """Write until there is no space, and the etcd takes no more."""
        with pytest.raises(RefusedError, match="database space exceeded"):
            self._put_for_ever()

    def _put_for_ever(self) -> None:
        for number in itertools.count():
            key = coded(f"filling/{number}")
            self.post("/kv/put", {"key": key, "value": coded("x" * 500_000)})

    def make_space(self) -> None:
        """What an operator does then."""
        self.post("/kv/deleterange", {"key": coded("filling/"), "range_end": coded("filling0")})
        self.compact()
        for alarm in self.post("/maintenance/alarm", {"action": "GET"}).get("alarms", ()):
            self.post("/maintenance/alarm", {**alarm, "action": "DEACTIVATE"})


class Slow:
    """Passes connections on to *port*, and each answer *seconds* late."""

    def __init__(self, port: int, seconds: float) -> None:
        self._to = port
        self._seconds = seconds
        self._door = socket.create_server((HERE, 0))
        self.port = int(self._door.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # the door is closed
            while True:
                one, _ = self._door.accept()
                other = socket.create_connection((HERE, self._to))
                for source, target, late in ((one, other, 0.0), (other, one, self._seconds)):
                    arguments = (source, target, late)
                    threading.Thread(target=self._pass_on, args=arguments, daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket, late: float) -> None:
        with contextlib.suppress(OSError), source, target:
            while data := source.recv(1 << 16):
                time.sleep(late)
                target.sendall(data)

    def close(self) -> None:
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
