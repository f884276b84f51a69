"""Bytes on the base's sockets: to a listener in this process, before and after the handshake.

After any input, the listener hangs up or waits, counts its refusals, unpickles nothing of
strangers, and goes on serving all others.
"""

from __future__ import annotations

import contextlib
import random
import select
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from thespian.actors import ActorSystem

from farref.actors.base import Limits, tls
from farref.actors.base.addresses import Address
from farref.actors.base.errors import FrameError, HandshakeError
from farref.actors.base.framing import DATA, HEADER, Encoder, FrameDecoder
from farref.actors.base.handshake import (
    LOCAL,
    MAGIC,
    NONCE,
    Acceptor,
    Dialler,
    missing,
    preamble,
    wanted,
)

from ..base.kit import KEY, PATIENCE, Echo, bomb, hung_up, running
from ..ports import free_port
from ..waiting import eventually
from .cases import cases, damaged

LIMIT = 1_000_000
CERTIFICATE = b"c" * 32


class Victim:
    """A program's transport, run by this thread, in a system with one actor."""

    def __init__(self, system: ActorSystem) -> None:
        self.system = system
        self.transport = system._systemBase.transport
        self.me: Address = self.transport._me
        self.echo = system.createActor(Echo)
        self.got: list[Any] = []

    def run(self) -> None:
        """Do all work that is possible now."""
        while hasattr(envelope := self.transport.run(None, 0), "message"):
            self.got.append(envelope.message)

    def dial(self, *, near: bool) -> socket.socket:
        """A connection to the victim itself: from afar, its host has passed it on already."""
        family = socket.AF_UNIX if near else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.settimeout(PATIENCE)
        sock.connect(self.me.path if near else (self.me.host, self.me.port))
        if not near:
            sock.sendall(preamble(self.me.key))
        return sock

    def encrypted(self) -> tuple[tls.SecureSocket, bytes]:
        """A connection from afar in which TLS has begun, and the hash of the certificate."""
        sock = self.dial(near=False)
        sock.setblocking(False)
        secure = tls.dial(sock, tls.NOTHING_TO_SHOW)
        while True:
            try:
                certificate, _ = secure.meet()
            except BlockingIOError:
                self.run()
            else:
                secure.settimeout(PATIENCE)
                return secure, certificate

    def enter(self, rng: random.Random, *, near: bool) -> socket.socket:
        """A connection after its handshake, as any holder of the key gets it."""
        me = Address(f"fuzz-{rng.random()}", "", "127.0.0.1", 9)
        dialler = Dialler(self.me.key, me, b"" if near else KEY, rng.randbytes(NONCE))
        if near:
            sock = self.dial(near=True)
            sock.sendall(dialler.opening)
            return sock
        secure, certificate = self.encrypted()
        secure.sendall(dialler.bind(certificate))
        while not select.select([secure], [], [], 0.001)[0]:  # the bytes may take a moment
            self.run()
        secure.sendall(dialler.feed(secure.recv(4096)))
        return secure

    def serves(self) -> bool:
        return bool(self.system.ask(self.echo, "hello", PATIENCE) == "hello")

    def strangers(self) -> int:
        return len(self.transport._listener.strangers)


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    limits = Limits(handshake_timeout=1, max_message_bytes=LIMIT)
    options = {"host": "127.0.0.1", "port": free_port("127.0.0.1"), "key": KEY}
    with running(**options, limits=limits) as system:
        yield Victim(system)


def opening(rng: random.Random, victim: Victim, *, near: bool) -> bytes:
    want = rng.choice((victim.me.key, "nobody", ""))
    me = Address(
        "stranger", "", rng.choice(("", "127.0.0.1", "no host")), rng.choice((9, -1, 10**9))
    )
    dialler = Dialler(want, me, b"" if near else b"w" * 32, rng.randbytes(NONCE))
    return dialler.opening if near else dialler.bind(CERTIFICATE)


def strange(rng: random.Random, victim: Victim, boom: bytes, *, near: bool) -> tuple[bytes, bool]:
    """A stranger's bytes, and whether the listener must hang up on them."""
    match rng.randrange(8):
        case 0:
            return bytes([rng.randrange(128, 256)]) + rng.randbytes(rng.randint(100, 3000)), True
        case 1:
            return b"GET / HTTP/1.0\r\n\r\n" + b"\0" * 80, True
        case 2:
            return b"FARREF3\nL" + b"\0" * 80, True
        case 3:
            return MAGIC + (b"K" if near else LOCAL) + boom + b"\0" * 80, True
        case 4:
            return boom + b"\0" * 80, True
        case 5 if near:
            return MAGIC + LOCAL + b"\xff\xff" + rng.randbytes(100), True
        case 6:
            return damaged(rng, opening(rng, victim, near=near)), False
        case _:
            whole = opening(rng, victim, near=near)
            return whole[: rng.randrange(len(whole))], False


def leave(rng: random.Random, sock: socket.socket) -> None:
    """End *sock*: in order, half, or by a reset."""
    with contextlib.suppress(OSError):
        match rng.randrange(3):
            case 0:
                sock.shutdown(socket.SHUT_WR)
            case 1:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            case _:
                pass
    sock.close()


def say(rng: random.Random, victim: Victim, sock: socket.socket, data: bytes) -> None:
    """Send all at once, or in pieces; the listener may hang up before the end."""
    pieces = rng.choice((1, 1, 1, 3, 10))
    size = max(1, -(-len(data) // pieces))
    with contextlib.suppress(OSError):
        for start in range(0, len(data), size):
            sock.sendall(data[start : start + size])
            victim.run()


@pytest.mark.processes
def test_sockets(victim: Victim, tmp_path: Path) -> None:
    trap = tmp_path / "exploded"
    boom = bomb(trap)
    before, must = victim.transport.refused, 0
    for case in cases("sockets"):
        with case as rng:
            near, inside = rng.random() < 0.5, rng.random() < 0.8
            data, refused = strange(rng, victim, boom, near=near)
            secure = inside and not near
            with victim.encrypted()[0] if secure else victim.dial(near=near) as sock:
                say(rng, victim, sock, data)
                leave(rng, sock)
            victim.run()
            must += refused
            assert not trap.exists(), "something of a stranger's was unpickled"
            if case.number % 200 == 0:
                assert victim.serves()

    def over() -> bool:
        victim.run()
        return not victim.strangers()

    def refused_enough() -> bool:
        victim.run()  # a reset may arrive before its bytes
        return bool(victim.transport.refused - before >= must * 0.9)

    eventually(refused_enough)
    eventually(over)
    assert victim.serves()


@pytest.mark.processes
def test_ports(victim: Victim, tmp_path: Path) -> None:
    """The port of a host passes nothing on that names nobody, and goes on."""
    trap = tmp_path / "exploded"
    boom = bomb(trap)
    for case in cases("ports"):
        with case as rng:
            data, refused = at_port(rng, victim, boom)
            with socket.create_connection((victim.me.host, victim.me.port), PATIENCE) as sock:
                say(rng, victim, sock, data)
                if refused:
                    assert hung_up(sock)
                leave(rng, sock)
            victim.run()
            assert not trap.exists(), "something of a stranger's was unpickled"
            if case.number % 200 == 0:
                assert victim.serves()
    assert victim.serves()


def at_port(rng: random.Random, victim: Victim, boom: bytes) -> tuple[bytes, bool]:
    """A stranger's bytes at the port of a host, and whether it must hang up on them."""
    match rng.randrange(6):
        case 0:
            return bytes([rng.randrange(128, 256)]) + rng.randbytes(rng.randint(0, 3000)), True
        case 1:
            return b"FARREF%d\n" % rng.choice((0, 1, 2, 3, 9999)) + boom, True
        case 2:
            return MAGIC + LOCAL + boom, True
        case 3:
            name = rng.choice(("nobody", "", "../key", "x-" + "0" * 20, "\0" * 300))
            return preamble(name) + boom, True
        case 4:
            return damaged(rng, preamble(victim.me.key) + rng.randbytes(NONCE)), False
        case _:
            whole = preamble(rng.choice((victim.me.key, "admin", "nobody")))
            return whole[: rng.randrange(len(whole))], False


VALUES: tuple[Any, ...] = (
    None, 7, 2.5, "text", b"bytes", [1, [2, [3]]], {"a": (1, 2), "b": {3}}, "y" * 3000,
    b"z" * 70_000,
)  # fmt: skip


def framed(rng: random.Random) -> tuple[bytes, bool]:
    """Bytes of a key's holder, and whether the listener must refuse them."""
    whole = b"".join(bytes(part) for part in Encoder().encode(rng.choice(VALUES)))
    match rng.randrange(8):
        case 0:
            return HEADER.pack(rng.randrange(LIMIT + 1, 1 << 63), 0, DATA), True
        case 1:
            return HEADER.pack(9, 0, rng.randrange(4, 256)), True
        case 2:
            return HEADER.pack(9, rng.randrange((1 << 16) + 1, 1 << 32), DATA), True
        case 3:
            sizes = struct.pack("<2Q", rng.randrange(LIMIT, 1 << 63), rng.randrange(1 << 63))
            return HEADER.pack(9, 2, DATA) + sizes, True
        case 4:
            body = rng.randbytes(rng.randint(1, 200))
            return HEADER.pack(len(body), 0, DATA) + b"\xff" + body[1:], True
        case 5:
            return whole[: rng.randrange(len(whole))], False
        case 6:
            return whole, False
        case _:
            return damaged(rng, whole), False


@pytest.mark.processes
def test_frames(victim: Victim, little_memory: None) -> None:
    before, must = victim.transport.refused, 0
    for case in cases("frames"):
        with case as rng:
            data, refused = framed(rng)
            with victim.enter(rng, near=rng.random() < 0.7) as sock:
                say(rng, victim, sock, data)
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_WR)
                victim.run()
            must += refused
            if case.number % 200 == 0:
                assert victim.serves()

    def all_refused() -> bool:
        victim.run()
        return bool(victim.transport.refused - before >= must)

    eventually(all_refused)
    assert victim.serves()


# ---- the machines alone


def ported(said: bytes) -> bytes:
    """The preamble in *said*, as a port reads it."""
    read = b""
    while (left := missing(read)) > 0 and len(read) < len(said):
        read += said[len(read) :][:left]
    wanted(read)
    return read


def in_pieces(rng: random.Random, data: bytes) -> Iterator[bytes]:
    while data:
        size = rng.choice((1, 7, 64, 5000))
        yield data[:size]
        data = data[size:]


def test_handshakes(little_memory: None) -> None:
    """Each machine ends with its own error, or waits for more; nothing else is raised."""
    me = Address("me", "", "127.0.0.1", 9)
    let_in = refused = 0
    for case in cases("handshakes"):
        with case as rng:
            key = rng.choice((b"", KEY))
            dialler = Dialler("me", me, key, rng.randbytes(NONCE))
            spoil = rng.randrange(5)
            try:
                said, named = dialler.opening, b""
                if key:
                    named = ported(damaged(rng, said) if spoil == 4 else said)
                    said = dialler.bind(CERTIFICATE)
                nonce = rng.randbytes(NONCE)
                acceptor = Acceptor(
                    Address("me"), key, nonce, preamble=named, certificate=CERTIFICATE
                )
                for turn in range(3):
                    heard = damaged(rng, said) if turn == spoil else said
                    feed = (acceptor if turn % 2 == 0 else dialler).feed
                    said = b"".join([feed(piece) for piece in in_pieces(rng, heard)])
                if acceptor.peer is not None:
                    let_in += 1
                    assert spoil > 2 or not key or acceptor.peer == me
                frames = FrameDecoder(LIMIT)
                for piece in in_pieces(rng, damaged(rng, framed(rng)[0])):
                    frames.feed(piece)
            except (HandshakeError, FrameError):
                refused += 1
    assert let_in or not refused > 100
