"""Hosts to run on, programs that join, and the check that they leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from farref import System

from ..bases import about
from ..keys import key_file
from ..waiting import eventually
from .network import Network, Pair, address, why_not

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    Starting = Callable[..., AbstractContextManager[System]]
    Joining = Callable[..., AbstractContextManager[subprocess.Popen[str]]]

GRACE = 0.3
"""Seconds; see `orphan_grace`."""


@pytest.fixture(scope="session")
def network_of_all(nothing_left_behind: None) -> Iterator[Network]:
    if why_not():
        pytest.skip(why_not())
    with Network() as network:
        yield network


@pytest.fixture
def network(network_of_all: Network) -> Iterator[Network]:
    """The hosts A, B and C; afterwards no process is on any of them."""
    yield network_of_all
    network_of_all.heal()

    def left() -> list[int]:
        return [pid for host in "ABC" for pid in network_of_all.processes(host)]

    eventually(lambda: not left(), lambda: f"left: {left()}")


@pytest.fixture
def pair() -> Iterator[Pair]:
    if why_not():
        pytest.skip(why_not())
    with Pair({"first": "10.0.0.1", "second": "10.0.0.2"}) as pair:
        yield pair


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return key_file(tmp_path_factory.mktemp("key") / "farref.key")


@pytest.fixture
def first(network: Network, key: Path) -> Starting:
    """Starts a system on host A; this program is on A meanwhile."""

    @contextlib.contextmanager
    def start(base: str | None = None, **options: Any) -> Iterator[System]:
        options = {"timeout": 60, "orphan_grace": GRACE, **options}
        if about(base).own:
            options["key"] = key
        with network.on("A"), System(base, host=address("A"), **options) as system:
            yield system

    return start


@pytest.fixture
def joined(network: Network, key: Path) -> Joining:
    """Runs `farref join` on a host."""

    @contextlib.contextmanager
    def join(
        host: str, *options: str, base: str | None = None, **environment: str
    ) -> Iterator[subprocess.Popen[str]]:
        keyed = ["--key", str(key)] if about(base).own else ["--base", str(base)]
        command = [sys.executable, "-m", "farref", "join", address("A"), *keyed, *options]
        with subprocess.Popen(
            [*network.command(host), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        ) as process:
            try:
                yield process
            finally:
                process.terminate()
                try:
                    process.communicate(timeout=60)
                finally:
                    process.kill()  # or the host's port is taken for the next tests

    return join
