"""The registrar's records of the members of its system."""

from __future__ import annotations

import msgspec
from thespian.actors import ActorAddress

from ...protocol.ids import WorkerId
from ..wire.messages import HostInfo, Spawn


class RegisteredEndpoint(msgspec.Struct):
    """An endpoint of the system."""

    address: ActorAddress
    place: str
    """The address of its host. Empty for the registrar's host, if there are no others."""
    pid: int
    program: bool
    host: str
    """Members with equal values can see each other's processes."""
    worker: bool = False
    """Whether it was created as a worker, and so runs any function of anybody."""
    order: tuple[ActorAddress, int] | None = None
    """The asker and the token of the order for which it was created."""


class Host(msgspec.Struct):
    """Another host of the system, and its steward."""

    me: WorkerId
    info: HostInfo
    steward: ActorAddress
    admin: ActorAddress | None = None
    """The admin of its Thespian system, once the convention has told it."""


class Creating(msgspec.Struct):
    """An actor that has not joined yet."""

    order: Spawn
    asker: ActorAddress
    places: list[str]
    """Hosts to try next."""
    place: str = ""
    address: ActorAddress | None = None
    """The actor's address, if it was created on the registrar's host."""
    unfit: bool = False
    """Its place does not fit it, and the order for another place has to come again."""
