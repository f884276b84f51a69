"""A parent's preparations for its child, and how a forked child closes its parent's sockets.

The parent binds the child's sockets *before* the child exists.  So the child's address is
final when ``createActor`` returns: it can be pickled into messages at once, and messages to a
child that is still starting wait in the kernel.

A forked child inherits every socket of its parent.  It must close them all, or a killed parent
would seem alive to its peers as long as the child lives.  This is also true of a child that the
user's code forks.  :func:`abandon_inherited` closes them through the objects that own them, so that
no descriptor number is closed twice.
"""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Protocol

import msgspec

from ._thespian import ActorAddress, TransportInit
from .listener import Sockets
from .settings import SystemSettings


class ChildInit(TransportInit):
    """Everything that a new process needs.  Picklable while spawning."""

    def __init__(
        self,
        settings: SystemSettings,
        instance: int | None,
        sockets: Sockets,
        admin: ActorAddress,
    ) -> None:
        self.settings = settings
        self.addrInst = instance  # Thespian's name for it
        self.sockets = sockets
        self.admin = admin


class CloneInit(msgspec.Struct, frozen=True):
    """Makes a further endpoint of an outside program, for ``private()`` and the like."""

    settings: SystemSettings
    admin: ActorAddress


class Abandonable(Protocol):
    """A transport that may find itself in a forked child."""

    pid: int

    def abandon(self) -> None:
        """Close the descriptors, and send nothing."""

    def close(self) -> None:
        """Close properly."""


_live: weakref.WeakSet[Abandonable] = weakref.WeakSet()


def register(transport: Abandonable) -> None:
    _live.add(transport)


def forget(transport: Abandonable) -> None:
    """Forget *transport*, which has nothing left to close."""
    _live.discard(transport)


def close_all() -> None:
    """Close the transports of this process when it exits, so that no socket file is left."""
    for transport in list(_live):
        if transport.pid == os.getpid():
            transport.close()


# Only outside programs get there: processes started by multiprocessing skip such handlers.
atexit.register(close_all)


def abandon_inherited() -> None:
    """Close the parent's transports in this forked child."""
    for transport in list(_live):
        if transport.pid != os.getpid():
            transport.abandon()
            _live.discard(transport)


os.register_at_fork(after_in_child=abandon_inherited)
