"""The real `torchrun`: several agents on this machine, each one as a node."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from farref import System, SystemDownError
from farref.actors.base.addresses import is_here
from farref.elastic import (
    RendezvousConnectionError,
    RendezvousParameters,
    ServiceRendezvousBackend,
    Timeouts,
)
from farref.elastic.embedded import KEY, Place
from farref.elastic.endpoints import RendezvousEndpoint
from farref.elastic.etcd import EtcdRendezvousBackend, client
from farref.elastic.network import own_address, within
from farref.protocol.rendezvous.codec import decode

from ..marks import TORCH
from ..ports import free_port
from ..waiting import eventually
from .test_handler import answers, stranger

if TYPE_CHECKING:
    from collections.abc import Iterator

TRAINER = Path(__file__).with_name("trainer.py")
QUICK = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=6"
PATIENCE = 120.0  # seconds, of machines that are busy with something else


class Job:
    """A run of torchrun on several nodes, all of them here."""

    def __init__(self, folder: Path, endpoint: str, nodes: str, mode: str, run_id: str) -> None:
        self.folder = folder
        self.endpoint, self.nodes, self.mode, self.run_id = endpoint, nodes, mode, run_id
        self.agents: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *names: str, **addresses: str) -> None:
        """Starts agents; those without an address get one each, in the order of their names."""
        for name, address in ({name: f"127.0.0.{ord(name)}" for name in names} | addresses).items():
            command = [sys.executable, "-m", "torch.distributed.run"]
            command += [f"--nnodes={self.nodes}", "--nproc-per-node=1", "--max-restarts=5"]
            command += ["--rdzv-backend=farref", f"--rdzv-endpoint={self.endpoint}"]
            command += [f"--rdzv-id={self.run_id}", f"--rdzv-conf={QUICK}"]
            command += [f"--local-addr={address}", str(TRAINER), str(self.folder), name, self.mode]
            env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
            with (self.folder / f"{name}.log").open("wb") as said:
                self.agents[name] = subprocess.Popen(
                    command, stdout=said, stderr=said, env=env, cwd=self.folder
                )

    def notes(self, name: str) -> list[dict[str, Any]]:
        with contextlib.suppress(FileNotFoundError):
            return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]
        return []

    def last_group(self, name: str) -> list[str]:
        """The last group that the trainer of *name* was in."""
        notes = self.notes(name)
        return notes[-1]["group"] if notes else []

    def group(self, *names: str) -> list[str]:
        """Waits until these, and no others, are a group; returns them by rank."""

        def formed() -> bool:
            for name in names:
                assert self.agents[name].poll() is None, self.log(name)
            first, *others = map(self.last_group, names)
            return sorted(first) == sorted(names) and all(each == first for each in others)

        eventually(formed, lambda: f"{names} are a group: {self.log()}", PATIENCE)
        return self.last_group(names[0])

    def partner(self, first: str, *others: str) -> str:
        """Waits until *first* is rank 0 of a group with one of *others*; returns that one."""

        def found() -> list[str]:
            now = self.last_group(first)
            return [n for n in others if now == [first, n] and self.notes(n)]

        eventually(found, lambda: f"{first} has a new partner: {self.log()}", PATIENCE)
        return found()[0]

    def kill(self, name: str) -> None:
        """The death of a machine: the agent and its trainer are gone at once."""
        agent = self.agents.pop(name)
        agent.kill()
        os.kill(self.notes(name)[-1]["pid"], signal.SIGKILL)
        agent.wait()

    def stop(self) -> None:
        """Lets the trainers end; all agents end well, with no message."""
        (self.folder / "stop").touch()
        for name in list(self.agents):
            assert self.agents[name].wait(PATIENCE) == 0, self.log(name)
            del self.agents[name]
        (self.folder / "stop").unlink()

    def log(self, *names: str) -> str:
        logs = [self.folder / f"{name}.log" for name in names or self.agents]
        return "\n".join(f"--- {log.name}\n{log.read_text()[-3000:]}" for log in logs)

    def end(self) -> None:
        for name, agent in self.agents.items():
            agent.kill()
            agent.wait()
            for note in self.notes(name)[-1:]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(note["pid"], signal.SIGKILL)


@pytest.fixture
def job_of(tmp_path: Path) -> Iterator[Any]:
    jobs: list[Job] = []

    def made(endpoint: str, nodes: str, mode: str) -> Job:
        jobs.append(Job(tmp_path, endpoint, nodes, mode, tmp_path.name))
        return jobs[-1]

    yield made
    for job in jobs:
        job.end()


@TORCH
@pytest.mark.processes
@pytest.mark.timeout(300)
def test_two_agents_train_over_a_store_of_torch(job_of: Any) -> None:
    job = job_of(f"c10d://127.0.0.1:{free_port()}", "2", "train")
    job.start("a", "b")
    job.group("a", "b")
    job.stop()


@pytest.mark.deep  # half a minute of CPU
@TORCH
@pytest.mark.processes
@pytest.mark.timeout(300)
def test_late_joiners_then_the_death_of_rank_0_while_they_train(job_of: Any) -> None:
    """By default they meet in a service that the first agent starts and does not end."""
    job = job_of(f"127.0.0.1:{free_port()}", "1:3", "train")
    job.start(a="127.0.0.3")
    assert job.group("a") == ["a"]
    job.start(b="127.0.0.2", c="127.0.0.20")  # that of b sorts first: rank 0 stays nevertheless
    assert job.group("a", "b", "c")[0] == "a"
    job.kill("a")
    job.group("b", "c")
    job.stop()


@pytest.mark.deep  # a minute of CPU
@TORCH
@pytest.mark.processes
@pytest.mark.timeout(300)
def test_spares_and_signals_while_nobody_is_in_a_collective(job_of: Any, etcd: int) -> None:
    job = job_of(f"etcd://127.0.0.1:{etcd}", "2", "idle")
    backend = EtcdRendezvousBackend(client("127.0.0.1", etcd), job.run_id)

    def spares() -> int:
        found = backend.get_state()
        return 0 if found is None else len(decode(found[0]).spares)

    job.start("a", "b")
    job.group("a", "b")
    job.start("c", "d", "e")  # redundant, until they are needed
    eventually(lambda: spares() == 3, f"they stand by: {job.log()}", PATIENCE)
    job.kill("b")
    second = job.partner("a", "c", "d", "e")
    agent = job.agents.pop(second)
    agent.terminate()
    assert agent.wait(PATIENCE) != 0
    third = job.partner("a", *({"c", "d", "e"} - {second}))
    job.stop()  # the redundant one ends as well as they do
    (redundant,) = {"c", "d", "e"} - {second, third}
    assert job.notes(redundant) == []

    job.start("f", "g")  # the same run id
    job.group("f", "g")
    job.stop()


# --- The handler's parts ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("etcd://host:1", ("etcd", "host", 1, False)),
        ("etcd://host", ("etcd", "host", 2379, False)),
        ("c10d://[::1]:5", ("c10d", "::1", 5, False)),
        ("c10d://host", ("c10d", "host", 29400, False)),
        (" host:7/ ", ("farref", "host", 7, False)),
        ("host", ("farref", "host", 29400, False)),
        ("farref://host:29400", ("farref", "host", 29400, False)),
        ("farref://My-System", ("farref", "My-System", 29400, True)),
    ],
)
def test_endpoints(text: str, found: tuple[str, str, int, bool]) -> None:
    endpoint = RendezvousEndpoint(text)
    assert (endpoint.scheme, endpoint.host, endpoint.port, endpoint.named) == found


@pytest.mark.parametrize(
    "text",
    ["", "://", "etcd://", "http://host:1", "host:port", "host:99999", "host:1/path", "u@host:1"],
)
def test_wrong_endpoints(text: str) -> None:
    with pytest.raises(ValueError, match=r"endpoint .*"):
        RendezvousEndpoint(text)


def test_addresses() -> None:
    assert is_here("127.0.0.1")
    assert not is_here("192.0.2.1")  # reserved for documents: no machine has it
    assert not is_here("no-such-host.invalid")
    assert own_address("127.0.0.1", 1) == "127.0.0.1"
    assert own_address("no-such-host.invalid", 1)


def test_what_hangs_is_named() -> None:
    with pytest.raises(RendezvousConnectionError, match=r"it did not answer in 0\.05 s"):
        within(0.05, "it", lambda: eventually(lambda: False, "never", patience=0.3))
    with pytest.raises(RendezvousConnectionError, match="before the group changed"):
        within(60, "it", lambda: eventually(lambda: False, "never", 0.3), unless=lambda: True)
    with pytest.raises(RendezvousConnectionError, match=r"it cannot be reached: no"):
        within(60, "it", refuse)
    assert within(60, "it", lambda: 3) == 3


def refuse() -> None:
    raise TimeoutError("no\nat all")


def params(endpoint: str, **config: Any) -> Any:
    from torch.distributed.elastic.rendezvous import RendezvousParameters

    return RendezvousParameters("farref", endpoint, "run", 1, 2, "127.0.0.1", **config)


def create(endpoint: str, **config: Any) -> Any:
    from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler

    return get_rendezvous_handler(params(endpoint, **config))


@TORCH
def test_torch_makes_the_handler(etcd: int) -> None:
    handler = create(f"etcd://127.0.0.1:{etcd}", last_call_timeout="0.1")
    assert handler.get_backend() == "farref"
    assert handler.get_run_id() == "run"
    info = handler.next_rendezvous()
    assert (info.rank, info.world_size) == (0, 1)
    info.store.set("key", "value")
    assert info.store.get("key") == b"value"
    assert not handler.is_closed()
    assert handler.num_nodes_waiting() == 0
    assert handler.shutdown()
    alive = weakref.ref(handler)
    del handler, info
    assert alive() is None  # and with it the store that it served


@TORCH
def test_errors_are_torchs(etcd: int) -> None:
    from torch.distributed.elastic.rendezvous import api

    short = {"connect_timeout": "0.5", "join_timeout": "0.5", "last_call_timeout": "0.1"}
    nobody = free_port()
    with pytest.raises(api.RendezvousConnectionError, match=str(nobody)):
        create(f"etcd://127.0.0.1:{nobody}", **short)
    with pytest.raises(api.RendezvousConnectionError, match=str(nobody)):
        create(f"c10d://127.0.0.1:{nobody}", is_host="no", **short)
    with pytest.raises(ValueError, match="scheme"):
        create("http://127.0.0.1")
    with pytest.raises(ValueError, match="read_timeout"):
        create(f"etcd://127.0.0.1:{etcd}", read_timeout="0")
    handler = create(f"etcd://127.0.0.1:{etcd}", **short)
    handler.set_closed()
    with pytest.raises(api.RendezvousClosedError):
        handler.next_rendezvous()


@TORCH
@pytest.mark.parametrize("scheme", ["c10d", "etcd"])
def test_a_name_that_does_not_resolve_yet(
    scheme: str, etcd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of a machine may come later than its agents, also than its own agent."""
    asked, real = [], socket.getaddrinfo

    def later(host: Any, *args: Any, **more: Any) -> Any:
        if host != "first.job":
            return real(host, *args, **more)
        asked.append(host)
        if len(asked) < 3:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return real("127.0.0.1", *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", later)
    port = etcd if scheme == "etcd" else free_port()
    if scheme == "c10d":  # torch resolves in C++
        monkeypatch.setattr("torch.distributed.TCPStore", numeric_store())
    handler = create(f"{scheme}://first.job:{port}", last_call_timeout="0.1")
    assert handler.next_rendezvous().rank == 0
    assert handler.shutdown()


def numeric_store() -> Any:
    from torch.distributed import TCPStore

    return lambda host, *args, **more: TCPStore("127.0.0.1", *args, **more)


@TORCH
def test_the_true_reason_is_named() -> None:
    """Not that of a last try with little time, or of another way."""
    from torch.distributed.elastic.rendezvous import api

    for wrong in ("c10d://127.0.0.1:0", "127.0.0.1:0"):
        with pytest.raises(ValueError, match="cannot be 0"):
            create(wrong)
    with pytest.raises(ValueError, match=r"cannot resolve host .*label"):
        create(f"{'x' * 64}.job")
    with pytest.raises(api.RendezvousConnectionError, match=r"no-such-host.invalid.*nor could it"):
        create("no-such-host.invalid", connect_timeout="0.1")
    with stranger(answers(b"")) as port:
        with pytest.raises(api.RendezvousConnectionError, match="in use"):
            create(f"c10d://127.0.0.1:{port}", connect_timeout="1")
        with pytest.raises(api.RendezvousConnectionError, match="cannot listen"):
            create(f"127.0.0.1:{port}", connect_timeout="15")


@TORCH
@pytest.mark.parametrize(
    "data",
    [b"\xff" * 64, b"HTTP/1.1 400 Bad\r\n\r\n", None],
    ids=["bytes", "http", "silent"],
)
def test_a_stranger_instead_of_a_store(data: bytes | None) -> None:
    from torch.distributed.elastic.rendezvous import api

    def silent(line: Any) -> None:
        while line.recv(65536):
            continue

    serve = silent if data is None else answers(data)
    with stranger(serve) as port, pytest.raises(api.RendezvousConnectionError, match=str(port)):
        create(f"c10d://127.0.0.1:{port}", is_host="no", connect_timeout="1")


def test_a_system_by_name_and_by_its_address() -> None:
    """Any system at an address serves; the agents need not have made it."""
    port = free_port()
    with System(host="127.0.0.1", port=port) as system:
        for text in (f"farref://{system.name}", f"127.0.0.1:{port}"):
            wanted = RendezvousParameters("farref", text, "run", 1, 1)
            found: Any = RendezvousEndpoint(text).backend(wanted, Timeouts())
            ServiceRendezvousBackend("run").set_state(b"one state")
            assert found.get_state()[0] == b"one state"
            found._system.shutdown()  # otherwise it ends with this program


def test_the_reason_why_a_service_cannot_start_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = Place("127.0.0.1", taken.getsockname()[1], None)
        with pytest.raises(SystemDownError, match=r"did not start.*cannot listen"):
            place.serve(20)
    with pytest.raises(SystemDownError, match="nobody answers"):
        place.join(0.1)


def test_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="--rdzv-conf=key=FILE"):
        Place("192.0.2.1", 29400, None)
    with pytest.raises(ValueError, match="cannot be read"):
        Place("192.0.2.1", 29400, str(tmp_path / "none"))
    short = tmp_path / "short"
    short.write_text("short")
    with pytest.raises(ValueError, match="other users may read or write the key file"):
        Place("192.0.2.1", 29400, str(short))
    short.chmod(0o600)
    monkeypatch.setenv(KEY, str(short))
    with pytest.raises(ValueError, match="needs at least 32"):
        Place("192.0.2.1", 29400, None)
    short.write_text(secrets.token_hex())
    assert str(Place("192.0.2.1", 29400, None)) == "192.0.2.1:29400"
    with pytest.raises(ValueError, match="cannot resolve"):
        Place("no-such-host.invalid", 29400, None)
