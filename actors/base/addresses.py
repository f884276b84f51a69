"""The identity of an actor, and the ways to reach it.

Thespian carries an :class:`Address` as ``ActorAddress.addressDetails``.  Its identity is its
``key`` alone:

- an actor or an outside program has a random key, made with its socket, so an address is never
  used again: a message to a dead actor cannot reach a later one, and a connection to a
  recycled TCP port is refused in the handshake, which names the key it wants;
- an admin has a *well-known* key, ``host:port`` where its host has a TCP port and otherwise the
  path of its socket, so that it can be addressed before anything was received from it.

The other fields say how to get there.  ``host`` and ``port`` are the one TCP port of a whole host,
as others dial it: a numeric address or a DNS name, which each dialler resolves for itself.  A peer
on the same host (same ``host`` and ``port``, socket in our own directory) is dialled by its Unix
socket, any other by TCP.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import socket
import time
from contextlib import suppress

import msgspec

from . import rundir
from .errors import InvalidAddress
from .settings import SystemSettings

DEFAULT_PORT = 1900  # Thespian's own default
MAX_PORT = 65535
BROADCAST = ipaddress.IPv4Address("255.255.255.255")
NAME = r"(?=.{1,253}$)(?!-)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?"
KEY_BYTES = 10
RESOLVING = 0.5  # seconds between two tries to resolve a name
DIGITS = frozenset("0123456789abcdef")
OUTSIDE = "x"  # the keys of outside programs start with it, instead of a system's id


class Address(msgspec.Struct, frozen=True, eq=False):
    """An identity (``key``) and the ways to it; see the module's text."""

    key: str
    path: str = ""
    host: str = ""
    port: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self.key == other.key

    def __ne__(self, other: object) -> bool:  # msgspec's own compares the objects
        return not self == other

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        # Thespian's tools split the text of an address at the bars, as in its own addresses.
        return f"(farref|{at(self.host, self.port)}|{os.path.basename(self.key)})"

    @property
    def outside(self) -> bool:
        """Whether this is the address of a program outside of the system."""
        return self.key.startswith(f"{OUTSIDE}-")

    @property
    def well_known(self) -> bool:
        """Whether this is the address of an admin."""
        return self.key in {self.path, at(self.host, self.port)}


def at(host: str, port: int) -> str:
    """*host* and *port* in one text, as users write them; an IPv6 address gets brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def place(host: str, port: int) -> str:
    """The name of the host at *host* and *port*, for people: the default port is not shown."""
    return host if port == DEFAULT_PORT else at(host, port)


def admin_address(settings: SystemSettings) -> Address:
    path = rundir.admin_path(settings.directory, settings.name)
    if settings.tcp:
        return Address(at(settings.host, settings.port), path, settings.host, settings.port)
    return Address(path, path)


def new_address(settings: SystemSettings, prefix: str) -> Address:
    """An address with a new random key.  Without TCP it has a path, but no host and no port."""
    key = f"{prefix}-{os.urandom(KEY_BYTES).hex()}"
    host, port = (settings.host, settings.port) if settings.tcp else ("", 0)
    return Address(key, str(settings.directory / key), host, port)


def socket_path_of(settings: SystemSettings, key: str) -> str:
    """The path of the socket of the actor of this system, or outside program, with *key*.

    A stranger has chosen *key*, so it may be any text: the path is empty unless :func:`new_address`
    could have made it.
    """
    prefix, _, rest = key.rpartition("-")
    ours = prefix in {settings.system_id, OUTSIDE}
    random = len(rest) == 2 * KEY_BYTES and set(rest) <= DIGITS
    return str(settings.directory / key) if ours and random else ""


def is_numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    return host.startswith("127.") or host == "::1"


def exposed(*hosts: str) -> str:
    """The first of *hosts* that other machines can reach, or the first."""
    return next((host for host in hosts if not is_loopback(host)), hosts[0])


def family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def is_here(host: str) -> bool:
    """Whether *host* is this machine, that is, whether one of its addresses can be bound."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, _, _, address in found:
        with suppress(OSError), socket.socket(family, kind) as probe:
            probe.bind(address)
            return True
    return False


def is_address(host: str) -> bool:
    """Whether *host* is written like an address or a DNS name."""
    return is_numeric(host) or re.fullmatch(NAME, host) is not None


def numeric(host: str, *, listen: bool = False) -> str:
    """*host* as a numeric address, so that two spellings of one host compare equal.

    If a name has several, an IPv4 address comes first.  With *listen* it may also be the address
    that means all interfaces, ``0.0.0.0`` or ``::``.

    Raises :class:`InvalidAddress` for an address that cannot be dialled.
    """
    try:
        found = {
            family: str(address[0])
            for family, _, _, _, address in reversed(
                socket.getaddrinfo(host or "0.0.0.0", None, type=socket.SOCK_STREAM)  # noqa: S104 - only to resolve
            )
        }
    except (OSError, TypeError, UnicodeError) as error:
        raise InvalidAddress(f"cannot resolve host {host!r}: {error}") from error
    chosen = ipaddress.ip_address(found.get(socket.AF_INET) or found[socket.AF_INET6])
    if isinstance(chosen, ipaddress.IPv6Address):
        chosen = chosen.ipv4_mapped or chosen
        if isinstance(chosen, ipaddress.IPv6Address) and chosen.is_link_local:
            raise InvalidAddress(
                f"{host!r} is {chosen}, which is another machine on each link: give an address that"
                " is not link-local"
            )
    if chosen.is_unspecified and listen:
        return str(chosen)
    if chosen.is_unspecified or chosen.is_multicast or chosen == BROADCAST:
        raise InvalidAddress(
            f"{host!r} is not the address of one host: give the address that others dial"
            " (to listen on all interfaces, pass that one as advertise=, too)"
        )
    return str(chosen)


def numeric_within(host: str, seconds: float) -> str:
    """As :func:`numeric`, but try for *seconds*: a machine may start before its DNS record."""
    end = time.monotonic() + seconds
    while True:
        try:
            return numeric(host)
        except InvalidAddress as error:
            may_come = isinstance(error.__cause__, socket.gaierror) and is_address(host)
            if not may_come or time.monotonic() >= end:
                raise
            time.sleep(RESOLVING)


def advertised(spec: str, port: int) -> tuple[str, int]:
    """The host and port of *spec*, which others dial; the default is *port*.

    A name stays a name: each dialler resolves it for itself.  Raises :class:`InvalidAddress`.
    """
    host, written = split(spec, port)
    if not is_address(host):
        raise InvalidAddress(f"{spec!r} is no address that others could dial: use 'host:port'")
    return (numeric(host) if is_numeric(host) or host == "localhost" else host), written


def checked_port(port: object) -> int:
    """*port* if others can dial it.  Raises :class:`InvalidAddress`."""
    if type(port) is not int or not 0 < port <= MAX_PORT:
        raise InvalidAddress(f"{port!r} is no port: use a whole number from 1 to {MAX_PORT}")
    return port


def parse(settings: SystemSettings, spec: object) -> Address:
    """The admin address that *spec* names: ``"host:port"``, ``(host, port)`` or ``"host"``.

    An empty host or ``localhost`` is this host: our own TCP address if the system has one,
    else the Unix socket of the system of this user that is called ``p<port>``.  Write another host
    as it calls itself, because no name is resolved here.

    Raises :class:`InvalidAddress` for a malformed *spec*, or for another host when this
    system has no TCP.
    """
    host, port = split(spec)
    own = settings.host if settings.tcp else ""
    local = host in ("", "localhost") or (not is_loopback(own) and is_loopback(host))
    if (host, port) in settings.routes:
        local = False  # at the other end of a tunnel
    if local and not own:
        path = rundir.admin_path(settings.directory, f"p{port}")
        return Address(path, path)
    if not own:
        raise InvalidAddress(
            f"{at(host, port)} is on another host, but this system has no TCP address:"
            " build it with host=..., and the same key=... on both"
        )
    mine = admin_address(settings)
    there = own if local else host
    key = at(there, port)
    return mine if key == mine.key else Address(key, "", there, port)


def split(spec: object, default: int = DEFAULT_PORT) -> tuple[str, int]:
    """The host and port of an address; see :func:`parse`.

    An IPv6 address with a port is in brackets: ``"[::1]:1900"``.  *default* is any number.
    """
    wrong = InvalidAddress(
        f"{spec!r} is not an address: use 'host:port', with a port from 1 to {MAX_PORT}"
    )
    match spec:
        case str() if spec.startswith("["):
            host, closed, port = spec[1:].partition("]")
            if not closed or port[:1] not in ("", ":") or ":" not in host:
                raise wrong
            port = port[1:]
        case str() if spec.count(":") > 1:
            host, port = spec, ""
        case str():
            host, _, port = spec.partition(":")
        case (str() as host, port):
            pass
        case _:
            raise wrong
    try:
        number = int(port or DEFAULT_PORT)
        host = str(ipaddress.IPv6Address(host)) if ":" in host else host
    except (TypeError, ValueError):
        raise wrong from None
    if not 0 < number <= MAX_PORT:
        raise wrong
    return host, number if port else default


def cannot_listen(host: str, port: int, error: OSError) -> InvalidAddress:
    why = {
        errno.EADDRINUSE: f"port {port} is in use, maybe by another system (see `farref ps`): give"
        " another one as port=",
        errno.EADDRNOTAVAIL: f"{host} is no address of this machine: give its own as host=, and the"
        " one that others dial as advertise=",
        errno.EACCES: f"this user may not use port {port}: give one from 1024 on as port=",
    }.get(error.errno or 0, str(error))
    return InvalidAddress(f"cannot listen at {at(host, port)}: {why}")


def free_port(host: str) -> int:
    """A port at *host* that nobody listens on now.  Raises OSError if *host* is another machine."""
    with socket.socket(family(host)) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
