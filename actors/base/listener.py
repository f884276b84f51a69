"""The listening sockets, and strangers until they have introduced themselves.

A stranger costs one descriptor and a few hundred bytes.  It may stay for ``handshake_timeout``
seconds from accept to the last byte, however slowly it sends.

*On the TCP port of the host*, which the admin has, at most ``max_visitors`` strangers may be at a
time until they have named an actor (:mod:`.gate`).  If they name us, the admin passes their
connections on to us.  Then they are our *guests*, at most ``max_handshakes`` of them, until they
have proved the key.  One more replaces the oldest that has sent nothing yet, or the oldest of all
if each has sent something.  (A peer of ours sends its part at once, and needs only one packet in
each direction.)  The replaced one gets a notice (:data:`.handshake.CROWDED`), on which a peer of
ours dials again.  So a stranger that connects and sends nothing keeps no peer waiting.

*On a Unix socket* a peer with another uid is closed before a byte is read.  The others are this
user's own processes, and their number in the handshake is limited only by the descriptors.

If descriptors run out, a stranger is dropped, too.  If there is no stranger, nothing is accepted
for ``PAUSE``.
"""

from __future__ import annotations

import contextlib
import errno
import math
import mmap
import os
import socket
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

import msgspec

from ...features import peer_uid
from ...printable import logger
from . import addresses, rundir, tcp
from ._thespian import thesplog
from .addresses import Address
from .errors import HandshakeError
from .gate import Dispatcher, Visitor, hang_up, passed_preamble
from .handshake import ANY_ADMIN, CROWDED, GONE, NONCE, Acceptor, wanted
from .inbox import Inbox
from .incoming import READ_SIZE, InConnection, SecureInConnection
from .poller import READABLE, Poller
from .settings import SystemSettings

ACCEPTS_PER_TURN: Final = 64
CROWD: Final = "others wait, and it had not said who it is"
PAUSE: Final = 0.1  # seconds without accepting when out of descriptors


class Sockets(msgspec.Struct, frozen=True):
    """The listening sockets of one actor and the address they make.

    Bound by the parent before the child exists, so that the child's address is final at
    once; multiprocessing knows how to hand sockets to forked and to spawned children.
    """

    address: Address
    local: socket.socket
    remote: socket.socket | None

    def close(self) -> None:
        self.local.close()
        if self.remote is not None:
            self.remote.close()

    def discard(self) -> None:
        """Close unused sockets and remove their name."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.address.path)
        self.close()


def bind(settings: SystemSettings, address: Address) -> Sockets:
    """Listen at *address*; the admin also listens at the port of its host.

    Raises OSError if it is taken.
    """
    local = rundir.listen_at(address.path)
    if not settings.tcp or not address.well_known:
        return Sockets(address, local, None)
    family = addresses.family(settings.listen[0])
    # "::" is all interfaces, for IPv4 too
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    try:
        remote = socket.create_server(
            settings.listen, family=family, backlog=rundir.BACKLOG, dualstack_ipv6=both
        )
    except BaseException:
        Sockets(address, local, None).discard()
        raise
    return Sockets(address, local, remote)


_Stranger = InConnection | Visitor
"""A connection whose peer has not introduced itself yet."""


class _Door:
    """A listening socket in the poller; or None for guests, whom the admin has accepted."""

    def __init__(self, sock: socket.socket | None, accept: Callable[[_Door], None]) -> None:
        self.sock = sock
        self.local = sock is not None and sock.family == socket.AF_UNIX
        self._accept = accept
        self.strangers: dict[_Stranger, float] = {}  # and their deadlines, oldest first
        self.paused_until = 0.0

    def on_event(self, events: int) -> None:  # noqa: ARG002 (contract of DescriptorOwner)
        self._accept(self)


PERIOD: Final = 10.0
EVENT: Final = "connection.refused"
log = logger(__name__)


class Refusals:
    """Logs one refused connection in :data:`PERIOD` seconds, with the number of those in between.

    A stranger can cause a thousand refusals a second, and must not fill a disk with them.
    """

    def __init__(self, me: Address) -> None:
        """For connections to *me*."""
        self._me = me.key if me.well_known else f"an actor at {me.host or 'this host'}"
        self._untold = 0
        self._quiet_until = 0.0

    def tell(self, who: str, why: str) -> None:
        """Log that a connection from *who* was refused, or count it for the next record."""
        now = perf_counter()
        if now < self._quiet_until:
            self._untold += 1
            return
        more = f", and {self._untold} more before" if self._untold else ""
        self._quiet_until, self._untold = now + PERIOD, 0
        extra = {"farref_event": EVENT, "farref_peer": who, "farref_cause": why}
        text = "%s refused a connection from %s: %s%s"
        log.warning(text, self._me, who, why, more, extra=extra)


class Listener:
    """Accepts connections and lets them into the inbox once they are authenticated."""

    def __init__(
        self, settings: SystemSettings, sockets: Sockets, poller: Poller, inbox: Inbox
    ) -> None:
        self._settings = settings
        self._sockets = sockets
        self._poller = poller
        # Not a bytearray, which would fill all its pages: most reads are short.
        scratch = memoryview(mmap.mmap(-1, READ_SIZE, flags=mmap.MAP_PRIVATE))
        self._common: dict[str, Any] = {
            "poller": poller,
            "inbox": inbox,
            "limits": settings.limits,
            "scratch": scratch,
            "on_change": self._changed,
        }
        """Arguments of every connection."""
        self._local = _Door(sockets.local, self._accept)
        self._guests = _Door(None, self._accept)
        self._port = _Door(sockets.remote, self._accept)
        self._doors = (self._local, self._guests, self._port)
        self._dispatcher = Dispatcher(settings, poller)
        self.connections: set[InConnection] = set()
        self.waits = False
        """Whether `next_due` may be a time: strangers are here, or a door is closed for a while."""
        self.refusals = Refusals(sockets.address)
        self.refused = 0
        """The number of connections closed because of malformed, late or missing bytes."""
        for door in self._doors:
            if door.sock is not None:
                door.sock.setblocking(False)
                poller.add(door.sock.fileno(), READABLE, door)

    def _accept(self, door: _Door) -> None:
        if door.sock is None:
            raise AssertionError("guests are passed on to us")
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
                    door.paused_until = perf_counter() + PAUSE
                    self.waits = True
                    self._poller.change(door.sock.fileno(), 0)
                return  # else the caller hung up before we answered
            if door.local:
                self._greet(sock)
            else:
                self._make_room(door, self._settings.limits.max_visitors)
                visitor = Visitor(sock, remote[0], self._poller, self._named, self._left)
                sock.setblocking(False)
                self._wait_for(visitor, door)

    def _make_room(self, door: _Door, most: int) -> None:
        if len(door.strangers) >= most:
            self._shed(door)

    def _wait_for(self, stranger: _Stranger, door: _Door) -> None:
        door.strangers[stranger] = perf_counter() + self._settings.limits.handshake_timeout
        self.waits = True
        # The usual peer has introduced itself already: that saves a turn of the loop.
        stranger.on_event(READABLE)

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

    def _greet(self, sock: socket.socket) -> None:
        """A process of this host has dialled our Unix socket."""
        sock.setblocking(False)
        try:
            uid = peer_uid(sock)
        except OSError:  # the peer has closed it again
            uid = -1
        if uid != os.getuid():
            sock.close()
            self._refuse(f"uid {uid}", "it is another user")
            return
        acceptor = Acceptor(self._sockets.address, b"", b"")
        connection = InConnection(
            sock, acceptor, "this host", on_passed=self._passed, **self._common
        )
        self._wait_for(connection, self._local)

    def _named(self, visitor: Visitor) -> None:
        """Pass on a stranger that has named the actor it wants, or admit it if that is this one."""
        del self._port.strangers[visitor]
        sock, preamble = visitor.sock, visitor.preamble
        try:
            if wanted(preamble) in {ANY_ADMIN, self._sockets.address.key}:
                self._admit(sock, preamble)
                return
            notice = self._dispatcher.pass_on(sock, preamble)
        except HandshakeError as error:
            self._refuse(visitor.remote, str(error))
            notice = GONE
        hang_up(sock, notice)

    def _left(self, visitor: Visitor, why: str) -> None:
        self._port.strangers.pop(visitor, None)
        if why:
            self._refuse(visitor.remote, why)

    def _passed(self, sock: socket.socket, message: bytes) -> None:
        """The admin of this host has passed the connection *sock* on to us."""
        preamble = passed_preamble(message)
        if preamble is None or wanted(preamble) != self._sockets.address.key:
            self._refuse("this host", "it has passed on a connection that is not for us")
            sock.close()
        else:
            self._admit(sock, preamble)

    def _admit(self, sock: socket.socket, preamble: bytes) -> None:
        """Begin the handshake with a stranger from another host that wants this actor."""
        settings = self._settings
        try:
            sock.setblocking(False)
            remote = sock.getpeername()[0]
            tcp.tune(sock, settings.limits.stall_timeout)
        except OSError:  # it has gone
            sock.close()
            return
        encryption = settings.encryption
        if encryption is None:  # no TCP, so there is no key either that anybody could prove
            self._refuse(remote, "this program is not reachable from other hosts")
            hang_up(sock, GONE)
            return
        from . import tls  # noqa: PLC0415 - it loads OpenSSL

        self._make_room(self._guests, settings.limits.max_handshakes)
        acceptor = Acceptor(
            self._sockets.address,
            settings.key,
            os.urandom(NONCE),
            preamble=preamble,
            certificate=encryption.digest,
        )
        try:
            secure = tls.accept(sock, encryption)
        except OSError:  # it has gone
            sock.close()
            return
        connection = SecureInConnection(secure, acceptor, remote, **self._common)
        self._wait_for(connection, self._guests)

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

    def tick(self, now: float) -> None:
        """Drop strangers that took too long; accept again after a pause."""
        slow = f"it took more than {self._settings.limits.handshake_timeout:g} s to say who it is"
        for door in self._doors:
            late = [stranger for stranger, deadline in door.strangers.items() if deadline <= now]
            for stranger in late:
                stranger.refuse(slow)
            if door.sock is not None and 0 < door.paused_until <= now:
                door.paused_until = 0.0
                self._poller.change(door.sock.fileno(), READABLE)

    @property
    def next_due(self) -> float:
        """When :meth:`tick` wants to be called, on the clock of ``perf_counter``, or infinity."""
        pauses = [door.paused_until for door in self._doors if door.paused_until]
        oldest = [next(iter(door.strangers.values())) for door in self._doors if door.strangers]
        due = min(pauses + oldest, default=math.inf)
        self.waits = due < math.inf
        return due

    @property
    def strangers(self) -> list[_Stranger]:
        """The connections whose peers have not introduced themselves yet."""
        return [stranger for door in self._doors for stranger in door.strangers]

    def hang_up(self) -> None:
        """Close the connections of all peers: what they have sent and we have not handled is lost.

        A peer that is still introducing itself would dial again, and is let in first.
        """
        for connection in list(self.connections):
            connection.close()

    def close(self, *, unlink: bool) -> None:
        """Close every connection and stop listening; *unlink* our socket if it is ours."""
        if unlink:
            # Before closing: nobody can have taken the name of a socket that still answers.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._sockets.address.path)
        for connection in [*self.connections, *self.strangers]:
            connection.close()
        self._dispatcher.close()
        for door in self._doors:
            if door.sock is not None:
                self._poller.remove(door.sock.fileno())
        self._sockets.close()

    def abandon(self) -> None:
        for connection in [*self.connections, *self.strangers]:
            connection.abandon()
        self._dispatcher.abandon()
        self._sockets.close()
