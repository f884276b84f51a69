"""The base object that ``ActorSystem(systemBase=...)`` takes, and how it is made."""

# ruff: noqa: N803 (Thespian chose the names and the order of arguments)

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any, Final, Literal

from ...features import knows_peers
from . import addresses, keys, lacks, rundir
from ._thespian import (
    CONV_ADDR_IPV4_CAPABILITY,
    ActorAddress,
    EndpointConnected,
    InvalidActorAddress,
    MultiprocessCommon,
    ReceiveEnvelope,
    SystemShutdown,
    SystemShutdownCompleted,
    TransmitIntent,
    detach_child,
)
from .certificates import TLS, Encryption
from .endpoints import CloneInit
from .errors import (
    InvalidAddress,
    KeyRequired,
    NoSuchSystem,
    SystemAlreadyRuns,
    UnsupportedPlatform,
)
from .outside import Outside, PrivateContext
from .processes import start_admin
from .settings import Limits, SystemSettings
from .transport import Transport

Mode = Literal["either", "start", "join"]
STARTUP_PATIENCE: Final = 30.0  # seconds; spawned processes import everything anew
CLEANUP_PATIENCE: Final = 10.0  # seconds; longer than a reaper takes
ADMIN_PATIENCE: Final = 1.0  # seconds after which an admin that should have ended is killed
SWEEP_AFTER: Final = 0.3  # seconds after which the reaper may be suspected to be dead
HOST_CAPABILITY: Final = "farref host"  # the capability that holds the host's address
CAPABILITIES: Final[dict[str, Any]] = {
    "Thespian ActorSystem Name": "farrefBase",
    "Thespian ActorSystem Version": 1,
    "Thespian Watch Supported": True,
}


class FarrefBase(Outside, MultiprocessCommon):
    """One program's entry to a system; made by :func:`system_base`."""

    def __init__(
        self,
        settings: SystemSettings,
        capabilities: dict[str, Any],
        log_defs: object,
        mode: Mode,
        shutdown_timeout: float,
    ) -> None:
        lacks.raise_limit()
        self.settings = settings
        self._mode = mode
        self._shutdown_timeout = shutdown_timeout
        self.started = False
        """Whether this program started the system, rather than joined it."""
        self._made: list[Transport] = []
        if mode == "start" and rundir.answers(self._admin_path):
            raise _runs_already(settings.name)
        try:
            # Of the ``ActorSystem`` that makes it, Thespian's base uses the capabilities.
            super().__init__(SimpleNamespace(capabilities=capabilities), log_defs)
        except BaseException:
            for transport in self._made:
                transport.close()
            raise

    @property
    def _admin_path(self) -> str:
        return rundir.admin_path(self.settings.directory, self.settings.name)

    def transportType(self, *_: object) -> Transport:
        """Make the transport of this program (Thespian expects a class here)."""
        admin = ActorAddress(addresses.admin_address(self.settings))
        self._made.append(Transport(CloneInit(self.settings, admin)))
        return self._made[-1]

    def _startAdmin(
        self,
        adminAddr: ActorAddress,
        addrOfStarter: ActorAddress,
        capabilities: dict[str, Any],
        logDefs: object,
    ) -> None:
        settings = self.settings
        if self._mode == "join":
            raise NoSuchSystem(f"no system called {settings.name!r} runs for this user: start it")
        with rundir.claiming(settings.directory):
            rundir.sweep(settings.directory)
            if rundir.answers(self._admin_path):
                if self._mode == "start":
                    raise _runs_already(settings.name)
                return  # another program was faster, and we join its system
            alive = rundir.declare_alive(settings.directory, settings.system_id)
            try:
                endpoint = self.transport.prepEndpoint(adminAddr, capabilities)
            except OSError as error:
                os.close(alive)
                raise addresses.cannot_listen(*settings.listen, error) from error
        try:
            process = self.mpcontext.Process(
                target=start_admin,
                args=(
                    endpoint,
                    addrOfStarter,
                    os.getpid(),
                    capabilities,
                    logDefs,
                    self.mpcontext,
                ),
                name="admin",
                daemon=False,
            )
            process.start()
            detach_child(process)  # without an exit code, multiprocessing would list it for ever
            self.transport.connectEndpoint(endpoint)
            process.join()  # it forks the real admin and exits, at once
            # No exit code: the program ignores SIGCHLD, or its handler has waited for the process.
            failed = process.exitcode not in {0, None}
            response = None if failed else self.transport.run(None, STARTUP_PATIENCE)
        finally:
            os.close(alive)
        if not isinstance(response, ReceiveEnvelope) or not isinstance(
            response.message, EndpointConnected
        ):
            if failed and process.exitcode > 1:
                raise OSError(process.exitcode, os.strerror(process.exitcode))
            raise InvalidActorAddress(adminAddr, "the admin did not start")
        self.started = True

    def external_clone(self) -> PrivateContext:
        """A context of its own for one thread; see ``ActorSystem.private``."""
        return PrivateContext(self.adminAddr, self.transport)

    def shutdown(self) -> None:
        """End the whole system, for all programs, and wait until nothing of it is left.

        Actors get ``shutdown_timeout`` seconds to exit by themselves; then they are killed.
        """
        if self.transport.closed:
            return
        # Read now: the next system of this name makes a mark of its own.
        mark = rundir.mark_of(self.settings.directory, self.settings.name)
        with closing(self.transport.external_transport_clone()) as endpoint:
            self._request_shutdown(endpoint)
        self.transport.close()
        if mark is not None:
            self._await_end(*mark)

    def _request_shutdown(self, endpoint: Transport) -> None:
        failed: list[object] = []

        def failure(status: object, _intent: object) -> None:
            failed.append(status)
            endpoint.abort_run()

        endpoint.scheduleTransmit(
            None, TransmitIntent(self.adminAddr, SystemShutdown(), onError=failure)
        )
        deadline = monotonic() + self._shutdown_timeout
        while not failed and monotonic() < deadline:
            received = endpoint.run(None, deadline - monotonic())
            if isinstance(received, ReceiveEnvelope) and isinstance(
                received.message, SystemShutdownCompleted
            ):
                return

    def _await_end(self, mark: Path, admin: int) -> None:
        """Wait until the reaper has cleaned up; kill the admin if it does not end."""
        begun = monotonic()
        while mark.exists() and (waited := monotonic() - begun) <= CLEANUP_PATIENCE:
            if admin and waited > ADMIN_PATIENCE:
                with suppress(ProcessLookupError):
                    os.kill(admin, signal.SIGKILL)
                admin = 0
            sleep(0.005)
            if waited > SWEEP_AFTER:
                # If the reaper was killed, no process locks the mark.
                with rundir.claiming(self.settings.directory):
                    rundir.sweep(self.settings.directory)


def system_base(
    name: str | None = None,
    *,
    host: str | None = None,
    port: int | None = None,
    key: bytes | str | os.PathLike[str] | None = None,
    advertise: str | None = None,
    tls: TLS | None = None,
    routes: Mapping[tuple[str, int], tuple[str, int]] | None = None,
    convention: str | list[str] | None = None,
    capabilities: Mapping[str, Any] | None = None,
    log_defs: object = None,
    mode: Mode = "either",
    die_with_parent: bool = True,
    start_method: Literal["fork", "spawn"] = "fork",
    spin: float = 150e-6,
    shutdown_timeout: float = 10.0,
    limits: Limits | None = None,
) -> FarrefBase:
    """Start or join a system.

    Pass the result to ``ActorSystem(systemBase=..., transientUnique=True)``.

    *name* identifies the system among those of this user on this host.  The default is
    ``p<port>`` if *port* is given, else a random name: a system of one's own.  *mode* says
    whether a system of that name must not run yet (``"start"``), must run (``"join"``), or
    either.

    *host* and *port* make the system reachable from other hosts: *host* is the address that they
    dial.  The admin listens there, for all actors.  If others must dial another address, behind
    NAT or in a container, *advertise* is that one, ``"host:port"``; then *host* may also be
    ``"0.0.0.0"`` or ``"::"``.  *routes* says where to dial hosts that are reached by another
    address than they advertise, for instance by a tunnel.

    All systems of a convention need the same *key*: the path of a file that ``farref key`` has
    made, or 32 random bytes; see :mod:`.keys`.  Without one, only loopback addresses are allowed,
    and a key that only this user can read is used.

    Connections between hosts are encrypted (:mod:`.tls`); *tls* are certificates of one's own.
    *convention* is ``"host:port"`` of the system that leads the convention, or a list of
    candidates.

    *die_with_parent*: when this program ends, however, so does the system that it started.
    *spin*: seconds to poll before sleeping; see :mod:`.poller`.  *shutdown_timeout*: seconds that
    ``shutdown()`` gives actors to exit by themselves.  *capabilities*, *log_defs* and
    *start_method* are Thespian's; *limits* are `Limits`, None for the defaults.

    Raises :class:`KeyRequired`, :class:`InvalidCertificate`, :class:`InvalidAddress`,
    :class:`UnsafeDirectory`, :class:`NoSuchSystem`, :class:`SystemAlreadyRuns`.
    """
    if not knows_peers():
        raise UnsupportedPlatform(
            "this system base needs Unix sockets that report the user at their other end, and this"
            " system has none; use a base of Thespian's, by its name"
        )
    if name is None:
        name = f"p{port}" if port is not None else f"own.{os.urandom(6).hex()}"
    directory = rundir.private_directory()
    rundir.log_for_thespian(directory)
    numeric_host = addresses.numeric(host, listen=advertise is not None) if host else ""
    if numeric_host and port is None:
        raise InvalidAddress("host= needs port= too, at which others can reach this system")
    if port is not None:
        addresses.checked_port(port)
    if advertise is not None and not numeric_host:
        raise InvalidAddress("advertise= needs host= too, the address to listen at")
    listen = (numeric_host, port or 0)
    seen = addresses.advertised(advertise, listen[1]) if advertise is not None else listen
    settings = SystemSettings(
        name=rundir.checked_name(name),
        directory=directory,
        system_id=os.urandom(4).hex(),
        host=seen[0],
        port=seen[1],
        listen=listen,
        routes=dict(routes or {}),
        encryption=_encryption(tls) if numeric_host else None,
        key=shared_key(key, addresses.exposed(listen[0], seen[0]), directory),
        spin=spin,
        die_with_parent=die_with_parent,
        limits=limits or Limits(),
    )
    reach: dict[str, Any] = {}
    if settings.tcp:
        reach[HOST_CAPABILITY] = addresses.place(settings.host, settings.port)
    all_capabilities = {
        "Process Startup Method": start_method,
        "Admin Port": settings.port or settings.name,
        **CAPABILITIES,
        **reach,
        **(capabilities or {}),
    }
    if convention is not None:
        all_capabilities[CONV_ADDR_IPV4_CAPABILITY] = convention
    return FarrefBase(settings, all_capabilities, log_defs, mode, shutdown_timeout)


def _runs_already(name: str) -> SystemAlreadyRuns:
    return SystemAlreadyRuns(f"a system called {name!r} runs already: join it by mode='join'")


def _encryption(given: TLS | None) -> Encryption:
    from . import tls  # noqa: PLC0415 - it loads OpenSSL

    return tls.make() if given is None else tls.read(given)


def shared_key(
    key: bytes | str | os.PathLike[str] | None, host: str, directory: Path | None = None
) -> bytes:
    """The key for a system at *host*, from the argument *key*; see :func:`system_base`."""
    if not host:
        return b""
    if key is None:
        if not addresses.is_loopback(host):
            raise KeyRequired(
                f"without a shared key only loopback may be used, not {host}: everybody who reaches"
                f" that address could run code here; pass key=..., a file: {keys.MAKE}"
            )
        return rundir.loopback_key(directory or rundir.private_directory())
    return keys.checked(key) if isinstance(key, bytes) else keys.read(key)
