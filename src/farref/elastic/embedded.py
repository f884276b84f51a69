"""The rendezvous service at an address: agents on its machine start it, those on others join.

The service must outlive each agent, so it is in none of them. The first agent on the machine of the
endpoint starts `farref rendezvous`, as a user may do by hand. This program has a system there, and
ends when no agent has been in the system for some seconds. Agents on that machine attach to the
system; others make their machines hosts of it. All need the system's key.

An agent that was stopped, or cut off, for too long has been given up, and all others ignore it.
Then it enters the system anew, if it is the same system: another one at the same address knows
nothing of the current group.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from .. import background
from ..actors.api.system import System
from ..actors.base import addresses, tcp
from ..actors.base.errors import BaseError, HandshakeError
from ..actors.base.system import shared_key
from ..actors.hosting import directory, launched
from ..actors.rendezvous.client import client_of
from ..printable import logger
from ..protocol.errors import RendezvousConnectionError, SystemDownError, VersionError
from .service import ServiceRendezvousBackend

log = logger(__name__)

KEY = launched.KEY
IDLE = 3.0
"""The service that an agent started ends after so many seconds without agents."""
LOOK = 0.3
"""Seconds between two tries."""

Enter = Callable[[float], System]
"""Enters a system; raises `SystemDownError`, after so many seconds at most."""


class Place:
    """The address of a service that runs, or will run.

    Raises:
        ValueError: it is malformed, the key cannot be read, or other hosts can dial it and there is
            no key.
    """

    def __init__(self, host: str, port: int, key: str | None) -> None:
        self._path = key or None
        try:
            self.host = addresses.numeric(host)
            self._key = shared_key(self._path or launched.key(), self.host)
        except OSError as error:
            raise ValueError(f"the key of the rendezvous cannot be read: {error}") from error
        except (BaseError, SystemDownError) as error:
            raise ValueError(
                f"endpoint {host}:{port}: {error}. Agents on several machines need the same key: "
                f"pass --rdzv-conf=key=FILE, or set {KEY}=FILE in the environment of each"
            ) from error
        self.port = port
        if addresses.is_loopback(self.host) and host not in (self.host, "localhost"):
            log.warning("%s means %s here: other machines cannot reach it", host, self.host)

    def __str__(self) -> str:
        return addresses.at(self.host, self.port)

    def serve(self, patience: float) -> System:
        """Enter the system at this address of this machine; start it if it does not run.

        Raises:
            SystemDownError: that is not possible now.
        """
        if directory.at(self.host, self.port) is None:
            self._start(patience)
        return self.attach(patience)

    def attach(self, patience: float) -> System:  # noqa: ARG002 - an `Enter`
        """Enter the system at this address of this machine.

        Raises:
            SystemDownError: there is none.
        """
        name = directory.at(self.host, self.port)
        if name is None:
            raise SystemDownError(f"the rendezvous service at {self} has ended")
        return System.attach(name)

    def join(self, patience: float) -> System:
        """Make this machine a host of the system at that address.

        Raises:
            SystemDownError: that is not possible now.
        """
        try:
            tcp.knock(self.host, self.port, self._key, patience)
        except BaseError as error:
            raise SystemDownError(str(error)) from error
        return System.join(str(self), key=self._key, port=self.port)

    def _start(self, patience: float) -> None:
        command = ["farref", "rendezvous", str(self), "--idle", str(IDLE)]
        command += ["--key", self._path] if self._path else []
        background.start(f"the rendezvous service at {self}", *command, patience=patience)


def backend(
    enter: Enter, run_id: str, patience: float, timeout: float, *, again: Enter | None = None
) -> ServiceRendezvousBackend:
    """The backend of a run in the service of the system that *enter* enters.

    The system may take *patience* seconds to start, and each answer *timeout*. *again* enters a
    running system anew; the default is *enter*.

    Raises:
        RendezvousConnectionError: the system does not run, or has another key, or other versions.
    """
    end = time.monotonic() + patience
    first = ""
    while True:
        try:
            system = enter(max(LOOK, end - time.monotonic()))
            return _Reentering(system, again or enter, run_id, timeout)
        except (SystemDownError, RendezvousConnectionError) as error:
            hopeless = isinstance(error, VersionError) or isinstance(
                error.__cause__, HandshakeError
            )
            if hopeless:
                raise RendezvousConnectionError(str(error)) from error
            first = first or str(error)
            if time.monotonic() >= end:
                # The last try may have had no time to find the reason.
                last = "" if first == str(error) else f"; in the last try: {error}"
                raise RendezvousConnectionError(first + last) from error
            log.info("%s; trying again", error)
            time.sleep(LOOK)


class _Reentering(ServiceRendezvousBackend):
    """Enters the system again when this program's endpoint was given up."""

    def __init__(self, system: System, enter: Enter, run_id: str, timeout: float) -> None:
        super().__init__(run_id, endpoint=system.endpoint, timeout=timeout)
        self._system = system  # until this program ends
        self._enter = enter
        try:
            self.get_state()
        except RendezvousConnectionError:
            system.shutdown()
            raise

    def _compare_set(self, expected: str, value: str) -> bytes:
        if self._system.endpoint.core.closed:
            self._enter_again()
        return super()._compare_set(expected, value)

    def _enter_again(self) -> None:
        before = self._system.endpoint
        try:
            system = self._enter(self._timeout)
        except SystemDownError as error:
            raise RendezvousConnectionError(str(error)) from error
        if system.endpoint.registrar_client.registrar != before.registrar_client.registrar:
            system.shutdown()
            raise RendezvousConnectionError(
                f"the system {self._system.name!r} has ended, and the members of the round are "
                "lost with it; end the agents, and start them again"
            )
        log.warning("entered system %r again: %s", system.name, before.core.ended)
        self._system = system
        self._client = client_of(system.endpoint.core.front)
