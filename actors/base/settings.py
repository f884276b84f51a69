"""The configuration of one system, as values that are sent to each of its processes.

:func:`~farref.actors.base.system_base` makes the settings once.  A parent hands them to its child
inside the child's endpoint (pickled when the start method is *spawn*).  They are not in Thespian's
*capabilities*, because those are shown to every actor and sent to every system of a convention, and
the settings hold the shared key.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from .certificates import Encryption
from .discreet import Discreet

MIB = 1 << 20
GIB = 1 << 30


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of memory and patience.  Sizes in bytes, times in seconds.

    ``max_queued_*`` bound the messages of one sender to one receiver that the kernel has not
    taken yet; beyond them ``send`` waits.  ``max_backlog_*`` bound the messages that one
    receiver has read from one sender but not handled yet; beyond them it stops reading, so that
    the kernel's window, then the sender's queue, fill up in turn.

    Raises:
        ValueError: one of them is not positive.
    """

    max_message_bytes: int = 16 * GIB
    """Larger messages are refused: `MessageTooLarge`."""
    max_queued_bytes: int = 64 * MIB
    max_queued_messages: int = 20_000
    max_backlog_bytes: int = 8 * MIB
    max_backlog_messages: int = 2_000
    stall_timeout: float = 60.0
    """If a receiver takes nothing for so long, its sender gets `PeerStalled`."""
    connect_timeout: float = 10.0
    """The time to make a connection."""
    handshake_timeout: float = 5.0
    """The time for a stranger's handshake."""
    max_handshakes: int = 64
    """The strangers that an actor waits for at a time until they prove the key.

    If there are more, the oldest one that has sent nothing is dropped."""
    max_visitors: int = 512
    """The same at the port of the host, until they have named an actor.

    There are more of them, because all actors of the host are dialled there, and the preamble of a
    distant peer comes some time after the connection."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise ValueError(f"Limits.{name} must be positive, not {getattr(self, name)!r}")


class SystemSettings(Discreet, frozen=True, kw_only=True):
    """One system's configuration, the same in all of its processes.

    ``host`` and ``port`` are the address that peers on other hosts dial, or ``""`` when the system
    has no TCP at all.  ``listen`` is where its port really is, which may differ behind NAT or in a
    container.  ``key`` and ``encryption`` are empty and None without TCP.  ``routes`` says where to
    dial hosts that are reached by another address than they have, for instance by a tunnel.
    ``system_id`` is random per incarnation of the system and prefixes the names of its sockets, so
    that a sweep knows their system.
    """

    name: str
    directory: Path
    system_id: str
    host: str = ""
    port: int = 0
    listen: tuple[str, int] = ("", 0)
    routes: dict[tuple[str, int], tuple[str, int]] = msgspec.field(default_factory=dict)
    key: bytes = b""
    encryption: Encryption | None = None
    spin: float = 150e-6
    die_with_parent: bool = True
    limits: Limits = msgspec.field(default_factory=Limits)

    @property
    def tcp(self) -> bool:
        """Whether this system also listens on TCP."""
        return bool(self.host)
