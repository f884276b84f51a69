"""Connections between agents. Both ends prove that they know the key, before anything is believed.

::

    dialler   HELLO, a nonce
    first     a nonce, and the MAC of both under the key
    both      frames: length, MAC, and a JSON object

Each frame's MAC is by a key of this connection and direction, and covers the number of the frame.
So nobody without the key can begin a connection, or alter, repeat or drop a frame unnoticed. Frames
are not encrypted, and have no secret.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import secrets
import socket
import struct
from typing import Any, Final

from ..actors.base import tcp
from .errors import LaunchError

HELLO: Final = b"farref run 1\n"
NONCE: Final = 32  # bytes
MAC: Final = 32
LARGEST: Final = 1 << 16
LENGTH: Final = struct.Struct(">I")
PROOF: Final = 10.0
"""Seconds that the other end has for its part of the beginning."""
IDLE, PATIENCE = 5, 11.0
"""Seconds after which a silent end is asked whether it is there, and is given up."""


class LineError(Exception):
    """The connection has ended, or its other end is not an agent of this run."""


class WrongKeyError(LaunchError):
    """The first agent has another key."""


class Line:
    """One connection. Made by `dial` and `answer`."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keys: tuple[bytes, bytes]
    ) -> None:
        self._reader, self._writer = reader, writer
        self._mine, self._theirs = keys
        self._sent = self._received = 0
        sock = writer.get_extra_info("socket")
        self.local = plain(sock.getsockname()[0])
        self.peer = plain(sock.getpeername()[0])
        tcp.tune(sock, PATIENCE, IDLE)

    async def send(self, **fields: Any) -> None:
        """Send a frame. Raises `LineError`."""
        body = json.dumps(fields).encode()
        mac = _mac(self._mine, LENGTH.pack(self._sent), body)
        self._sent += 1
        try:
            self._writer.write(LENGTH.pack(len(body)) + mac + body)
            await self._writer.drain()
        except OSError as error:
            raise LineError(str(error)) from error

    async def receive(self) -> dict[str, Any]:
        """The next frame. Raises `LineError`."""
        try:
            head = await self._reader.readexactly(LENGTH.size + MAC)
            (length,) = LENGTH.unpack(head[: LENGTH.size])
            if length > LARGEST:
                raise LineError("it sent too long a frame")
            body = await self._reader.readexactly(length)
        except asyncio.IncompleteReadError:
            raise LineError("its connection was closed") from None
        except OSError as error:
            raise LineError(f"its connection broke ({error})") from error
        if not _same(head[LENGTH.size :], self._theirs, LENGTH.pack(self._received), body):
            raise LineError("it sent a frame that is not signed by the key")
        self._received += 1
        fields: dict[str, Any] = json.loads(body)
        return fields

    async def close(self) -> None:
        """Close it, after all that was sent."""
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            await asyncio.wait_for(self._writer.wait_closed(), 1.0)


async def dial(address: str, port: int, key: bytes) -> Line:
    """Connect to the first agent.

    Raises:
        OSError: nobody is there. A `TimeoutError` is one.
        WrongKeyError: it has another key, or is another program.
    """
    async with asyncio.timeout(PROOF):
        reader, writer = await asyncio.open_connection(address, port)
        try:
            mine = secrets.token_bytes(NONCE)
            writer.write(HELLO + mine)
            try:
                answer = await reader.readexactly(NONCE + MAC)
            except asyncio.IncompleteReadError as error:
                raise ConnectionError("the connection was closed") from error
            nonces = mine + answer[:NONCE]
            if not _same(answer[NONCE:], key, b"first", nonces):
                raise WrongKeyError(  # noqa: TRY301 - what is below only closes
                    f"at {address}:{port} is an agent with another key, or another program"
                )
            return Line(reader, writer, _keys(key, nonces, b"other", b"first"))
        except BaseException:
            writer.close()
            raise


async def answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: bytes
) -> tuple[Line, dict[str, Any]]:
    """The connection of a dialler that knows the key, and its first frame. Raises `LineError`."""
    try:
        async with asyncio.timeout(PROOF):
            opening = await reader.readexactly(len(HELLO) + NONCE)
            if not opening.startswith(HELLO):
                raise LineError("it is not an agent of farref run")
            mine = secrets.token_bytes(NONCE)
            nonces = opening[len(HELLO) :] + mine
            writer.write(mine + _mac(key, b"first", nonces))
            line = Line(reader, writer, _keys(key, nonces, b"first", b"other"))
            return line, await line.receive()
    except (OSError, asyncio.IncompleteReadError) as error:
        raise LineError(str(error)) from error


def listener(address: str, port: int) -> socket.socket:
    """A listening socket at *address*; empty: at all addresses. Raises `LaunchError`."""
    try:
        if address:
            return socket.create_server((address, port))
        if socket.has_dualstack_ipv6():
            with contextlib.suppress(OSError):  # there may be no IPv6 on this machine
                return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", port))
    except OSError as error:
        raise LaunchError(
            f"the first node cannot listen at {address or '*'}:{port}: {error.strerror}; name"
            " another port with --first ADDRESS:PORT, on every node"
        ) from error


def plain(address: str) -> str:
    """*address* without the prefix that an IPv4 address has at a socket for both kinds."""
    return address.removeprefix("::ffff:")


def _keys(key: bytes, nonces: bytes, mine: bytes, theirs: bytes) -> tuple[bytes, bytes]:
    return _mac(key, b"frames of " + mine, nonces), _mac(key, b"frames of " + theirs, nonces)


def _mac(key: bytes, label: bytes, body: bytes) -> bytes:
    return hmac.digest(key, HELLO + LENGTH.pack(len(label)) + label + body, "sha256")


def _same(mac: bytes, key: bytes, label: bytes, body: bytes) -> bool:
    return hmac.compare_digest(mac, _mac(key, label, body))
