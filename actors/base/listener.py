"""The listening sockets, and strangers until they have introduced themselves.

A stranger costs one descriptor and a few hundred bytes.  It may stay for ``handshake_timeout``
seconds from accept to the last byte, however slowly it sends.

*On a TCP port* at most ``max_handshakes`` strangers may be in the handshake at a time.  One more
replaces the oldest that has sent nothing yet, or the oldest of all if each has sent something.  (A
peer of ours sends its part at once, and needs only one packet in each direction.)  The replaced one
gets a notice (:data:`.handshake.CROWDED`), on which a peer of ours dials again.  So a stranger that
connects and sends nothing keeps no peer waiting.

*On a Unix socket* a peer with another uid is closed before a byte is read.  The others are this
user's own processes, and as many may be in the handshake as there are descriptors.

If descriptors run out, a stranger is dropped, too.  If there is none, nothing is accepted for a
moment.
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

from ...features import peer_uid
from . import places, tcp
from ._thespian import thesplog
from .addresses import Address
from .handshake import CROWDED, NONCE, Acceptor
from .inbox import Inbox
from .incoming import READ_SIZE, InConnection
from .poller import READABLE, Poller
from .refusals import Refusals
from .settings import SystemSettings

ACCEPTS_PER_TURN: Final = 64
CROWD: Final = "others wait, and it had not said who it is"
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
        """Close unused sockets and remove their name."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.address.path)
        self.close()


def bind(settings: SystemSettings, address: Address) -> Sockets:
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
        self.local = sock.family == socket.AF_UNIX
        self._accept = accept
        self.strangers: dict[InConnection, float] = {}  # and their deadlines, oldest first
        self.paused_until = 0.0

    def on_event(self, events: int) -> None:  # noqa: ARG002 (contract of DescriptorOwner)
        """A peer has dialled."""
        self._accept(self)


class Listener:
    """Accepts connections and lets them into the inbox once they are authenticated."""

    def __init__(
        self, settings: SystemSettings, sockets: Sockets, poller: Poller, inbox: Inbox
    ) -> None:
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
        self.refusals = Refusals(sockets.address)
        self.refused = 0
        """The number of connections closed because of malformed, late or missing bytes."""
        for door in self._doors:
            door.sock.setblocking(False)
            poller.add(door.sock.fileno(), READABLE, door)

    def _accept(self, door: _Door) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, remote = door.sock.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    if any(map(self._shed, reversed(self._doors))):
                        continue
                    thesplog("cannot accept connections: %s", error, level=40)
                    self._pause(door)
                return  # else the caller hung up before we answered
            if not door.local and len(door.strangers) >= self._settings.limits.max_handshakes:
                self._shed(door)
            self._admit(door, sock, "this host" if door.local else remote[0])

    @staticmethod
    def _shed(door: _Door) -> bool:
        """Make room: drop one of the strangers at *door*.  Return whether there was one."""
        before = len(door.strangers)
        # A local peer of ours would read a notice as acknowledgements.
        notice = b"" if door.local else CROWDED
        for stranger in list(door.strangers):
            if not stranger.has_spoken():
                stranger.refuse(CROWD, notice)
                return True
        if len(door.strangers) == before and door.strangers and not door.local:
            next(iter(door.strangers)).refuse(CROWD, notice)
        return len(door.strangers) < before

    def _admit(self, door: _Door, sock: socket.socket, remote: str) -> None:
        sock.setblocking(False)
        key = b""
        if sock.family == socket.AF_UNIX:
            try:
                uid = peer_uid(sock)
            except OSError:  # the peer has closed it again
                uid = -1
            if uid != os.getuid():
                sock.close()
                self._refuse(f"uid {uid}", "it is another user")
                return
        else:
            tcp.tune(sock, self._settings.limits)
            key = self._settings.key
        limits = self._settings.limits
        acceptor = Acceptor(self._sockets.address, key, secrets.token_bytes(NONCE))
        connection = InConnection(
            sock,
            acceptor,
            remote,
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
            if connection.refused:
                self._refuse(connection.remote, connection.refused)
            self.connections.discard(connection)
        else:
            self.connections.add(connection)

    def _refuse(self, who: str, why: str) -> None:
        self.refused += 1
        self.refusals.tell(who, why)

    def _pause(self, door: _Door) -> None:
        door.paused_until = perf_counter() + PAUSE
        self._poller.change(door.sock.fileno(), 0)

    def tick(self, now: float) -> None:
        """Drop strangers that took too long; accept again after a pause."""
        slow = f"it took more than {self._settings.limits.handshake_timeout:g} s to say who it is"
        for door in self._doors:
            late = [stranger for stranger, deadline in door.strangers.items() if deadline <= now]
            for stranger in late:
                stranger.refuse(slow)
            if door.paused_until and door.paused_until <= now:
                door.paused_until = 0.0
                self._poller.change(door.sock.fileno(), READABLE)

    @property
    def next_due(self) -> float:
        """When :meth:`tick` wants to be called, on the clock of ``perf_counter``, or infinity."""
        due = math.inf
        for door in self._doors:  # asked in every turn: mostly there is nobody
            if door.paused_until:
                due = min(due, door.paused_until)
            if door.strangers:
                due = min(due, next(iter(door.strangers.values())))
        return due

    @property
    def strangers(self) -> list[InConnection]:
        """The connections that have not introduced themselves yet."""
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
        """In a forked child: close the parent's sockets, without any message."""
        for connection in [*self.connections, *self.strangers]:
            connection.abandon()
        self._sockets.close()
