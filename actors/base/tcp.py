"""Options of TCP sockets between hosts, for links that are cut, and maybe healed.

Two of the kernel's defaults take too long. After each retransmission in vain it waits twice as
long, up to two minutes: a link that was cut for some seconds is used again only as many seconds
after it is healed. And it takes 15 minutes to give up a silent host, and never gives it up if there
is nothing to send to it.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
from time import monotonic, sleep
from typing import Final

from ...features import has
from .addresses import Address
from .errors import CrowdedOut, HandshakeError, NoSuchSystem
from .handshake import NONCE, Dialler
from .settings import Limits

TCP_RTO_MAX_MS: Final = 44  # Linux 6.15; Python has no name for it
RETRANSMIT: Final = 1_000  # milliseconds between two retransmissions, at most: the kernel's least
IDLE: Final = 30  # seconds after which a silent peer is asked whether it is there


AGAIN: Final = 0.2  # seconds between two tries
ANSWER: Final = 5.0  # seconds that an admin may take to prove itself


def knock(host: str, port: int, key: bytes | None, patience: float) -> None:
    """Return once the admin at *host*:*port* has proved that it knows *key* (None: answers).

    Tries again for *patience* seconds while no admin is there, or has no room for us.  Then raises
    :class:`NoSuchSystem`.  Raises :class:`HandshakeError` when another program answers.
    """
    deadline = monotonic() + patience
    while True:
        try:
            with socket.create_connection((host, port), timeout=ANSWER) as sock:
                if key is not None:
                    _prove(sock, f"{host}:{port}", key)
                return
        except CrowdedOut as error:
            if monotonic() > deadline:
                raise NoSuchSystem(
                    f"{host}:{port} is crowded, and refused us for {patience:g} s: find the"
                    " programs that keep connecting there, and keep them out with a firewall"
                ) from error
        except HandshakeError:
            raise
        except OSError as error:
            if monotonic() > deadline:
                raise NoSuchSystem(
                    f"nobody answers at {host}:{port} ({error}): start the system there, with"
                    f" host=..., and let every port between the hosts through the firewalls"
                ) from error
        sleep(AGAIN)


def _prove(sock: socket.socket, want: str, key: bytes) -> None:
    dialler = Dialler(want, Address("x-knock"), key, secrets.token_bytes(NONCE))
    end = monotonic() + ANSWER  # for the whole handshake, however slow its bytes are
    sock.sendall(dialler.opening)
    while not dialler.done:
        sock.settimeout(max(AGAIN, end - monotonic()))
        data = sock.recv(4096)
        if monotonic() > end:
            raise TimeoutError(f"in {ANSWER:g} s it has not proved that it knows the key")
        if not data:
            raise HandshakeError(f"at {want} is no system like ours: it closed the connection")
        try:
            sock.sendall(dialler.feed(data))  # or it would seem that we have another key
        except CrowdedOut:
            raise
        except HandshakeError as error:
            raise HandshakeError(
                f"at {want} is a system with another key, or another program: {error}"
            ) from error


def way_to(host: str, port: int) -> str:
    """The address of this host that *host* sees."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, port))  # of a datagram socket: nothing is sent
        except OSError as error:
            raise NoSuchSystem(f"there is no way to {host}: {error}") from error
        name: str = probe.getsockname()[0]
        return name


def tune(sock: socket.socket, limits: Limits) -> None:
    """Set *sock*, connected or not, for a peer on another host."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if not has("tcp patience"):  # the system's own defaults must do
        return
    patience = int(limits.stall_timeout * 1000)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, patience)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, IDLE // 3)
    with contextlib.suppress(OSError):  # an older kernel
        sock.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS, RETRANSMIT)
