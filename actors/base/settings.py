"""What one system is configured with, as values that travel to every process of it.

Settings are made once, by :func:`~farref.actors.base.system_base`, and handed from
process to process inside the endpoint that a parent prepares for its child (pickled
when the start method is *spawn*).  They do not live in Thespian's *capabilities*: those
are shown to every actor and sent to every system of a convention, and the settings hold
the shared key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of memory and patience.  Sizes in bytes, times in seconds.

    ``max_queued_*`` bound what one sender holds for one receiver that the kernel has not
    taken yet; beyond them ``send`` waits.  ``max_backlog_*`` bound what one receiver has
    read from one sender but not handled yet; beyond them it stops reading, so that the
    kernel's window, then the sender's queue, fill up in turn.

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
    """For a receiver that takes nothing; then `PeerStalled`."""
    connect_timeout: float = 10.0
    """For a connection to be made."""
    handshake_timeout: float = 5.0
    """For a stranger to say who it is."""
    max_handshakes: int = 64
    """Strangers at once, at one TCP port; then the oldest that has said nothing is hung up on."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) <= 0:
                raise ValueError(f"Limits.{name} must be positive, not {getattr(self, name)!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSettings:
    """One system's configuration, the same in all of its processes.

    ``host`` is the numeric address that peers on other hosts dial, or ``""`` when the
    system has no TCP at all.  ``system_id`` is random per incarnation of the system and
    prefixes the names of its sockets, so that whoever cleans up knows whose they are.
    """

    name: str
    directory: Path
    system_id: str
    host: str = ""
    port: int = 0
    key: bytes = field(default=b"", repr=False)
    spin: float = 50e-6
    die_with_parent: bool = True
    limits: Limits = field(default_factory=Limits)

    @property
    def tcp(self) -> bool:
        """Whether this system also listens on TCP."""
        return bool(self.host)
