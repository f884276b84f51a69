"""The registrar's records of the members of its system."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, MutableMapping
from typing import Any

import msgspec
from thespian.actors import ActorAddress
from thespian.system.addressManager import ActorLocalAddress

from ...protocol.ids import WorkerId
from ..wire.messages import HostInfo, Spawn


class RegisteredEndpoint(msgspec.Struct):
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


class Members(MutableMapping[WorkerId, RegisteredEndpoint]):
    """The members in *table*, with an index for each way in which messages refer to them."""

    def __init__(self, table: MutableMapping[WorkerId, RegisteredEndpoint]) -> None:
        self._table = table
        self._having: dict[Hashable, dict[WorkerId, None]] = {}
        """The members with each trait (see `_traits`)."""
        for worker, member in table.items():
            self._list(worker, member)

    def named(self, name: str) -> Collection[WorkerId]:
        return self._having.get(("name", name), ())

    def at(self, address: ActorAddress) -> Collection[WorkerId]:
        there = self._having.get(("address", _mark(address)), ())
        return [worker for worker in there if self._table[worker].address == address]

    def on(self, place: str) -> Collection[WorkerId]:
        return self._having.get(("place", place), ())

    def made_for(self, asker: ActorAddress, token: int) -> Collection[WorkerId]:
        """The member that was created for this order."""
        there = self._having.get(("order", _mark(asker), token), ())
        return [worker for worker in there if self._table[worker].order == (asker, token)]

    def __getitem__(self, worker: WorkerId) -> RegisteredEndpoint:
        return self._table[worker]

    def __setitem__(self, worker: WorkerId, member: RegisteredEndpoint) -> None:
        if worker in self._table:
            del self[worker]
        self._table[worker] = member
        self._list(worker, member)

    def __delitem__(self, worker: WorkerId) -> None:
        for trait in _traits(worker, self._table[worker]):
            having = self._having[trait]
            del having[worker]
            if not having:
                del self._having[trait]
        del self._table[worker]

    def __iter__(self) -> Iterator[WorkerId]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def _list(self, worker: WorkerId, member: RegisteredEndpoint) -> None:
        for trait in _traits(worker, member):
            self._having.setdefault(trait, {})[worker] = None


def _traits(worker: WorkerId, member: RegisteredEndpoint) -> Iterator[Hashable]:
    yield "name", worker.name
    yield "address", _mark(member.address)
    yield "place", member.place
    if member.order is not None:
        asker, token = member.order
        yield "order", _mark(asker), token


def _mark(address: ActorAddress) -> Hashable:
    """A value that equal addresses have in common, and that others nearly never share."""
    details: Any = address.addressDetails
    if isinstance(details, ActorLocalAddress):
        real = details.addressManager.exportAddr(address)
        return None if real is None else _mark(real)
    # Thespian's own addresses of one socket are equal, with any address of its host in them, but
    # their hashes are not.
    mark: Hashable = getattr(details, "sockname", (None, details))[1]
    return mark


class Host(msgspec.Struct):
    """Another host of the system.

    Its *agent* is a `HostAgent`, or the `RegistrarProxy` if the registrar is elected.
    """

    me: WorkerId
    info: HostInfo
    agent: ActorAddress
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
