"""One incoming connection: the messages of one peer to us.

A connection is in its *handshake* (bounded in time and number, see :mod:`.listener`), *open* or
*closed*.  The queue of frames outlives it: messages that a peer wrote before it exited are
delivered.

Acknowledgements go back on the same connection, as 8-byte counts of the messages whose handler has
returned so far.  So the sender can drop these messages.  When we die, it turns those beyond the
count into dead letters, in order.  One write acknowledges up to 128 messages or 50 ms worth of
them; a message with a waiting sender is acknowledged at once.  A count with the top bit set means
that the last message could not be unpickled.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ._thespian import ActorAddress
from .addresses import Address
from .errors import WireError
from .framing import (
    ACK_REQUEST,
    DATA_ACK_NOW,
    HEADER,
    RAW,
    Frame,
    FrameDecoder,
    frame_bytes,
    raw_frames,
)
from .gate import receive
from .handshake import Acceptor
from .inbox import Inbox
from .poller import READABLE, WRITABLE, Poller
from .settings import Limits

if TYPE_CHECKING:
    from .tls import SecureSocket

_header: Final = HEADER.unpack_from
ACK: Final = struct.Struct("<Q")
REJECTED: Final = 1 << 63
ACK_EVERY: Final = 128  # messages
ACK_DELAY: Final = 0.05  # seconds
READ_SIZE: Final = 1 << 18  # bytes per read of small messages
LARGE_READ: Final = 1 << 20  # bytes per read of a large message, so others get their turn


class InConnection:
    """Used only by the thread that runs the loop."""

    def __init__(
        self,
        sock: socket.socket,
        acceptor: Acceptor,
        remote: str,
        *,
        poller: Poller,
        inbox: Inbox,
        limits: Limits,
        scratch: memoryview,
        on_change: Callable[[InConnection], None],
        on_passed: Callable[[socket.socket, bytes], None] | None = None,
    ) -> None:
        """Serve *sock*, which *remote* has dialled.

        *scratch* is shared by all connections; *on_change* is called when the handshake ends and
        when the connection closes.  *on_passed* takes a connection that a process of this host
        passes on in place of a handshake, with its message; see :mod:`.gate`.
        """
        self._sock = sock
        self._acceptor = acceptor
        self.remote = remote
        self._poller = poller
        self._inbox = inbox
        self._limits = limits
        self._scratch = scratch
        self._on_change = on_change
        self._on_passed = on_passed
        self._decoder = FrameDecoder(limits.max_message_bytes)
        self._frames: deque[Frame] = deque()
        self._backlog = 0
        self.accepted = False
        self.closed = False
        self._reading = True
        self._prompt = False
        self._acked = 0
        self.handled = 0
        self.ack_due = False
        self.in_ring = False
        self.refused = ""
        """The reason why it was closed, if the peer's bytes, or their absence, caused it."""
        self.sender = ActorAddress(None)
        poller.add(sock.fileno(), READABLE, self)

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def peer(self) -> Address | None:
        """The sender, once the handshake is over."""
        return self._acceptor.peer

    def has_spoken(self) -> bool:
        """Whether the peer has sent anything by now.  If it had not before, this reads once."""
        if self._acceptor.silent and not self.closed:
            self.on_event(READABLE)
        return not self._acceptor.silent

    def refuse(self, why: str, notice: bytes = b"") -> None:  # noqa: ARG002 - for encrypted ones
        """Close a stranger's connection, with a *notice* if its socket takes one."""
        self.refused = why
        self.close()

    def on_event(self, events: int) -> None:  # noqa: ARG002 (contract of DescriptorOwner)
        """Read once, so that every connection gets its turn."""
        frames: list[Frame] | None = None
        decoder = self._decoder
        fresh = not decoder.partial and decoder.large is None
        try:
            target = None if fresh else decoder.destination()
            if not self.accepted:
                frames = self._shake_hands()
            elif target is not None:
                count = self._sock.recv_into(target[:LARGE_READ])
                frames = decoder.advance(count) if count else None
            elif count := self._sock.recv_into(self._scratch):
                data, inbox = self._scratch[:count], self._inbox
                if inbox.raw is None or self._frames or not fresh:
                    frames = decoder.feed(data)
                elif count >= HEADER.size and _header(data) == (count - HEADER.size, 0, RAW):
                    inbox.raw(data[HEADER.size :], self.sender)  # nearly always
                    return
                else:
                    raws, used = raw_frames(data)
                    frames = decoder.feed(data[used:]) if used < count else []
                    if raws:
                        inbox.raws(raws, self.sender)
        except BlockingIOError:
            return
        except (OSError, WireError) as error:
            self.refused = str(error) if isinstance(error, WireError) else ""
            self.close()
            return
        if frames is None:
            self.close()
        elif frames:
            self._take(frames)

    def _shake_hands(self) -> list[Frame] | None:
        if self._on_passed is None:
            data = self._sock.recv(1 << 16)
        else:
            data, passed = receive(self._sock, 1 << 16)
            if passed is not None:
                self._on_passed(passed, data)
                return None
        if not data:
            return None
        answer = self._acceptor.feed(data)
        # An honest peer's socket buffer is empty, and takes a hundred bytes.
        if answer and self._sock.send(answer) != len(answer):
            return None
        if self._acceptor.peer is None:
            return []
        self.accepted = True
        self.sender = ActorAddress(self._acceptor.peer)
        self._on_change(self)
        return self._decoder.feed(self._acceptor.rest)

    def _take(self, frames: list[Frame]) -> None:
        for frame in frames:
            if frame[0] == ACK_REQUEST:
                self._prompt = True
                self.acknowledge()
            else:
                self._frames.append(frame)
                self._backlog += frame_bytes(frame)
        self._inbox.add(self)
        self.reconsider_reading(relaxed=self._inbox.relaxed)

    def pop(self) -> Frame:
        """The oldest frame, to be delivered now and then passed to :meth:`mark_handled`."""
        frame = self._frames.popleft()
        self._backlog -= frame_bytes(frame)
        if not self._reading:
            self.reconsider_reading(relaxed=False)
        return frame

    def reconsider_reading(self, *, relaxed: bool) -> None:
        """Stop reading when too much waits to be handled; go on when half of it is done."""
        if self.closed:
            return
        limits = self._limits
        count, size = len(self._frames), self._backlog
        if self._reading:
            stop = count > limits.max_backlog_messages or size > limits.max_backlog_bytes
            if stop and not relaxed:
                self._reading = False
                self._poller.change(self._sock.fileno(), 0)
        elif relaxed or (
            count <= limits.max_backlog_messages // 2 and size <= limits.max_backlog_bytes // 2
        ):
            self._reading = True
            self._poller.change(self._sock.fileno(), READABLE)

    def mark_handled(self, frame: Frame, *, rejected: bool = False) -> bool:
        """Count *frame*, whose handler has returned.  Whether an acknowledgement is still due."""
        if frame[0] == RAW:
            return False
        self.handled += 1
        if rejected:
            self._write(REJECTED | self.handled)
        if (
            self._prompt
            or frame[0] == DATA_ACK_NOW
            or self.handled - self._acked >= ACK_EVERY
            or (self.closed and not self._frames)
        ):
            self.acknowledge()
            return False
        return True

    def acknowledge(self) -> None:
        """Tell the sender how many messages are handled, if it does not know yet."""
        if self.handled > self._acked and self._write(self.handled):
            self._acked = self.handled

    def _write(self, count: int) -> bool:
        if self.closed:
            return False
        try:
            # Eight bytes are written whole or not at all.  A sender that does not read its
            # acknowledgements gets the next cumulative one.
            return self._sock.send(ACK.pack(count)) == ACK.size
        except OSError:
            return False

    def close(self) -> None:
        """Stop reading.  The messages read so far are still delivered."""
        if not self.closed:
            self.acknowledge()
            self.closed = True
            self._poller.remove(self._sock.fileno())
            self._sock.close()
            self._on_change(self)

    def abandon(self) -> None:
        self.closed = True
        self._sock.close()


class SecureInConnection(InConnection):
    """An encrypted connection, in which bytes may wait that the poller does not see."""

    _sock: SecureSocket

    def __init__(self, sock: SecureSocket, acceptor: Acceptor, remote: str, **more: Any) -> None:
        """As its base; *sock* is encrypted."""
        self._unsent = b""
        super().__init__(sock, acceptor, remote, **more)

    def on_event(self, events: int) -> None:
        """Read until nothing waits."""
        if events & WRITABLE and self._reading:
            self._poller.change(self._sock.fileno(), READABLE)
        super().on_event(events)
        while not self.closed and self._reading and self._sock.pending():
            super().on_event(events)

    def reconsider_reading(self, *, relaxed: bool) -> None:
        """As its base.  Bytes that wait make an event in the next iteration of the loop."""
        before = self._reading
        super().reconsider_reading(relaxed=relaxed)
        if self._reading and not before and not self.closed and self._sock.pending():
            self._poller.change(self._sock.fileno(), READABLE | WRITABLE)

    def refuse(self, why: str, notice: bytes = b"") -> None:
        """As its base.  A stranger that has not begun TLS gets the notice in the clear."""
        if notice and not self.closed:
            self._sock.notify(notice)
        super().refuse(why)

    def _write(self, count: int) -> bool:
        # If the kernel does not take an encrypted count, the same bytes must be offered again.
        if self.closed:
            return False
        try:
            if self._unsent:
                self._sock.send(self._unsent)
                self._unsent = b""
            self._unsent = ACK.pack(count)
            self._sock.send(self._unsent)
            self._unsent = b""
        except OSError:
            return False
        return True
