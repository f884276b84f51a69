"""``torchrun --rdzv-backend=farref``: what the entry point `torchrun.handlers` names.

The endpoint says where the state of the run is kept, by its scheme::

    --rdzv-endpoint=farref://name        the service of a running farref system of that name
    --rdzv-endpoint=etcd://host:2379     an etcd, version 3
    --rdzv-endpoint=c10d://host:29400    a TCPStore of torch's, in an agent on that host

Every agent serves a `TCPStore` of its own, a fresh one for each round, before it joins; its address
travels in the list of members, which is one for all. So whoever becomes rank 0 is found there by
all, and nothing of an earlier round is. Agents return from the rendezvous when each of them has
been seen there; if one dies before, they meet again.

Nothing here imports torch before a handler is made: torch is not there yet while it loads this.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from concurrent.futures import Future, wait
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from urllib.parse import urlsplit

from ..actors.rendezvous.handler import RendezvousHandler, RendezvousParameters
from ..actors.system import System
from ..protocol.errors import (
    RendezvousConnectionError,
    RendezvousError,
    RendezvousGracefulExitError,
    RendezvousTimeoutError,
    SystemDownError,
)
from .api import RendezvousStoreInfo
from .c10d import C10dRendezvousBackend
from .etcd import EtcdRendezvousBackend, client
from .handler import DynamicRendezvousHandler
from .service import ServiceRendezvousBackend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..protocol.rendezvous import Membership, Timeouts
    from .api import RendezvousBackend

log = logging.getLogger(__name__)
T = TypeVar("T")


def handler() -> Callable[[Any], RendezvousHandler]:
    """What makes the handlers; torch calls this when it looks for plug-ins."""
    return create_handler


def create_handler(params: Any) -> RendezvousHandler:
    """The handler of one agent.

    Besides the timeouts (`farref.RendezvousParameters.timeouts`), ``--rdzv-conf`` may have:
    ``connect_timeout`` (60 seconds), for the endpoint to be there; ``read_timeout`` (60 seconds),
    for what another agent writes; ``order``, see `DynamicRendezvousHandler.from_backend`;
    ``is_host``, whether this agent serves a ``c10d://`` endpoint (else found out by its host); and
    ``protocol``, ``ca_cert``, ``cert_cert`` and ``cert_key`` for etcd.

    Raises:
        ValueError: the endpoint or a parameter is none.
        RendezvousConnectionError: the endpoint cannot be reached.
    """
    given = RendezvousParameters(
        params.backend,
        params.endpoint,
        params.run_id,
        params.min_nodes,
        params.max_nodes,
        params.local_addr,
        **params.config,
    )
    with _as_torch_says_it():
        return TorchrunHandler(given)


class TorchrunHandler(RendezvousHandler):
    """`DynamicRendezvousHandler` for a `torchrun` agent. Raises torch's errors, not ours."""

    def __init__(self, params: RendezvousParameters) -> None:
        endpoint = Endpoint(params.endpoint)
        self._name = params.backend
        self._timeouts: Timeouts = params.timeouts()
        self._read = timedelta(seconds=_positive(params, "read_timeout", 60.0))
        self._host = params.local_addr or endpoint.own_address()
        self._nodes = DynamicRendezvousHandler.from_backend(
            params.run_id,
            None,
            endpoint.backend(params, self._timeouts),
            params.min_nodes,
            params.max_nodes,
            self._host,
            self._timeouts,
            order=params.get_as_int("order"),
        )
        self._serving: Any = None
        """The store that this agent serves in this round: its trainers need it until the next."""

    def get_backend(self) -> str:
        """The name under which `torchrun` asked for it."""
        return self._name

    @property
    def use_agent_store(self) -> bool:
        """Yes: the agent of rank 0 serves the store of the trainers."""
        return True

    def next_rendezvous(self) -> Any:
        """Meet the others; torch's `RendezvousInfo`.

        A spare that was not needed ends its program here, with exit code 0: the launcher would
        stumble over the exception that is meant for it.
        """
        with _as_torch_says_it():
            late = time.monotonic() + self._timeouts.join
            while True:
                serving = _served(self._host, self._read)
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
                        f"{self._nodes.node} met others, but not all of them stayed for as long as "
                        "it takes to reach the one of rank 0"
                    )

    def _store(self, membership: Membership, serving: Any) -> Any | None:
        """The store of the round, if it can be reached."""
        from torch.distributed import PrefixStore, TCPStore  # noqa: PLC0415 - see above

        store = serving
        if membership.rank != 0:
            there = RendezvousStoreInfo.of(membership.members[0])
            try:
                store = within(
                    self._read.total_seconds() + 1,
                    f"rank 0 at {there.master_addr}:{there.master_port}",
                    lambda: TCPStore(
                        there.master_addr,
                        there.master_port,
                        is_master=False,
                        wait_for_workers=False,
                        timeout=self._read,
                    ),
                    unless=self._over,
                )
            except RendezvousConnectionError as error:
                log.warning("%s meets the others again: %s", self._nodes.node, error)
                return None
        run = self._nodes.get_run_id()
        return PrefixStore(f"farref/{run}/{membership.round}", store)

    def _over(self) -> bool:
        """Whether the round that was formed is not whole any more."""
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
            log.warning("%s meets the others again: %s", self._nodes.node, error)
            return False
        return True

    def is_closed(self) -> bool:
        """See `DynamicRendezvousHandler`."""
        with _as_torch_says_it():
            return self._nodes.is_closed()

    def set_closed(self) -> None:
        """See `DynamicRendezvousHandler`."""
        with _as_torch_says_it():
            self._nodes.set_closed()

    def num_nodes_waiting(self) -> int:
        """See `DynamicRendezvousHandler`."""
        with _as_torch_says_it():
            return self._nodes.num_nodes_waiting()

    def get_run_id(self) -> str:
        """See `DynamicRendezvousHandler`."""
        return self._nodes.get_run_id()

    def shutdown(self) -> bool:
        """See `DynamicRendezvousHandler`."""
        return self._nodes.shutdown()


class Endpoint:
    """Where the state of a run is kept: ``scheme://host:port``, or ``farref://name``.

    Raises:
        ValueError: it is no such place.
    """

    DEFAULT = "c10d"
    SYSTEM = "farref"
    PORTS: ClassVar = {"c10d": 29400, "etcd": 2379}

    def __init__(self, text: str) -> None:
        text = text.strip()
        parts = urlsplit(text if "://" in text else f"{self.DEFAULT}://{text}")
        if parts.scheme not in (*self.PORTS, self.SYSTEM):
            known = ", ".join((*self.PORTS, self.SYSTEM))
            raise ValueError(f"endpoint {text!r}: its scheme is one of {known}")
        if not parts.hostname or parts.path not in ("", "/") or parts.query or parts.username:
            raise ValueError(f"endpoint {text!r} is not of the form scheme://host:port")
        try:
            port = parts.port
        except ValueError as error:
            raise ValueError(f"endpoint {text!r}: {error}") from error
        self.scheme = parts.scheme
        self.host = parts.netloc if self.scheme == self.SYSTEM else parts.hostname
        self.port = self.PORTS.get(self.scheme, 0) if port is None else port

    def backend(self, params: RendezvousParameters, timeouts: Timeouts) -> RendezvousBackend:
        """What keeps the state there. Raises `RendezvousConnectionError`."""
        patience = min(_positive(params, "connect_timeout", 60.0), timeouts.join)
        if self.scheme == self.SYSTEM:
            return self._service(params.run_id, patience, timeouts.heartbeat)
        if self.scheme == "c10d":
            here = params.get_as_bool("is_host")
            serve = is_here(self.host) if here is None else here
            store = self._tcp_store(patience, serve=serve, insist=here is True)
            return C10dRendezvousBackend(store, params.run_id)
        options = {
            name: value
            for name in ("protocol", "ca_cert", "cert_cert", "cert_key")
            if (value := params.get(name)) is not None
        }
        there = client(self.host, self.port, timeout=timeouts.heartbeat, **options)
        backend = EtcdRendezvousBackend(there, params.run_id)
        end = time.monotonic() + patience
        while True:
            try:
                backend.get_state()
            except RendezvousConnectionError as error:
                if time.monotonic() >= end:
                    raise
                log.info("%s; trying again", error)
                time.sleep(0.5)
            else:
                return backend

    def own_address(self) -> str:
        """By which address the others reach this machine, if the user does not say."""
        return socket.getfqdn() if self.scheme == self.SYSTEM else own_address(self.host, self.port)

    def _service(self, run_id: str, patience: float, timeout: float) -> RendezvousBackend:
        end = time.monotonic() + patience
        while True:
            try:
                system = System.attach(self.host)  # until this program ends
            except SystemDownError as error:
                if time.monotonic() >= end:
                    raise RendezvousConnectionError(str(error)) from error
                time.sleep(0.5)
            else:
                return ServiceRendezvousBackend(run_id, endpoint=system.endpoint, timeout=timeout)

    def _tcp_store(self, patience: float, *, serve: bool, insist: bool) -> Any:
        from torch.distributed import TCPStore  # noqa: PLC0415 - see above

        def store(*, serve: bool) -> Any:
            # When it serves, torch also connects to itself.
            return within(
                patience + 1,
                f"c10d://{self.host}:{self.port}",
                lambda: TCPStore(
                    self.host,
                    self.port,
                    is_master=serve,
                    wait_for_workers=False,
                    timeout=timedelta(seconds=patience),
                ),
            )

        if serve:
            try:
                return store(serve=True)
            except RendezvousConnectionError:
                if insist:
                    raise  # else another agent on this host was faster
        return store(serve=False)


def is_here(host: str) -> bool:
    """Whether *host* is this machine: its address can be listened at."""
    for family, kind, _, _, address in _addresses(host, 0):
        try:
            with socket.socket(family, kind) as probe:
                probe.bind(address)
                return True
        except OSError:
            continue
    return False


def own_address(host: str, port: int) -> str:
    """By which address others reach this machine, given one that all of them reach."""
    if is_here(host):
        return host
    for family, _, _, _, address in _addresses(host, port):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect(address)  # sends nothing
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return socket.getfqdn()


def _addresses(host: str, port: int) -> list[Any]:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []


def within(
    seconds: float, what: str, call: Callable[[], T], unless: Callable[[], bool] = lambda: False
) -> T:
    """What *call* returns, which may hang; else `RendezvousConnectionError`, about *what*.

    Nor is it waited for any longer when *unless* becomes true. It hangs on in a thread, then: a
    client of a `TCPStore` that connects to something else which never answers waits for ever.
    """
    done: Future[T] = Future()

    def run(done: Future[T]) -> None:
        try:
            done.set_result(call())
        except BaseException as error:  # whoever waits is told
            done.set_exception(error)

    name = "farref-rendezvous-connect"
    threading.Thread(target=run, args=(done,), name=name, daemon=True).start()
    end = time.monotonic() + seconds
    while not done.done():
        if time.monotonic() >= end:
            raise RendezvousConnectionError(f"{what} did not answer in {seconds:g} s")
        if unless():
            raise RendezvousConnectionError(f"{what} did not answer before the group changed")
        wait((done,), min(0.1, seconds))
    try:
        return done.result()
    except Exception as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RendezvousConnectionError(f"{what} cannot be reached: {said}") from error
    finally:
        del done  # an error's traceback holds this frame


def _served(host: str, read: timedelta) -> Any:
    from torch.distributed import TCPStore  # noqa: PLC0415 - see above

    what = f"the store that this agent serves at {host}"
    return within(
        read.total_seconds(),
        what,
        lambda: TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=read),
    )


def _info(membership: Membership, store: Any) -> Any:
    from torch.distributed.elastic.rendezvous import api  # noqa: PLC0415 - see above

    first = RendezvousStoreInfo.of(membership.members[0])
    there = api.RendezvousStoreInfo(first.master_addr, first.master_port)
    return api.RendezvousInfo(store, membership.rank, len(membership.members), there)


def _positive(params: RendezvousParameters, name: str, default: float) -> float:
    value = params.get_as_float(name, default) or 0.0
    if not 0 < value < float("inf"):
        raise ValueError(f"{name} must be more than 0 and finite, not {value}")
    return value


@contextmanager
def _as_torch_says_it() -> Iterator[None]:
    """Our errors as torch's of the same names, which its callers know."""
    from torch.distributed.elastic.rendezvous import api  # noqa: PLC0415 - see above

    try:
        yield
    except RendezvousGracefulExitError as error:
        log.info("%s", error)
        raise SystemExit(0) from error
    except RendezvousError as error:
        kind = getattr(api, type(error).__name__, api.RendezvousError)
        raise kind(str(error)) from error
