"""Several hosts: how to reach one, who may join, and how to choose one.

The *first* host is the one of the program that started the system; its registrar runs there. Other
hosts join it.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from ...protocol.errors import FetchTimeoutError, SystemDownError
from ..base import addresses, tcp
from ..base.addresses import DEFAULT_PORT
from ..base.errors import InvalidAddress
from ..base.system import shared_key
from ..hosting.bases import BASES, DEFAULT, Reach, enter

if TYPE_CHECKING:
    from ..core.registry import Registry
    from ..wire.messages import HostInfo

LOOK = 0.1
"""Seconds between two checks whether a host has joined."""
GATHERING = 60.0
"""Seconds in which the nodes of `farref run` join the system of its program."""


def reach_of(
    base: object, host: str, port: int | None, key: bytes | str | os.PathLike[str] | None
) -> Reach:
    """Check and complete the user's settings for how others reach this host.

    Raises:
        ValueError: hosts cannot be joined on this base.
        BaseError: see `base.errors`.
    """
    about = BASES.get(base) if isinstance(base, str) else None
    if about is None or not about.hosts:
        fit = " or ".join(each.name for each in BASES.values() if each.hosts)
        raise ValueError(f"a system of several hosts needs base {fit}, not {base}")
    if not about.own and key is not None:
        raise ValueError(f"{base} takes no key=: use {DEFAULT}, or protect its ports by a firewall")
    numeric = addresses.numeric(host)
    secret = shared_key(key, numeric) if about.own else b""
    return Reach(numeric, DEFAULT_PORT if port is None else addresses.checked_port(port), secret)


def join(first: str, base: str, capabilities: dict[str, Any], **reach: Any) -> tuple[Any, str]:
    """Make a Thespian `ActorSystem` here that joins *first*; returns it and this host's address.

    Raises:
        SystemDownError: *first* is on this host.
        BaseError: see `base.errors`.
    """
    name, port = addresses.split(first)
    leader = addresses.numeric(name), port
    if reach["host"] is None:
        reach["host"] = tcp.way_to(*leader)
    mine = reach_of(base, **reach)
    if mine.host == leader[0]:
        raise SystemDownError(
            f"{mine.host} is the first host itself; attach to the system by its name there"
        )
    return enter(base, capabilities, mine, leader), mine.host


def wait_for(
    registry: Registry, on: str | dict[str, Any], system: str, seconds: float
) -> str | dict[str, Any]:
    """Wait until a host that fits *on* is in the system. Returns *on*, with a numeric address.

    Raises:
        FetchTimeoutError: no such host joined in time.
        ValueError: *on* is no address.
    """
    if isinstance(on, str):
        try:
            on = addresses.numeric(on)
        except InvalidAddress as error:
            raise ValueError(f"`on` is {on!r}, which is no address of a host: {error}") from error
    elif not isinstance(on, dict):
        raise TypeError(f"`on` must be a host's address or a dict of capabilities, not {on!r}")
    end = time.monotonic() + seconds
    while True:
        hosts: list[HostInfo] = registry.hosts()
        if any(info.fits(on) for info in hosts):
            return on
        if time.monotonic() > end:
            raise FetchTimeoutError(
                f"no host with {on} joined system {system!r} within {seconds:g} s; "
                f"its hosts are: {', '.join(map(str, hosts))}"
            )
        time.sleep(LOOK)


def gather(registry: Registry, nodes: int, system: str) -> None:
    """Wait until *nodes* hosts are in the system. Raises `SystemDownError` if they do not come."""
    end = time.monotonic() + GATHERING
    while nodes > 1 and len(there := registry.hosts()) < nodes:
        if time.monotonic() > end:
            raise SystemDownError(
                f"of {nodes} nodes {len(there)} joined system {system!r} within {GATHERING:g} s: "
                f"{', '.join(map(str, there))}; the others' `farref run` may tell the reason"
            )
        time.sleep(LOOK)
