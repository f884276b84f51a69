"""Which endpoint lives at an address, and at which address an endpoint lives.

`ActorAddress` is not hashable, and one actor may be known by two that compare equal (the
one its parent got when it created it, and its own). Resolved addresses are found by their
details, local ones by comparison.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from thespian.system.addressManager import ActorLocalAddress

if TYPE_CHECKING:
    from collections.abc import Hashable

    from thespian.actors import ActorAddress

    from ..protocol.ids import WorkerId


class AddressBook:
    """Both directions, for the endpoints that one endpoint has heard of. Thread-safe."""

    def __init__(self) -> None:
        self._addresses: dict[WorkerId, ActorAddress] = {}
        self._ids: dict[Hashable, WorkerId] = {}
        self._local: list[tuple[ActorAddress, WorkerId]] = []
        self._writing = threading.Lock()

    def learn(self, worker: WorkerId, address: ActorAddress) -> None:
        """*worker* is reached at *address*."""
        if self._resolved(worker):  # nearly always: the lock is not worth it
            return
        if not _is_local(address):
            hash(address.addressDetails)  # raises before anything is noted
        with self._writing:
            if self._resolved(worker):
                return
            self._addresses[worker] = address
            if _is_local(address):
                self._local.append((address, worker))
            else:
                self._ids[address.addressDetails] = worker

    def _resolved(self, worker: WorkerId) -> bool:
        known = self._addresses.get(worker)
        return known is not None and not _is_local(known)

    def address_of(self, worker: WorkerId) -> ActorAddress | None:
        """Where *worker* is reached; None if nobody introduced it."""
        return self._addresses.get(worker)

    def worker_at(self, address: ActorAddress) -> WorkerId | None:
        """Who lives at *address*; None if unknown."""
        if not _is_local(address):
            found = self._ids.get(address.addressDetails)
            if found is not None:
                return found
        return next((worker for local, worker in self._local if local == address), None)

    def forget(self, worker: WorkerId) -> None:
        """*worker* is dead; its address may come to belong to another."""
        with self._writing:
            self._addresses.pop(worker, None)
            for details, known in list(self._ids.items()):
                if known == worker:
                    del self._ids[details]
            self._local = [each for each in self._local if each[1] != worker]


def _is_local(address: ActorAddress) -> bool:
    return isinstance(address.addressDetails, ActorLocalAddress)
