"""A system base for Thespian: its actors, on a transport of our own.

::

    from thespian.actors import ActorSystem
    from farref.actors.base import system_base

    system = ActorSystem(systemBase=system_base(), transientUnique=True)

Unix sockets in a private directory on one host, authenticated TCP between hosts, ordered
delivery, bounded queues, dead letters in order.  ``docs/system-base.md`` has the whole story.

Imports `features` and `printable`.
"""

from .addresses import Address
from .certificates import TLS
from .errors import (
    BaseError,
    CrowdedOut,
    FrameError,
    HandshakeError,
    InvalidAddress,
    InvalidCertificate,
    KeyRequired,
    MessageTooLarge,
    NoSuchSystem,
    OtherUsersDirectory,
    PathTooLong,
    PeerStalled,
    SystemAlreadyRuns,
    TransportClosed,
    UnsafeDirectory,
    UnsupportedPlatform,
    WireError,
)
from .settings import Limits, SystemSettings
from .system import FarrefBase, system_base

__all__ = [
    "TLS",
    "Address",
    "BaseError",
    "CrowdedOut",
    "FarrefBase",
    "FrameError",
    "HandshakeError",
    "InvalidAddress",
    "InvalidCertificate",
    "KeyRequired",
    "Limits",
    "MessageTooLarge",
    "NoSuchSystem",
    "OtherUsersDirectory",
    "PathTooLong",
    "PeerStalled",
    "SystemAlreadyRuns",
    "SystemSettings",
    "TransportClosed",
    "UnsafeDirectory",
    "UnsupportedPlatform",
    "WireError",
    "system_base",
]
