"""Where others reach us: listening sockets, and strangers until they have introduced themselves.

A stranger costs one descriptor and a few hundred bytes: at most ``max_handshakes`` may be in
the handshake at one door at a time, each for at most ``handshake_timeout`` seconds from accept to
the last byte, however slowly it dribbles.  On a Unix socket a peer with another uid is closed
before a byte is read.  Each door has strangers of its own: those who crowd the one to other hosts
keep nobody of this host waiting.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from . import places, tcp
from ._thespian import thesplog
from .addresses import Address
from .handshake import NONCE, Acceptor
from .inbox import Inbox
from .incoming import READ_SIZE, InConnection
from .outbox import peer_uid
from .poller import READABLE, Poller
from .settings import Settings

ACCEPTS_PER_TURN: Final = 64
PAUSE: Final = 0.1  # seconds without accepting when out of descriptors


@dataclass(frozen=True, slots=True)
class Sockets:
    """The listening sockets of one actor and the address they make.

    Bound by the parent before the child exists, so that the child's address is final at
    once; multiprocessing knows how to hand sockets to forked and to spawned children.
    """

    address: Address
    local: socket.socket
    remote: socket.socket | None

    def close(self) -> None:
        """Close this process's copies."""
        self.local.close()
        if self.remote is not None:
            self.remote.close()

    def discard(self) -> None:
        """Nobody will use them: close them and remove the name."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.address.path)
        self.close()


def bind(settings: Settings, address: Address) -> Sockets:
    """Listen at *address* (TCP port 0: any).  Raises OSError if it is taken."""
    local = places.listen_at(address.path)
    if not settings.tcp:
        return Sockets(address, local, None)
    try:
        remote = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            remote.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            remote.bind((address.host, address.port))
            remote.listen(places.BACKLOG)
        except BaseException:
            remote.close()
            raise
    except BaseException:
        local.close()
        os.unlink(address.path)
        raise
    port = remote.getsockname()[1]
    return Sockets(Address(address.key, address.path, address.host, port), local, remote)


class _Door:
    """One listening socket in the poller."""

    def __init__(self, sock: socket.socket, accept: Callable[[_Door], None]) -> None:
        self.sock = sock
        self._accept = accept
        self.strangers: dict[InConnection, float] = {}  # and their deadlines, oldest first
        self.paused_until = 0.0

    def on_event(self, events: int) -> None:  # noqa: ARG002 (contract of Owner)
        """Somebody knocks."""
        self._accept(self)


class Listener:
    """Accepts connections and lets them into the inbox once they are authenticated."""

    def __init__(self, settings: Settings, sockets: Sockets, poller: Poller, inbox: Inbox) -> None:
        self._settings = settings
        self._sockets = sockets
        self._poller = poller
        self._inbox = inbox
        self._scratch = memoryview(bytearray(READ_SIZE))
        self._doors = [
            _Door(sock, self._accept)
            for sock in (sockets.local, sockets.remote)
            if sock is not None
        ]
        self.connections: set[InConnection] = set()
        self.refused = 0
        """Connections closed for what came on them, or for what did not come in time."""
        for door in self._doors:
            door.sock.setblocking(False)
            poller.add(door.sock.fileno(), READABLE, door)

    def _is_me(self, want: str) -> bool:
        me = self._sockets.address
        # An admin is also known by its path, and by its port under any name of this host.
        return want == me.key or (
            me.well_known and (want == me.path or want.endswith(f":{me.port}"))
        )

    def _accept(self, door: _Door) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if len(door.strangers) >= self._settings.limits.max_handshakes:
                self._pause(door)
                return
            try:
                sock, _ = door.sock.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    thesplog("cannot accept connections: %s", error, level=40)
                    self._pause(door)
                return  # else the caller hung up before we answered
            self._admit(door, sock)

    def _admit(self, door: _Door, sock: socket.socket) -> None:
        sock.setblocking(False)
        key = b""
        if sock.family == socket.AF_UNIX:
            if peer_uid(sock) != os.getuid():
                thesplog("refused a connection from uid %d", peer_uid(sock), level=30)
                sock.close()
                self.refused += 1
                return
        else:
            tcp.tune(sock, self._settings.limits)
            key = self._settings.key
        limits = self._settings.limits
        acceptor = Acceptor(self._is_me, key, secrets.token_bytes(NONCE))
        connection = InConnection(
            sock,
            acceptor,
            poller=self._poller,
            inbox=self._inbox,
            limits=limits,
            scratch=self._scratch,
            on_change=self._changed,
        )
        door.strangers[connection] = perf_counter() + limits.handshake_timeout
        # The usual peer has introduced itself already: that saves a turn of the loop.
        connection.on_event(READABLE)

    def _changed(self, connection: InConnection) -> None:
        for door in self._doors:
            door.strangers.pop(connection, None)
        if connection.closed:
            self.refused += connection.refused
            self.connections.discard(connection)
        else:
            self.connections.add(connection)

    def _pause(self, door: _Door) -> None:
        door.paused_until = perf_counter() + PAUSE
        self._poller.change(door.sock.fileno(), 0)

    def tick(self, now: float) -> None:
        """Hang up on strangers that took too long; open the doors again."""
        for door in self._doors:
            late = [stranger for stranger, deadline in door.strangers.items() if deadline <= now]
            for stranger in late:
                stranger.refused = True
                stranger.close()
            if door.paused_until and door.paused_until <= now:
                door.paused_until = 0.0
                self._poller.change(door.sock.fileno(), READABLE)

    @property
    def next_due(self) -> float | None:
        """When :meth:`tick` wants to be called, on the clock of ``perf_counter``."""
        due = math.inf
        for door in self._doors:  # asked in every turn: mostly there is nobody
            if door.paused_until:
                due = min(due, door.paused_until)
            if door.strangers:
                due = min(due, next(iter(door.strangers.values())))
        return None if due == math.inf else due

    @property
    def strangers(self) -> list[InConnection]:
        """Those who have not introduced themselves yet."""
        return [stranger for door in self._doors for stranger in door.strangers]

    def close(self, *, unlink: bool) -> None:
        """Close every connection and stop listening; *unlink* our socket if it is ours."""
        if unlink:
            # Before closing: nobody can have taken the name of a socket that still answers.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._sockets.address.path)
        for connection in [*self.connections, *self.strangers]:
            connection.close()
        for door in self._doors:
            self._poller.remove(door.sock.fileno())
        self._sockets.close()

    def abandon(self) -> None:
        """In a forked child: close the parent's sockets, without a word to anybody."""
        for connection in [*self.connections, *self.strangers]:
            connection.abandon()
        self._sockets.close()
