"""One outgoing connection: our messages to one peer.

::

    RETRYING --> CONNECTING --> SHAKING --> OPEN --> CLOSED
     | (backlog of the     (TCP only) |                any error, or the peer is gone
     |  listener is full,             |
     |  a name is resolved)           |
     +--------------------------------+
       (the listener was crowded)

A host may have several addresses.  If one does not answer, the next one is tried.

Any thread may send, write and read acknowledgements here: call every method but ``write_now`` and
``on_event`` with the outbox's lock held.  No thread blocks while it holds the lock.  Completions
are only collected; the thread that runs the loop calls the callbacks.

Messages are kept (the objects, not the bytes) until the peer has acknowledged that it handled them.
When the connection breaks, the remaining ones become dead letters, in order.
"""

from __future__ import annotations

import enum
import errno
import itertools
import os
import socket
import threading
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import msgspec

from ...features import peer_uid
from ._thespian import SendStatus, Status, thesplog
from .addresses import Address
from .certificates import Encryption
from .envelopes import UserIntent
from .errors import CrowdedOut, HandshakeError, NobodyThere
from .framing import ACK_REQUEST, HEADER, RAW, Part, control
from .handshake import Dialler
from .incoming import ACK, REJECTED
from .poller import READABLE, WRITABLE, Poller
from .settings import Limits

if TYPE_CHECKING:
    from .tls import SecureSocket

PARTS_PER_WRITE: Final = 128
BYTES_PER_TURN: Final = 1 << 20
READ_ACKS_EVERY: Final = 256  # messages
RETRY_DELAY: Final = 0.005  # seconds
CROWDED_DELAY: Final = 0.1  # seconds


class Approach(msgspec.Struct, frozen=True):
    """How to connect to a peer."""

    sock: socket.socket
    target: str | tuple[str, int] | None
    """None while the name of its host is being resolved; *sock* is of no use then."""
    dialler: Dialler
    encryption: Encryption | None
    """For TLS; None on this host."""


class Sender(Protocol):
    """The outbox that a connection belongs to."""

    poller: Poller
    lock: threading.RLock
    limits: Limits
    finished: list[tuple[Any, Status]]

    def way_to(self, address: Address, attempt: int) -> Approach:
        """A new socket for *address*, its target, and the dialler for the handshake."""

    def add_pending(self, connection: OutConnection) -> None:
        """Have *connection*, which is being made, ticked."""

    def forget(self, connection: OutConnection) -> None:
        """Forget *connection*, which is closed: the next message dials again."""


class ConnectionState(enum.Enum):
    RETRYING = enum.auto()
    CONNECTING = enum.auto()
    SHAKING = enum.auto()
    OPEN = enum.auto()
    CLOSED = enum.auto()


class OutConnection:
    """The messages for one peer, and their socket."""

    def __init__(self, outbox: Sender, address: Address) -> None:
        """Dial *address*.  Raises OSError if nobody is there."""
        self._outbox = outbox
        self.address = address
        self._tried = 0  # addresses of its host
        self._events = 0
        self._find_way()
        self.parts: deque[Part] = deque()
        """The bytes that are not written yet.  `Outbox.post` appends to them, counts these bytes in
        `enqueued`, and flushes."""
        self._ends: deque[int] = deque()  # stream offsets at which unwritten messages end
        self._unacked: deque[Any] = deque()  # intents, oldest first
        self._acked = 0
        self._acks = b""
        self._again_at = 0.0  # when to dial again after we were crowded out; 0: we never were
        self.enqueued = 0  # bytes of frames, ever
        self.written = 0  # of those
        self.dirty = False
        self.used = perf_counter()
        self.deadline = self.used + outbox.limits.connect_timeout
        self.state = ConnectionState.RETRYING
        try:
            self.connect()
        except BaseException:
            self.sock.close()
            raise

    # -- connecting -------------------------------------------------------------------

    def _find_way(self) -> None:
        way = self._outbox.way_to(self.address, self._tried)
        self.sock, self._target, self._dialler = way.sock, way.target, way.dialler
        self._encryption = way.encryption

    def _dial_again(self, tried: int) -> None:
        """Dial the next address of the host after those *tried*.  Raises OSError if there is none.

        All messages that wait go with it.
        """
        self._leave_socket()
        self._tried = tried
        self._find_way()
        self.state = ConnectionState.RETRYING
        self._outbox.add_pending(self)

    def connect(self) -> None:
        """Try to connect.  Raises OSError if nobody is there."""
        if self._target is None:
            self.sock.close()
            self._find_way()
            if self._target is None:
                return  # its name is not resolved yet
        try:
            self.sock.connect(self._target)
        except BlockingIOError as error:
            if error.errno != errno.EINPROGRESS:
                return  # the listener's backlog is full; it will accept some time
            self.state = ConnectionState.CONNECTING
            self._listen_for(READABLE | WRITABLE)
        except OSError:
            self._dial_again(self._tried + 1)
        else:
            self._connected()

    def _connected(self) -> None:
        if self.sock.family == socket.AF_UNIX and (uid := peer_uid(self.sock)) != os.getuid():
            raise HandshakeError(f"{self.sock.getpeername()} is held by uid {uid}")
        opening = self._dialler.opening
        if self._encryption is None:
            self.state = ConnectionState.OPEN
            self.parts.appendleft(opening)
            self.written -= len(opening)  # offsets count from the first frame
            self._listen_for(READABLE)
        else:
            self.state = ConnectionState.SHAKING
            self.sock.send(opening)  # a hundred bytes into an empty buffer
            from . import tls  # noqa: PLC0415 - it loads OpenSSL

            self.sock = tls.dial(self.sock, self._encryption)
            self._listen_for(READABLE)
            self._shake_hands()

    def _leave_socket(self) -> None:
        if self._events:
            self._outbox.poller.remove(self.sock.fileno())
            self._events = 0
        self.sock.close()

    def _listen_for(self, events: int) -> None:
        if events != self._events:
            descriptor = self.sock.fileno()
            if self._events:
                self._outbox.poller.change(descriptor, events)
            else:
                self._outbox.poller.add(descriptor, events, self)
            self._events = events

    # -- sending ----------------------------------------------------------------------

    def expect(self, intent: object) -> None:
        """Note that `parts` now ends with the message of *intent*, which the peer acknowledges."""
        self._ends.append(self.enqueued)
        self._unacked.append(intent)
        if not len(self._unacked) % READ_ACKS_EVERY:
            # A program may send many messages and never run the loop.
            self._read_acks()

    @property
    def queued_bytes(self) -> int:
        """Bytes that the kernel has not taken yet."""
        return self.enqueued - self.written

    @property
    def queued_messages(self) -> int:
        """Messages that the kernel has not taken completely yet; all raw frames count as one."""
        return len(self._ends) or int(self.enqueued > self.written)

    @property
    def unacked(self) -> int:
        """Messages that the peer has not acknowledged as handled."""
        return len(self._unacked)

    def unwritten_intents(self) -> list[Any]:
        """Intents of messages that the kernel has not taken completely yet."""
        waiting = len(self._unacked) - len(self._ends)
        return list(itertools.islice(self._unacked, max(0, waiting), None))

    def request_acks(self) -> None:
        """Ask the peer to acknowledge each message at once from now on."""
        if self.state is ConnectionState.OPEN:
            request = control(ACK_REQUEST)
            self.enqueued += len(request)
            self.parts.append(request)
            self.flush()

    def write_now(self, data: bytes) -> bool:
        """Write a raw frame of *data* at once.  In any thread, without the outbox's lock.

        False if messages wait before it or the connection is not open: :meth:`Outbox.post` it.
        """
        frame = HEADER.pack(len(data), 0, RAW) + data
        with self._outbox.lock:
            if self.parts or self.state is not ConnectionState.OPEN:
                return False
            try:
                count = self.sock.send(frame)
            except OSError:
                count = 0  # `flush` meets it again
            self.enqueued += len(frame)
            if count == len(frame):  # nearly always
                self.written += count
                return True
            self.parts.append(frame)
            self._wrote(count)
            self.flush()
        return True

    def flush(self) -> None:
        """Write as much as the socket takes (a bounded amount); the rest follows later."""
        self.dirty = False
        if self.state is not ConnectionState.OPEN:
            return
        parts = self.parts
        budget = BYTES_PER_TURN
        try:
            while parts and budget > 0:
                if len(parts) == 1:
                    count = self.sock.send(parts[0])
                    if count == len(parts[0]):  # nearly always
                        parts.clear()
                        self.written += count
                        self._ends.clear()
                        break
                else:
                    count = self.sock.sendmsg(list(itertools.islice(parts, PARTS_PER_WRITE)))
                self._wrote(count)
                budget -= count
        except BlockingIOError:
            pass
        except OSError:
            self._read_acks()
            self.fail(SendStatus.DeadTarget)
            return
        events = READABLE | WRITABLE if parts else READABLE
        if events != self._events:
            self._listen_for(events)

    def _wrote(self, count: int) -> None:
        parts = self.parts
        self.written += count
        while count:
            size = len(parts[0])
            if count < size:
                parts[0] = memoryview(parts[0])[count:]
                break
            parts.popleft()
            count -= size
        ends = self._ends
        while ends and ends[0] <= self.written:
            ends.popleft()

    # -- events -----------------------------------------------------------------------

    def on_event(self, events: int) -> None:
        """Called by the poller of the running thread."""
        with self._outbox.lock:
            self.progress(events)

    def progress(self, events: int) -> None:
        """Finish connecting, read acknowledgements and write, as far as *events* allow."""
        try:
            if self.state is ConnectionState.CONNECTING:
                code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code:
                    self._dial_again(self._tried + 1)
                    return
                if not events & WRITABLE:
                    return
                self._connected()
            if self.state is ConnectionState.SHAKING:
                self._shake_hands()
            elif self.state is ConnectionState.OPEN and events & ~WRITABLE:
                self._read_acks(fail=True)
            if self.parts:
                self.flush()
        except NobodyThere:
            self.fail(SendStatus.DeadTarget)
        except HandshakeError as error:
            thesplog("cannot talk to %s: %s", self.address, error, level=40, primary=True)
            self.fail(SendStatus.DeadTarget)
        except OSError:
            self.fail(SendStatus.DeadTarget)

    def _shake_hands(self) -> None:
        from . import tls  # noqa: PLC0415 - it loads OpenSSL

        try:
            tls.shake_hands(cast("SecureSocket", self.sock), self._dialler)
        except BlockingIOError:
            return
        except (CrowdedOut, ConnectionResetError):  # a reset overtakes the notice
            self._dial_again(0)
            self._again_at = perf_counter() + CROWDED_DELAY
            return
        if self._dialler.done:
            self.state = ConnectionState.OPEN

    def _read_acks(self, *, fail: bool = False) -> None:
        while self.state is ConnectionState.OPEN:
            try:
                data = self.sock.recv(4096)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                if fail:
                    self.fail(SendStatus.DeadTarget)
                return
            data = self._acks + data
            whole = len(data) - len(data) % ACK.size
            for (count,) in ACK.iter_unpack(data[:whole]):
                rejected = bool(count & REJECTED)
                self._acknowledged(count & ~REJECTED, rejected=rejected)
            self._acks = data[whole:]

    def _acknowledged(self, count: int, *, rejected: bool) -> None:
        unacked = self._unacked
        for number in range(self._acked + 1, min(count, self._acked + len(unacked)) + 1):
            intent = unacked.popleft()
            if rejected and number == count:
                self._outbox.finished.append((intent, SendStatus.BadPacket))
            elif type(intent) is not UserIntent:  # success of a `UserIntent` is not reported
                self._outbox.finished.append((intent, SendStatus.Sent))
            self._acked = number

    def tick(self, now: float) -> None:
        """Retry or give up connecting.  Called every few milliseconds until it is open."""
        if now > self.deadline:
            if self._again_at:
                thesplog("too many strangers at %s: no way in", self.address, level=40)
            self.fail(SendStatus.DeadTarget)
        elif self.state is ConnectionState.RETRYING and now >= self._again_at:
            try:
                self.connect()
                self.flush()
            except OSError:
                self.fail(SendStatus.DeadTarget)

    @property
    def is_pending(self) -> bool:
        """Whether the connection is still being made."""
        return self.state is not ConnectionState.OPEN and self.state is not ConnectionState.CLOSED

    # -- the end ----------------------------------------------------------------------

    def fail(self, status: Status) -> None:
        """Give up: every message not known to be handled ends with *status*, in order."""
        if self.state is ConnectionState.CLOSED:
            return
        self.close()
        self._outbox.finished.extend((intent, status) for intent in self._unacked)
        self._unacked.clear()
        self._outbox.forget(self)

    def close(self) -> None:
        """Close the socket and drop unwritten messages."""
        self.state = ConnectionState.CLOSED
        self._leave_socket()
        self.parts.clear()
        self._ends.clear()
        self.written = self.enqueued
