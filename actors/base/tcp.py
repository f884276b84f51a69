"""How TCP sockets between hosts are set: a link may be cut, and healed, or never be again.

Two of the kernel's defaults are for patient people. After each retransmission in vain it waits
twice as long, up to two minutes: a link that was cut for some seconds is used again only as many
seconds after it is healed. And it believes for 15 minutes that a host is there which says nothing,
and for ever if there is nothing to say to it.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Final

from .settings import Limits

TCP_RTO_MAX_MS: Final = 44  # Linux 6.15; Python has no name for it
RETRANSMIT: Final = 1_000  # milliseconds between two retransmissions, at most: the kernel's least
IDLE: Final = 30  # seconds after which a silent peer is asked whether it is there


def tune(sock: socket.socket, limits: Limits) -> None:
    """Set *sock*, connected or not, for a peer on another host."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    patience = int(limits.stall_timeout * 1000)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, patience)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, IDLE // 3)
    with contextlib.suppress(OSError):  # an older kernel
        sock.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS, RETRANSMIT)
