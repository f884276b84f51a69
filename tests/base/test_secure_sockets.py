"""One encrypted connection in this process: records that do not end where messages do."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farref.actors.base import Address, CrowdedOut, HandshakeError, Limits, tls
from farref.actors.base.framing import Encoder
from farref.actors.base.handshake import CROWDED, Acceptor, Dialler, preamble
from farref.actors.base.inbox import Inbox
from farref.actors.base.incoming import ACK, READ_SIZE, SecureInConnection
from farref.actors.base.poller import Poller

from .authority import Authority
from .kit import KEY, ME, PATIENCE

OURS = tls.make()


class Ends:
    """Both ends of a connection: a real one of ours, and the other one's socket."""

    def __init__(self, limits: Limits, *, small: bool = False) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            theirs = socket.socket()
            if small:
                theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 15)
            theirs.connect(server.getsockname())
            mine, _ = server.accept()
        for sock in (theirs, mine):
            sock.setblocking(False)
        self.poller = Poller(0)
        self.inbox = Inbox()
        me = Address("you")
        named = preamble("you")
        acceptor = Acceptor(me, KEY, bytes(32), preamble=named, certificate=OURS.digest)
        self.dialler = Dialler("you", ME, KEY, bytes(32))
        self.theirs = tls.dial(theirs, OURS)
        self.mine = SecureInConnection(
            tls.accept(mine, OURS),
            acceptor,
            "somebody",
            poller=self.poller,
            inbox=self.inbox,
            limits=limits,
            scratch=memoryview(bytearray(READ_SIZE)),
            on_change=lambda _: None,
        )

    def until(self, condition: Callable[[], object]) -> Any:
        """Run our end until *condition* is true and raises no BlockingIOError."""
        for _ in range(2000):
            try:
                if done := condition():
                    return done
            except BlockingIOError:
                pass
            self.poller.wait(0.01)
        pytest.fail("it waits for ever")

    def meet(self) -> tuple[bytes, bytes]:
        return self.theirs.meet()

    def enter(self) -> None:
        """Make the connection."""
        certificate, clear = self.until(self.meet)
        assert (certificate, clear) == (OURS.digest, b"")
        self.theirs.send(self.dialler.bind(certificate))
        answer = self.until(lambda: self.theirs.recv(4096))
        self.theirs.send(self.dialler.feed(answer))
        assert self.until(lambda: self.mine.accepted)

    def close(self) -> None:
        self.mine.close()
        self.theirs.close()
        self.poller.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends(Limits(max_backlog_messages=1))
    yield made
    made.close()


def encoded(message: object) -> bytes:
    return b"".join(bytes(part) for part in Encoder().encode(message))


LARGE = encoded(np.zeros(100_000, np.uint8))
SMALL = encoded("small")


def test_a_record_that_ends_one_message_and_has_the_next(ends: Ends) -> None:
    """The poller does not see the rest of a record; no more bytes come."""
    ends.enter()
    ends.theirs.send(LARGE[:-1000])
    for _ in range(50):
        ends.poller.wait(0.001)
    assert len(ends.mine) == 0
    assert ends.theirs.send(LARGE[-1000:] + SMALL) < tls.RECORD
    assert ends.until(lambda: len(ends.mine) == 2)


def test_a_pause_in_the_middle_of_a_record(ends: Ends) -> None:
    """Reading goes on with the bytes that were there before the pause, and no more come."""
    ends.enter()
    ends.theirs.send(SMALL + LARGE[:-1000])
    assert ends.until(lambda: len(ends.mine) == 1)
    for _ in range(50):
        ends.poller.wait(0.001)
    ends.theirs.send(LARGE[-1000:] + SMALL * 3)
    assert ends.until(lambda: len(ends.mine) == 2)
    for _ in range(20):
        ends.poller.wait(0.001)
        assert len(ends.mine) == 2  # the backlog is full
    for _ in range(2):
        ends.mine.pop()
    assert ends.until(lambda: len(ends.mine) == 3)


def test_counts_that_the_kernel_does_not_take() -> None:
    """The last count arrives, though an older one was stuck half way."""
    ends = Ends(Limits(), small=True)
    ends.enter()
    ends.mine._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    while not ends.mine._unsent:
        ends.mine.handled += 1
        ends.mine.acknowledge()
        assert ends.mine.handled < 10_000_000
    counts: list[int] = []

    def drained() -> bool:
        data = ends.theirs.recv(1 << 16)
        counts.extend(count for (count,) in ACK.iter_unpack(data))
        return False

    for _ in range(2000):
        try:
            drained()
        except BlockingIOError:
            break
    ends.mine.handled += 1
    ends.mine.acknowledge()
    ends.until(lambda: drained() or counts[-1] == ends.mine.handled)
    assert counts == sorted(set(counts))
    ends.close()


@pytest.mark.parametrize("early", [False, True], ids=["later", "at once"])
def test_a_stranger_is_told_before_tls(ends: Ends, *, early: bool) -> None:
    """Also if the notice is there before its own first record goes."""
    if not early:
        with pytest.raises(BlockingIOError):
            ends.meet()
    ends.mine.refuse("there is a crowd", CROWDED)
    for _ in range(2):  # the head of a record, and the rest
        certificate, told = ends.until(ends.meet)
        assert not certificate
        with contextlib.suppress(CrowdedOut):
            assert ends.dialler.feed(told) == b""
            continue
        return
    pytest.fail("it has not understood")


@pytest.mark.parametrize("first", [b"GET / HTTP/1.0\r\n\r\n", b"\0", b"\x17\x03\x03\0\x20"])
def test_who_does_not_speak_tls_is_refused_with_a_reason(ends: Ends, first: bytes) -> None:
    """The log tells the reason."""
    ends.theirs.notify(first + bytes(200))
    assert "cannot be encrypted" in ends.until(lambda: ends.mine.refused)


def test_an_acceptor_that_closes_says_nothing(ends: Ends) -> None:
    ends.mine.close()
    assert ends.until(ends.meet) == (b"", b"")


def test_a_stranger_is_told_in_the_middle_of_tls(ends: Ends) -> None:
    """It dials again, as after a reset: the notice is no record."""
    with pytest.raises(BlockingIOError):
        ends.meet()
    ends.until(lambda: ends.poller.wait(0.05) or True)
    ends.mine.refuse("there is a crowd", CROWDED)
    certificate, _ = ends.until(ends.meet)
    assert certificate
    with pytest.raises(ConnectionResetError):
        ends.until(lambda: ends.theirs.recv(100))


def test_pieces_are_never_shorter_when_they_are_offered_again() -> None:
    """TLS wants the same bytes again, and as many, if it could not write a record."""
    sizes = [1, 100, 20_000, 70_000, 3, 40_000, 30_000, 5, tls.GATHER, 1, 1]
    parts = [bytes([number]) * size for number, size in enumerate(sizes)]
    whole = b"".join(parts)

    def piece_at(offset: int) -> bytes:
        rest, skipped = [], 0
        for part in parts:
            if skipped + len(part) > offset:
                rest.append(memoryview(part)[max(0, offset - skipped) :])
            skipped += len(part)
        return bytes(tls._first_of(rest))

    start = 0
    while start < len(whole):
        piece = piece_at(start)
        assert piece == whole[start : start + len(piece)]
        for at in range(0, len(piece), tls.RECORD):
            assert piece_at(start + at).startswith(piece[at : at + tls.RECORD])
        start += len(piece)


@pytest.mark.parametrize("make", [tls.accept, tls.dial])
def test_a_peer_that_has_gone(make: Callable[..., tls.SecureSocket]) -> None:
    """Python's ``ssl`` takes it for a socket to connect later, and would not encrypt."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname(), PATIENCE)
        mine, _ = server.accept()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    theirs.close()
    with contextlib.suppress(ConnectionResetError):
        mine.recv(1)
    mine.setblocking(False)
    with mine, pytest.raises(ConnectionResetError, match="the other end has gone"):
        make(mine, OURS)


@pytest.mark.parametrize(
    ("refused", "told"),
    [(True, "certificate required"), (False, "the acceptor has hung up")],
)
def test_an_acceptor_that_hangs_up_before_the_first_bytes(
    tmp_path: Path, *, refused: bool, told: str
) -> None:
    """The dialler has made the connection, but the acceptor may have refused its certificate."""
    given = tls.read(Authority(tmp_path, "ours").sign("A")) if refused else OURS
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname(), PATIENCE)
        mine, _ = server.accept()
    for sock in (theirs, mine):
        sock.setblocking(False)
    with tls.dial(theirs, OURS) as dialler, tls.accept(mine, given) as acceptor:
        for ready in (dialler.meet, lambda: acceptor.recv(1)):
            with pytest.raises(BlockingIOError):
                ready()
        assert dialler.meet() == (given.digest, b"")
        if refused:
            with pytest.raises(HandshakeError, match="did not return a certificate"):
                acceptor.recv(1)
        else:  # closing with unread bytes resets the connection
            acceptor.close()
        acceptor.close()
        with pytest.raises(HandshakeError if refused else ConnectionResetError, match=told):
            dialler.send_first(b"nonce")


def test_no_session_is_resumed(ends: Ends) -> None:
    ends.enter()
    assert ends.theirs.version() == "TLSv1.3"
    session = ends.theirs.session
    assert session is None or not session.has_ticket
    assert isinstance(ends.theirs, ssl.SSLSocket)
