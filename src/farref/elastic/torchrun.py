"""``torchrun --rdzv-backend=farref``: the target of the entry point `torchrun.handlers`.

The endpoint says where the state of the run is kept; see `endpoints`.

Before it joins, every agent starts a `TCPStore` of its own, a fresh one for each round. The list of
members has its address. So all members find the store of rank 0, and it contains nothing of an
earlier round. An agent returns from the rendezvous when all agents have been seen in that store. If
one dies before, they meet again.

Nothing here imports torch before a handler is made: torch loads this module while it is itself
still loading.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..actors.rendezvous.handler import RendezvousHandler, RendezvousParameters
from ..printable import logger
from ..protocol.errors import (
    RendezvousConnectionError,
    RendezvousError,
    RendezvousGracefulExitError,
    RendezvousTimeoutError,
)
from ..protocol.rendezvous.limits import Timeouts
from ..protocol.rendezvous.state import Membership
from .api import RendezvousStoreInfo
from .c10d import tcp_store
from .endpoints import RendezvousEndpoint, positive
from .handler import create_handler as handler_over

log = logger(__name__)


@contextmanager
def _as_torch_says_it() -> Iterator[None]:
    """Turn our errors into torch's errors of the same names."""
    from torch.distributed.elastic.rendezvous import api  # noqa: PLC0415 - see above

    try:
        yield
    except RendezvousGracefulExitError as error:
        log.info("%s", error)
        raise SystemExit(0) from error
    except RendezvousError as error:
        kind = getattr(api, type(error).__name__, api.RendezvousError)
        raise kind(str(error)) from error


def handler() -> Callable[[Any], RendezvousHandler]:
    """Return the function that makes handlers; torch calls this when it looks for plug-ins."""
    return create_handler


@_as_torch_says_it()
def create_handler(params: Any) -> RendezvousHandler:
    """The handler of one agent.

    Besides the timeouts (`farref.RendezvousParameters.timeouts`), ``--rdzv-conf`` may have:
    ``connect_timeout`` (60 seconds), until the endpoint exists; ``read_timeout`` (60 seconds),
    until another agent has written; ``order``, see `DynamicRendezvousHandler.from_backend`; and the
    parameters of `RendezvousEndpoint.backend`.

    Raises:
        ValueError: the endpoint or a parameter is malformed.
        RendezvousConnectionError: the endpoint cannot be reached.
    """
    return TorchrunHandler(RendezvousParameters.of(params))


class TorchrunHandler(RendezvousHandler):
    """`DynamicRendezvousHandler` for a `torchrun` agent. Raises torch's errors, not ours."""

    def __init__(self, params: RendezvousParameters) -> None:
        endpoint = RendezvousEndpoint(params.endpoint)
        self._name = params.backend
        self._timeouts: Timeouts = params.timeouts()
        self._read = positive(params, "read_timeout", 60.0)
        backend = endpoint.backend(params, self._timeouts)
        if params.local_addr is None:
            params.local_addr = endpoint.own_address()
        self._host = params.local_addr
        self._nodes = handler_over(None, backend, params)
        self._serving: Any = None
        """The store that this agent serves in this round: its trainers need it until the next."""

    def get_backend(self) -> str:
        """The name under which `torchrun` asked for it."""
        return self._name

    @property
    def use_agent_store(self) -> bool:
        """True: the agent of rank 0 serves the store of the trainers."""
        return True

    @_as_torch_says_it()
    def next_rendezvous(self) -> Any:
        """Meet the others. Return torch's `RendezvousInfo`.

        A spare that was not needed ends its program here, with exit code 0: the launcher does not
        handle the exception for this case.
        """
        late = time.monotonic() + self._timeouts.join
        while True:
            what = f"the store that this agent serves at {self._host}"
            serving = tcp_store(self._host, 0, what, self._read, serve=True)
            try:
                membership = self._nodes.join(f"{self._host}:{serving.port}")
            except BaseException:
                del serving  # it listens, and an error's traceback holds this frame
                raise
            store = self._store(membership, serving)
            if store is not None and self._all_there(membership, store, late):
                self._serving = serving
                return _info(membership, store)
            if time.monotonic() >= late:
                raise RendezvousTimeoutError(
                    f"{self._nodes.node} met other nodes, but some left before all of them had "
                    "reached the node of rank 0"
                )

    def _store(self, membership: Membership, serving: Any) -> Any | None:
        """The store of the round, if it can be reached."""
        from torch.distributed import PrefixStore  # noqa: PLC0415 - see above

        store = serving
        if membership.rank != 0:
            there = RendezvousStoreInfo.of(membership.members[0])
            place = there.master_addr, there.master_port
            what = f"rank 0 at {there.master_addr}:{there.master_port}"
            try:
                store = tcp_store(*place, what, self._read, serve=False, unless=self._over)
            except RendezvousConnectionError as error:
                log.warning("%s joins again, for a new round: %s", self._nodes.node, error)
                return None
        run = self._nodes.get_run_id()
        return PrefixStore(f"farref/{run}/{membership.round}", store)

    def _over(self) -> bool:
        """Whether a member of the round has left."""
        return self._nodes.num_nodes_waiting() > 0 or self._nodes.is_closed()

    def _all_there(self, membership: Membership, store: Any, late: float) -> bool:
        """Whether all members have reached the store of the round, before anything changed."""
        keys = [f"farref/here/{rank}" for rank in range(len(membership.members))]
        try:
            store.set(keys[membership.rank], "")
            while not store.check(keys):
                if self._over() or time.monotonic() >= late:
                    return False
                time.sleep(0.05)
        except RendezvousError:
            raise
        except Exception as error:
            log.warning("%s joins again, for a new round: %s", self._nodes.node, error)
            return False
        return True

    @_as_torch_says_it()
    def is_closed(self) -> bool:
        return self._nodes.is_closed()

    @_as_torch_says_it()
    def set_closed(self) -> None:
        self._nodes.set_closed()

    @_as_torch_says_it()
    def num_nodes_waiting(self) -> int:
        return self._nodes.num_nodes_waiting()

    def get_run_id(self) -> str:
        return self._nodes.get_run_id()

    def shutdown(self) -> bool:
        return self._nodes.shutdown()


def _info(membership: Membership, store: Any) -> Any:
    from torch.distributed.elastic.rendezvous import api  # noqa: PLC0415 - see above

    first = RendezvousStoreInfo.of(membership.members[0])
    there = api.RendezvousStoreInfo(first.master_addr, first.master_port)
    return api.RendezvousInfo(store, membership.rank, len(membership.members), there)
