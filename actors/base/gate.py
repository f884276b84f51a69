"""The one TCP port of a host: reads the name that a stranger wants, and passes the connection on.

Only the admin of a system listens on TCP.  A stranger's first bytes name the actor or program that
it wants (:mod:`.handshake`).  The admin connects to the Unix socket of that one, passes the
connection itself over it (``SCM_RIGHTS``) with the bytes that it has read, and closes its own
descriptor of the connection.  So no traffic goes through the admin: from here on, both ends have
the connection to themselves, and the stranger proves the key to the one that it wants.

Exactly the preamble is read from the connection, and not one byte more.

The bytes before the proof of the key may be an attacker's.  So the wanted name is not used as a
path: it must be one that :func:`.addresses.new_address` makes for this system or for an outside
program.  The receiver takes a connection only from a process of its own user, as the kernel reports
it.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import socket
import struct
from collections.abc import Callable
from typing import Final

from ...features import peer_uid
from . import addresses
from .errors import HandshakeError
from .handshake import CROWDED, GONE, MAGIC, REFUSED, OtherVersion, missing, wanted
from .poller import READABLE, Poller
from .settings import SystemSettings

PASSED: Final = MAGIC + b"P"
"""The first bytes of a message that passes a connection on; its preamble follows."""
DRAIN: Final = 1 << 16
ENDED: Final = (errno.ENOENT, errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN)
"""The errors of dialling a process that has ended."""
_DESCRIPTOR: Final = struct.Struct("i")
_CLOSE_ON_EXEC: Final = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class Visitor:
    """A stranger at the port, until it has named an actor.  Used by the running thread only."""

    def __init__(
        self,
        sock: socket.socket,
        remote: str,
        poller: Poller,
        on_named: Callable[[Visitor], None],
        on_refused: Callable[[Visitor, str], None],
    ) -> None:
        """Serve *sock*, which *remote* has dialled.

        *on_named* is called when the preamble is whole, and owns the socket from then on.
        """
        self.sock = sock
        self.remote = remote
        self.preamble = b""
        self.closed = False
        self._poller = poller
        self._on_named = on_named
        self._on_refused = on_refused
        poller.add(sock.fileno(), READABLE, self)

    def has_spoken(self) -> bool:
        if not self.preamble and not self.closed:
            self.on_event(READABLE)
        return bool(self.preamble)

    def on_event(self, events: int) -> None:  # noqa: ARG002 (contract of DescriptorOwner)
        """Read the preamble, and nothing after it."""
        try:
            while (left := missing(self.preamble)) > 0:
                data = self.sock.recv(left)
                if not data:
                    self.refuse("")
                    return
                self.preamble += data
        except BlockingIOError:
            return
        except OtherVersion as error:
            self.refuse(str(error), REFUSED)
        except HandshakeError as error:
            self.refuse(str(error))
        except OSError:
            self.refuse("")
        else:
            self._poller.remove(self.sock.fileno())
            self._on_named(self)

    def refuse(self, why: str, notice: bytes = b"") -> None:
        """Hang up, with a *notice* if its socket takes one."""
        if self.closed:
            return
        self.closed = True
        self._poller.remove(self.sock.fileno())
        hang_up(self.sock, notice)
        self._on_refused(self, why)

    def close(self) -> None:
        self.refuse("")

    def abandon(self) -> None:
        self.closed = True
        self.sock.close()


def hang_up(sock: socket.socket, notice: bytes = b"") -> None:
    if notice:
        with contextlib.suppress(OSError):
            # Closing with unread bytes would reset the connection, maybe before the notice is read.
            with contextlib.suppress(BlockingIOError):
                sock.recv(DRAIN)
            sock.send(notice)
            sock.shutdown(socket.SHUT_WR)
    sock.close()


class Dispatcher:
    """Passes connections on to the processes that their strangers name.

    The kernel counts the descriptors that a user has sent and nobody has taken, and beyond a limit
    it sends no more.  So at most ``max_handshakes`` connections wait for one process, which may
    compute or be stopped: else strangers who name it would shut out those who name others.
    """

    def __init__(self, settings: SystemSettings, poller: Poller) -> None:
        self._settings = settings
        self._poller = poller
        self._waiting: dict[str, set[_Dispatched]] = {}

    def pass_on(self, sock: socket.socket, preamble: bytes) -> bytes:
        """Pass *sock* to the process that its *preamble* names; never blocks.

        The caller closes *sock*.  Returns the notice for the stranger if it cannot be passed on,
        else nothing.
        """
        path = addresses.socket_path_of(self._settings, wanted(preamble))
        if not path:
            return GONE
        waiting = self._waiting.get(path, set())
        if len(waiting) >= self._settings.limits.max_handshakes:
            return CROWDED
        try:
            way = _send(path, sock, PASSED + preamble)
        except OSError as error:
            # Strangers may use up the backlog and the descriptors: then the actor is not gone.
            return GONE if error.errno in ENDED else CROWDED
        self._waiting[path] = waiting
        waiting.add(_Dispatched(way, self._poller, functools.partial(self._taken, path)))
        return b""

    def _taken(self, path: str, way: _Dispatched) -> None:
        waiting = self._waiting[path]
        waiting.remove(way)
        if not waiting:
            del self._waiting[path]

    def close(self) -> None:
        for way in [way for waiting in self._waiting.values() for way in waiting]:
            way.on_event(READABLE)

    def abandon(self) -> None:
        for waiting in self._waiting.values():
            for way in waiting:
                way.sock.close()


class _Dispatched:
    """A Unix socket over which a connection was passed on, until its receiver closes it."""

    def __init__(
        self, sock: socket.socket, poller: Poller, on_taken: Callable[[_Dispatched], None]
    ) -> None:
        self.sock = sock
        self._poller = poller
        self._on_taken = on_taken
        poller.add(sock.fileno(), READABLE, self)

    def on_event(self, events: int) -> None:  # noqa: ARG002 (contract of DescriptorOwner)
        """The receiver has the connection, or has ended."""
        self._poller.remove(self.sock.fileno())
        self.sock.close()
        self._on_taken(self)


def _send(path: str, sock: socket.socket, message: bytes) -> socket.socket:
    """Send *sock*, with *message*, to the process at *path*; returns the way.  Raises OSError."""
    with contextlib.ExitStack() as closing:
        way = closing.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        way.setblocking(False)
        way.connect(path)
        if peer_uid(way) != os.getuid():
            raise ConnectionRefusedError(errno.ECONNREFUSED, "it is another user's")
        # A few hundred bytes into an empty socket buffer: it takes all or none.
        if socket.send_fds(way, [message], [sock.fileno()]) != len(message):
            raise BlockingIOError(errno.EAGAIN, "no room")
        closing.pop_all()
        return way


def receive(way: socket.socket, size: int) -> tuple[bytes, socket.socket | None]:
    """The next bytes of *way*, a Unix socket, and the connection that was passed with them."""
    # There is room for one: the kernel closes any others.  (`socket.recv_fds` takes no flags.)
    data, extra, _, _ = way.recvmsg(size, socket.CMSG_LEN(_DESCRIPTOR.size), _CLOSE_ON_EXEC)
    for level, kind, content in extra:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            return data, socket.socket(fileno=_DESCRIPTOR.unpack(content)[0])
    return data, None


def passed_preamble(message: bytes) -> bytes | None:
    """The preamble in a *message* that passes a connection on; None if it is no such message."""
    if not message.startswith(PASSED):
        return None
    preamble = message[len(PASSED) :]
    try:
        return preamble if missing(preamble) == 0 else None
    except HandshakeError:
        return None
