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
from thespian.actors import ActorAddress, ActorExitRequest, ActorSystem
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
from farref.actors.base.errors import NobodyThere
from farref.actors.base.framing import DATA, HEADER
from farref.actors.base.gate import PASSED
from farref.actors.base.handshake import (
    ANY_ADMIN,
    GONE,
    KEYED,
    MAGIC,
    NONCE,
    PROOF,
    REFUSED,
    Dialler,
    _introduction,
)

from ..ports import free_port
from ..waiting import eventually
from .kit import (
    KEY,
    ME,
    PATIENCE,
    Echo,
    bomb,
    connections,
    dial,
    hung_up,
    preamble,
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
    with running(host="127.0.0.1", port=port, key=KEY, encrypt=False, limits=limits) as system:
        yield system


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A file that exists as soon as any process unpickles :func:`bomb`."""
    return tmp_path / "exploded"


def actor_key(system: ActorSystem) -> str:
    return str(system.createActor(Echo).addressDetails.key)


@pytest.mark.parametrize("at", ["admin", "actor"])
def test_garbage_and_pickles_are_refused(
    guarded: ActorSystem, port: int, trap: Path, at: str
) -> None:
    want = preamble(ANY_ADMIN if at == "admin" else actor_key(guarded))
    for data in (
        b"GET / HTTP/1.0\r\n\r\n",
        os.urandom(5000),
        bomb(trap),
        MAGIC + b"L" + bomb(trap),
        want + bomb(trap) + os.urandom(5000),
        want + os.urandom(5000),
    ):
        with dial(port) as stranger:
            stranger.sendall(data)
            assert hung_up(stranger)
    assert not trap.exists()
    assert serves(guarded)


def test_a_stranger_without_the_key(guarded: ActorSystem, port: int, trap: Path) -> None:
    with dial(port) as stranger:
        dialler = Dialler(f"127.0.0.1:{port}", ME, b"w" * 32, os.urandom(NONCE))
        stranger.sendall(dialler.opening)
        challenge = stranger.recv(4096)
        assert challenge.startswith(KEYED)
        introduction = _introduction(f"127.0.0.1:{port}", ME)
        stranger.sendall(bytes(PROOF) + introduction + bomb(trap))
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
        assert stranger.recv(4096).startswith(KEYED)
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


def test_a_relay_is_a_way_in(guarded: ActorSystem, port: int) -> None:
    """A tunnel leads to the host, and the dialler learns the address that the host gives itself."""
    relay = Relay(("127.0.0.1", port), port)
    try:
        host, at = relay.address
        assert tcp.knock(host, at, KEY, 0) == f"127.0.0.1:{port}"
        with pytest.raises(HandshakeError, match="another key, or another program"):
            tcp.knock(host, at, b"w" * 32, 0)
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
        # No proof, and no introduction.
        assert relay.heard[:-NONCE] == preamble(there.addressDetails.key)
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


def test_an_oversized_length_is_refused(guarded: ActorSystem, port: int) -> None:
    dialler = Dialler(actor_key(guarded), ME, KEY, os.urandom(NONCE))
    with dial(port) as friend:
        friend.sendall(dialler.opening)
        friend.sendall(dialler.feed(friend.recv(4096)) + HEADER.pack(1 << 50, 0, DATA))
        assert hung_up(friend)
    assert serves(guarded)


def test_a_message_for_somebody_else_is_refused(guarded: ActorSystem, port: int) -> None:
    """Both ends refuse: the dialler hears another name, and the acceptor sees another target."""
    honest = Dialler("somebody-else", ME, KEY, os.urandom(NONCE))
    mine = f"127.0.0.1:{port}"
    with dial(port) as stale:
        stale.sendall(preamble(mine) + honest.opening[-NONCE:])
        with pytest.raises(HandshakeError, match="altered"):
            honest.feed(stale.recv(4096))
    careless = Dialler(mine, ME, KEY, os.urandom(NONCE))
    with dial(port) as stale:
        stale.sendall(careless.opening)
        proof = careless.feed(stale.recv(4096))[:PROOF]
        stale.sendall(proof + _introduction("somebody-else", ME))
        assert hung_up(stale)


@pytest.mark.parametrize(
    "name",
    [
        "x-" + 20 * "0",
        "somebody-else",
        "../../etc/passwd",
        "x-../" + 16 * "0",
        "key",
        "lock",
        "",
        "x-" + 20 * "\N{SUPERSCRIPT TWO}",
        "\0",
        f"{'0' * 8}-{'0' * 20}",
    ],
)
def test_a_name_that_is_not_here(guarded: ActorSystem, port: int, name: str) -> None:
    """The stranger is told; no name leads out of the folder, nor to a file that is no socket."""
    with dial(port) as stranger:
        stranger.sendall(preamble(name) + os.urandom(NONCE))
        assert stranger.recv(4096) == GONE
        assert hung_up(stranger)
    assert serves(guarded)


def test_an_actor_that_has_ended_is_not_here(guarded: ActorSystem, port: int) -> None:
    """A message to it fails at once, as if the kernel itself had refused the connection."""
    echo = guarded.createActor(Echo)
    guarded.tell(echo, ActorExitRequest())
    path = Path(echo.addressDetails.path)
    eventually(lambda: not path.exists())
    dialler = Dialler(echo.addressDetails.key, ME, KEY, os.urandom(NONCE))
    with dial(port) as stale:
        stale.sendall(dialler.opening)
        answer = stale.recv(4096)
    with pytest.raises(NobodyThere, match="is not on its host"):
        dialler.feed(answer)


def test_another_version_is_told(guarded: ActorSystem, port: int) -> None:
    with dial(port) as older:
        older.sendall(b"FARREF2\nK" + os.urandom(NONCE))
        assert older.recv(4096) == REFUSED
        assert hung_up(older)


def test_who_finds_an_older_host_names_both_versions() -> None:
    """Farref of version 2 hangs up on others, and answers its own kind with 64 bytes."""
    with socket.create_server(("127.0.0.9", 0)) as server:

        def older() -> None:
            for _ in range(2):
                guest, _ = server.accept()
                with guest:
                    if guest.recv(100).startswith(b"FARREF2\nK"):
                        guest.sendall(os.urandom(64))

        thread = threading.Thread(target=older)
        thread.start()
        host, at = server.getsockname()
        with pytest.raises(HandshakeError, match=r"speaks version 2 of .* speaks version 3"):
            tcp.knock(host, at, KEY, 0)
        thread.join(PATIENCE)


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
        introduction = _introduction(echo.addressDetails.key, ME)
        stranger.sendall(os.urandom(NONCE) + bytes(PROOF) + introduction + bomb(trap))
        assert hung_up(stranger)
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


def of(life: lives.Watched) -> psutil.Process:
    return psutil.Process(life.pid)


def test_nothing_listens_beyond_the_address_that_was_given(
    guarded: ActorSystem, earlier: set[tuple[Any, Any]]
) -> None:
    """No process of a system has a port open on another interface."""
    session = os.getsid(guarded.ask(guarded.createActor(Echo), "pid", PATIENCE))
    found = [
        here.ip
        for process in (psutil.Process(), *map(of, lives.members(session)))
        for here, there in connections(process, "tcp") - earlier
        if not there
    ]
    assert found == ["127.0.0.1"]  # the admin's, for all


def test_without_a_host_there_is_no_port(earlier: set[tuple[Any, Any]]) -> None:
    with running() as system:
        session = os.getsid(system.ask(system.createActor(Echo), "pid", PATIENCE))
        for process in map(of, lives.members(session)):
            assert connections(process) - earlier == set()
