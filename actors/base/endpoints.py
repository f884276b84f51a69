"""A parent's preparations for its child, and how a forked child closes its parent's sockets.

The parent binds the child's sockets *before* the child exists.  So the child's address is
final when ``createActor`` returns: it can be pickled into messages at once, and messages to a
child that is still starting wait in the kernel.

A forked child inherits every socket of its parent.  It must close them all, or a killed parent
would seem alive to its peers as long as the child lives.  This is also true of a child that the
user's code forks.  It closes them through the objects that own them, so that no descriptor number
is closed twice.
"""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Final, Protocol

import msgspec

from ._thespian import ActorAddress
from .listener import Sockets
from .settings import SystemSettings


class ChildInit(msgspec.Struct, frozen=True):
    """Everything that a new process needs.  Picklable while spawning."""

    settings: SystemSettings
    addrInst: int | None  # noqa: N815 - Thespian's name for its number
    sockets: Sockets
    admin: ActorAddress


class CloneInit(msgspec.Struct, frozen=True):
    """Makes a further endpoint of an outside program, for ``private()`` and the like."""

    settings: SystemSettings
    admin: ActorAddress


class Abandonable(Protocol):
    """A transport that may find itself in a forked child."""

    pid: int

    def abandon(self) -> None:
        """In a forked child: close the parent's descriptors, and send nothing."""

    def close(self) -> None:
        """Close properly."""


live: Final[weakref.WeakSet[Abandonable]] = weakref.WeakSet()
"""Those with descriptors to close: when this process exits, or in a child that it forks."""


def _close_all() -> None:
    """Leave no socket file behind."""
    for transport in list(live):
        if transport.pid == os.getpid():
            transport.close()


# Only outside programs get there: processes started by multiprocessing skip such handlers.
atexit.register(_close_all)


def _abandon_inherited() -> None:
    for transport in list(live):
        if transport.pid != os.getpid():
            transport.abandon()
            live.discard(transport)


os.register_at_fork(after_in_child=_abandon_inherited)
