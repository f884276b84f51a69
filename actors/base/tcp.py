"""TCP between hosts: knocking at another host, our address there, and the options of sockets.

The options are for links that are cut and may be healed.  Two of the kernel's defaults are too
slow.  After each retransmission in vain it waits twice as long, up to two minutes, so a link that
was cut for some seconds is used again only as many seconds after it is healed.  And it takes 15
minutes to give up a silent host, and never gives it up if there is nothing to send.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
from time import monotonic, sleep
from typing import Final

from ...features import has
from .addresses import Address, at
from .certificates import TLS, Encryption
from .errors import CrowdedOut, HandshakeError, InvalidAddress, NoSuchSystem
from .handshake import ANY_ADMIN, NONCE, Dialler, OtherVersion

TCP_RTO_MAX_MS: Final = 44  # Linux 6.15; Python has no name for it
RETRANSMIT: Final = 1_000  # milliseconds between two retransmissions, at most: the kernel's least
IDLE: Final = 30  # seconds after which a silent peer is asked whether it is there
AGAIN: Final = 0.2  # seconds between two tries
ANSWER: Final = 5.0  # seconds that an admin may take to prove itself


def knock(
    host: str, port: int, key: bytes | None, patience: float, certificates: TLS | None = None
) -> str:
    """Wait until the admin at *host*:*port* has proved that it knows *key*.

    Returns the address that it gives itself, which is another one if a tunnel or a published port
    leads there.  A *key* of None is for a base that has no keys: then this waits until anybody
    answers, and returns an empty text.  If the system has *certificates* of its own, they are
    needed, too.

    Tries again for *patience* seconds while no admin is there, or has no room for us.  Then raises
    :class:`NoSuchSystem`.  Raises :class:`HandshakeError` at once when another program answers, and
    :class:`InvalidCertificate` for *certificates* that cannot be used.
    """
    from . import tls  # noqa: PLC0415 - it loads OpenSSL, and only a host that joins needs it

    ours = tls.NOTHING_TO_SHOW if certificates is None else tls.read(certificates)
    deadline = monotonic() + patience
    there = at(host, port)
    while True:
        try:
            with socket.create_connection((host, port), timeout=ANSWER) as sock:
                return "" if key is None else _prove(sock, there, key, ours)
        except CrowdedOut as error:
            if monotonic() > deadline:
                raise NoSuchSystem(
                    f"{there} has too many connections, and refused this one for {patience:g} s:"
                    " find the programs that keep connecting, and keep them out with a firewall"
                ) from error
        except (OSError, UnicodeError) as error:
            if monotonic() > deadline:
                raise NoSuchSystem(
                    f"nobody answers at {there} ({error}): start the system there, with"
                    f" host=..., and let port {port} through the firewalls"
                ) from error
        sleep(AGAIN)


def _prove(sock: socket.socket, there: str, key: bytes, ours: Encryption) -> str:
    from . import tls  # noqa: PLC0415 - as above

    dialler = Dialler(ANY_ADMIN, Address("x-knock"), key, os.urandom(NONCE))
    end = monotonic() + ANSWER  # for the whole handshake, however slow its bytes are
    sock.sendall(dialler.opening)
    sock.setblocking(False)
    with tls.dial(sock, ours) as way:
        waiting = select.poll()  # `select` fails with many descriptors
        waiting.register(way, select.POLLIN)
        while not dialler.done:
            try:
                tls.shake_hands(way, dialler)
            except BlockingIOError:
                waiting.poll(1000 * max(0.0, end - monotonic()))
            except ConnectionAbortedError as error:
                raise HandshakeError(
                    f"the program at {there} is no farref system: it closed the connection"
                ) from error
            except (CrowdedOut, OtherVersion):
                raise
            except HandshakeError as error:
                raise HandshakeError(
                    f"at {there} is a system with another key, or another program: {error}"
                ) from error
            if monotonic() > end:
                raise TimeoutError(f"in {ANSWER:g} s it has not proved that it knows the key")
    return dialler.met


def address_seen_by(host: str, port: int) -> str:
    """The address of this machine that *host* sees when we dial it.

    Raises :class:`InvalidAddress` if *host* cannot be resolved, and :class:`NoSuchSystem` if there
    is no route to it.
    """
    why: OSError | UnicodeError = OSError("it has no address")
    try:
        for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM):
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                try:
                    probe.connect(address)  # of a datagram socket: nothing is sent
                except OSError as error:
                    why = error
                    continue
                name: str = probe.getsockname()[0]
                return name
    except (OSError, UnicodeError) as error:
        raise InvalidAddress(f"cannot resolve host {host!r}: {error}") from error
    raise NoSuchSystem(f"there is no way to {host}: {why}")


def tune(sock: socket.socket, patience: float, idle: int = IDLE) -> None:
    """Set *sock*, connected or not, for a peer on another host.

    It is given up after *patience* seconds without a sign of life.  If it is silent for *idle*
    seconds, it is asked for one.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if not has("tcp patience"):  # the system's own defaults must do
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(patience * 1000))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, idle // 3))
    with contextlib.suppress(OSError):  # an older kernel
        sock.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS, RETRANSMIT)
