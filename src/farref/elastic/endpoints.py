"""Endpoints of ``torchrun --rdzv-endpoint``: the places that can keep the state of a run.

::

    host, host:29400, farref://host:29400    the rendezvous service, which the agents on that host
                                             start if need be
    farref://name                            that of the farref system of that name on this machine
    c10d://host:29400                        a TCPStore of torch's, in an agent on that host
    etcd://host:2379                         an etcd, version 3
"""

from __future__ import annotations

import socket
import time
from typing import Any, ClassVar
from urllib.parse import urlsplit

from ..actors.api.system import System
from ..actors.base import addresses
from ..actors.base.errors import InvalidAddress
from ..actors.rendezvous.handler import RendezvousParameters
from ..printable import logger
from ..protocol.errors import RendezvousConnectionError
from ..protocol.rendezvous.limits import Timeouts
from . import embedded
from .api import RendezvousBackend
from .c10d import C10dRendezvousBackend, tcp_store
from .etcd import EtcdRendezvousBackend, client
from .network import own_address

log = logger(__name__)

LOOK = 0.5
"""Seconds between two tries."""


class RendezvousEndpoint:
    """The place that keeps the state of a run; see the module.

    Raises:
        ValueError: the text names no such place.
    """

    DEFAULT = "farref"
    PORTS: ClassVar = {"farref": 29400, "c10d": 29400, "etcd": 2379}

    def __init__(self, text: str) -> None:
        text = text.strip()
        parts = urlsplit(text if "://" in text else f"{self.DEFAULT}://{text}")
        if parts.scheme not in self.PORTS:
            known = ", ".join(self.PORTS)
            raise ValueError(f"endpoint {text!r}: its scheme must be one of {known}")
        if not parts.hostname or parts.path not in ("", "/") or parts.query or parts.username:
            raise ValueError(f"endpoint {text!r} is not of the form scheme://host:port")
        try:
            port = parts.port
        except ValueError as error:
            raise ValueError(f"endpoint {text!r}: {error}") from error
        self.scheme = parts.scheme
        self.named = port is None and text.startswith("farref://")
        """Whether its host is the name of a system of this machine."""
        self.host = parts.netloc if self.named else parts.hostname
        self.port = self.PORTS[self.scheme] if port is None else port
        if self.port == 0:
            raise ValueError(f"endpoint {text!r}: all agents must know its port, so it cannot be 0")

    def backend(self, params: RendezvousParameters, timeouts: Timeouts) -> RendezvousBackend:
        """The backend there.

        *params* may have ``connect_timeout`` (60 seconds), until the endpoint exists;
        ``is_host``, whether agents on this machine serve it (else found out by its host); ``key``,
        the file with the key of a service (else the environment variable `embedded.KEY` names it);
        and ``protocol``, ``ca_cert``, ``cert_cert`` and ``cert_key`` for etcd.

        Raises:
            ValueError: one of them is wrong, or there is no key and one is needed.
            RendezvousConnectionError: it cannot be reached.
        """
        patience = min(positive(params, "connect_timeout", 60.0), timeouts.join)
        if not self.named:
            began = time.monotonic()
            self._wait_for_name(patience)
            patience = max(LOOK, patience - (time.monotonic() - began))
        if self.scheme == "farref":
            return self._service(params, patience, timeouts.heartbeat)
        if self.scheme == "c10d":
            here = params.get_as_bool("is_host")
            store = self._tcp_store(patience, serve=self._serves(params), insist=here is True)
            return C10dRendezvousBackend(store, params.run_id)
        return self._etcd(params, patience, timeouts.heartbeat)

    def own_address(self) -> str:
        """The address by which the others reach this machine, if the user gives none."""
        return own_address("localhost" if self.named else self.host, self.port)

    def _wait_for_name(self, seconds: float) -> None:
        try:
            addresses.numeric_within(self.host, seconds)
        except InvalidAddress as error:
            where = f"endpoint {self.host}:{self.port}: {error}"
            if isinstance(error.__cause__, socket.gaierror):
                raise RendezvousConnectionError(
                    f"{where}, nor could it for {seconds:g} s; check the name, or give "
                    "connect_timeout more seconds"
                ) from error
            raise ValueError(where) from error

    def _serves(self, params: RendezvousParameters) -> bool:
        here = params.get_as_bool("is_host")
        return addresses.is_here(self.host) if here is None else here

    def _service(
        self, params: RendezvousParameters, patience: float, timeout: float
    ) -> RendezvousBackend:
        if self.named:
            return embedded.backend(
                lambda _: System.attach(self.host), params.run_id, patience, timeout
            )
        place = embedded.Place(self.host, self.port, params.get("key"))
        enter, again = place.join, place.join
        if self._serves(params):
            enter, again = place.serve, place.attach
        return embedded.backend(enter, params.run_id, patience, timeout, again=again)

    def _etcd(
        self, params: RendezvousParameters, patience: float, timeout: float
    ) -> RendezvousBackend:
        options = {
            name: value
            for name in ("protocol", "ca_cert", "cert_cert", "cert_key")
            if (value := params.get(name)) is not None
        }
        there = client(self.host, self.port, timeout=timeout, **options)
        backend = EtcdRendezvousBackend(there, params.run_id)
        end = time.monotonic() + patience
        while True:
            try:
                backend.get_state()
            except RendezvousConnectionError as error:
                if time.monotonic() >= end:
                    raise
                log.info("%s; trying again", error)
                time.sleep(LOOK)
            else:
                return backend

    def _tcp_store(self, patience: float, *, serve: bool, insist: bool) -> Any:
        place = self.host, self.port, f"c10d://{self.host}:{self.port}", patience
        refused = None
        if serve:
            try:
                return tcp_store(*place, serve=True)
            except RendezvousConnectionError as error:
                if insist:
                    raise  # else another agent on this host was faster
                refused = error
        try:
            return tcp_store(*place, serve=False)
        except RendezvousConnectionError as error:
            if refused is None:
                raise
            said = f"{error}; and it was not served here: {refused}"
            raise RendezvousConnectionError(said) from refused


def positive(params: RendezvousParameters, name: str, default: float) -> float:
    """The seconds that *params* have for *name*. Raises `ValueError`."""
    value = params.get_as_float(name, default) or 0.0
    if not 0 < value < float("inf"):
        raise ValueError(f"{name} must be more than 0 and finite, not {value}")
    return value
