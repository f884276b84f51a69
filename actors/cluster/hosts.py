"""Several hosts: how to reach one, who may join, and how to choose one.

The *first* host is the one of the program that started the system; its registrar runs there. Other
hosts join it.
"""

from __future__ import annotations

import os
import time
from typing import Any

from ...protocol.errors import FetchTimeoutError, SystemDownError
from ..base import addresses, tcp
from ..base.addresses import DEFAULT_PORT
from ..base.certificates import TLS
from ..base.errors import InvalidAddress
from ..base.system import shared_key
from ..core.registrar_client import RegistrarClient
from ..hosting.bases import BASES, DEFAULT, Reach, enter
from ..wire.messages import HostInfo

KNOCKING = 30.0
"""Seconds that a joining host waits for the host that it joins."""
ANY = 0
"""Stands for whichever port a host has."""
LOOK = 0.1
"""Seconds between two checks whether a host has joined."""
GATHERING = 60.0
"""Seconds in which the nodes of `farref run` join the system of its program."""


def reach_of(
    base: object,
    host: str,
    port: int | None,
    key: bytes | str | os.PathLike[str] | None,
    *,
    advertise: str | None = None,
    tls: TLS | None = None,
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
    numeric = addresses.numeric(host, listen=advertise is not None)
    chosen = DEFAULT_PORT if port is None else addresses.checked_port(port)
    if about.own:
        seen = addresses.advertised(advertise, chosen)[0] if advertise is not None else numeric
        secret = shared_key(key, addresses.exposed(numeric, seen))
        return Reach(numeric, chosen, secret, advertise, tls)
    if tls is not None:
        raise ValueError(f"{base} takes no tls=: it encrypts nothing; use {DEFAULT}")
    if key is not None:
        raise ValueError(f"{base} takes no key=: use {DEFAULT}, or protect its ports by a firewall")
    if advertise is not None or ":" in numeric:
        raise ValueError(f"{base} takes no advertise=, and no IPv6 address: use {DEFAULT}")
    return Reach(numeric, chosen, b"")


def join(first: str, base: str, capabilities: dict[str, Any], **reach: Any) -> tuple[Any, str]:
    """Make a Thespian `ActorSystem` here that joins *first*; returns it and this host's name.

    Raises:
        SystemDownError: *first* is on this host.
        BaseError: see `base.errors`.
    """
    dialled = addresses.split(first)
    end = time.monotonic() + KNOCKING
    addresses.numeric_within(dialled[0], KNOCKING)
    if reach["host"] is None:
        reach["host"] = tcp.address_seen_by(*dialled)
    mine = reach_of(base, **reach)
    patience = max(0.0, end - time.monotonic())
    if BASES[base].own:
        leader = tcp.knock(*dialled, mine.key, patience, mine.tls)
    else:
        leader = addresses.at(addresses.numeric(dialled[0]), dialled[1])
        tcp.knock(*dialled, None, patience)
    if addresses.at(*mine.seen) == leader:
        raise SystemDownError(
            f"{leader} is the first host itself; attach to the system by its name there. Or if it "
            "is another machine, with the same address: give this one another by advertise="
        )
    return enter(base, capabilities, mine, leader, dialled), mine.place


def wait_for(
    registrar_client: RegistrarClient, on: str | dict[str, Any], system: str, seconds: float
) -> str | dict[str, Any]:
    """Wait until a host that fits *on* is in the system. Returns *on*, as that host is called.

    Raises:
        FetchTimeoutError: no such host joined in time.
        ValueError: *on* is not an address.
    """
    wanted = [on]
    if isinstance(on, str):
        try:
            wanted = _spellings(on)
        except InvalidAddress as error:
            raise ValueError(f"`on` is {on!r}, which is no address of a host: {error}") from error
    elif not isinstance(on, dict):
        raise TypeError(f"`on` must be a host's address or a dict of capabilities, not {on!r}")
    end = time.monotonic() + seconds
    while True:
        hosts: list[HostInfo] = registrar_client.hosts()
        for each in wanted:
            if any(info.fits(each) for info in hosts):
                return each
        if time.monotonic() > end:
            raise FetchTimeoutError(
                f"no host with {on} joined system {system!r} within {seconds:g} s; "
                f"its hosts are: {', '.join(map(str, hosts))}"
            )
        time.sleep(LOOK)


def gather(registrar_client: RegistrarClient, nodes: int, system: str) -> None:
    """Wait until *nodes* hosts are in the system. Raises `SystemDownError` if they do not come."""
    end = time.monotonic() + GATHERING
    while nodes > 1 and len(there := registrar_client.hosts()) < nodes:
        if time.monotonic() > end:
            raise SystemDownError(
                f"of {nodes} nodes {len(there)} joined system {system!r} within {GATHERING:g} s: "
                f"{', '.join(map(str, there))}; the others' `farref run` may tell the reason"
            )
        time.sleep(LOOK)


def _spellings(on: str) -> list[str | dict[str, Any]]:
    """The names that a host at the address *on* may have: as it is written, and numeric."""
    host, port = addresses.split(on, ANY)
    names = (
        [addresses.numeric(host)] if addresses.is_numeric(host) else [host, addresses.numeric(host)]
    )
    return [name if port == ANY else addresses.place(name, port) for name in names]
