"""Several hosts: loopback addresses with TCP between them.

All is encrypted, and a man in the middle gets nothing, and gets nothing in.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from thespian.actors import ActorAddress, ActorExitRequest, ActorSystem
from thespian.system.transport import SendStatus, TransmitIntent

from farref.actors.base import (
    TLS,
    HandshakeError,
    InvalidCertificate,
    Limits,
    NoSuchSystem,
    system_base,
    tcp,
    tls,
)
from farref.actors.base.addresses import Address
from farref.actors.base.handshake import (
    ANSWER,
    ANY_ADMIN,
    DISBELIEF,
    MAGIC,
    NONCE,
    PROOF,
    Dialler,
    _introduction,
    preamble,
)

from ..ports import free_port
from ..waiting import eventually
from .authority import Authority
from .kit import (
    KEY,
    ME,
    PATIENCE,
    Duelist,
    Echo,
    Flooder,
    Hoarder,
    OnHostB,
    Sizer,
    Stranger,
    bomb,
    dial,
    have_met,
    hung_up,
    running,
    serves,
)

pytestmark = pytest.mark.processes
OUT = ssl.PROTOCOL_TLS_CLIENT
ALERT = 21  # the first byte of a record of TLS that refuses the other end
WORD = b"a word that nobody else may read"


class Middle:
    """A man in the middle: he listens at *address*, and leads all to *to* by *lead*."""

    def __init__(
        self,
        to: tuple[str, int],
        lead: Callable[[Middle, socket.socket, socket.socket], None] | None = None,
        at: tuple[str, int] = ("127.0.0.9", 0),
    ) -> None:
        self._to = to
        self._lead = lead or Middle.relay
        self._server = socket.create_server(at)
        self.address: tuple[str, int] = self._server.getsockname()
        self.seen = bytearray()
        self.told = bytearray()
        """The bytes of the diallers, and those of the acceptors."""
        self.alter: Callable[[bytes, bool], bytes] = lambda data, _forth: data
        self.cuts = False
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                guest, _ = self._server.accept()
                host = socket.create_connection(self._to)
                thread = threading.Thread(target=self._one, args=(guest, host))
                self._threads.append(thread)
                thread.start()

    def _one(self, guest: socket.socket, host: socket.socket) -> None:
        with guest, host, contextlib.suppress(OSError, HandshakeError):
            self._lead(self, guest, host)

    def relay(self, guest: socket.socket, host: socket.socket) -> None:
        """Pass all on, altered."""
        while True:
            for sock in select.select([guest, host], [], [], PATIENCE)[0]:
                data = sock.recv(1 << 16)
                if not data:
                    return
                forth = sock is guest
                (self.seen if forth else self.told).extend(data)
                (host if forth else guest).sendall(self.alter(data, forth))
                if self.cuts and forth:
                    return

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


@contextlib.contextmanager
def middle(*arguments: Any, **more: Any) -> Iterator[Middle]:
    made = Middle(*arguments, **more)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def port() -> int:
    return free_port("127.0.0.1")


@pytest.fixture(scope="module")
def guarded(no_socket_left: None, port: int) -> Iterator[ActorSystem]:
    limits = Limits(handshake_timeout=PATIENCE)
    with running(host="127.0.0.1", port=port, key=KEY, limits=limits) as system:
        yield system


def go_to(system: ActorSystem, message: object, to: Address) -> list[object]:
    """Send *message*, which fails; the result are the failures."""
    transport = system._systemBase.transport
    failed: list[object] = []
    intent = TransmitIntent(
        ActorAddress(to), message, onError=lambda status, _: failed.append(status)
    )
    transport.scheduleTransmit(None, intent)
    eventually(lambda: failed or transport.run(None, 0.01))
    return failed


@contextlib.contextmanager
def joined(leader: str, way: tuple[str, int], **options: Any) -> Iterator[ActorSystem]:
    """A host B that dials *leader* by *way*."""
    there = leader.rpartition(":")
    port = free_port("127.0.0.3")
    reach = {"host": "127.0.0.3", "port": port, "key": KEY, "capabilities": {"B": True}}
    routes = {(there[0], int(there[2])): way}
    with running(**{**reach, "convention": leader, "routes": routes, **options}) as system:
        yield system


# ---- what it carries


@pytest.fixture(scope="module")
def pair(no_socket_left: None) -> Iterator[tuple[ActorSystem, ActorSystem, Middle]]:
    """Two hosts; all that the second dials at the first goes through a man who only listens."""
    port = free_port("127.0.0.2")
    leader = f"127.0.0.2:{port}"
    with (
        middle(("127.0.0.2", port)) as tap,
        running(host="127.0.0.2", port=port, key=KEY, convention=leader) as one,
        joined(leader, tap.address) as other,
    ):
        eventually(lambda: have_met(one))
        yield one, other, tap


@pytest.mark.parametrize("size", [0, 1, 1 << 14, (1 << 14) + 1, 3_000_000, 40_000_000])
def test_messages_of_any_size(pair: tuple[ActorSystem, ActorSystem, Middle], size: int) -> None:
    one, other, _ = pair
    for here, there in ((one, other), (other, one)):
        echo = there.createActor(Echo)
        data = np.frombuffer(random.Random(size).randbytes(size), np.uint8)
        with here.private() as asker:
            assert (asker.ask(echo, data, PATIENCE) == data).all()


def test_order_in_both_directions(pair: tuple[ActorSystem, ActorSystem, Middle]) -> None:
    """Each side floods the other: the queues of both fill, and nobody waits for ever."""
    one, other, _ = pair
    here, there = one.createActor(Duelist), other.createActor(Duelist)
    with one.private() as asker:
        asker.tell(here, ("fight", there, 3_000, "x" * 30_000))
        asker.tell(there, ("fight", here, 3_000, "x" * 30_000))
        assert asker.listen(60) is True
        assert asker.listen(60) is True


def test_nothing_is_in_the_clear(pair: tuple[ActorSystem, ActorSystem, Middle]) -> None:
    """A capture has the preamble and TLS: no word of a message, no name of a class, no key."""
    one, other, tap = pair
    echo = one.createActor(Echo)
    with other.private() as asker:
        assert asker.ask(echo, [WORD, "secret", KEY], PATIENCE) == [WORD, "secret", KEY]
    wire = bytes(tap.seen + tap.told)
    for word in (WORD, KEY, b"receive", b"thespian", b"Envelope", b"secret", b"127.0.0.3"):
        assert word not in wire
    start = preamble(echo.addressDetails.key)
    assert start in wire
    assert wire[wire.index(start) + len(start) :].startswith(b"\x16\x03")  # a ClientHello


def test_a_global_name_of_another_host_is_found_again_and_again(
    pair: tuple[ActorSystem, ActorSystem, Middle],
) -> None:
    one, _, _ = pair
    named = [one.createActor(OnHostB, globalName="one of all") for _ in range(3)]
    assert named[0] == named[1] == named[2]
    assert named[0].addressDetails.host == "127.0.0.3", "where its capability is"
    with one.private() as asker:
        assert asker.ask(named[2], "over there", PATIENCE) == "over there"


def test_dead_letters_across_hosts(pair: tuple[ActorSystem, ActorSystem, Middle]) -> None:
    one, other, _ = pair
    with one.private() as here, other.private() as there:
        handler = here.createActor(Hoarder)
        assert here.ask(handler, "collect dead letters", PATIENCE) == "ok"
        victim = there.createActor(Echo)
        sender = here.createActor(Flooder)
        assert there.ask(victim, "there", PATIENCE) == "there"
        there.tell(victim, ActorExitRequest())
        eventually(lambda: there.ask(victim, "gone?", 0.5) is None)
        assert here.ask(sender, (victim, 20, ""), PATIENCE) == "sent"
        expected = [(n, "") for n in range(20)]
        eventually(lambda: here.ask(handler, "report", PATIENCE) == expected)


# ---- a man in the middle


def test_messages_are_not_relayed(guarded: ActorSystem, port: int) -> None:
    """A message to one address does not reach another one: no proof and no introduction leaves."""
    with middle(("127.0.0.1", port)) as man:
        host, at = man.address
        there = Address(f"{host}:{at}", "", host, at)
        assert go_to(guarded, WORD, there) == [SendStatus.DeadTarget]
        opening = preamble(there.key)
        assert man.seen.startswith(opening)
        assert bytes(man.seen[len(opening) :][:2]) in {b"", b"\x16\x03"}  # at most TLS has begun


@pytest.mark.parametrize("forth", [True, False], ids=["dialler", "acceptor"])
def test_altered_bytes_are_refused(guarded: ActorSystem, port: int, forth: bool) -> None:
    """One bit, anywhere in the bytes of either side before its last ones."""
    with middle(("127.0.0.1", port)) as man:
        assert tcp.knock(*man.address, KEY, 0) == f"127.0.0.1:{port}", (
            "unaltered, it is like a wire"
        )
    last = PROOF + 2 + len(f"x-knock127.0.0.1:{port}") if forth else 0
    for at in range(0, len(man.seen if forth else man.told) - last - 100, 41):
        flown = 0

        def alter(data: bytes, this: bool, at: int = at) -> bytes:
            nonlocal flown
            if this is not forth:
                return data
            start, flown = flown, flown + len(data)
            if start <= at < flown:
                spot = at - start
                return data[:spot] + bytes([data[spot] ^ 1]) + data[spot + 1 :]
            return data

        with middle(("127.0.0.1", port)) as man:
            man.alter = alter
            with pytest.raises((HandshakeError, NoSuchSystem)):
                tcp.knock(*man.address, KEY, 0)
    assert serves(guarded)


@pytest.mark.parametrize("cut", [False, True], ids=["altered", "cut"])
def test_a_message_that_is_altered_or_cut_is_dropped(cut: bool) -> None:
    """Nothing of it is unpickled, and the next one needs a new connection.

    TLS refuses an altered record, and its sender gets a dead letter. A connection that is cut ends
    inside a record, without a farewell.
    """

    def spoil(data: bytes, forth: bool) -> bytes:
        if not forth:
            return data
        return data[: len(data) // 2] if cut else data[:-1] + bytes([data[-1] ^ 1])

    port = free_port("127.0.0.2")
    leader = f"127.0.0.2:{port}"
    with (
        middle(("127.0.0.2", port)) as man,
        running(host="127.0.0.2", port=port, key=KEY) as one,
        joined(leader, man.address, convention=None) as other,
    ):
        echo, unaltered = one.createActor(Echo), man.alter
        with other.private() as asker:
            assert asker.ask(echo, "hello", PATIENCE) == "hello"
            man.alter, man.cuts = spoil, cut
            assert asker.ask(echo, "hello", 1.0 if cut else PATIENCE) is None
        man.alter, man.cuts = unaltered, False
        with other.private() as asker:
            assert asker.ask(echo, "hello", PATIENCE) == "hello"


def impersonate(man: Middle, guest: socket.socket, host: socket.socket) -> None:
    """End the TLS of both, with a certificate of one's own, and pass on all that is inside."""
    guest.settimeout(PATIENCE)
    host.settimeout(PATIENCE)
    head = guest.recv(len(MAGIC) + 2, socket.MSG_WAITALL)
    host.sendall(head + guest.recv(int.from_bytes(head[-2:], "big"), socket.MSG_WAITALL))
    own = tls.make()
    inner, outer = tls._context(ssl.PROTOCOL_TLS_SERVER, own), tls._context(OUT, own)
    inner.sslsocket_class = outer.sslsocket_class = ssl.SSLSocket
    with inner.wrap_socket(guest, server_side=True) as near, outer.wrap_socket(host) as far:
        for source, target, into in ((near, far, man.seen), (far, near, man.told)) * 2:
            data = source.recv(1 << 14)
            if not data:
                return
            into.extend(data)
            target.sendall(data)


def test_a_man_with_his_own_certificate_gets_no_proof(guarded: ActorSystem, port: int) -> None:
    """He reads the nonces and the acceptor's proof, which is for another certificate."""
    with (
        middle(("127.0.0.1", port), impersonate) as man,
        pytest.raises(HandshakeError, match="altered the connection"),
    ):
        tcp.knock(*man.address, KEY, 0)
    assert man.seen[NONCE:] == DISBELIEF
    assert len(man.told) > PROOF  # so he was in the middle indeed
    assert serves(guarded)


def test_messages_do_not_pass_a_man_with_his_own_certificate(
    guarded: ActorSystem, port: int
) -> None:
    failed: list[object] = []
    with (
        middle(("127.0.0.1", port), impersonate) as man,
        joined(f"127.0.0.1:{port}", man.address, convention=None) as other,
    ):
        echo = guarded.createActor(Echo)
        failed += go_to(other, WORD, echo.addressDetails)
    assert failed == [SendStatus.DeadTarget]
    assert man.seen[NONCE:] == DISBELIEF


def test_tls_cannot_be_stripped(guarded: ActorSystem, port: int) -> None:
    """Both ends refuse bytes of the handshake outside of TLS, whatever they are told."""
    with dial(port) as stranger:
        stranger.sendall(preamble(ANY_ADMIN) + os.urandom(NONCE))
        told = b""
        with contextlib.suppress(OSError):  # it may have hung up by now
            stranger.shutdown(socket.SHUT_WR)
            told = stranger.recv(4096)
        assert not told or told[0] == ALERT

    def pretend(_: Middle, guest: socket.socket, host: socket.socket) -> None:
        guest.recv(4096)
        with contextlib.suppress(OSError):
            guest.sendall(ANSWER + bytes(NONCE + PROOF) + b"\0\x03you")
            guest.shutdown(socket.SHUT_WR)
        hung_up(guest)

    other = pytest.raises(HandshakeError, match="another key, or another program")
    with middle(("127.0.0.1", port), pretend) as man, other:
        tcp.knock(*man.address, KEY, 0)


def test_older_tls_is_refused(guarded: ActorSystem, port: int) -> None:
    """Whoever offers it: a dialler, or an acceptor."""
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with dial(port) as stranger:
        stranger.sendall(preamble(ANY_ADMIN))
        with pytest.raises(ssl.SSLError, match=r"(?i)version|alert|handshake"):
            old.wrap_socket(stranger)

    def accept_old(_: Middle, guest: socket.socket, host: socket.socket) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        made = tls.make()
        with tls._file(made.cert + made.key) as path:
            context.load_cert_chain(path)
        guest.recv(len(preamble(ANY_ADMIN)), socket.MSG_WAITALL)
        context.wrap_socket(guest, server_side=True)

    with middle(("127.0.0.1", port), accept_old) as man, pytest.raises(HandshakeError):
        tcp.knock(*man.address, KEY, 0)
    assert serves(guarded)


# ---- who has no key, and who has recorded


def test_another_key(guarded: ActorSystem, port: int, tmp_path: Path) -> None:
    trap = tmp_path / "exploded"
    with Stranger.at(port) as stranger:
        stranger.sock.sendall(os.urandom(NONCE))
        assert stranger.sock.recv(4096).startswith(ANSWER)
        name = f"127.0.0.1:{port}"
        stranger.sock.sendall(bytes(PROOF) + _introduction(name, ME) + bomb(trap))
        assert hung_up(stranger.sock)
    with pytest.raises(HandshakeError, match="another key"):
        tcp.knock("127.0.0.1", port, b"w" * 32, 0)
    assert not trap.exists()
    assert serves(guarded)


def test_who_has_the_key_gets_in(guarded: ActorSystem, port: int, tmp_path: Path) -> None:
    """The counterpart, which shows that the others failed for the right reason."""
    trap = tmp_path / "exploded"
    with Stranger.at(port) as friend:
        friend.prove(Dialler(ANY_ADMIN, ME, KEY, os.urandom(NONCE)), bomb(trap))
        eventually(trap.exists)


def test_a_recorded_session_proves_nothing(guarded: ActorSystem, port: int, tmp_path: Path) -> None:
    """Neither its encrypted bytes, nor those inside, if somebody has got at them."""
    trap = tmp_path / "exploded"
    with Stranger.at(port) as honest:
        inside = honest.prove(Dialler(ANY_ADMIN, ME, KEY, os.urandom(NONCE)))
    with Stranger.at(port) as stranger:
        assert stranger.certificate == honest.certificate
        stranger.sock.sendall(inside[0])
        assert stranger.sock.recv(4096).startswith(ANSWER)
        stranger.sock.sendall(inside[1] + bomb(trap))
        assert hung_up(stranger.sock)
    with middle(("127.0.0.1", port)) as tap:
        tcp.knock(*tap.address, KEY, 0)
    with dial(port) as stranger_again:
        with contextlib.suppress(OSError):
            stranger_again.sendall(bytes(tap.seen) + bomb(trap))
            stranger_again.shutdown(socket.SHUT_WR)
        assert hung_up(stranger_again)
    assert not trap.exists()
    assert serves(guarded)


# ---- an authority


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TLS]:
    """Two certificates of one authority, and one of another."""
    folder = tmp_path_factory.mktemp("authorities")
    ours, theirs = Authority(folder, "ours"), Authority(folder, "theirs")
    return {"A": ours.sign("A"), "B": ours.sign("B"), "X": theirs.sign("X", ours)}


def test_certificates_of_an_authority(authorities: dict[str, TLS]) -> None:
    """Both ends show one. Who has none of it, or has another one, gets nowhere with the key."""
    port = free_port("127.0.0.2")
    leader = f"127.0.0.2:{port}"
    options = {"host": "127.0.0.2", "port": port, "key": KEY, "tls": authorities["A"]}
    with running(**options, convention=leader) as one:
        way = ("127.0.0.2", port)
        with joined(leader, way, tls=authorities["B"]) as other:
            eventually(lambda: have_met(one))
            array = np.arange(2_000_000)
            with other.private() as asker:
                assert asker.ask(one.createActor(Sizer), array, PATIENCE) == (
                    array.nbytes,
                    array[-1],
                )
        ours = authorities["B"]
        assert tcp.knock("127.0.0.2", port, KEY, 0, ours) == leader
        for wrong in (None, authorities["X"]):
            with pytest.raises(HandshakeError, match=r"cannot be encrypted|another key"):
                tcp.knock("127.0.0.2", port, KEY, 0, wrong)
        with pytest.raises(HandshakeError, match="another key"):
            tcp.knock("127.0.0.2", port, b"w" * 32, 0, ours)
        assert serves(one)


def test_a_host_without_a_certificate_is_refused(
    guarded: ActorSystem, port: int, authorities: dict[str, TLS]
) -> None:
    with pytest.raises(HandshakeError, match="is not of our authority"):
        tcp.knock("127.0.0.1", port, KEY, 0, authorities["A"])


def test_the_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(InvalidCertificate, match="pip install cryptography"):
        system_base(host="127.0.0.1", port=1900, key=KEY)
    with running() as system:
        assert serves(system)


def test_files_that_are_wrong(authorities: dict[str, TLS], tmp_path: Path) -> None:
    good = authorities["A"]
    empty = tmp_path / "empty"
    empty.touch()
    for wrong in (
        replace(good, cert=empty),
        replace(good, key=authorities["B"].key),
        replace(good, ca=empty),
        replace(good, ca=tmp_path / "none"),
        TLS(good.key, good.cert, good.ca),
    ):
        with pytest.raises(InvalidCertificate, match="cannot be used"):
            system_base(host="127.0.0.1", port=1900, key=KEY, tls=wrong)
    with pytest.raises(InvalidCertificate, match="must be a TLS"):
        system_base(host="127.0.0.1", port=1900, key=KEY, tls="cert.pem")  # type: ignore[arg-type]
