"""Everything that leaves this process, from any thread.

**One lock** guards all outgoing connections.  Sockets never block, so it is held for
microseconds; pickling happens before it is taken.  A thread that sends writes to the socket itself,
at once.  Only within a handler are messages collected.  They are written when the handler returns,
when they have 64 KiB, or as soon as the handler has run for a millisecond.

**Order.**  The messages of one thread to one peer stay in the order of their sends: they
enter one queue under the lock, and one connection carries them.

**Back-pressure.**  A send that leaves more than the limits queued for one peer waits until
there is room (:meth:`Outbox.wait_until`).  A waiting thread itself writes to that one socket, with
the help of ``poll``, so it does not depend on the thread that runs the loop.  If that one waits,
within a handler, it also keeps reading; see :mod:`.inbox`.

**Completion.**  Finished intents are collected here, with their status, and handed to the
running thread, which alone calls callbacks.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import socket
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

from . import addresses, tcp
from ._thespian import SendStatus, Status
from .addresses import Address
from .errors import InvalidAddress, PeerStalled, TransportClosed
from .framing import Part
from .handshake import NONCE, Dialler
from .lookups import Lookups
from .outgoing import RETRY_DELAY, Approach, ConnectionState, OutConnection
from .poller import READABLE, WRITABLE, Poller
from .settings import Limits, SystemSettings

FLUSH_BYTES: Final = 1 << 16
HANDLER_PATIENCE: Final = 0.001  # seconds after which a handler's messages leave at once
POLL_SLICE: Final = 0.1  # seconds
SEND_BUFFER: Final = 1 << 20  # bytes that the kernel holds for one local peer


class Outbox:
    """The outgoing connections of one process."""

    def __init__(self, settings: SystemSettings, me: Address, poller: Poller) -> None:
        self.limits: Limits = settings.limits
        self.poller = poller
        self.lock = threading.RLock()
        self.finished: list[tuple[Any, Status]] = []
        self._settings = settings
        self._me = me
        self._lookups = Lookups(poller.wake)
        self._connections: dict[str, OutConnection] = {}
        self.pending: list[OutConnection] = []
        """The connections that are being made: call :meth:`tick` every ``RETRY_DELAY``."""
        self.dirty: list[OutConnection] = []
        self.handling: int = 0
        """The identity of the thread that is in a handler, whose messages are collected; or 0."""
        self.handling_since = 0.0
        self._closed = False

    # -- sending ----------------------------------------------------------------------

    def post(self, address: Address, parts: list[Part], intent: object) -> OutConnection | None:
        """Queue one message and write it as described above; None if the peer is not there.

        Without an *intent* it is a raw frame, which nobody acknowledges.
        """
        with self.lock:
            connection = self._connections.get(address.key) or self._open(address)
            if connection is None:
                if intent is not None:
                    self.finish(intent, SendStatus.DeadTarget)
                return None
            for part in parts:
                connection.enqueued += len(part)
            connection.parts.extend(parts)
            if intent is not None:
                connection.expect(intent)
            if (
                self.handling == threading.get_ident()
                and connection.enqueued - connection.written < FLUSH_BYTES
                and perf_counter() - self.handling_since < HANDLER_PATIENCE
            ):
                if not connection.dirty:
                    connection.dirty = True
                    self.dirty.append(connection)
            else:
                connection.flush()
            if self.finished:
                self.poller.wake()
        return connection

    def open_to(self, address: Address) -> OutConnection | None:
        """The open connection to *address*; None if there is none."""
        with self.lock:
            connection = self._connections.get(address.key)
        is_open = connection is not None and connection.state is ConnectionState.OPEN
        return connection if is_open else None

    def finish(self, intent: object, status: Status) -> None:
        """Let the running thread tell *intent* that it ended with *status*."""
        with self.lock:
            self.finished.append((intent, status))
        self.poller.wake()

    def take_finished(self) -> list[tuple[Any, Status]]:
        """Remove and return the finished intents; the running thread calls the callbacks."""
        with self.lock:
            finished, self.finished = self.finished, []
        return finished

    def flush(self) -> None:
        """Write the collected messages."""
        if not self.dirty:
            return
        with self.lock:
            dirty, self.dirty = self.dirty, []
            for connection in dirty:
                if connection.dirty:
                    connection.flush()

    # -- back-pressure ----------------------------------------------------------------

    def queued_bytes(self, address: object) -> int:
        """Bytes for *address* that the kernel has not taken yet."""
        with self.lock:
            connection = (
                self._connections.get(address.key) if isinstance(address, Address) else None
            )
            return connection.queued_bytes if connection is not None else 0

    def has_room(self, connection: OutConnection) -> bool:
        """Whether *connection* has less queued than the limits."""
        return (
            connection.queued_bytes <= self.limits.max_queued_bytes
            and connection.queued_messages <= self.limits.max_queued_messages
        )

    def wait_until(
        self,
        connection: OutConnection,
        condition: Callable[[], bool],
        go_on: Callable[[float], None] | None = None,
    ) -> None:
        """Wait until *condition* holds or *connection* is closed.

        The thread that runs the loop passes *go_on*, which sleeps for at most that many seconds and
        handles input and output, but calls no callback.  Any other thread only writes to
        *connection*, and does not depend on the one that runs the loop.  Raises
        :class:`PeerStalled` when the peer takes nothing for ``stall_timeout``.
        """
        written, since = connection.written, perf_counter()
        while not condition() and connection.state is not ConnectionState.CLOSED:
            if go_on is None:
                self.write_alone(connection, POLL_SLICE)
            else:
                go_on(POLL_SLICE)
            now = perf_counter()
            if connection.written != written:
                written, since = connection.written, now
            elif now - since > self.limits.stall_timeout:
                raise PeerStalled(
                    f"{connection.address} has taken nothing for {now - since:.0f} s while"
                    f" {connection.queued_messages} messages ({connection.queued_bytes} bytes)"
                    " wait for it; is it stuck in a handler?"
                )

    def write_alone(self, connection: OutConnection, timeout: float) -> None:
        """Sleep until *connection* can write, then write; for threads that do not run the loop."""
        with self.lock:
            if connection.state is ConnectionState.CLOSED:
                return
            pending = connection.is_pending
            waiting = select.poll()
            if connection.state is not ConnectionState.RETRYING:
                writes = connection.queued_bytes and connection.state is not ConnectionState.SHAKING
                writable = WRITABLE if writes else 0
                waiting.register(connection.sock.fileno(), READABLE | writable)
        events = waiting.poll((RETRY_DELAY if pending else timeout) * 1000)
        with self.lock:
            for _, mask in events:
                connection.progress(mask)
            if pending:
                self.tick()
            if self.finished:
                self.poller.wake()

    # -- connections ------------------------------------------------------------------

    def _open(self, address: Address) -> OutConnection | None:
        if self._closed:
            raise TransportClosed(f"{self._me} was closed; it cannot send to {address}")
        try:
            try:
                connection = OutConnection(self, address)
            except OSError as error:
                if error.errno != errno.EMFILE or not self._make_descriptors():
                    raise
                connection = OutConnection(self, address)
        except OSError as error:
            if error.errno == errno.EMFILE:
                raise  # the fault is ours: the target may be there
            return None
        self._connections[address.key] = connection
        if connection.is_pending:
            self.add_pending(connection)
        return connection

    def add_pending(self, connection: OutConnection) -> None:
        """Have :meth:`tick` check *connection*, which is being made."""
        if connection not in self.pending:
            self.pending.append(connection)
        self.poller.wake()

    def way_to(self, address: Address, attempt: int) -> Approach:
        """A new socket for *address*, and the dialler for the handshake.

        A host may have several addresses: each *attempt*, from 0 on, tries the next.  Raises
        OSError if there is none, and :class:`InvalidAddress` if there is no way to it at all.
        """
        settings = self._settings
        near = (
            address.path
            and (address.host, address.port) in (("", 0), (settings.host, settings.port))
            and os.path.dirname(address.path) == str(settings.directory)
        )
        target: str | tuple[str, int] | None
        if near:
            if attempt:
                raise ConnectionRefusedError
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            # Fewer switches between the two processes; the kernel cuts it to its own limit.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            key, target = b"", address.path
        elif address.host and settings.tcp:
            there = (address.host, address.port)
            host, port = settings.routes.get(there, there)
            found = self._lookups.numeric(host)
            if found is not None and attempt >= len(found):
                raise ConnectionRefusedError
            target = (found[attempt], port) if found is not None else None
            sock = socket.socket(addresses.family(target[0] if target else ""), socket.SOCK_STREAM)
            tcp.tune(sock, settings.limits.stall_timeout)
            key = settings.key
        else:
            raise InvalidAddress(
                f"{address} is on another host, and one of the two systems has no TCP address:"
                " start both with host=... and the same key=..."
            )
        sock.setblocking(False)
        dialler = Dialler(address.key, self._me, key, os.urandom(NONCE))
        return Approach(sock, target, dialler, settings.encryption if key else None)

    def _make_descriptors(self) -> bool:
        """Raise the limit of file descriptors, or else close idle connections."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            return True
        # Closing one whose messages are all handled loses nothing, not even their order.
        idle = [c for c in self._connections.values() if not c.unacked and not c.queued_bytes]
        for connection in sorted(idle, key=lambda c: c.used)[:16]:
            connection.fail(SendStatus.Sent)
        return bool(idle)

    def forget(self, connection: OutConnection) -> None:
        """Forget *connection*, which is closed: the next message dials again."""
        if self._connections.get(connection.address.key) is connection:
            del self._connections[connection.address.key]

    def tick(self) -> None:
        """Retry and time out connections that are not open yet."""
        with self.lock:
            now = perf_counter()
            for connection in list(self.pending):
                if connection.is_pending:
                    connection.tick(now)
            self.pending = [c for c in self.pending if c.is_pending]

    def snapshot(self) -> list[OutConnection]:
        with self.lock:
            return list(self._connections.values())

    def drop(self, address: Address) -> None:
        """Give up the connection to *address*; its unhandled messages become dead letters."""
        with self.lock:
            connection = self._connections.get(address.key)
            if connection is not None:
                connection.fail(SendStatus.DeadTarget)
        self.poller.wake()

    def unwritten(self) -> int:
        """How many messages the kernel has not taken yet."""
        return sum(c.queued_messages for c in self.snapshot())

    def unacked(self) -> int:
        """How many messages no actor has confirmed as handled.

        Messages to outside programs do not count: those confirm when they listen, maybe never.
        """
        return sum(c.unacked for c in self.snapshot() if not c.address.outside)

    def request_acks(self) -> None:
        """We are leaving: ask the peers to confirm handled messages at once."""
        with self.lock:
            for connection in self.snapshot():
                if connection.unacked:
                    connection.request_acks()

    def close(self) -> None:
        """Write as much as possible without waiting, and close every connection."""
        with self.lock:
            self._closed = True
            for connection in self.snapshot():
                connection.flush()
                if connection.state is not ConnectionState.CLOSED:
                    if connection.sock.family != socket.AF_UNIX:
                        # Closing with unread acknowledgements would reset the connection, and
                        # the peer would lose the bytes that it has not read yet.
                        with contextlib.suppress(OSError):
                            connection.sock.shutdown(socket.SHUT_WR)
                            connection.sock.recv(1 << 16)
                    connection.close()
            self._connections.clear()

    def abandon(self) -> None:
        """In a forked child: close the parent's sockets.

        Takes no lock: a thread of the parent may have held it at the moment of the fork, and
        that thread does not exist here.
        """
        self._closed = True
        for connection in self._connections.values():
            connection.sock.close()
