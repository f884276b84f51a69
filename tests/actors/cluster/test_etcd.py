"""The store of an elected registrar: a real etcd keeps the rules of `protocol.succession`."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from farref import System, SystemDownError, WorkerDiedError, remote, rpc_sync
from farref.actors.cluster.etcd import EtcdStore
from farref.protocol.succession.campaign import (
    Expired,
    Grant,
    Granted,
    Holder,
    Renew,
    Renewed,
    Stand,
    Vacant,
    WhoLeads,
)
from farref.protocol.succession.ledger import Refused, Write, Written
from farref.testing import assert_nothing_held, until

from ...base.kit import alive
from ...etcd import Etcd
from ...keys import key_file
from ...marks import NAMES
from ...ports import free_port
from ...stopping import stop, stopped
from ...waiting import eventually
from ..scripts import started
from .ancestry import maker_of, processes_of
from .test_facts import Bomb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psutil

    Options = Callable[[], dict[str, Any]]

KEY = bytes(range(32))


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture
def store(etcd: Etcd) -> EtcdStore:
    return EtcdStore(etcd.spec, uuid.uuid4().hex, KEY, 5.0)


def keys_of(etcd: Etcd, system: str) -> list[str]:
    """All keys of *system* in the etcd."""
    return etcd.keys(f"farref/systems/{system}/")


def elected(store: EtcdStore, who: str = "one") -> Holder:
    lease = store.ask(Grant(), who, b"", 5.0)
    assert isinstance(lease, Granted)
    holder = store.ask(Stand(lease.lease), who, b"home")
    assert isinstance(holder, Holder)
    return holder


def test_one_candidate_gets_the_role(store: EtcdStore) -> None:
    assert store.ask(WhoLeads(), "one", b"") == Vacant()
    first = elected(store)
    assert (first.who, first.home) == ("one", b"home")
    assert elected(store, "two") == first
    assert store.ask(WhoLeads(), "three", b"") == first
    assert store.ask(Renew(first.lease), "one", b"") == Renewed()
    store.resign(first.lease)
    assert store.ask(Renew(first.lease), "one", b"") == Expired()
    assert store.ask(Stand(first.lease), "one", b"") == Expired()
    assert elected(store, "two").term > first.term


def test_a_write_is_taken_once_and_from_the_holder_only(etcd: Etcd, store: EtcdStore) -> None:
    """Also by an etcd that has forgotten the past: the present values have all that counts."""
    first = elected(store)
    assert store.read() == ({}, 0)
    one = Write(first.term, 1, 0, (("a", b"1"), ("b", b"1")))
    done = store.write(one)
    assert isinstance(done, Written)
    assert store.write(one) == done  # sent again: the answer was lost
    two = Write(first.term, 2, done.revision, (("a", None), ("b", b"2")))
    after = store.write(two)
    assert isinstance(after, Written)
    etcd.compact()
    etcd.restart()
    assert store.write(one) == Refused()  # it was under way for long
    assert store.write(two) == after
    assert store.ask(WhoLeads(), "two", b"") == first
    assert store.ask(Renew(first.lease), "one", b"") == Renewed()
    assert store.read() == ({"b": b"2"}, after.revision)
    store.resign(first.lease)
    second = elected(store, "two")
    three = Write(first.term, 3, after.revision, (("b", b"3"),))
    assert store.write(three) == Refused()
    assert isinstance(store.write(Write(second.term, 1, after.revision, ())), Written)
    with pytest.raises(LookupError):  # an earlier registrar wakes up late, and its lease is gone
        store.resign(first.lease, forget=first.term)
    assert store.read() != ({}, 0)
    store.resign(second.lease, forget=second.term)
    assert store.read() == ({}, 0)


def test_a_server_that_does_not_answer_is_passed_over(etcd: Etcd) -> None:
    both = f"etcd://127.0.0.1:{free_port()},127.0.0.1:{etcd.port}"
    store = EtcdStore(both, uuid.uuid4().hex, KEY, 5.0)
    assert store.ask(WhoLeads(), "one", b"") == Vacant()


@pytest.mark.parametrize(
    "spec", ["", "a:2379", "http://a:2379", "etcd://", "etcd://a:", "etcd://a:0", "etcd://a,,b"]
)
def test_wrong_addresses_of_an_etcd(spec: str) -> None:
    with pytest.raises(ValueError, match="etcd://host:port"):
        System(registry=spec, host="127.0.0.1", port=19010)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "registry= needs host="),
        ({"base": "multiprocTCPBase", "host": "127.0.0.1"}, "needs base farrefBase"),
        ({"host": "127.0.0.1", "capabilities": {"a": object()}}, "plain data"),
        ({"host": "127.0.0.1", "name": "a/b"}, "no / in its name"),
    ],
)
def test_options_that_do_not_fit_a_registry(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        System(registry="etcd://127.0.0.1:1", **options)


def test_no_etcd_answers() -> None:
    port = free_port()
    with pytest.raises(SystemDownError, match="no etcd answers"):
        System(registry=f"etcd://127.0.0.1:{port}", host="127.0.0.1", port=19010)
    with (
        socket.create_server(("127.0.0.1", port)),  # it takes connections, and says nothing
        pytest.raises(SystemDownError, match="no etcd answers"),
    ):
        System.join(f"etcd://127.0.0.1:{port}/any", host="127.0.0.1", port=19010)
    with pytest.raises(SystemDownError, match=r"no etcd answers .*//no-such-host.invalid:2379"):
        System(registry="etcd://no-such-host.invalid", host="127.0.0.1", port=19010)


def test_a_system_to_join_needs_its_name() -> None:
    with pytest.raises(ValueError, match="names no system"):
        System.join("etcd://127.0.0.1:2379", host="127.0.0.1", port=19010)


def test_the_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "etcd3gw", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'farref\[etcd\]'"):
        System(registry="etcd://127.0.0.1:1", host="127.0.0.1", port=19010)


@pytest.fixture
def options(etcd: Etcd) -> Options:
    """The arguments of hosts of one system."""
    shared = {"name": f"elected-{uuid.uuid4().hex[:8]}", "registry": etcd.spec, "silence": 1.0}

    def one() -> dict[str, Any]:
        return {**shared, "host": "127.0.0.1", "port": free_port()}

    return one


@pytest.mark.processes
def test_a_host_alone(options: Options, etcd: Etcd) -> None:
    """Start, work, attach, end, and nothing is left in the etcd; then the name is free."""
    for _ in range(2):
        with System(**options()) as system:
            system.worker("A")
            assert rpc_sync("A", pow, (2, 3)) == 8
            attached = System.attach(system.name)
            assert {info.name for info in attached.workers()} >= {"A", "program"}
            attached.shutdown()
    assert keys_of(etcd, options()["name"]) == []


@pytest.mark.processes
def test_another_host_joins_and_leaves(options: Options) -> None:
    with System(**options()) as system:
        system.worker("A")
        spec = f"{options()['registry']}/{system.name}"
        with System.join(spec, host="127.0.0.1", port=options()["port"]) as other:
            assert rpc_sync("A", pow, (2, 3)) == 8
            assert len(other.hosts()) == 2
        assert len(system.hosts()) == 1


def folder_of(given: dict[str, Any], key: bytes) -> str:
    return EtcdStore(given["registry"], given["name"], key, 5.0).folder


@pytest.mark.processes
@pytest.mark.parametrize("where", ["registrar", "home", "facts/members/1", "facts/hosts/x"])
def test_a_registry_with_nonsense_ends_the_start(
    options: Options, etcd: Etcd, where: str, tmp_path: Path
) -> None:
    """The error comes at once, and names the reason and the way out. No code runs."""
    trap = tmp_path / "exploded"
    given = {**options(), "key": KEY}
    bomb = pickle.dumps(Bomb(trap))
    if where == "home":
        where, bomb = "registrar", msgspec.msgpack.encode(("me", bomb))
    etcd.put(folder_of(given, KEY) + where, bomb)
    with pytest.raises(SystemDownError, match=r"the etcd holds nonsense .* delete its folder"):
        System(**given)
    assert not trap.exists()


@NAMES
@pytest.mark.processes
def test_nonsense_in_the_registry_of_a_running_system(options: Options, etcd: Etcd) -> None:
    """The registrar does not read it. The next one does, and then the system ends, and says why."""
    with System(**(given := {**options(), "key": KEY})) as system:
        system.worker("A")
        etcd.put(folder_of(given, KEY) + "facts/members/1", b"nonsense")
        system.worker("B")
        assert rpc_sync("B", pow, (2, 3)) == 8
        kill_candidate()
        with pytest.raises(SystemDownError, match=r"nothing was heard .* nonsense"):
            system.worker("C")


@pytest.mark.processes
def test_two_systems_of_one_name_in_one_etcd(options: Options, etcd: Etcd) -> None:
    """They do not meet: the second is told that it has another key."""
    given = {**options(), "key": KEY}
    with System(**given) as system:
        other = {"host": "127.0.0.1", "port": options()["port"], "key": bytes(range(1, 33))}
        with pytest.raises(SystemDownError, match="with another key runs in this etcd"):
            System.join(f"{given['registry']}/{system.name}", **other)
        system.worker("A")
    assert keys_of(etcd, given["name"]) == []


def kill_candidate(worker: str = "A") -> None:
    """Kill the candidate of the host of *worker*."""
    (candidate,) = (each for each in processes_of(worker) if "Candida" in each.name())
    candidate.kill()


def ended(processes: list[psutil.Process]) -> bool:
    return not any(alive(each.pid) for each in processes)


@NAMES
@pytest.mark.processes
def test_the_candidate_is_killed(options: Options) -> None:
    """It was the registrar, so its host gets another candidate, which takes over all facts."""
    with System(**options()) as system:
        system.worker("A")
        ref = remote("A", list, ((1,),))
        assert ref.to_here() == [1]
        kill_candidate()
        assert rpc_sync("A", pow, (2, 3)) == 8
        system.worker("B")
        assert {info.name for info in system.workers()} == {"A", "B", "program"}
        assert ref.to_here() == [1]
        kill_candidate()
        os.kill(rpc_sync("A", os.getpid), signal.SIGKILL)  # nobody is the registrar meanwhile
        with pytest.raises(WorkerDiedError):
            system.ask("A", "?")
        del ref
        assert_nothing_held(system)


@NAMES
@pytest.mark.processes
def test_the_registrar_proxy_is_killed(options: Options, etcd: Etcd) -> None:
    """Its host ends, and another program can begin the system anew."""
    with System(**options()) as system:
        system.worker("A")
        processes = processes_of("A")
        maker_of("A").kill()
        with pytest.raises(SystemDownError):
            system.serve()
    eventually(lambda: ended(processes))
    with System(**options()) as system:
        system.worker("A")
    assert keys_of(etcd, system.name) == []


DOWN = [sys.executable, "-m", "farref", "down"]


@contextlib.contextmanager
def two_hosts(
    options: Options, tmp_path: Path, **more: Any
) -> Iterator[tuple[System, subprocess.Popen[str]]]:
    """A system that this program has begun, and a host that has joined and has a worker, B."""
    key = key_file(tmp_path / "key")
    given = {**options(), "key": str(key), **more}
    join = [sys.executable, "-m", "farref", "join", f"{given['registry']}/{given['name']}"]
    join += ["--key", str(key), "--host", "127.0.0.1", "--port", str(options()["port"])]
    with (
        tempfile.TemporaryDirectory() as home,  # as on another machine
        System(**given) as system,
        subprocess.Popen(
            join, env={**os.environ, "XDG_RUNTIME_DIR": home}, stdout=subprocess.PIPE, text=True
        ) as second,
    ):
        assert until(system, lambda: len(system.hosts()) == 2, 60)
        here = f"{given['host']}:{given['port']}"
        system.worker("B", on=next(h.address for h in system.hosts() if h.address != here))
        assert rpc_sync("B", pow, (2, 3)) == 8
        yield system, second
        assert second.communicate(timeout=60)[0].endswith("has ended\n")
        assert second.returncode == 0


@pytest.mark.processes
def test_down_ends_the_system_on_all_hosts(options: Options, etcd: Etcd, tmp_path: Path) -> None:
    """Also one that this machine's program has begun, and that would go on without it."""
    with two_hosts(options, tmp_path) as (system, second):
        system.worker("A")
        processes = processes_of("A")
        ending = subprocess.run([*DOWN, system.name], capture_output=True, text=True, check=False)
        assert (ending.stdout, ending.stderr) == (f"{system.name} has ended\n", "")
        second.wait(60)
        system.serve()  # it ends in order
        with pytest.raises(SystemDownError, match="it was ended"):
            rpc_sync("B", pow, (2, 3))
    assert keys_of(etcd, system.name) == []
    eventually(lambda: ended(processes))


@pytest.mark.processes
def test_a_program_that_is_stopped_while_its_system_is_ended_hears_why(
    options: Options, tmp_path: Path
) -> None:
    """It finds the news, and the end of its host's processes, at the same moment."""
    with two_hosts(options, tmp_path, silence=20.0) as (system, second):
        proxy = rpc_sync("B", os.getppid)
        with stopped(second.pid):
            ending = subprocess.Popen([*DOWN, system.name], stdout=subprocess.DEVNULL)
            eventually(lambda: not alive(proxy))
        assert ending.wait(60) == 0
        system.serve()


@pytest.mark.processes
def test_the_registrars_host_leaves_after_all_others(
    options: Options, etcd: Etcd, tmp_path: Path
) -> None:
    """Its program, which hears of the end before, leaves it the processes that it needs."""
    with two_hosts(options, tmp_path, silence=5.0) as (system, _):
        system.worker("A")
        proxy, processes = rpc_sync("B", os.getppid), processes_of("A")
        attached = System.attach(system.name)
        stop(proxy)  # so the other host takes its time

        def go_on() -> None:
            with contextlib.suppress(AssertionError):  # as they are not to end before
                eventually(lambda: ended(processes), patience=2.0)
            os.kill(proxy, signal.SIGCONT)

        with ThreadPoolExecutor() as threads:
            ending = threads.submit(attached.end)
            system.serve()
            threads.submit(go_on)
            system.shutdown()
            left = keys_of(etcd, system.name)
            assert ending.result() == []
    assert left == []


def at(given: dict[str, Any]) -> str:
    return f"{given['host']}:{given['port']}"


SECOND = """
    import json, os, sys
    os.environ["XDG_RUNTIME_DIR"] = sys.argv[2]
    import farref

    with farref.System(**json.loads(sys.argv[1])) as system:
        print(len(system.hosts()))
"""


@pytest.mark.processes
@pytest.mark.parametrize("sharing", ["lend", "fork"])
def test_the_same_line_on_two_hosts(options: Options, sharing: str, tmp_path: Path) -> None:
    """It starts the system, or joins it. With other settings it is refused."""
    key = str(key_file(tmp_path / "key"))
    with (
        tempfile.TemporaryDirectory() as home,  # as on another machine
        System(**options(), key=key) as system,
    ):
        second = {**options(), "key": key, "sharing": sharing, "program": "second"}
        with started(tmp_path, SECOND, json.dumps(second), home) as process:
            out, err = process.communicate(timeout=60)
        if sharing == "lend":
            assert (out, process.returncode) == ("2\n", 0), err
        else:
            assert f"System.join('{second['registry']}" in err
        assert len(system.hosts()) == 1


@pytest.mark.processes
def test_a_host_that_joins_by_an_address(options: Options) -> None:
    """It is told the way, at once."""
    given = {**options(), "key": KEY}
    with (
        System(**given) as system,
        pytest.raises(SystemDownError, match=f"join it by '{given['registry']}/{system.name}'"),
    ):
        System.join(at(given), host="127.0.0.3", port=options()["port"], key=KEY)
