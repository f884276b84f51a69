"""Strangers on the TCP port: nothing of theirs is unpickled, and they disturb no peer."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from thespian.actors import ActorSystem

from farref.actors.base import (
    InvalidAddress,
    KeyRequired,
    Limits,
    NoSuchSystem,
    lives,
    rundir,
    system_base,
    tcp,
)
from farref.actors.base.framing import DATA, HEADER
from farref.actors.base.gate import PASSED
from farref.actors.base.handshake import (
    GONE,
    MAGIC,
    NONCE,
    PROOF,
    REFUSED,
    Dialler,
    _introduction,
    preamble,
)

from ..ports import free_port
from ..waiting import eventually
from .kit import (
    KEY,
    ME,
    PATIENCE,
    Echo,
    Stranger,
    bomb,
    connections,
    dial,
    hung_up,
    running,
    serves,
)

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def port() -> int:
    return free_port("127.0.0.1")


@pytest.fixture(scope="module")
def earlier() -> set[tuple[Any, Any]]:
    """The connections of this process before the system starts, by an earlier test's library."""
    return connections(psutil.Process())


@pytest.fixture(scope="module")
def guarded(
    no_socket_left: None, earlier: set[tuple[Any, Any]], port: int
) -> Iterator[ActorSystem]:
    limits = Limits(handshake_timeout=1000, max_message_bytes=10_000_000)
    with running(host="127.0.0.1", port=port, key=KEY, limits=limits) as system:
        yield system


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A file that exists as soon as any process unpickles :func:`bomb`."""
    return tmp_path / "exploded"


def actor_key(system: ActorSystem) -> str:
    return str(system.createActor(Echo).addressDetails.key)


def test_another_address_of_the_same_machine_is_another_one(
    guarded: ActorSystem, port: int
) -> None:
    """A system listens at its own address alone, and no dialler of another address is led there."""
    with pytest.raises(NoSuchSystem, match="nobody answers"):
        tcp.knock("127.0.0.8", port, KEY, 0)
    with pytest.raises(InvalidAddress, match="give the address that others dial"):
        system_base(host="0.0.0.0", port=port, key=KEY)


def test_an_oversized_length_is_refused(guarded: ActorSystem, port: int) -> None:
    key = actor_key(guarded)
    with Stranger.at(port, key) as friend:
        dialler = Dialler(key, ME, KEY, os.urandom(NONCE))
        friend.prove(dialler, HEADER.pack(1 << 50, 0, DATA))
        assert hung_up(friend.sock)
    assert serves(guarded)


@pytest.mark.parametrize("name", ["x-" + 20 * "0", "somebody-else", "../../etc/passwd", ""])
def test_a_name_that_is_not_here(guarded: ActorSystem, port: int, name: str) -> None:
    """The stranger is told; `test_a_stranger_names_no_path` has more of such names."""
    with dial(port) as stranger:
        stranger.sendall(preamble(name) + os.urandom(NONCE))
        assert stranger.recv(4096) == GONE
        assert hung_up(stranger)
    assert serves(guarded)


@pytest.mark.parametrize(
    ("data", "notice"),
    [
        (b"FARREF3\nT\0\5admin", REFUSED),  # another version
        (b"GET / HTTP/1.0\r\n\r\n", b""),
        (bytes(5000), b""),
        (MAGIC + b"\xff\xff", b""),  # a name without end
    ],
    ids=["another version", "HTTP", "zeros", "a long name"],
)
def test_another_protocol_is_refused_at_once(
    guarded: ActorSystem, port: int, data: bytes, notice: bytes
) -> None:
    with dial(port) as stranger:
        stranger.sendall(data)
        with contextlib.suppress(ConnectionResetError):  # it did not read all
            assert stranger.recv(4096) == notice
        assert hung_up(stranger)
    assert serves(guarded)


def test_connections_are_passed_on_by_this_user_only(guarded: ActorSystem, trap: Path) -> None:
    """Any process of ours may pass a connection on; the stranger at its end must prove the key."""
    echo = guarded.createActor(Echo)
    mine, theirs = socket.socketpair()
    for message in (PASSED + preamble("somebody-else"), PASSED, PASSED + b"nonsense", MAGIC):
        with dial_path(echo.addressDetails.path) as way:
            socket.send_fds(way, [message], [theirs.fileno(), theirs.fileno()])
            assert hung_up(way)
    listener = socket.create_server(("127.0.0.1", 0))
    stranger = socket.create_connection(listener.getsockname(), PATIENCE)
    accepted, _ = listener.accept()
    with listener, stranger, accepted:
        with dial_path(echo.addressDetails.path) as way:
            message = PASSED + preamble(echo.addressDetails.key)
            socket.send_fds(way, [message], [accepted.fileno()])
            assert hung_up(way)
        accepted.close()
        with Stranger(stranger) as secure:
            secure.sock.sendall(os.urandom(NONCE) + bytes(PROOF))
            secure.sock.sendall(_introduction(echo.addressDetails.key, ME) + bomb(trap))
            assert hung_up(secure.sock)
    mine.close()
    theirs.close()
    assert not trap.exists()
    assert serves(guarded)


def test_nobody_is_passed_on_to_a_program_without_a_key(guarded: ActorSystem, port: int) -> None:
    with running() as closed:
        key = closed._systemBase.transport._me.key
        with dial(port) as stranger:
            stranger.sendall(preamble(key) + os.urandom(NONCE))
            eventually(lambda: (closed._systemBase.transport.run(None, 0.01), told(stranger))[1])


def told(stranger: socket.socket) -> bool:
    stranger.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        return stranger.recv(4096) == GONE
    return False


def test_without_a_key_only_loopback() -> None:
    with pytest.raises(KeyRequired, match="loopback"):
        system_base(host="192.0.2.7", port=1900)
    with pytest.raises(InvalidAddress, match="port"):
        system_base(host="127.0.0.1")


def test_loopback_without_a_key_is_closed_to_other_users(trap: Path) -> None:
    port = free_port("127.0.0.1")
    with running(host="127.0.0.1", port=port) as system:
        with dial(port) as stranger:
            stranger.sendall(MAGIC + b"L" + bomb(trap))
            assert hung_up(stranger)
        assert serves(system)
    assert not trap.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_of_this_host_gets_nowhere(
    trap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other user cannot enter the directory, nor a socket in it if the directory is open."""
    with tempfile.TemporaryDirectory(dir="/tmp") as runtime:
        os.chmod(runtime, 0o755)
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        monkeypatch.setenv(rundir.THESPIAN_LOG, "/dev/null")
        with running() as system:
            directory = rundir.private_directory()
            victim = system._systemBase.transport
            path = victim._me.path
            os.chmod(path, 0o777)
            assert as_stranger(lambda: dial_path(path).close()) == errno.EACCES
            os.chmod(directory, 0o711)  # by mistake

            def knock() -> None:
                with dial_path(path) as stranger:
                    with contextlib.suppress(OSError):
                        stranger.sendall(hello.opening + bomb(trap))
                    assert hung_up(stranger)

            hello = Dialler(victim._me.key, ME, b"", b"")  # the greeting of this user's processes
            before = victim.refused
            stranger = threading.Thread(target=lambda: codes.append(as_stranger(knock)))
            codes: list[int] = []
            stranger.start()
            eventually(lambda: codes or victim.run(None, 0.01))
            stranger.join()
            assert codes == [0]
            assert victim.refused == before + 1
            os.chmod(directory, 0o700)
            assert serves(system)
    assert not trap.exists()


def dial_path(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(PATIENCE)
    sock.connect(path)
    return sock


def as_stranger(act: Callable[[], None]) -> int:
    """The result of *act* in a process of another user: 0, or the number of its error."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            act()
            code = 0
        except OSError as error:
            code = error.errno or 98
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def processes_of(system: ActorSystem) -> list[psutil.Process]:
    session = os.getsid(system.ask(system.createActor(Echo), "pid", PATIENCE))
    return [psutil.Process(), *(psutil.Process(life.pid) for life in lives.members(session))]


def test_nothing_listens_beyond_the_address_that_was_given(
    guarded: ActorSystem, earlier: set[tuple[Any, Any]]
) -> None:
    """No process of a system has a port open on another interface."""
    every = [connections(process, "tcp") - earlier for process in processes_of(guarded)]
    listening = [here.ip for each in every for here, there in each if not there]
    assert listening == ["127.0.0.1"]  # the admin's, for all


def test_without_a_host_there_is_no_port() -> None:
    earlier = connections(psutil.Process())
    with running() as system:
        for process in processes_of(system):
            assert connections(process) - earlier == set()
