"""Starting and joining a system with an elected registrar: `System(registry=)`.

Most systems have none. So the modules of the election are imported with their first use.
"""

from __future__ import annotations

import os
from typing import Any

from msgspec.structs import replace

from ...protocol.errors import SystemDownError
from ..base import addresses, tcp
from ..cluster import hosts
from ..cluster.registrar import REGISTRAR
from ..hosting import bases
from ..wire.messages import Establish
from ..wire.settings import Settings


def check(
    registry: str,
    base: object,
    host: str | None,
    settings: Settings | None,
    capabilities: dict[str, Any] | None,
) -> None:
    """Refuse a *registry* with which no system can run, before anything starts.

    Raises:
        ValueError: it is not the address of an etcd, or another argument does not fit it.
        ModuleNotFoundError: the package `etcd3gw` is not installed.
        SystemDownError: no etcd answers there.
    """
    if base != bases.DEFAULT:
        raise ValueError(f"registry= needs base {bases.DEFAULT}, not {base}")
    if host is None:
        raise ValueError("registry= needs host= too, this machine's address for other hosts")
    if settings is not None and "/" in settings.system:
        raise ValueError(f"a system with a registry has no / in its name: {settings.system!r}")
    from ..cluster import etcd, facts  # noqa: PLC0415 - see the top

    try:
        facts.encode(capabilities)
    except TypeError as error:
        raise ValueError(f"registry= takes capabilities of plain data only: {error}") from error
    etcd.check(registry)


def order_to_start(
    registry: str, base: object, host: str | None, settings: Settings, capabilities: dict[str, Any]
) -> Establish:
    """The order to the registrar proxy of the host that starts a system.

    Raises the errors of `check`.
    """
    check(registry, base, host, settings, capabilities)
    settings = replace(settings, registry=registry)
    return Establish(settings.system, registry, os.getpid(), settings)


def registrar_proxy(asys: Any) -> Any:
    """The address of the registrar proxy of this host, which is created if need be."""
    from ..cluster.registrar_proxy import RegistrarProxy  # noqa: PLC0415 - see the top

    return asys.createActor(RegistrarProxy, globalName=REGISTRAR)


def order_to_join(first: str, base: str, capabilities: dict[str, Any] | None) -> Establish | None:
    """The order to join ``"etcd://a:2379/NAME"``; None if *first* is a host's address.

    Raises the errors of `check`.
    """
    from ..cluster import gateway  # noqa: PLC0415 - see the top

    if not gateway.is_address(first):
        return None
    registry, slash, system = first.rpartition("/")
    if not slash or not system or registry.endswith("/"):
        raise ValueError(f"{first!r} names no system: use 'etcd://host:port/NAME'")
    check(registry, base, "", None, capabilities)
    return Establish(system, registry, os.getpid())


def join(first: str, base: str, capabilities: dict[str, Any], **reach: Any) -> tuple[Any, str]:
    """Start this host's part of the system *first*; returns it and this host's name.

    Raises:
        SystemDownError: this host has a part in it, of another program.
        BaseError: see `base.errors`.
    """
    if reach["host"] is None:
        from ..cluster import gateway  # noqa: PLC0415 - see the top

        name, port = gateway.servers(first.rpartition("/")[0])[0]
        reach["host"] = tcp.address_seen_by(addresses.numeric(name), port)
    mine = hosts.reach_of(base, **reach)
    try:
        asys, _ = bases.start(base, f"{first} {mine.place}", capabilities, mine)
    except Exception as error:
        raise SystemDownError(f"{mine.place} cannot join {first}: {error}") from error
    return asys, mine.place
