"""Growth: hosts, and what each more costs the registrar, the one process that hears of everything.

Each host is a loopback address of this machine, with processes of its own. The figures are
processor time, as in `bench.growth`, but of the registrar alone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import farref
from farref import System
from farref.actors.base.addresses import free_port

from .growth import PATIENCE, Crew, Growth
from .peer import until

if TYPE_CHECKING:
    from collections.abc import Iterator

EACH = 8
"""Workers on each host."""
REST = 60.0
"""Seconds without calls."""
LOOK = 0.05
"""Seconds between two looks at what the registrar knows, which cost it time."""
DEATHS = 8
"""A figure is the mean of this many deaths."""
FIRST = "127.0.1.1"
"""The first host's address."""
FARREF = [sys.executable, "-m", "farref"]


@contextlib.contextmanager
def etcd() -> Iterator[str]:
    """The address of an etcd on loopback. Raises `RuntimeError` if the program is not here."""
    program = shutil.which("etcd")
    if program is None:
        raise RuntimeError("no etcd here: install the Debian package etcd-server")
    here, peers = (f"http://{FIRST}:{free_port(FIRST)}" for _ in range(2))
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--data-dir", folder, "--listen-client-urls", here]
        command += ["--advertise-client-urls", here, "--listen-peer-urls", peers]
        command += ["--initial-advertise-peer-urls", peers]
        command += ["--initial-cluster", f"default={peers}"]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:  # noqa: S603 - as above
            try:
                yield here.replace("http", "etcd")
            finally:
                server.terminate()


def hosts(most: int, *, elected: bool = False) -> Growth:
    """Hosts with `EACH` workers, beside the program's own host; with an *elected* registrar?"""
    kind = "an elected registrar" if elected else "the registrar"
    part = Growth(f"hosts with {EACH} workers each, at {kind}", "hosts")
    running: list[subprocess.Popen[bytes]] = []
    port = free_port(FIRST)
    with contextlib.ExitStack() as ending:
        key = str(Path(ending.enter_context(tempfile.TemporaryDirectory())) / "key")
        subprocess.run([*FARREF, "key", key], check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own
        ending.callback(lambda: [each.wait(PATIENCE) for each in running])
        registry = ending.enter_context(etcd()) if elected else None
        time.sleep(2.0 if elected else 0.0)  # it begins
        system = System(host=FIRST, port=port, key=key, timeout=PATIENCE, registry=registry)
        ending.enter_context(system)
        if elected:
            ending.callback(system.end)  # on all hosts; else this one would only leave
        first = f"{registry}/{system.name}" if elected else f"{FIRST}:{port}"
        title = "farref: Candida" if elected else "farref: Reg"
        (registrar,) = (p for p in Crew(system).processes if p.name().startswith(title))

        def spent() -> float:
            return sum(registrar.cpu_times()[:2])

        for wanted in sorted({max(1, most // 4), max(1, most // 2), most}):
            number, start = len(running), spent()
            for n in range(number, wanted):
                command = [*FARREF, "join", first, "--key", key, "--host", _address(n)]
                running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))  # noqa: S603 - our own
            until(lambda: len(system.hosts()) > len(running), PATIENCE, LOOK)
            for n in range(number, wanted):
                for w in range(EACH):
                    system.worker(f"H{n}W{w}", on=_address(n))
            seconds = {"one more host": (spent() - start) / (wanted - number)}
            start = spent()
            time.sleep(REST)
            seconds["an idle minute"] = spent() - start
            dying = 0.0
            for death in range(DEATHS):
                at, start = death % wanted, spent()
                _kill(system, f"H{at}W0")
                dying += spent() - start
                system.worker(f"H{at}W0", on=_address(at))
            seconds["a death"] = dying / DEATHS
            part.step(wanted, seconds, {"of it": float(registrar.memory_full_info().pss)})
    return part


def _address(host: int) -> str:
    return f"127.0.1.{host + 2}"


def _kill(system: System, name: str) -> None:
    """Kill a worker, and wait until this program has heard of its death."""
    os.kill(farref.rpc_sync(name, os.getpid), signal.SIGKILL)
    until(lambda: name not in {info.name for info in system.workers()}, PATIENCE, LOOK)
