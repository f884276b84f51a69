"""The other endpoints that this one knows, but for their channels (`Links`) and deaths (`Context`).

`ActorAddress` is not hashable, and one actor may have two addresses that compare equal (the one
that its parent got on its creation, and its own). Resolved addresses are found by their details,
local ones by comparison.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable

from thespian.actors import ActorAddress
from thespian.system.addressManager import ActorLocalAddress

from ...protocol.ids import WorkerId
from ..wire.messages import WorkerInfo


class Peers:
    """The living endpoints that one endpoint knows. Thread-safe."""

    def __init__(self) -> None:
        self.addresses: dict[WorkerId, ActorAddress] = {}
        """The address of each, as far as it is known. To read."""
        self.resolved: set[WorkerId] = set()
        """Those whose address can be given to others. (The first address that a creator gets is
        only a number among its children.) To read."""
        self.numbered: dict[int, WorkerId] = {}
        """Those with an address, by their incarnations. To read."""
        self.near: dict[WorkerId, bool] = {}
        """Whether each sees this process, and so can open its shared memory, if that is known."""
        self._ids: dict[Hashable, WorkerId] = {}
        self._local: list[tuple[ActorAddress, WorkerId]] = []
        self.named: dict[str, WorkerInfo] = {}
        """The endpoints that were looked up by name, with the registrar's answers."""
        self._writing = threading.Lock()

    def learn(self, worker: WorkerId, address: ActorAddress) -> None:
        if worker in self.resolved:  # nearly always: the lock is not worth it
            return
        if not _is_local(address):
            hash(address.addressDetails)  # raises before anything changes
        with self._writing:
            if worker in self.resolved:
                return
            self.addresses[worker] = address
            self.numbered[worker.incarnation] = worker
            if _is_local(address):
                self._local.append((address, worker))
            else:
                self.resolved.add(worker)
                self._ids[address.addressDetails] = worker

    def worker_at(self, address: ActorAddress) -> WorkerId | None:
        """The endpoint at *address*, or None if it is unknown."""
        if not _is_local(address):
            found = self._ids.get(address.addressDetails)
            if found is not None:
                return found
        return next((worker for local, worker in self._local if local == address), None)

    def forget(self, worker: WorkerId) -> None:
        """Forget *worker*, which is dead: its address and its name may pass to another endpoint."""
        with self._writing:
            address = self.addresses.pop(worker, None)
            if self.numbered.get(worker.incarnation) == worker:
                del self.numbered[worker.incarnation]
            if worker in self.resolved and address is not None:
                self.resolved.remove(worker)
                if self._ids.get(address.addressDetails) == worker:
                    del self._ids[address.addressDetails]
            self.near.pop(worker, None)
            named = self.named.get(worker.name)
            if named is not None and named.id == worker:
                del self.named[worker.name]
            self._local = [each for each in self._local if each[1] != worker]


def _is_local(address: ActorAddress) -> bool:
    return isinstance(address.addressDetails, ActorLocalAddress)
