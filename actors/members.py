"""What the registrar knows of those in its system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from thespian.actors import ActorAddress

    from ..protocol.ids import WorkerId
    from .processes import Watched
    from .wire import HostInfo, Spawn


@dataclass(slots=True)
class Member:
    """An endpoint of the system."""

    address: ActorAddress
    place: str
    """The address of its host; empty for the registrar's, if there are no others."""
    pid: int
    process: Watched | None
    """On the registrar's host, if it can be watched."""
    program: bool
    host: str
    """Members with the same one can see each other's processes."""


@dataclass(slots=True)
class Host:
    """Another host of the system, and who stands for it."""

    me: WorkerId
    info: HostInfo
    steward: ActorAddress
    admin: ActorAddress | None = None
    """Of its Thespian system, once the convention told."""


@dataclass(slots=True)
class Creating:
    """An actor that has not joined yet."""

    order: Spawn
    asker: ActorAddress
    places: list[str]
    """Hosts to be tried next."""
    place: str = ""
    address: ActorAddress | None = None
    """Of one that was created here."""
