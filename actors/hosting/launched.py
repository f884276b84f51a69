"""The place of a program that `farref run` started, as its environment tells it.

======================  ===========================================================================
``FARREF_HOST``         the address of this machine for the other hosts
``FARREF_PORT``         the port there; 1900 by default
``FARREF_HOSTS``        the number of hosts: `System()` waits until so many are there
``FARREF_REGISTRY``     `System(registry=)`, and the system ends on all hosts with the program
``FARREF_KEY``          the key: the path of its file, or its hexadecimal digits. The torchrun
                        backend and `farref.rpc` read it, too
======================  ===========================================================================

The first `System()` of the program that names no host takes the place. While it runs, another one
is a system for itself; when it has ended, the next one takes the place.
"""

from __future__ import annotations

import os

from ...protocol.errors import SystemDownError
from ..base import addresses, keys
from ..base.addresses import DEFAULT_PORT
from ..base.discreet import Discreet
from ..base.errors import BaseError
from . import directory

HOST, PORT, HOSTS, KEY = "FARREF_HOST", "FARREF_PORT", "FARREF_HOSTS", "FARREF_KEY"
REGISTRY = "FARREF_REGISTRY"
NODE = "farref node"
"""The capability with the number of a node, in a system that `farref run` has started."""


class ReservedPlace(Discreet, frozen=True):
    """The arguments for a `System` that others can join."""

    host: str
    port: int
    key: bytes | None
    hosts: int
    """The number of hosts to wait for."""
    registry: str | None = None
    """The etcd of the system, if it has one."""


def place() -> ReservedPlace | None:
    """The place of this program's next system; None if no place is reserved, or it is taken.

    Raises `SystemDownError` if a variable has a value that it cannot have.
    """
    host = os.environ.get(HOST)
    if not host:
        return None
    port, hosts = _number(PORT, DEFAULT_PORT), _number(HOSTS, 1)
    try:
        taken = directory.at(addresses.numeric(host), port) is not None
        registry = os.environ.get(REGISTRY) or None
        return None if taken else ReservedPlace(host, port, key(), hosts, registry)
    except BaseError as error:
        raise SystemDownError(f"{HOST}={host} cannot be used: {error}") from error


def capabilities() -> dict[str, int]:
    """The capabilities of this program's systems: it is on node 0 of a run, or in none."""
    return {NODE: 0} if HOSTS in os.environ else {}


def _number(name: str, default: int) -> int:
    text = os.environ.get(name) or str(default)
    if not text.isdigit():
        raise SystemDownError(f"{name} must be a whole number, not {text!r}")
    return int(text)


def key() -> bytes | None:
    """The key that ``FARREF_KEY`` is or names; None if it is not set. Raises `SystemDownError`."""
    given = os.environ.get(KEY)
    if not given:
        return None
    try:
        return keys.given(given)
    except (BaseError, OSError) as error:
        raise SystemDownError(f"{KEY} is no key, nor the path of one: {error}") from error


def environment(hosts: int, host: str, port: int, key: bytes, registry: str) -> dict[str, str]:
    """The variables for a program whose system is at *host* and *port*."""
    env = {HOSTS: str(hosts), HOST: host, PORT: str(port), KEY: key.hex()}
    return {**env, REGISTRY: registry} if registry else env
