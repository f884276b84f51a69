"""Strangers on the TCP port: nothing of theirs is unpickled, and they disturb no peer."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from thespian.actors import ActorAddress, ActorSystem
from thespian.system.transport import SendStatus, TransmitIntent

from farref.actors.base import (
    HandshakeError,
    InvalidAddress,
    KeyRequired,
    Limits,
    NoSuchSystem,
    addresses,
    keys,
    lives,
    places,
    system_base,
    tcp,
)
from farref.actors.base.addresses import Address
from farref.actors.base.framing import DATA, HEADER
from farref.actors.base.handshake import MAGIC, NONCE, Dialler

from .kit import (
    KEY,
    ME,
    PATIENCE,
    Echo,
    bomb,
    connections,
    dial,
    eventually,
    free_port,
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
    limits = Limits(handshake_timeout=PATIENCE, max_message_bytes=10_000_000)
    with running(host="127.0.0.1", port=port, key=KEY, limits=limits) as system:
        yield system


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A file that exists as soon as any process unpickles :func:`bomb`."""
    return tmp_path / "exploded"


def actor_port(system: ActorSystem) -> tuple[ActorSystem, int, str]:
    echo = system.createActor(Echo)
    details = echo.addressDetails
    return echo, details.port, details.key


@pytest.mark.parametrize("at", ["admin", "actor"])
def test_garbage_and_pickles_are_refused(
    guarded: ActorSystem, port: int, trap: Path, at: str
) -> None:
    target = port if at == "admin" else actor_port(guarded)[1]
    for data in (
        b"GET / HTTP/1.0\r\n\r\n",
        os.urandom(5000),
        bomb(trap),
        MAGIC + b"L" + bomb(trap),
    ):
        with dial(target) as stranger:
            stranger.sendall(data)
            assert hung_up(stranger)
    assert not trap.exists()
    assert serves(guarded)


def test_a_stranger_without_the_key(guarded: ActorSystem, port: int, trap: Path) -> None:
    with dial(port) as stranger:
        dialler = Dialler(f"127.0.0.1:{port}", ME, b"w" * 32, os.urandom(NONCE))
        stranger.sendall(dialler.opening)
        challenge = stranger.recv(4096)
        assert len(challenge) == 64
        stranger.sendall(bytes(32) + dialler._introduction + bomb(trap))
        assert hung_up(stranger)
    assert not trap.exists()
    assert serves(guarded)


def test_a_recorded_session_cannot_be_replayed(guarded: ActorSystem, port: int, trap: Path) -> None:
    recorded = []
    dialler = Dialler(f"127.0.0.1:{port}", ME, KEY, os.urandom(NONCE))
    with dial(port) as honest:
        honest.sendall(dialler.opening)
        recorded.append(dialler.opening)
        recorded.append(dialler.feed(honest.recv(4096)))
        honest.sendall(recorded[1])
    with dial(port) as stranger:
        stranger.sendall(recorded[0])
        assert len(stranger.recv(4096)) == 64
        stranger.sendall(recorded[1] + bomb(trap))
        assert hung_up(stranger)
    assert not trap.exists()
    assert serves(guarded)


def test_who_has_the_key_gets_in(guarded: ActorSystem, port: int, trap: Path) -> None:
    """The counterpart, which shows that the others failed for the right reason."""
    dialler = Dialler(f"127.0.0.1:{port}", ME, KEY, os.urandom(NONCE))
    with dial(port) as friend:
        friend.sendall(dialler.opening)
        friend.sendall(dialler.feed(friend.recv(4096)) + bomb(trap))
        eventually(trap.exists)


class Relay:
    """A stranger between the hosts: it passes bytes on from its own address, and back."""

    def __init__(self, to: tuple[str, int], port: int) -> None:
        self._to = to
        self._server = socket.create_server(("127.0.0.9", port))
        self.address = self._server.getsockname()
        self.heard = b""
        """The bytes of the diallers."""
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                guest, _ = self._server.accept()
                with guest, socket.create_connection(self._to) as host:
                    self._pass_on(guest, host)

    def _pass_on(self, guest: socket.socket, host: socket.socket) -> None:
        while True:
            for sock in select.select([guest, host], [], [], PATIENCE)[0]:
                data = sock.recv(4096)
                if not data:
                    return
                self.heard += data if sock is guest else b""
                (host if sock is guest else guest).sendall(data)

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


@pytest.mark.parametrize("to", ["the admin of another host", "an actor"])
def test_a_relay_is_refused(guarded: ActorSystem, port: int, to: str) -> None:
    """A dialler of one address is not led to another one with the same key and port."""
    target = port if to == "the admin of another host" else actor_port(guarded)[1]
    relay = Relay(("127.0.0.1", target), target)
    host, at = relay.address
    try:
        with pytest.raises(HandshakeError, match=f"call itself 127.0.0.9:{target}"):
            tcp.knock(host, at, KEY, 0)
        assert len(relay.heard) == len(MAGIC) + 1 + NONCE  # no proof, and no introduction
    finally:
        relay.close()


def test_messages_are_not_relayed(guarded: ActorSystem, port: int) -> None:
    """A message to one address does not reach another one."""
    relay = Relay(("127.0.0.1", port), port)
    host, at = relay.address
    transport = guarded._systemBase.transport
    failed: list[object] = []
    there = ActorAddress(Address(f"{host}:{at}", "", host, at))
    intent = TransmitIntent(there, "secret", onError=lambda status, _: failed.append(status))
    try:
        transport.scheduleTransmit(None, intent)
        eventually(lambda: failed or transport.run(None, 0.01))
        assert failed == [SendStatus.DeadTarget]
        assert len(relay.heard) == len(MAGIC) + 1 + NONCE
    finally:
        relay.close()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_who_dials_a_name_of_the_address_gets_in(
    guarded: ActorSystem, port: int, name: str
) -> None:
    tcp.knock(addresses.numeric(name), port, KEY, 0)


def test_another_address_of_the_same_machine_is_another_one(
    guarded: ActorSystem, port: int
) -> None:
    """A system listens at its own address alone, and no dialler of another address is led there."""
    with pytest.raises(NoSuchSystem, match="nobody answers"):
        tcp.knock("127.0.0.8", port, KEY, 0)
    with pytest.raises(InvalidAddress, match="give the address that others dial"):
        system_base(host="0.0.0.0", port=port, key=KEY)


def test_an_oversized_length_is_refused(guarded: ActorSystem) -> None:
    _, target, key = actor_port(guarded)
    dialler = Dialler(key, ME, KEY, os.urandom(NONCE))
    with dial(target) as friend:
        friend.sendall(dialler.opening)
        friend.sendall(dialler.feed(friend.recv(4096)) + HEADER.pack(1 << 50, 0, DATA))
        assert hung_up(friend)
    assert serves(guarded)


def test_a_recycled_port_is_refused(guarded: ActorSystem) -> None:
    """Both ends refuse: the dialler hears another name, and the acceptor sees another target."""
    _, target, key = actor_port(guarded)
    honest = Dialler("somebody-else", ME, KEY, os.urandom(NONCE))
    with dial(target) as stale:
        stale.sendall(honest.opening)
        with pytest.raises(HandshakeError, match="does not call itself somebody-else"):
            honest.feed(stale.recv(4096))
    careless = Dialler(key, ME, KEY, os.urandom(NONCE))
    careless._introduction = honest._introduction
    with dial(target) as stale:
        stale.sendall(careless.opening)
        stale.sendall(careless.feed(stale.recv(4096)))
        assert hung_up(stale)


def test_sockets_are_ours_alone(guarded: ActorSystem) -> None:
    directory = places.private_directory()
    assert directory.stat().st_mode & 0o077 == 0


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


def test_a_key_may_come_from_a_file(tmp_path: Path) -> None:
    keys.make(tmp_path / "key")
    with running(host="127.0.0.1", port=free_port("127.0.0.1"), key=tmp_path / "key") as system:
        assert serves(system)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_of_this_host_gets_nowhere(
    trap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other user cannot enter the directory, nor a socket in it if the directory is open."""
    with tempfile.TemporaryDirectory(dir="/tmp") as runtime:
        os.chmod(runtime, 0o755)
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        monkeypatch.setenv(places.THESPIAN_LOG, "/dev/null")
        with running() as system:
            directory = places.private_directory()
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


def test_nothing_listens_beyond_the_address_that_was_given(
    guarded: ActorSystem, earlier: set[tuple[Any, Any]]
) -> None:
    """No process of a system has a port open on another interface."""
    session = os.getsid(guarded.ask(guarded.createActor(Echo), "pid", PATIENCE))
    found = [
        here.ip
        for process in (psutil.Process(), *lives.members(session))
        for here, there in connections(process, "tcp") - earlier
        if not there
    ]
    assert set(found) == {"127.0.0.1"}
    assert len(found) >= 3  # the program, the admin, the actor


def test_without_a_host_there_is_no_port(earlier: set[tuple[Any, Any]]) -> None:
    with running() as system:
        session = os.getsid(system.ask(system.createActor(Echo), "pid", PATIENCE))
        for process in lives.members(session):
            assert connections(process) - earlier == set()
