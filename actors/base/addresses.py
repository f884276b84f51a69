"""The identity of an actor, and the ways to reach it.

Thespian carries an :class:`Address` as ``ActorAddress.addressDetails``.  Its identity is its
``key`` alone:

- an actor or an outside program has a random key, minted with its socket, so an address is
  never recycled: a message to a dead actor cannot reach a later one, and a connection to a
  recycled TCP port is refused in the handshake, which names the key it wants;
- an admin has a *well-known* key, ``host:port`` where it listens on TCP and otherwise the
  path of its socket, so that it can be addressed before anything was received from it.

The other fields say how to get there.  A peer on the same host (same ``host``, socket in our
own directory) is dialled by its Unix socket, any other by TCP.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
from dataclasses import dataclass

from . import places
from .errors import InvalidAddress
from .settings import SystemSettings

DEFAULT_PORT = 1900  # Thespian's own default
MAX_PORT = 65535
BROADCAST = ipaddress.IPv4Address("255.255.255.255")
OUTSIDE = "x"  # the keys of outside programs start with it, instead of a system's id


@dataclass(frozen=True, slots=True, eq=False)
class Address:
    """An identity (``key``) and the ways to it; see the module's text."""

    key: str
    path: str = ""
    host: str = ""
    port: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __reduce__(self) -> tuple[type[Address], tuple[str, str, str, int]]:
        # The default of a slotted dataclass builds lists and dictionaries: three times slower.
        return Address, (self.key, self.path, self.host, self.port)

    def __str__(self) -> str:
        # The bars are where Thespian's own addresses have theirs: its tools take them apart.
        return f"(farref|{self.host}:{self.port}|{os.path.basename(self.key)})"

    @property
    def outside(self) -> bool:
        """Whether this is the address of a program outside of the system."""
        return self.key.startswith(f"{OUTSIDE}-")

    @property
    def well_known(self) -> bool:
        """Whether this is the address of an admin."""
        return self.key in {self.path, f"{self.host}:{self.port}"}


def admin_address(settings: SystemSettings) -> Address:
    """The well-known address of the admin of the system of *settings*."""
    path = places.admin_path(settings.directory, settings.name)
    if settings.tcp:
        return Address(f"{settings.host}:{settings.port}", path, settings.host, settings.port)
    return Address(path, path)


def mint(settings: SystemSettings, prefix: str) -> Address:
    """A new random address (its TCP port is filled in once it is bound)."""
    key = f"{prefix}-{secrets.token_hex(10)}"
    return Address(key, str(settings.directory / key), settings.host)


def is_loopback(host: str) -> bool:
    """Whether numeric *host* can be reached from this host only."""
    return host.startswith("127.") or host == "::1"


def numeric(host: str) -> str:
    """*host* as a numeric IPv4 address, so that two spellings of one host compare equal.

    Raises :class:`InvalidAddress` for an address that cannot be dialled.
    """
    try:
        found = socket.gethostbyname(host)
    except (OSError, TypeError, UnicodeError) as error:
        raise InvalidAddress(f"cannot resolve host {host!r}: {error}") from error
    address = ipaddress.IPv4Address(found)
    if address.is_unspecified or address.is_multicast or address == BROADCAST:
        raise InvalidAddress(
            f"{host!r} is {found}, not the address of one host: give the address that others dial"
        )
    return found


def checked_port(port: object) -> int:
    """*port* if others can dial it.  Raises :class:`InvalidAddress`."""
    if type(port) is not int or not 0 < port <= MAX_PORT:
        raise InvalidAddress(f"{port!r} is no port: use a whole number from 1 to {MAX_PORT}")
    return port


def parse(settings: SystemSettings, spec: object) -> Address:
    """The admin address that *spec* names: ``"host:port"``, ``(host, port)`` or ``"host"``.

    An empty host or ``localhost`` is this host: our own TCP address if the system has one,
    else the Unix socket of the system of this user that is called ``p<port>``.

    Raises :class:`InvalidAddress` for a malformed *spec*, or for another host when this
    system has no TCP.
    """
    host, port = split(spec)
    own = settings.host if settings.tcp else ""
    local = host in ("", "localhost") or (not is_loopback(own) and is_loopback(host))
    if local and not own:
        path = places.admin_path(settings.directory, f"p{port}")
        return Address(path, path)
    if not own:
        raise InvalidAddress(
            f"{host}:{port} is on another host, but this system has no TCP address:"
            " build it with host=..., and the same key=... on both"
        )
    resolved = own if local else numeric(host)
    return Address(f"{resolved}:{port}", "", resolved, port)


def split(spec: object) -> tuple[str, int]:
    """The host and port of an address; see :func:`parse`."""
    match spec:
        case str():
            host, _, port = spec.partition(":")
        case (host, port):
            pass
        case _:
            raise InvalidAddress(f"{spec!r} is not an address: use 'host:port'")
    try:
        number = int(port or DEFAULT_PORT)
    except (TypeError, ValueError):
        number = -1
    if not 0 < number <= MAX_PORT:
        raise InvalidAddress(f"{spec!r} is not an address: use 'host:port'")
    return host or "", number
