"""Strangers on the TCP port: nothing they send is unpickled, and they disturb nobody."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from thespian.actors import ActorSystem

from farref.actors.base import (
    InvalidAddress,
    KeyRequired,
    Limits,
    places,
    system_base,
)
from farref.actors.base.addresses import Address
from farref.actors.base.framing import DATA, HEADER
from farref.actors.base.handshake import MAGIC, NONCE, Dialler

from .kit import PATIENCE, Echo, eventually, free_port, running

pytestmark = pytest.mark.processes

KEY = b"a shared key of the tests"
ME = Address("x-stranger", "", "127.0.0.1", 9)


@pytest.fixture(scope="module")
def port() -> int:
    return free_port("127.0.0.1")


@pytest.fixture(scope="module")
def guarded(no_socket_left: None, port: int) -> Iterator[ActorSystem]:
    limits = Limits(handshake_timeout=PATIENCE, max_message_bytes=10_000_000)
    with running(host="127.0.0.1", port=port, key=KEY, limits=limits) as system:
        yield system


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A file that exists as soon as somebody unpickles :func:`bomb`."""
    return tmp_path / "exploded"


def bomb(trap: Path) -> bytes:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(trap),)

    body = pickle.dumps(Bomb(), 5)
    return HEADER.pack(len(body), 0, DATA) + body


def dial(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE)


def hung_up(sock: socket.socket) -> bool:
    """Read until the other end closes."""
    try:
        while sock.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


def serves(system: ActorSystem) -> bool:
    echo = system.createActor(Echo)
    return bool(system.ask(echo, "hello", PATIENCE) == "hello")


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
    """The counterpart that shows that the others failed for the right reason."""
    dialler = Dialler(f"127.0.0.1:{port}", ME, KEY, os.urandom(NONCE))
    with dial(port) as friend:
        friend.sendall(dialler.opening)
        friend.sendall(dialler.feed(friend.recv(4096)) + bomb(trap))
        eventually(trap.exists)


@pytest.fixture
def impatient() -> Iterator[tuple[ActorSystem, int]]:
    port = free_port("127.0.0.1")
    limits = Limits(handshake_timeout=0.5, max_handshakes=5)
    with running(host="127.0.0.1", port=port, key=KEY, limits=limits) as system:
        yield system, port


def test_the_slow_are_hung_up_on_and_do_not_shut_others_out(
    impatient: tuple[ActorSystem, int],
) -> None:
    system, port = impatient
    slow = [dial(port) for _ in range(20)]  # four times the limit
    try:
        for stranger in slow:
            with contextlib.suppress(OSError):  # it took us so long that we are hung up on
                stranger.sendall(MAGIC[:3])
        assert serves(system)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:  # one byte now and then does not buy time
            try:
                slow[0].sendall(MAGIC[3:4])
            except OSError:
                break
            slow[0].settimeout(0.1)
            try:
                if not slow[0].recv(1):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert time.monotonic() < deadline
        for stranger in slow[1:]:
            stranger.settimeout(PATIENCE)
            assert hung_up(stranger)
    finally:
        for stranger in slow:
            stranger.close()


def test_who_crowds_the_port_keeps_nobody_of_this_host_waiting() -> None:
    port = free_port("127.0.0.1")
    limits = Limits(handshake_timeout=2 * PATIENCE, max_handshakes=5)
    with running(host="127.0.0.1", port=port, key=KEY, limits=limits) as system:
        crowd = [dial(port) for _ in range(20)]  # who stay until nobody is patient any more
        try:
            with system.private() as newcomer:
                assert serves(newcomer)
        finally:
            for stranger in crowd:
                stranger.close()


def test_an_oversized_length_is_refused(guarded: ActorSystem) -> None:
    _, target, key = actor_port(guarded)
    dialler = Dialler(key, ME, KEY, os.urandom(NONCE))
    with dial(target) as friend:
        friend.sendall(dialler.opening)
        friend.sendall(dialler.feed(friend.recv(4096)) + HEADER.pack(1 << 50, 0, DATA))
        assert hung_up(friend)
    assert serves(guarded)


def test_a_recycled_port_is_refused(guarded: ActorSystem) -> None:
    _, target, _ = actor_port(guarded)
    dialler = Dialler("somebody-else", ME, KEY, os.urandom(NONCE))
    with dial(target) as stale:
        stale.sendall(dialler.opening)
        stale.sendall(dialler.feed(stale.recv(4096)))
        assert hung_up(stale)


def test_sockets_are_ours_alone(guarded: ActorSystem) -> None:
    directory = places.private_directory()
    assert directory.stat().st_mode & 0o077 == 0


def test_without_a_key_only_loopback() -> None:
    with pytest.raises(KeyRequired, match="loopback"):
        system_base(host="192.0.2.7", port=1900)
    with pytest.raises(KeyRequired, match="16"):
        system_base(host="192.0.2.7", port=1900, key=b"short")
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
    (tmp_path / "key").write_bytes(KEY + b"\n")
    with running(host="127.0.0.1", port=free_port("127.0.0.1"), key=tmp_path / "key") as system:
        assert serves(system)
