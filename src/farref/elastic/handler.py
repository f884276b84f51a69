"""The rendezvous handler that is independent of the backend behind it."""

from __future__ import annotations

import secrets
import socket
import weakref
from dataclasses import replace
from typing import Any

from ..actors.base import addresses
from ..actors.rendezvous.handler import (
    RendezvousHandler,
    RendezvousParameters,
    checked_run_id,
)
from ..printable import logger
from ..protocol.errors import RendezvousError
from ..protocol.ids import WorkerId
from ..protocol.rendezvous.limits import RoundLimits, Timeouts
from ..protocol.rendezvous.state import Membership
from .api import PrefixStore, RendezvousBackend, RendezvousInfo, RendezvousStoreInfo
from .attendance import Attendance

log = logger(__name__)


class DynamicRendezvousHandler(RendezvousHandler):
    """A node of a run; a `RendezvousBackend` keeps the state. Made by `from_backend`.

    While the node takes part, its thread looks at the state once a second and records that the node
    lives. A node that is silent for ``keep_alive * attempts`` seconds, by the clocks of the others,
    is given up for dead. The node leaves when its handler is garbage, or its program ends.
    """

    def __init__(
        self, run_id: str, store: Any, backend: RendezvousBackend, attendance: Attendance
    ) -> None:
        self._run_id = run_id
        self._store = store
        self._backend = backend
        self._attendance = attendance
        weakref.finalize(self, attendance.abandon).atexit = False

    @classmethod
    def from_backend(  # noqa: PLR0917 - the order is torch's
        cls,
        run_id: str,
        store: Any,
        backend: RendezvousBackend,
        min_nodes: int,
        max_nodes: int,
        local_addr: str | None = None,
        timeout: Timeouts | None = None,
        keep_alive_interval: float | None = None,
        keep_alive_max_attempt: int | None = None,
        *,
        order: int | None = None,
    ) -> DynamicRendezvousHandler:
        """The handler of one node.

        Args:
            run_id: the run; all its nodes give the same.
            store: an object with torch's store methods; the rounds' stores are views of it.
            backend: keeps the state of the run.
            min_nodes: how many nodes a round needs.
            max_nodes: how many it may have.
            local_addr: the address by which the others reach this node, and its name among them;
                by default the name of this machine.
            timeout: how long things may take, in seconds; torch's `RendezvousTimeout` will do, too.
            keep_alive_interval: replaces `Timeouts.keep_alive`.
            keep_alive_max_attempt: replaces `Timeouts.attempts`.
            order: newcomers get their ranks in this order; those without one follow, in the
                natural order of their names.

        Raises:
            ValueError: the run id is empty, a number of nodes or a timeout is not positive, or
                `max_nodes` is below `min_nodes`.
            TypeError: *timeout* is of another type, or a number of nodes is not a whole number.
        """
        checked_run_id(run_id)
        given = {"keep_alive": keep_alive_interval, "attempts": keep_alive_max_attempt}
        chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        attendance = Attendance(
            WorkerId(local_addr or socket.getfqdn(), secrets.randbits(63)),
            backend,
            RoundLimits(min_nodes, max_nodes),
            replace(Timeouts.of(timeout), **chosen),
            order=order,
        )
        return cls(run_id, store, backend, attendance)

    @property
    def node(self) -> WorkerId:
        """The id of this node in the lists of members."""
        return self._attendance.node

    def get_backend(self) -> str:
        return self._backend.name

    def get_run_id(self) -> str:
        return self._run_id

    def next_rendezvous(self) -> RendezvousInfo:
        """Join, and wait until a round is formed with this node in it.

        A member of a round that calls it leaves that round for the next. If it raises one of the
        errors of `RendezvousHandler.next_rendezvous`, or a signal interrupts it, this node is not
        in the run.
        """
        membership = self.join(f"{self.node.name}:{addresses.free_port('')}")
        prefix = f"farref/{self._run_id}/{membership.round}"
        return RendezvousInfo(
            store=PrefixStore(prefix, self._store),
            rank=membership.rank,
            world_size=len(membership.members),
            bootstrap_store_info=RendezvousStoreInfo.of(membership.members[0]),
            round=membership.round,
            members=membership.members,
        )

    def join(self, address: str) -> Membership:
        """`next_rendezvous` with this node's *address*. Return only the membership."""
        log.info("%s joins run %s", self.node, self._run_id)
        membership = self._attendance.join(address)
        log.info(
            "%s is rank %d of %d in round %d of run %s",
            self.node,
            membership.rank,
            len(membership.members),
            membership.round,
            self._run_id,
        )
        return membership

    def is_closed(self) -> bool:
        """Whether the run was closed, as of a second ago. Raises `RendezvousError`."""
        return self._attendance.view().closed

    def set_closed(self) -> None:
        """Close the run, for all: there will be no further round. Raises `RendezvousError`."""
        self._attendance.close()

    def num_nodes_waiting(self) -> int:
        """How many nodes wait to join, as of a second ago. Raises `RendezvousError`."""
        membership = self._attendance.membership
        number = -1 if membership is None else membership.round
        return self._attendance.view().waiting_for(self.node, number)

    def shutdown(self) -> bool:
        """Close the run if this node takes part in it, and leave. False if that failed.

        When the last of its nodes has left, the id of the run can be used again.
        """
        try:
            self._attendance.end(close=True)
        except RendezvousError as error:
            log.warning("run %s was not shut down: %s", self._run_id, error)
            return False
        return True


def create_handler(store: Any, backend: RendezvousBackend, params: Any) -> DynamicRendezvousHandler:
    """The handler of one node, with the timeouts in the configuration of *params*.

    These are `RendezvousParameters`, or torch's; see `RendezvousParameters.timeouts`. ``order`` is
    that of `DynamicRendezvousHandler.from_backend`, as are *store* and *backend*. Raises as it
    does.
    """
    given = RendezvousParameters.of(params)
    return DynamicRendezvousHandler.from_backend(
        given.run_id,
        store,
        backend,
        given.min_nodes,
        given.max_nodes,
        given.local_addr,
        given.timeouts(),
        order=given.get_as_int("order"),
    )


class EtcdRendezvousHandler:
    """Torch's name for its handler over etcd 2. Here `DynamicRendezvousHandler` runs over etcd 3.

    Raises:
        NotImplementedError: always; its text names the replacement.
    """

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        raise NotImplementedError(
            "farref has no EtcdRendezvousHandler, which torch has for etcd 2. Over etcd 3 use "
            "DynamicRendezvousHandler.from_backend(run_id, store, EtcdRendezvousBackend(client, "
            "run_id), min_nodes, max_nodes), with farref.elastic.etcd.EtcdRendezvousBackend"
        )
