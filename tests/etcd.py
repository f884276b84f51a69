"""A real etcd of one or several servers, which a test may stop, restart, slow down and fill."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import shutil
import socket
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Self

import pytest

from .ports import free_ports
from .waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from farref import TLS

HERE = "127.0.0.1"


class RefusedError(Exception):
    """A server has refused a request. The text has its words."""


class Etcd:
    """One etcd of *number* servers, which run while the context lasts."""

    def __init__(
        self,
        folder: Path,
        number: int = 1,
        *options: str,
        tls: TLS | None = None,
        host: str = HERE,
        on: Sequence[str] = (),
        near: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        """The servers listen at *host*.

        *options* are those of each server, and *on* begins its command. With *tls* they show this
        certificate, and ask their clients for one of the same authority. In the context *near* this
        program reaches them.
        """
        program = shutil.which("etcd")
        if program is None:
            pytest.skip("no etcd here: install the Debian package etcd-server")
        pytest.importorskip("etcd3gw", reason="no etcd3gw here: pip install 'farref[etcd]'")
        self._folder, self._host, self._near = folder, host, near
        self._command = [*on, program, "--unsafe-no-fsync", *options]
        self._scheme, self._context = "http", None
        if tls is not None:
            self._scheme = "https"
            self._command += ["--client-cert-auth", "--trusted-ca-file", str(tls.ca)]
            self._command += ["--cert-file", str(tls.cert), "--key-file", str(tls.key)]
            self._context = ssl.create_default_context(cafile=tls.ca)
            self._context.load_cert_chain(tls.cert, tls.key)
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
        """The address as `System(registry=)` takes it."""
        scheme = "etcd" if self._context is None else "etcds"
        return f"{scheme}://" + ",".join(f"{self._host}:{port}" for port in self._peers)

    @property
    def port(self) -> int:
        """The port of the first server."""
        return next(iter(self._peers))

    def start(self, port: int) -> None:
        """Start a server, with the data that it had before."""
        here, there = f"{self._scheme}://{self._host}:{port}", self._peer(port)
        command = [*self._command, "--name", f"n{port}"]
        command += ["--data-dir", str(self._folder / f"etcd{port}")]
        command += ["--listen-client-urls", here, "--advertise-client-urls", here]
        command += ["--listen-peer-urls", there, "--initial-advertise-peer-urls", there]
        cluster = ",".join(f"n{each}={self._peer(each)}" for each in self._peers)
        command += ["--initial-cluster", cluster]
        with self._log(port).open("ab") as said:
            self.running[port] = subprocess.Popen(command, stdout=said, stderr=said)

    def _peer(self, port: int) -> str:
        return f"http://{self._host}:{self._peers[port]}"

    def _log(self, port: int) -> Path:
        return self._folder / f"etcd{port}.log"

    def wait(self) -> None:
        """Wait until the servers have a leader, and answer."""
        for port in self.running:
            said = f"etcd is not healthy: {self._log(port)}"
            eventually(lambda port=port: self._is_healthy(port), said, 60)  # type: ignore[misc]

    def _is_healthy(self, port: int) -> bool:
        try:
            return bool(self._ask(port, "/health").get("health") == "true")
        except OSError:
            return False

    def post(
        self, path: str, body: dict[str, Any], port: int | None = None, *, token: str = ""
    ) -> dict[str, Any]:
        """The answer of the server at *port*, by default of the first. Raises `RefusedError`."""
        data = json.dumps(body).encode()
        to = port or next(iter(self.running))
        try:
            return self._ask(to, f"/v3{path}", data, {"Authorization": token} if token else {})
        except urllib.error.HTTPError as error:
            with error:
                raise RefusedError(error.read().decode()) from error

    def _ask(
        self, port: int, path: str, data: bytes | None = None, headers: dict[str, str] | None = None
    ) -> dict[str, Any]:
        url = f"{self._scheme}://{self._host}:{port}{path}"
        request = urllib.request.Request(url, data, headers or {})
        with self._near(), urllib.request.urlopen(request, timeout=10, context=self._context) as it:
            answer: dict[str, Any] = json.load(it)
        return answer

    def keys(self, prefix: str, *, token: str = "") -> list[str]:
        """The keys that begin with *prefix*, which is ASCII."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix else "\0"
        ends = {"key": coded(prefix or "\0"), "range_end": coded(end), "keys_only": True}
        rows = self.post("/kv/range", ends, token=token).get("kvs", ())
        return [base64.b64decode(row["key"]).decode() for row in rows]

    def put(self, key: str, value: bytes) -> None:
        self.post("/kv/put", {"key": coded(key), "value": base64.b64encode(value).decode()})

    # ---- faults

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
        eventually(lambda: self.leader()[0] != leader, "no other server leads")

    def kill_leader(self) -> int:
        """Kill the server that leads. Returns its port."""
        port, _ = self.leader()
        server = self.running.pop(port)
        server.kill()
        server.wait(30)
        return port

    def fill(self) -> None:
        """Write until there is no space, and the etcd takes no more."""
        with pytest.raises(RefusedError, match="database space exceeded"):
            self._put_for_ever()

    def _put_for_ever(self) -> None:
        value = b"x" * 500_000
        for number in itertools.count():
            self.put(f"filling/{number}", value)

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
        self._closed = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # the door is closed
            while True:
                one, _ = self._door.accept()
                other = socket.create_connection((HERE, self._to))
                for source, target, late in ((one, other, 0.0), (other, one, self._seconds)):
                    arguments = (source, target, late)
                    threading.Thread(target=self._pass_on, args=arguments, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, late: float) -> None:
        with contextlib.suppress(OSError), source, target:
            while data := source.recv(1 << 16):
                self._closed.wait(late)
                target.sendall(data)


def coded(text: str) -> str:
    """*text* as the gateway of an etcd takes it."""
    return base64.b64encode(text.encode()).decode()
