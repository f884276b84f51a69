"""The other endpoints that this one knows, each in one object.

The channels to them are apart (`Links`), as they are protocol state, touched only under the
endpoint's lock. So are their deaths: a dead endpoint is no peer any more, and the context knows it.

`ActorAddress` is not hashable, and one actor may have two addresses that compare equal (the one
that its parent got on its creation, and its own). Resolved addresses are found by their details,
local ones by comparison.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from thespian.system.addressManager import ActorLocalAddress

if TYPE_CHECKING:
    from collections.abc import Hashable

    from thespian.actors import ActorAddress

    from ...protocol.ids import WorkerId
    from ..wire.messages import WorkerInfo


class Peer:
    """One other endpoint, as far as this one knows it."""

    __slots__ = ("address", "near", "resolved")

    def __init__(self) -> None:
        self.address: ActorAddress | None = None
        """Its address."""
        self.resolved = False
        """Whether that is more than its number among its creator's children."""
        self.near: bool | None = None
        """Whether it sees this process, and so can open its shared memory; None: not known."""


class Peers:
    """The living endpoints that one endpoint knows. Thread-safe."""

    def __init__(self) -> None:
        self._peers: dict[WorkerId, Peer] = {}
        self._ids: dict[Hashable, WorkerId] = {}
        self._local: list[tuple[ActorAddress, WorkerId]] = []
        self.named: dict[str, WorkerInfo] = {}
        """The endpoints that were looked up by name, with the registrar's answers."""
        self._writing = threading.Lock()

    def learn(self, worker: WorkerId, address: ActorAddress) -> None:
        """*address* is the address of *worker*."""
        if self.knows(worker):  # nearly always: the lock is not worth it
            return
        if not _is_local(address):
            hash(address.addressDetails)  # raises before anything changes
        with self._writing:
            if self.knows(worker):
                return
            peer = self._peer(worker)
            peer.address, peer.resolved = address, not _is_local(address)
            if not peer.resolved:
                self._local.append((address, worker))
            else:
                self._ids[address.addressDetails] = worker

    def learn_near(self, worker: WorkerId, *, near: bool) -> None:
        """Whether *worker* sees this process (see `Peer.near`)."""
        with self._writing:
            self._peer(worker).near = near

    def _peer(self, worker: WorkerId) -> Peer:
        return self._peers.setdefault(worker, Peer())

    def knows(self, worker: WorkerId) -> bool:
        """Whether an address of *worker* is known from which others reach it, too."""
        peer = self._peers.get(worker)
        return peer is not None and peer.resolved

    def address_of(self, worker: WorkerId) -> ActorAddress | None:
        """The address of *worker*; None if nobody introduced it."""
        peer = self._peers.get(worker)
        return peer.address if peer is not None else None

    def near(self, worker: WorkerId) -> bool | None:
        """Whether *worker* sees this process; None while that is not known (see `Peer.near`)."""
        peer = self._peers.get(worker)
        return peer.near if peer is not None else None

    def worker_at(self, address: ActorAddress) -> WorkerId | None:
        """The endpoint at *address*; None if unknown."""
        if not _is_local(address):
            found = self._ids.get(address.addressDetails)
            if found is not None:
                return found
        return next((worker for local, worker in self._local if local == address), None)

    def forget(self, worker: WorkerId) -> None:
        """*worker* is dead; its address and its name may pass to another endpoint."""
        with self._writing:
            self._peers.pop(worker, None)
            named = self.named.get(worker.name)
            if named is not None and named.id == worker:
                del self.named[worker.name]
            for details, known in list(self._ids.items()):
                if known == worker:
                    del self._ids[details]
            self._local = [each for each in self._local if each[1] != worker]


def _is_local(address: ActorAddress) -> bool:
    return isinstance(address.addressDetails, ActorLocalAddress)
