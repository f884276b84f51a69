"""The ways in: by name, from other hosts, with the key; each failure names its reason."""

from __future__ import annotations

import contextlib
import secrets
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import System, SystemDownError
from farref.actors.base import tcp
from farref.testing import assert_nothing_held, until

from ..actors.scripts import expect, run, started
from ..base.authority import Authority
from ..bases import HOSTS, about
from ..keys import key_file
from ..ports import free_port
from .network import address
from .test_deaths import entry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .conftest import Joining, Starting
    from .network import Network

pytestmark = pytest.mark.processes

ATTACHED = """
    import sys, farref

    with farref.System.attach(sys.argv[1]) as system:
        mine = farref.RRef([2])
        print(farref.rpc_sync("B1", farref.RRef.to_here, (mine,)), flush=True)
"""


def test_a_program_of_the_first_host_attaches_by_name(
    first: Starting, joined: Joining, network: Network, tmp_path: Path
) -> None:
    """The other hosts can reach it, too."""
    with first() as system, joined("B"):
        system.worker("B1", on=address("B"))
        assert entry(system.name).stat().st_mode & 0o077 == 0  # the key is in it
        assert run(tmp_path, ATTACHED, system.name, on=network.command("A")) == "[2]\n"
        assert_nothing_held(system)


STAYING = """
    import sys, farref

    with farref.System.attach(sys.argv[1]) as system:
        print("attached", flush=True)
        try:
            system.serve()
        except farref.SystemDownError as error:
            print(error)
"""


@pytest.mark.parametrize("apart", [False, True])
def test_without_heartbeats_an_attached_program_learns_of_the_end(
    apart: bool, network: Network, tmp_path: Path
) -> None:
    """It watches the processes; in another namespace, which shows it none, it is told."""
    with network.on("A"), System():
        pass  # what is true of this process there is not true at home
    on = network.command("A") if apart else ()
    with (
        System(silence=None) as system,
        started(tmp_path, STAYING, system.name, on=on) as program,
    ):
        expect(program, "attached")
        system.shutdown()
        out, err = program.communicate(timeout=60)
    assert err == ""
    assert ("one of its processes here" in out) is not apart


SECOND = """
    import sys, farref

    with farref.System.join(sys.argv[1], key=sys.argv[2]) as system:
        near = system.worker("W")  # on this host, where it asks
        print(near.address.addressDetails.host, farref.rpc_sync("W", pow, (2, 3)))
"""


def test_a_second_program_of_a_host_shares_it(
    first: Starting, joined: Joining, network: Network, key: Path, tmp_path: Path
) -> None:
    """The second program leaves the first system alone."""
    with first() as system, joined("B"):
        system.worker("B1", on=address("B"))
        out = run(tmp_path, SECOND, address("A"), str(key), on=network.command("B"))
        assert out == f"{address('B')} 8\n"
        assert entry(system.name).exists()
        assert until(system, lambda: len(system.workers()) == 4)
        assert len(system.hosts()) == 2
        assert farref.rpc_sync("B1", pow, (2, 2)) == 4
        assert farref.rpc_sync("W", pow, (2, 2)) == 4


# ---- without namespaces: between loopback addresses


@pytest.fixture
def near() -> Iterator[tuple[System, str]]:
    """A system that other addresses of this machine may join, and its own address."""
    port = free_port("127.0.0.2")
    with System(host="127.0.0.2", port=port, timeout=20, orphan_grace=0.2) as system:
        yield system, f"127.0.0.2:{port}"


JOINED = """
    import sys, farref

    first, port, *files = sys.argv[1:]
    options = {"tls": farref.TLS(*files)} if files else {}
    with farref.System.join(first, host="127.0.0.3", port=int(port), **options) as system:
        print("ready", flush=True)
        system.serve()
"""


def test_loopback_needs_no_key(near: tuple[System, str], tmp_path: Path) -> None:
    system, first = near
    with started(tmp_path, JOINED, first, str(free_port("127.0.0.3"))) as program:
        system.worker("B", on="127.0.0.3")
        assert farref.rpc_sync("B", pow, (2, 2)) == 4
        system.shutdown()
        out, err = program.communicate(timeout=60)
        assert (out, err, program.returncode) == ("ready\n", "", 0)


@pytest.mark.parametrize("host", ["127.0.0.3", None])
def test_a_name_that_does_not_resolve_yet(
    near: tuple[System, str], host: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host may start before the DNS record of the first one."""
    tried, real = [], socket.getaddrinfo

    def later(name: Any, *args: Any, **more: Any) -> Any:
        if name != "first.job":
            return real(name, *args, **more)
        tried.append(name)
        if len(tried) < 3:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real("127.0.0.2", *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", later)
    first, there = near[1].replace("127.0.0.2", "first.job"), free_port(host or "127.0.0.2")
    with System.join(first, host=host, port=there) as system:
        assert len(system.hosts()) == 2


def test_who_may_not_join(near: tuple[System, str]) -> None:
    with pytest.raises(SystemDownError, match="with another key"):
        System.join(near[1], host="127.0.0.3", key=secrets.token_bytes())
    _, _, port = near[1].partition(":")
    with pytest.raises(SystemDownError, match="attach to the system by its name"):
        System.join(near[1], host="127.0.0.2", port=int(port))  # the first host itself
    with pytest.raises(SystemDownError, match="cannot listen"):
        System(host="127.0.0.2", port=int(port))


def test_somebody_else_is_there() -> None:
    with socket.create_server(("127.0.0.2", 0)) as server:
        first = f"127.0.0.2:{server.getsockname()[1]}"

        def hang_up() -> None:
            guest, _ = server.accept()
            guest.settimeout(0.3)
            with guest, contextlib.suppress(TimeoutError):
                while True:  # or it would be a reset, as of a host that has no room
                    guest.recv(4096)

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(SystemDownError, match="no farref system"):
            System.join(first, host="127.0.0.3")
        thread.join()


@pytest.fixture
def dribbling() -> Iterator[str]:
    """The address of a server that sends a byte now and then."""
    with socket.create_server(("127.0.0.2", 0)) as server:

        def dribble() -> None:
            with contextlib.suppress(OSError):
                while True:
                    guest, _ = server.accept()
                    guest.settimeout(0.05)
                    with guest, contextlib.suppress(ConnectionError):
                        guest.send(b"\x16\x03\x03\x10\x00")  # the head of a record of TLS
                        while guest.send(b"\x02"):
                            with contextlib.suppress(TimeoutError):
                                guest.recv(4096)

        thread = threading.Thread(target=dribble)
        thread.start()
        yield f"127.0.0.2:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.timeout(180)
def test_where_no_system_is(dribbling: str) -> None:
    """A host tries for half a minute, as the first one may start later. So all try at once."""
    nobody, here = f"127.0.0.2:{free_port('127.0.0.2')}", {"host": "127.0.0.3"}
    cases: list[tuple[str, dict[str, Any], str]] = [
        (nobody, {**here, "base": base.values[0]}, r"nobody answers at .*start the system there")
        for base in HOSTS
    ]
    cases += [
        ("no-such-host.invalid", options, "cannot resolve host 'no-such-host.invalid'")
        for options in ({}, here)
    ]
    cases.append((dribbling, here, "has not proved that it knows the key"))
    with ThreadPoolExecutor(len(cases)) as threads:
        tries = [threads.submit(System.join, first, **options) for first, options, _ in cases]
    for each, (_, _, text) in zip(tries, cases, strict=True):
        with pytest.raises(SystemDownError, match=text):
            each.result()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"host": "10.77.1.1"}, "without a shared key only loopback"),
        ({"host": "10.77.1.1", "key": b"short"}, "needs at least 32"),
        ({"host": "0.0.0.0", "key": b"long enough, is it"}, "the address that others dial"),
        ({"host": "127.0.0.1", "port": 0}, "is no port"),
        ({"host": "no such host", "key": b"long enough, is it"}, "cannot resolve"),
        ({"host": "127.0.0.1", "base": "simpleSystemBase"}, "a system of several hosts needs base"),
        ({"host": "127.0.0.1", "base": "multiprocTCPBase", "key": b"k"}, "takes no key="),
        (
            {"host": "127.0.0.1", "base": "multiprocTCPBase", "advertise": "a"},
            "takes no advertise=",
        ),
        ({"host": "::1", "base": "multiprocTCPBase"}, "no IPv6"),
        ({"host": "127.0.0.1", "advertise": "a b"}, "is no address that others could dial"),
        ({"host": "127.0.0.1", "advertise": "a:1900"}, "without a shared key only loopback"),
        ({"host": "0.0.0.0", "advertise": "127.0.0.1"}, "without a shared key only loopback"),
        ({"host": "0.0.0.0"}, "pass that one as advertise="),
    ],
)
def test_arguments_that_cannot_work(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(SystemDownError, match=text):
        System(**arguments)


def test_a_key_without_a_host() -> None:
    wrong: dict[str, Any] = {"key": b"long enough, is it", "port": 1900, "advertise": "a:1900"}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match="need host="):
            System(**{name: value})


@pytest.mark.parametrize("base", HOSTS)
def test_messages_in_the_clear_are_said_aloud(base: str) -> None:
    port = free_port("127.0.0.2")
    with System(base, host="127.0.0.2", port=port, timeout=30) as system:
        command = [sys.executable, "-m", "farref", "refs", system.name]
        done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60)
        clear = "messages between its hosts are sent in the clear" in done.stdout
        assert clear is not about(base).own


def test_certificates_of_ones_own(tmp_path: Path) -> None:
    """Hosts join with them, programs attach, and who has none is refused."""
    ours = Authority(tmp_path, "ours")
    mine, theirs = ours.sign("mine"), ours.sign("theirs")
    port, there = free_port("127.0.0.2"), free_port("127.0.0.3")
    first = f"127.0.0.2:{port}"
    files = [str(path) for path in (theirs.cert, theirs.key, theirs.ca)]
    folder = tmp_path / "programs"
    folder.mkdir()
    with System(host="127.0.0.2", port=port, tls=mine, timeout=30, orphan_grace=0.2) as system:
        with pytest.raises(SystemDownError, match=r"cannot be encrypted|no farref system"):
            System.join(first, host="127.0.0.3", port=there)
        with started(folder, JOINED, first, str(there), *files) as program:
            system.worker("B1", on="127.0.0.3")
            assert farref.rpc_sync("B1", pow, (2, 2)) == 4
            assert run(folder, ATTACHED, system.name) == "[2]\n"
            system.shutdown()
            assert program.communicate(timeout=60) == ("ready\n", "")


def test_a_host_on_all_interfaces(tmp_path: Path) -> None:
    """Others attach and join by the addresses that lead there, and learn the one that it gives."""
    port, there = free_port("127.0.0.2"), free_port("127.0.0.3")
    secret = key_file(tmp_path / "key")
    options: dict[str, Any] = {"host": "0.0.0.0", "port": port}
    options |= {"advertise": f"localhost:{port}", "key": secret}
    with System(**options, timeout=30, orphan_grace=0.2) as system:
        system.worker("A")
        assert run(tmp_path, ATTACHED.replace("B1", "A"), system.name) == "[2]\n"
        with System.join(f"127.0.0.2:{port}", host="127.0.0.3", port=there, key=secret) as joined:
            names = [f"127.0.0.1:{port}", f"127.0.0.3:{there}"]
            assert sorted(host.address for host in joined.hosts()) == names
            for number, on in enumerate((*names, "127.0.0.3", "localhost")):
                joined.worker(f"W{number}", on=on)
                assert farref.rpc_sync(f"W{number}", pow, (2, 3)) == 8


def test_an_address_that_is_none() -> None:
    for first in ("127.0.0.2:0", "127.0.0.2:x", "no such host"):
        with pytest.raises(SystemDownError, match=r"is not an address|cannot resolve"):
            System.join(first)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's options")
def test_sockets_between_hosts_give_up_in_time() -> None:
    with socket.socket() as sock:
        tcp.tune(sock, 7.0)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 7000
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
