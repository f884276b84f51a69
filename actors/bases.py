"""The Thespian system bases that farref runs on, by name, and how each is started or joined.

==================  ==========================================================================
``farrefBase``      our own (`actors.base`): a process per actor, Unix sockets; the default
                    where it runs (Linux)
multiprocTCPBase    Thespian's: a process per actor, TCP on loopback
simpleSystemBase    Thespian's: everything in this process; actors run while the program calls in
==================  ==========================================================================
"""

from __future__ import annotations

import hashlib
import socket
import sys
from typing import Any

from thespian.actors import Actor, ActorAddress, ActorSystem, InvalidActorAddress
from thespian.system.addressManager import CannotPickleAddress

from ..protocol.errors import SystemDownError
from .base import system_base
from .base.envelopes import UserIntent
from .base.transport import Transport

FARREF = "farrefBase"
TCP = "multiprocTCPBase"
SIMPLE = "simpleSystemBase"
OBJECT = "(an object)"
DEFAULT = FARREF if sys.platform == "linux" else TCP
"""The fastest local one there is."""

TRIES = 3
"""Free ports tried: somebody else may take one before the system's admin listens on it."""


def start(base: object, name: str, capabilities: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Start the system *name*: Thespian's `ActorSystem`, and what `join` needs to find it.

    Raises:
        SystemDownError: it did not start.
    """
    if not isinstance(base, str):
        return _open(base), {}
    if base == SIMPLE:
        return _open(base, capabilities, log_definitions=False), {}
    if base == FARREF:
        made = _open(
            system_base(
                _short(name), capabilities=capabilities, log_defs=_quiet_logging(), mode="start"
            )
        )
        return made, {}
    return _start_stock(base, capabilities, TRIES)


def _start_stock(base: str, capabilities: dict[str, Any], tries: int) -> tuple[Any, dict[str, Any]]:
    mine = {"Admin Port": _free_port(), **capabilities}
    try:
        made = _open(base, mine, log_definitions=_quiet_logging())
    except InvalidActorAddress:
        if tries == 1 or "Admin Port" in capabilities:
            raise
        return _start_stock(base, capabilities, tries - 1)
    return made, {"Admin Port": mine["Admin Port"]}


def join(base: str, name: str, found: dict[str, Any]) -> Any:
    """Join the running system *name*.

    Raises:
        SystemDownError: there is no way in.
    """
    if base == OBJECT:
        raise SystemDownError(
            f"system {name!r} runs on a base object that its program made; only that knows the way"
        )
    if base == SIMPLE:
        raise SystemDownError(f"system {name!r} runs inside another program; it has no door")
    if base == FARREF:
        return _open(system_base(_short(name), log_defs=_quiet_logging(), mode="join"))
    return _open(base, found, log_definitions=_quiet_logging())


def is_thread_safe(transport: object) -> bool:
    """Whether any thread may send through *transport* while another one runs it."""
    return isinstance(transport, Transport)


def post_as(actor: Any, address: ActorAddress, message: object) -> None:
    """Send *message* as *actor*, from any thread and without ever waiting, on our own base."""
    manager = actor._myRef
    try:
        manager.transport.enqueue(
            manager._addrManager, UserIntent(address, message, manager.actor_send_fail)
        )
    except CannotPickleAddress:
        Actor.send(actor, address, message)  # which keeps it until the address is known


def holds_back(transport: object, address: ActorAddress) -> bool:
    """Whether *transport* still holds bytes for *address*, so that sending again would not help."""
    return isinstance(transport, Transport) and transport.queued_bytes(address) > 0


def _short(name: str) -> str:
    """The base's own name for the system *name*: part of a socket's path, which is short."""
    return "farref." + hashlib.blake2b(name.encode(), digest_size=8).hexdigest()


def _open(
    base: Any, capabilities: dict[str, Any] | None = None, log_definitions: Any = None
) -> Any:
    return ActorSystem(base, capabilities or None, log_definitions, transientUnique=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _quiet_logging() -> dict[str, Any]:
    """What the actors log at WARNING and above goes to this program's standard error."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"farref": {"format": "%(levelname)s %(name)s: %(message)s"}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "level": "WARNING",
                "formatter": "farref",
                "stream": sys.stderr,
            }
        },
        "root": {"handlers": ["stderr"], "level": "WARNING"},
    }
