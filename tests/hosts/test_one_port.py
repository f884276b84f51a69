"""One open port for each host is enough: behind NAT, in a container, at the end of a tunnel."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..actors.scripts import expect
from .network import why_not
from .walls import FIRST, MACHINE, PUBLISHED, SIX, Walled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

SYSTEM = """
    import sys, json, time
    import farref
    from farref import RRef

    options, on = json.loads(sys.argv[1]), sys.argv[2]


    def read(ref):
        return ref.to_here()


    def made():
        return RRef([1, 2, 3])


    with farref.System(**options, timeout=40) as system:
        print("ready", flush=True)
        system.worker("A")
        system.worker("B", on=on)
        system.worker("C", on=on)
        mine = RRef({"mine": 1})
        print(farref.rpc_sync("B", pow, (2, 5)))
        print(farref.rpc_sync("B", read, (mine,)))
        there = farref.rpc_sync("C", made)
        print(farref.rpc_sync("A", read, (there,)), farref.rpc_sync("B", read, (there,)))
        big = farref.remote("B", bytes, (30_000_000,))
        print(len(farref.rpc_sync("A", read, (big,))))
        print(sorted(str(host) for host in system.hosts()))
"""
RIGHT = ["ready", "32", "{'mine': 1}", "[1, 2, 3] [1, 2, 3]", "30000000"]


@pytest.fixture(scope="module")
def walled(nothing_left_behind: None) -> Iterator[Walled]:
    if why_not():
        pytest.skip(why_not())
    with Walled() as walled:
        yield walled


class Scene:
    """Programs on the hosts, each with a folder of its own for its sockets."""

    def __init__(self, walled: Walled, key: Path, folder: Path) -> None:
        self.walled = walled
        self._key = key
        self._folder = folder
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Scene:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, host: str, *command: str) -> subprocess.Popen[str]:
        """Start *command* on *host*."""
        home = self._folder / host
        home.mkdir(exist_ok=True, mode=0o700)
        process = self._stack.enter_context(
            subprocess.Popen(
                [*self.walled.command(host), *command],
                cwd=home,
                env={**os.environ, "XDG_RUNTIME_DIR": str(home)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        self._stack.callback(end, process)
        return process

    def first(self, on: str, at: str = "first", **options: Any) -> subprocess.Popen[str]:
        """Start the system on the host *at*; it makes workers *on* the other one."""
        script = self._folder / "system.py"
        script.write_text(textwrap.dedent(SYSTEM), encoding="utf-8")
        given = json.dumps({"key": str(self._key), **options})
        process = self.run(at, sys.executable, str(script), given, on)
        expect(process)
        return process

    def join(self, host: str, first: str, *options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "farref", "join", first, "--key", str(self._key)]
        return self.run(host, *command, *options)


@pytest.fixture
def scene(walled: Walled, key: Path, tmp_path: Path) -> Iterator[Scene]:
    with Scene(walled, key, tmp_path) as scene:
        yield scene


def end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()


def results(first: subprocess.Popen[str], joined: subprocess.Popen[str]) -> list[str]:
    """The output of both when the system has ended in order."""
    out, err = first.communicate(timeout=90)
    told, complaints = joined.communicate(timeout=60)
    assert (err, complaints) == ("", ""), out + told
    assert (first.returncode, joined.returncode) == (0, 0)
    assert "is a host of" in told
    return ["ready", *out.splitlines()]


def test_a_container_with_one_published_port(scene: Scene) -> None:
    """It dials out to one port of the first host, and one port leads to it."""
    seen = f"{MACHINE}:{PUBLISHED}"
    first = scene.first(seen, host=FIRST)
    box = scene.join("box", FIRST, "--host", "0.0.0.0", "--advertise", seen)
    assert results(first, box) == [*RIGHT, str(sorted([FIRST, seen]))]


def test_a_first_host_in_a_container(scene: Scene) -> None:
    """Its own address is one that nobody else can dial."""
    given = {"host": "172.30.0.2", "advertise": f"machine.test:{PUBLISHED}"}
    first = scene.first(FIRST, "box", **given)
    other = scene.join("first", f"{MACHINE}:{PUBLISHED}")
    assert results(first, other) == [*RIGHT, str(sorted([FIRST, f"machine.test:{PUBLISHED}"]))]


def test_names(scene: Scene) -> None:
    """Both hosts have names, and several workers dial by them."""
    first = scene.first("machine.test", host="0.0.0.0", advertise="first.test")
    joined = scene.join(
        "machine", "first.test", "--host", "machine.test", "--advertise", "machine.test:1900"
    )
    assert results(first, joined) == [*RIGHT, str(["first.test", "machine.test"])]


def test_ipv6(scene: Scene) -> None:
    first = scene.first(f"[{SIX['machine']}]:1901", host=SIX["first"])
    joined = scene.join("machine", "first6.test", "--port", "1901")
    assert results(first, joined) == [*RIGHT, str([f"[{SIX['machine']}]:1901", SIX["first"]])]


SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:" + os.environ.get("PATH", ""))


@pytest.fixture
def ssh(scene: Scene, tmp_path: Path) -> Callable[..., None]:
    """Has the machine forward ports by an `ssh` to the first host."""
    if SSHD is None or shutil.which("ssh") is None:
        pytest.skip("there is no sshd")
    keys = tmp_path / "ssh"
    keys.mkdir(mode=0o700)
    for name in ("host", "user"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / name)]
        subprocess.run(command, check=True)
    allowed = keys / "authorized"
    allowed.write_bytes((keys / "user.pub").read_bytes())
    allowed.chmod(0o600)
    Path("/run/sshd").mkdir(exist_ok=True)
    options = {
        "AuthorizedKeysFile": allowed,
        "GatewayPorts": "clientspecified",
        "HostKey": keys / "host",
        "ListenAddress": FIRST,
        "PasswordAuthentication": "no",
        "PermitRootLogin": "yes",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
    }
    flags = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    scene.run("first", SSHD, "-D", "-e", "-f", "/dev/null", *flags)

    def forward(*ways: str) -> None:
        known = ["-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={keys / 'known'}"]
        fails = ["-o", "ExitOnForwardFailure=yes", "-o", "ConnectionAttempts=20"]
        command = ["ssh", "-N", "-i", str(keys / "user"), *known, *fails, *ways, FIRST]
        scene.run("machine", *command)

    return forward


def test_the_tunnel_of_the_docs(scene: Scene, ssh: Callable[..., None]) -> None:
    """Their very line: both hosts are at the loopback address."""
    first = scene.first("127.0.0.1:1901", host="127.0.0.1")
    ssh("-L", "1900:127.0.0.1:1900", "-R", "1901:127.0.0.1:1901")
    joined = scene.join("machine", "127.0.0.1", "--host", "127.0.0.1", "--port", "1901")
    assert results(first, joined) == [*RIGHT, str(["127.0.0.1", "127.0.0.1:1901"])]


def test_a_tunnel(scene: Scene, ssh: Callable[..., None]) -> None:
    """The other host reaches the first one at a port of its own, and the other way round."""
    first = scene.first(f"{FIRST}:1901", host=FIRST, port=1902)  # the wall lets nobody in there
    ssh("-L", f"9000:{FIRST}:1902", "-R", f"{FIRST}:1901:127.0.0.1:1900")
    advertised = ["--host", "127.0.0.1", "--advertise", f"{FIRST}:1901"]
    joined = scene.join("machine", "127.0.0.1:9000", *advertised)
    assert results(first, joined) == [*RIGHT, str([f"{FIRST}:1901", f"{FIRST}:1902"])]
