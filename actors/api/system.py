"""`System`: start an actor system, work in it as an endpoint, and leave nothing behind."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import logging
import os
import queue
import secrets
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_args

from msgspec.structs import replace
from thespian.actors import Actor, ActorAddress, ActorSystemMessage, PoisonMessage

from ...protocol.errors import FarrefError, FetchTimeoutError, SystemDownError, VersionError
from ...protocol.ids import WorkerId, is_name
from ...protocol.sharing import DISCIPLINES
from ..base import lives
from ..calls.futures import Future
from ..cluster import hosts
from ..cluster.registrar import REGISTRAR, Registrar
from ..cluster.steward import STEWARD, Steward
from ..core import port
from ..core.current import enter_program, leave_program, running_in
from ..core.notices import notice
from ..core.sites import asked_for
from ..hosting import bases, directory, launched, processes, versions
from ..looking.collecting import COLLECT_PATIENCE, collect
from ..looking.snapshot import LEAK_AGE, LOOK_PATIENCE, count, look
from ..looking.why import why
from ..shells.endpoint import Endpoint
from ..shells.own_port import OwnPort
from ..shells.plain import refuse_references
from ..shells.program import CallInPort, PumpPort, port_of
from ..telemetry import switch as spans
from ..wire.faults import Faults
from ..wire.messages import (
    EndpointJoin,
    EndpointLeave,
    EndSystem,
    Establish,
    HostInfo,
    Joined,
    LeaveSystem,
    Open,
    ReplyAddress,
    Serve,
    Serving,
    WorkerInfo,
)
from ..wire.settings import (
    DEFAULT_TIMEOUT,
    LONGEST,
    THREADS,
    CycleMode,
    Settings,
    check_timeout,
)
from . import electing, sessions
from .creating import create_actor, create_worker
from .ending import Ending, named

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import AsyncIterator, Callable, Iterator
    from datetime import timedelta
    from pathlib import Path

    from ...protocol.effects import Garbage
    from ...protocol.messages import Cargo
    from ...protocol.sharing import Sharing
    from ..base.tls import TLS
    from ..core.counters import Counters
    from ..handles.front import Front
    from ..handles.rref import RRef
    from ..looking.snapshot import Snapshot
    from ..looking.why import Reason

T = TypeVar("T")

log = logging.getLogger(__name__)

IN_THE_CLEAR = (
    "encrypt=False: messages between the hosts of system %r are sent in the clear; who reads the "
    "packets reads them, and who can alter packets can run code on every host"
)
MOST_NAMES = 8
"""Workers that the `repr` of a system names."""
START_PATIENCE = 30.0
DRAIN = 2.0
"""Seconds for the last messages to arrive: a stopped actor acknowledges nothing."""
ALONE = "its other hosts may go on: the registrar, or the registry, did not answer"
"""The warning if a system with a registry was to end on all hosts."""
LEAVING = 3.0
"""Seconds in which a registrar may note that this host leaves."""
ENDING = 15.0
"""Seconds in which all hosts of a system with a registry may leave it, when it is ended."""
LOOK = 1.0
"""Seconds between two looks at the end of the system, while `System.messages` waits."""
STOP_LOOK = 0.5
"""Seconds after which it is looked whether the processes of the system have ended."""
STOP_PATIENCE = 12.0
"""Seconds; Thespian's own shutdown gives up after 10."""


class System:
    """An actor system, and this program as an endpoint of it.

    Use it as a context manager::

        with farref.System() as system:
            worker = system.worker("B")
            print(farref.rpc_sync("B", pow, args=(2, 10)))

    In a coroutine, ``async with`` leaves the loop's other tasks running while the system ends. (Its
    start blocks, for some tenths of a second.)

    Args:
        base: a Thespian system base by name. The default is ``"farrefBase"``, our own: a process
            per actor. ``"simpleSystemBase"`` runs actors in this process, during the program's
            calls. ``"multiprocTCPBase"`` runs a process per actor, too, but anybody who reaches
            its ports can run code in them. Or a base object, made with its capabilities; such a
            system cannot be attached to by name. Thespian's other bases are refused.
        name: for `System.attach`; random by default.
        capabilities: of the Thespian system, for actors that require some.
        sharing: the cost of references in the arguments of calls. ``"lend"``: nothing, unless
            the callee keeps them. ``"borrow"``: the same, but the borrowing protocol counts a
            reference that is kept. ``"fork"``: the remote reference protocol to the letter.
        timeout: the longest time of a wait in seconds, unless the wait has its own (G6); 60 by
            default. `math.inf` is no limit.
        orphan_grace: seconds between a death's notice and the release of the references that the
            dead endpoint held. The release comes later if packets are lost: it waits for every
            endpoint that got its references from the dead one.
        silence: an endpoint silent for this many seconds counts as dead, unless its process is
            only busy: the process must be stopped, or cut off. None disables it, for instance in a
            debugger.
        cycles: whether endpoints search by themselves for objects that only hold each other, over
            any number of endpoints. ``"collect"``, the default: such objects are freed after half a
            minute without use. ``"report"``: a line of the log names them. ``"off"``: only
            `collect` searches. On ``"simpleSystemBase"`` only `collect` does.
        trace: a folder in which every endpoint records its protocol steps.
        sites: whether creations note their file and line, for `farref refs`. By default the
            environment variable ``FARREF_SITES`` decides.
        telemetry: whether calls, creations, fetches and messages make OpenTelemetry spans, and
            counters its metrics (``farref[otel]``). By default the environment variable
            ``FARREF_TELEMETRY`` decides. Or a function without arguments that returns the tracer
            provider of a process: it is called once in this process and in each actor's.
        faults: faults of the packets, on purpose, in tests; see `farref.testing`.
        host: the address of this machine for other hosts, which may then `join` the system. A name
            is resolved at once. With *advertise* it may be ``"0.0.0.0"`` or ``"::"``, too: all
            interfaces. In a program that `farref run` started, the environment has it by default,
            with *port* and *key*; then this waits until all nodes have joined.
        port: the one port for other hosts, 1900 by default.
        advertise: ``"address:port"`` or ``"name:port"`` that other hosts must dial, if it differs
            from *host* and *port*: behind NAT, or in a container with a published port. Each host
            resolves the name for itself.
        encrypt: whether connections between hosts are encrypted, by TLS 1.3, which needs nothing
            more than the key. False is for a wire that nobody else can reach, and logs a warning.
            All hosts must agree.
        tls: certificates of an authority of one's own, a `farref.TLS`. Each host then shows one,
            and asks the others for one; the key is needed all the same.
        registry: ``"etcd://a:2379,b:2379"``, the servers of an etcd: the system survives the loss
            of any host, this one included, and goes on when this program ends. Other hosts
            `join` it by ``"etcd://a:2379,b:2379/NAME"``. A second program with the same *name*,
            *registry* and settings joins too. Wants *host*, `farrefBase` and ``farref[etcd]``.
        key: the secret of all hosts: the path of a file made by `farref key`, or 32 random bytes.
            Without a key only loopback addresses are allowed.
        program: the name of this program as an endpoint; ``"program"`` by default.
        threads: functions that others run in this program at once, as for `worker`.

    Raises:
        ValueError: an argument is out of range, or farref does not run on *base*.
        TypeError: *base* is a running `ActorSystem`, which no system can take over.
        ModuleNotFoundError: spans are asked for, and OpenTelemetry is not installed.
        SystemDownError: the system cannot be started, or a system of that name runs already.
    """

    _farewell: LeaveSystem | EndSystem = LeaveSystem()
    """This program's word to its deputy at the end, in a system with a registry."""

    def __init__(
        self,
        base: str | object | None = None,
        *,
        name: str | None = None,
        capabilities: dict[str, Any] | None = None,
        sharing: Sharing = "lend",
        timeout: float = DEFAULT_TIMEOUT,
        orphan_grace: float = 5.0,
        silence: float | None = 5.0,
        cycles: CycleMode = "collect",
        trace: str | os.PathLike[str] | None = None,
        sites: bool | None = None,
        telemetry: bool | Callable[[], object] | None = None,
        faults: Faults | None = None,
        host: str | None = None,
        port: int | None = None,
        key: bytes | str | os.PathLike[str] | None = None,
        advertise: str | None = None,
        encrypt: bool = True,
        tls: TLS | None = None,
        registry: str | None = None,
        program: str | None = None,
        threads: int = THREADS,
    ) -> None:
        sessions.warn_of_another()
        if faults is not None and not isinstance(faults, Faults):
            raise TypeError(f"faults must be a farref.testing.Faults or None, not {faults!r}")
        if sharing not in list(DISCIPLINES):  # a list: *sharing* may be unhashable
            raise ValueError(f"sharing must be one of {', '.join(DISCIPLINES)}, not {sharing!r}")
        modes = get_args(CycleMode)
        if cycles not in modes:
            raise ValueError(f"cycles must be one of {', '.join(modes)}, not {cycles!r}")
        self._choose(program, threads)
        timeout = check_timeout(timeout, DEFAULT_TIMEOUT)
        orphan_grace = check_timeout(orphan_grace, DEFAULT_TIMEOUT, poll=True)
        if silence is not None:
            seconds = check_timeout(silence, DEFAULT_TIMEOUT)
            silence = seconds if seconds < LONGEST else None
        if trace is not None:
            os.makedirs(trace, exist_ok=True)
        settings = Settings(
            system=f"system-{secrets.token_hex(4)}" if name is None else name,
            sharing=sharing,
            timeout=timeout,
            orphan_grace=orphan_grace,
            silence=silence,
            cycles=cycles,
            trace=os.path.abspath(trace) if trace is not None else None,
            sites=asked_for() if sites is None else sites,
            telemetry=spans.asked_for(telemetry),
            faults=faults,
        )
        base = base or bases.default()
        bases.check(base)
        given = {"port": port, "key": key, "advertise": advertise, "tls": tls}
        if host is None and (useless := [name for name in given if given[name] is not None]):
            raise ValueError(
                f"{'= and '.join(useless)}= need host= too, this machine's address for other hosts"
            )
        entry = {
            "base": base if isinstance(base, str) else bases.OBJECT,
            "pid": os.getpid(),
            "started": lives.started(os.getpid()),
            "versions": versions.mine(),
        }
        capabilities = {**(capabilities or {}), **launched.capabilities()}
        nodes = 1
        if host is None and base == bases.DEFAULT and (place := launched.place()) is not None:
            host, port, key, nodes = place.host, place.port, place.key, place.hosts
            entry["path"] = [os.path.abspath(folder) for folder in sys.path]
            if registry is None and place.registry is not None:
                registry, self._farewell = place.registry, EndSystem()
        if registry is not None:
            settings = electing.settings_of(registry, base, host, settings, capabilities)
            entry["registry"] = registry
        directory.add(settings.system, entry)
        try:
            with _errors(f"system {settings.system!r} on {base} did not start"):
                reach = (
                    hosts.reach_of(
                        base, host, port, key, advertise=advertise, encrypt=encrypt, tls=tls
                    )
                    if host is not None
                    else None
                )
                asys, door = bases.start(base, settings.system, capabilities, reach)
            directory.replace(settings.system, {**entry, "door": door})
            if not encrypt:
                log.warning(IN_THE_CLEAR, settings.system)
            self._base = entry["base"]
            order = electing.order(settings) if registry is not None else None
            self._enter(asys, settings, attached=False, order=order)
            directory.replace(settings.system, {**entry, "door": door, "session": self._session})
            self._prepare(settings, telemetry)
            self._gather(nodes)
        except BaseException:
            directory.remove(settings.system)
            raise

    @classmethod
    def attach(
        cls,
        name: str,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        program: str | None = None,
        threads: int = THREADS,
    ) -> Self:
        """Join the running system *name* of this user, started by another program.

        Leaving it does not end it. Blocks until the system has answered. *timeout* is the longest
        time of this program's own waits in seconds (G6). *program* and *threads* are as in
        `System`; the name has the number of the process by default.

        Raises:
            ValueError: the timeout is 0 or less, or another argument is out of range.
            SystemDownError: no system of that name runs, or it is an in-process one.
            VersionError: it runs on another version of Python, farref or cloudpickle.
        """
        timeout = check_timeout(timeout, DEFAULT_TIMEOUT)
        entry = directory.find(name)
        versions.check(entry.get("versions"), f"system {name!r}")
        with _errors(f"cannot attach to system {name!r}"):
            asys = bases.join(entry["base"], name, entry.get("door", {}))
        self = cls.__new__(cls)
        self._choose(program, threads)
        self._base = entry["base"]
        self._enter(asys, Settings(system=name, timeout=timeout), attached=True)
        return self

    @classmethod
    def join(
        cls,
        first: str,
        *,
        key: bytes | str | os.PathLike[str] | None = None,
        host: str | None = None,
        port: int | None = None,
        advertise: str | None = None,
        encrypt: bool = True,
        tls: TLS | None = None,
        base: str | None = None,
        capabilities: dict[str, Any] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        program: str | None = None,
        threads: int = THREADS,
    ) -> Self:
        """Make this machine one more host of the system at *first*, and this program part of it.

        Waits for the first host for up to 30 s. The system can then create workers here until
        this program shuts down or dies. Then these workers end, and the system goes on. Another
        program of this machine that joins with the same arguments shares the host; when it leaves,
        only it leaves.

        Args:
            first: ``"address:port"`` or ``"name:port"`` of the first host; the default port is
                1900. A forwarded port or the end of a tunnel will do: the first host tells its
                own address to those who have the key. Or ``"etcd://a:2379,b:2379/NAME"``: a
                system with a registry.
            key: the first host's.
            host: the address of this machine for the other hosts; by default the one that the
                first host sees.
            port: of this machine; 1900 by default.
            advertise: as in `System`.
            encrypt: the first host's.
            tls: as in `System`.
            base: the first host's, ``"farrefBase"`` or ``"multiprocTCPBase"``.
            capabilities: of this host, for the choice of a host for workers.
            timeout: the longest time of this program's own waits in seconds (G6).
            program: as in `attach`.
            threads: as in `System`.

        Raises:
            SystemDownError: no such system answers, or it has another key.
            VersionError: it runs on another version of Python, farref or cloudpickle.
        """
        timeout = check_timeout(timeout, DEFAULT_TIMEOUT)
        base = base or bases.default()
        bases.check(base)
        directory.sweep()
        order = electing.order_to_join(first, base, capabilities)
        enter = hosts.join if order is None else electing.join
        with _errors(f"cannot join {first}"):
            asys, place = enter(
                first,
                base,
                capabilities or {},
                host=host,
                port=port,
                key=key,
                advertise=advertise,
                encrypt=encrypt,
                tls=tls,
            )
        if not encrypt:
            log.warning(IN_THE_CLEAR, first)
        self = cls.__new__(cls)
        self._choose(program, threads)
        self._base = base
        settings = Settings(system=first, timeout=timeout)
        self._enter(asys, settings, attached=not bases.started(asys), place=place, order=order)
        if not self._attached:
            self._note = directory.add_host(
                {
                    "system": self.name,
                    "first": first,
                    "host": place,
                    "base": base,
                    "pid": os.getpid(),
                    "started": lives.started(os.getpid()),
                    "session": self._session,
                }
            )
        return self

    def _choose(self, name: str | None, threads: int) -> None:
        """Check and keep the user's choices for this program's own endpoint."""
        if name is not None and not is_name(name):
            raise ValueError(f"a program's name must be a non-empty text in UTF-8, not {name!r}")
        if threads < 1:
            raise ValueError(f"a program needs at least 1 thread, not {threads}")
        self._program_name = name
        self._threads = threads

    def _enter(
        self,
        asys: Any,
        settings: Settings,
        *,
        attached: bool,
        place: str = "",
        order: Establish | None = None,
    ) -> None:
        """Become an endpoint of the started Thespian system. *place*: this host, if it joins.

        *order*: for the deputy of this host, if the registrar is elected.
        """
        self.name = settings.system
        self._place = place
        self._attached = attached
        self._down = False
        self._note: Path | None = None
        """The entry of this host, in the folder of running systems."""
        self._pid = os.getpid()
        self._session = os.getsid(0)
        self._asys = asys
        self._port: OwnPort | PumpPort | CallInPort = port_of(asys)
        self._registrar: ActorAddress | None = None
        """The registrar, once this program has asked it to join."""
        self._port.start()
        atexit.register(self._exit)
        try:
            serving = self._serve(order) if place or order is not None else None
            registrar = (
                serving.registrar
                if serving is not None
                else self._asys.createActor(Registrar, globalName=REGISTRAR)
            )
            self._port.become = lambda joined: self._become(joined, registrar)
            if serving is None and not attached:
                self._port.post(registrar, Open(settings, os.getpid()))
            beats = self._port.runs_by_itself
            me = WorkerId(self._program_name or _program_name(place, attached=attached), 0)
            self._registrar = registrar
            self._port.post(
                registrar, EndpointJoin(me, os.getpid(), processes.host(), True, beats, place)
            )
            joined = self._await(self._port.joined)
            if serving is None:
                self._session = joined.session
            else:
                self.name = self.endpoint.core.settings.system
                self.endpoint.deaths.live_with(serving.pids)
            if attached or place:  # the program chooses the timeout of its own waits
                core = self.endpoint.core
                core.settings = replace(core.settings, timeout=settings.timeout)
        except BaseException:
            self._stop(graceful=True)
            raise
        enter_program(self.endpoint.core)
        sessions.enter(self)

    @staticmethod
    def running() -> list[System]:
        """The systems that this program started, joined or attached to, and has not shut down.

        In this order. The last one is the one that `remote` and its kin use outside of actors,
        unless the program entered another one since. Does not block.
        """
        return sessions.entered()

    def _become(self, joined: Joined, registrar: ActorAddress) -> Endpoint:
        """Make the endpoint: this program has its identity. In the mailbox thread."""
        self.endpoint = Endpoint(
            joined.me,
            self._port,
            joined.settings,
            registrar,
            threads=self._threads,
            hand=self._hand,
        )
        return self.endpoint

    def _prepare(self, settings: Settings, telemetry: object) -> None:
        """Prepare this process for spans. Now, because no actor is forked from it any more."""
        try:
            spans.prepare(settings.telemetry, telemetry)
        except BaseException:
            self._stop(graceful=True)
            raise

    def _gather(self, nodes: int) -> None:
        """Wait until *nodes* hosts are there, those of `farref run`. If they do not come, end."""
        try:
            hosts.gather(self.endpoint.registry, nodes, self.name)
        except BaseException:
            self._stop(graceful=True)
            raise

    def _serve(self, order: Establish | None) -> Serving:
        """Have this host's steward, or deputy, join. Returns once the registrar knows the host."""
        steward = (
            self._asys.createActor(Steward, globalName=STEWARD)
            if order is None
            else electing.deputy(self._asys)
        )
        self._port.post(steward, (versions.ASK, versions.mine()))
        versions.check(self._await(self._port.versions), "this host's part of the system")
        self._port.post(steward, Serve(os.getpid()) if order is None else order)
        serving = self._await(self._port.serving)
        self._session = serving.session
        self._attached = serving.owner != os.getpid()
        if serving.refused:
            raise (VersionError if serving.versions else SystemDownError)(serving.refused)
        return serving

    def _await(self, answer: concurrent.futures.Future[T]) -> T:
        if not self._port.wait(answer, START_PATIENCE):
            raise SystemDownError(f"system {self.name!r} did not answer in {START_PATIENCE:g} s")
        return answer.result(0)

    # ---- actors

    def worker(
        self, name: str, *, threads: int = THREADS, on: str | dict[str, Any] | None = None
    ) -> WorkerInfo:
        """Create a worker and wait until it runs.

        Args:
            name: unique in this system.
            threads: functions that it runs at once, not counting those that wait in a call.
            on: the host: its address, or capabilities that it must have. Of several the one with
                the fewest endpoints is chosen. Waits until it has joined. None: this program's.

        Raises:
            ValueError: the name is empty or no text, *threads* less than 1, or *on* no address.
            FetchTimeoutError: no such host joined within the system's timeout.
            NameTakenError: the name belongs to another one.
            CreationError: it could not be created, or ended before it had started; says the cause.
        """
        self._check_up()
        return create_worker(self._front, name, threads, on)

    def create(
        self,
        actor_class: type,
        name: str | None = None,
        *,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        requirements: dict[str, Any] | None = None,
        on: str | dict[str, Any] | None = None,
    ) -> ActorAddress:
        """Create an actor of a `RefActor` class and wait until it runs. Returns its address.

        A plain Thespian actor class is taken too. It has no name here, holds no references, and
        must be importable, as in Thespian; *requirements* and *on* are for `RefActor` classes.

        The class may be defined anywhere, also in ``__main__`` or a notebook. *requirements*
        are Thespian's: passed to the class's capability check. *on* is as for `worker`. If it is
        None, the actor is created on this program's host if that passes the class's check, else
        on another host that does.

        *args* and *kwargs* are for ``__init__``, and may contain references. Then ``__init__``
        runs on the actor's loop, before its first handler: it may send messages and use
        references. Without arguments Thespian itself runs it, before the actor is an endpoint;
        its error is the cause of a `CreationError`.

        Raises:
            TypeError: it is no class of actors, ``__init__`` takes other arguments, or an argument
                is given that a plain one has not.
            Exception: the error of ``__init__`` with arguments, with the remote traceback. The
                actor is ended.
            ValueError: the name is empty or no text.
            FetchTimeoutError: no such host joined within the system's timeout.
            NameTakenError: the name belongs to another one.
            CreationError: it could not be created, or ended before it had started; says the cause.
        """
        if not hasattr(actor_class, "_is_ref_actor"):
            if name is not None or args or kwargs or requirements is not None or on is not None:
                raise TypeError(
                    f"{actor_class!r} is no class of RefActors: only these take name=, args=, "
                    "kwargs=, requirements= and on="
                )
            return self._create_plain(actor_class)
        self._check_up()
        return create_actor(
            self._front,
            actor_class,
            name,
            args=args,
            kwargs=kwargs or {},
            requirements=requirements,
            on=on,
        )

    def _create_plain(self, actor_class: object) -> ActorAddress:
        if not (isinstance(actor_class, type) and issubclass(actor_class, Actor)):
            raise TypeError(f"system.create needs a class of actors, not {actor_class!r}")
        self._check_up()
        address: ActorAddress
        if isinstance(self._port, CallInPort):
            address = self._asys.createActor(actor_class)
        else:
            with self._asys.private() as context:
                address = context.createActor(actor_class)
        return address

    @property
    def _front(self) -> Front:
        """The services of this program's endpoint."""
        front: Front = self.endpoint.core.front
        return front

    def hosts(self) -> list[HostInfo]:
        """The hosts of the system now, the first one first. Blocks for one answer."""
        self._check_up()
        return self.endpoint.registry.hosts()

    def workers(self) -> list[WorkerInfo]:
        """Every living endpoint of the system, this program included, sorted by name.

        Blocks for one answer of the registrar.
        """
        self._check_up()
        return self.endpoint.registry.workers()

    # ---- looking at it

    def __repr__(self) -> str:
        """The name, the base, the state, and the workers that this program has used so far."""
        where, down = f"{self.name!r} on {self._base}", self._down
        endpoint = self._port.endpoint
        if down or endpoint is None:
            return f"<System {where}: {'shut down' if down else 'starting'}>"
        state = "ended" if endpoint.core.closed else "attached" if self._attached else "running"
        known = sorted(endpoint.core.peers.named.copy())
        more = f" and {len(known) - MOST_NAMES} more" if len(known) > MOST_NAMES else ""
        workers = f", with {', '.join(known[:MOST_NAMES])}{more}" if known else ""
        return f"<System {where}: {state}{workers}>"

    @property
    def is_attached(self) -> bool:
        """Whether another program started the system: leaving it does not end it."""
        return self._attached

    def references(self, *, timeout: float = LOOK_PATIENCE, leak_age: float = LEAK_AGE) -> Snapshot:
        """The references of every endpoint, as `farref.references` lists them for one.

        Endpoints answer beside the user's code, so those that compute answer, too.

        Args:
            timeout: seconds; endpoints that do not answer in that time are in `Snapshot.silent`.
            leak_age: seconds after which an object without a handle is suspected.

        Raises:
            ValueError: a number is out of range.
        """
        self._check_up()
        seconds = check_timeout(timeout, LOOK_PATIENCE)
        return look(self.endpoint.inspector, seconds, leak_age, attached=self._attached)

    def why(
        self,
        rref: RRef[Any] | str,
        *,
        timeout: float = LOOK_PATIENCE,
        leak_age: float = LEAK_AGE,
    ) -> Reason:
        """Why an object is alive: its holders, endpoint by endpoint, down to the variables.

        Args:
            rref: a reference, or its id as text, or the beginning of its id.
            timeout: seconds that each endpoint has to answer.
            leak_age: as for `references`.

        Raises:
            LookupError: there is no such reference, or several.
        """
        self._check_up()
        seconds, inspector = check_timeout(timeout, LOOK_PATIENCE), self.endpoint.inspector
        return why(inspector, rref, seconds, leak_age, attached=self._attached)

    def counters(self, *, timeout: float = LOOK_PATIENCE) -> dict[str, Counters]:
        """The counters of every endpoint that answers within *timeout* seconds, by its name."""
        self._check_up()
        seconds = check_timeout(timeout, LOOK_PATIENCE)
        return count(self.endpoint.inspector, seconds, attached=self._attached)[0]

    def collect(
        self, *, dry_run: bool = False, timeout: float = COLLECT_PATIENCE
    ) -> tuple[Garbage, ...]:
        """Search now for objects that only hold each other, and free them (G5).

        Blocks until all endpoints have searched. The freed objects go soon after. Any `cycles=` of
        the system will do.

        Args:
            dry_run: only search.
            timeout: seconds for each endpoint's searches; the rest is left for another time.

        Returns:
            The garbage: the ids of the objects found together, and a ring among them.
        """
        self._check_up()
        seconds, inspector = check_timeout(timeout, COLLECT_PATIENCE), self.endpoint.inspector
        return collect(inspector, seconds, cuts=not dry_run)

    # ---- messages

    def tell(self, to: str | WorkerInfo | ActorAddress, message: Any) -> None:
        """Send *message*, which may contain references, to an actor. Does not wait.

        Raises:
            WorkerNotFoundError, WorkerDiedError: there is no such actor, or it has died.
            NotAnEndpointError: *message* contains references, and the target is a plain actor.
            SerializationError: *message* cannot be pickled.
        """
        self._check_up()
        info = self._find_or_plain(to)
        if isinstance(message, ActorSystemMessage) and not isinstance(message, PoisonMessage):
            self._port.post(info.address if isinstance(info, WorkerInfo) else info, message)
        elif isinstance(info, WorkerInfo):
            self.endpoint.calls.tell(info, message)
        else:
            refuse_references(message, info)
            self._port.post(info, message)

    def ask(
        self,
        to: str | WorkerInfo | ActorAddress,
        message: Any,
        timeout: float | timedelta | None = None,
    ) -> Any:
        """Send *message* and return the answer of the actor, or of another one for it. Blocks.

        Args:
            to: a worker's name, its info, or any actor's address.
            message: may contain references unless the actor is a plain one.
            timeout: seconds, or a `timedelta` as in Thespian; the system's default for None.

        Raises:
            WorkerNotFoundError, WorkerDiedError: there is no such actor, or it died meanwhile.
            FetchTimeoutError: no answer in time. A late one is dropped: it never answers
                another ask.
            Exception: the exception of the handler.
        """
        self._check_up()
        self.endpoint.core.check_may_block("the answer", "`await system.ask_async(...)`")
        seconds = check_timeout(timeout, self.endpoint.core.settings.timeout)
        info = self._find_or_plain(to)
        if not isinstance(info, WorkerInfo):
            return self._ask_plain(info, message, seconds)
        future = self.endpoint.calls.ask(info, message, seconds)
        try:
            return future.result()
        finally:
            self.endpoint.calls.forget(future)
            del future  # an error's traceback holds this frame

    def ask_async(
        self, to: str | WorkerInfo | ActorAddress, message: Any, timeout: float | None = None
    ) -> Future[Any]:
        """As `ask`; returns a `Future` for the answer: ``await system.ask_async(...)``.

        Does not block. Raises the errors of `tell`; the wait raises the others.
        """
        self._check_up()
        seconds = check_timeout(timeout, self.endpoint.core.settings.timeout)
        info = self._find_or_plain(to)
        if isinstance(info, WorkerInfo):
            return self.endpoint.calls.ask(info, message, seconds)
        refuse_references(message, info)
        with running_in(self.endpoint.core):
            answer: Future[Any] = Future()

        def wait() -> None:
            try:
                answer.set_result(self._ask_plain(info, message, seconds))
            except BaseException as error:
                with contextlib.suppress(concurrent.futures.InvalidStateError):  # cancelled
                    answer.set_exception(error)

        self.endpoint.core.pool.submit(wait)
        return answer

    def _ask_plain(self, address: ActorAddress, message: Any, seconds: float) -> Any:
        refuse_references(message, address)
        if isinstance(self._port, CallInPort):
            self._port.post(address, message)
            return self.listen(seconds)
        # A context of its own for each question: a late answer reaches no other.
        with self._asys.private() as context:
            answer = context.ask(address, message, seconds)
        if answer is None:
            raise FetchTimeoutError(f"the plain actor at {address} did not answer in {seconds:g} s")
        return answer

    def listen(self, timeout: float | timedelta | None = None) -> Any:
        """The next message that an actor sent to this program, answers to asks excepted.

        Blocks. Messages that are not listened for keep holding their references.

        Raises:
            FetchTimeoutError: none came within *timeout* (seconds or a `timedelta`;
                default: the system's).
        """
        self._check_up()
        self.endpoint.core.check_may_block("listen", "`async for message in system.messages()`")
        seconds = check_timeout(timeout, self.endpoint.core.settings.timeout)
        inbox = self._port.inbox
        try:
            if isinstance(self._port, CallInPort):
                message = self._port.receive(seconds)
            else:
                message = inbox.get(timeout=seconds)
        except queue.Empty as error:
            raise FetchTimeoutError(
                f"no message came to {self.endpoint.core.me} within {seconds:g} s; listen again, "
                "or with a longer timeout"
            ) from error
        return self._opened(message)

    async def messages(self) -> AsyncIterator[Any]:
        """The messages that `listen` would return, as they come: ``async for``.

        It ends when the program shuts the system down. A message is taken only when the loop asks
        for it, so none is lost if the loop is left or cancelled.

        Raises:
            SystemDownError: the system ended otherwise, before or meanwhile.
        """
        self._check_up()
        loop, came, inbox = asyncio.get_running_loop(), asyncio.Event(), self._port.inbox

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop ended
                loop.call_soon_threadsafe(came.set)

        inbox.wakers.add(wake)
        try:
            while not self._down:
                came.clear()
                try:
                    message = inbox.get_nowait()
                except queue.Empty:
                    self.endpoint.core.check_open()
                    if self._port.call_in():  # in-process actors run only while somebody calls in
                        await asyncio.sleep(0.002)
                        continue
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(LOOK):
                            await came.wait()
                else:
                    yield self._opened(message)
        finally:
            inbox.wakers.discard(wake)

    def _opened(self, message: Any) -> Any:
        if self._port.inbox.qsize() == port.MAX_INBOX // 2:
            self.endpoint.core.wake()  # senders that wait may send again
        return message() if isinstance(message, _Unopened) else message

    def _hand(self, cargo: Cargo, address: ActorAddress) -> None:
        tag = getattr(cargo.payload, "tag", None)
        sender = ReplyAddress(address, tag[1]) if isinstance(tag, tuple) else address
        self._port.inbox.put(_Unopened(self.endpoint, cargo, sender))

    def _find_or_plain(self, to: str | WorkerInfo | ActorAddress) -> WorkerInfo | ActorAddress:
        registry = self.endpoint.registry
        if isinstance(to, ActorAddress):
            return registry.at(to) or to
        return registry.find(to)

    # ---- the end

    def serve(self) -> None:
        """Take part until the first host shuts the system down. For a program that joined.

        Raises:
            SystemDownError: the system ended otherwise, or this host is cut off from it.
            GivenUpError: this host was silent for too long, and counts as dead.
        """
        endpoint = self.endpoint
        with endpoint.delivery.room:
            endpoint.delivery.room.wait_for(lambda: endpoint.core.closed)
        if not endpoint.deaths.in_order:
            endpoint.core.check_open()

    def shutdown(self, graceful: bool = True, timeout: float | None = None) -> list[str]:
        """End the system (or, if attached, leave it). Safe to call again. Blocks.

        Args:
            graceful: first wait for the work that this program has asked for: its unanswered calls,
                the objects that others make for it, and the callbacks of its futures. A warning
                names the work that is given up. Then settle the references that this program
                dropped, and let actors finish their current handler. Otherwise kill them at once.
            timeout: seconds to wait for the work, at most (default: the system's timeout); 0 gives
                it up. A call is given up sooner if its own timeout ends.

        Returns:
            A line for each process that outlived its system and was killed.

        Raises:
            ValueError: the timeout is negative.
            KeyboardInterrupt: the user pressed Ctrl-C during the wait. The system has ended.
        """
        seconds = check_timeout(timeout, self._patience(), poll=True)
        try:
            if graceful:
                self._finish(seconds)
        finally:
            survivors = self._stop(graceful=graceful)
        return survivors

    def end(self) -> list[str]:
        """End the system, though another program has started it: `farref down`. Blocks.

        That program, and all others in the system, get `SystemDownError` in their waits. Call it on
        the first host; in a system with a registry, on any. It ends on all hosts.

        Returns:
            A line for each process that outlived the system and was killed. And one if a registry
            does not answer: then only this host has ended.

        Raises:
            ValueError: this program has joined from another host, and there is no registry.
        """
        if self.endpoint.core.settings.registry:
            self._farewell = EndSystem()
        elif self._place:
            raise ValueError(f"{self._place} is not the first host of {self.name!r}; end it there")
        self._attached = False
        return self.shutdown(timeout=0)

    def _patience(self) -> float:
        endpoint = self._port.endpoint
        return DEFAULT_TIMEOUT if endpoint is None else endpoint.core.settings.timeout

    def _finish(self, seconds: float) -> None:
        """Wait at most *seconds* for the work that this program has asked for."""
        endpoint = self._port.endpoint
        if self._down or self._pid != os.getpid() or endpoint is None or not seconds:
            return
        with contextlib.suppress(FarrefError):  # the system has ended otherwise
            left = Ending(endpoint, last=not self._attached).wait(seconds)
            if left:
                notice(log, logging.WARNING, f"system {self.name!r} ends without {named(left)}")

    def _stop(self, *, graceful: bool) -> list[str]:
        """End now."""
        if self._down or self._pid != os.getpid():
            return []  # a forked child inherits the system, and ends nothing when it exits
        endpoint = self._port.endpoint
        if graceful and endpoint is not None and not endpoint.core.closed:
            with contextlib.suppress(Exception):
                endpoint.unasked.log_dropped()
                endpoint.turn()
                # Or the news of our end may overtake our messages.
                endpoint.delivery.drain(DRAIN)
        self._down = True
        sessions.leave(self)
        self._port.inbox.wake()
        atexit.unregister(self._exit)
        try:
            if endpoint is not None:
                leave_program(endpoint.core)
                endpoint.registry.leave()
                endpoint.close(f"system {self.name!r} was shut down")
            elif self._registrar is not None:
                self._port.post(self._registrar, EndpointLeave(WorkerId(self.name, 0)))
            elected = endpoint is not None and endpoint.core.settings.registry
            alone = False
            if endpoint is not None and endpoint.deaths.in_order:
                elected = ""  # the deputy has gone
            if elected and not self._attached and self._registrar is not None:
                self._port.post(self._registrar, self._farewell)
                every = isinstance(self._farewell, EndSystem)
                done = self._port.wait(self._port.left, ENDING if every else LEAVING)
                alone = every and not done
            self._port.stop()
        finally:
            survivors = [] if self._attached else self._end(graceful=graceful)
            self._port.end()
        return [*survivors, ALONE] if alone else survivors

    def _exit(self) -> None:
        """End at the program's exit, without a wait: maybe an exception ends the program."""
        self._stop(graceful=True)

    def _end(self, *, graceful: bool) -> list[str]:
        if not self._place:
            directory.remove(self.name)
        if self._note is not None:
            self._note.unlink(missing_ok=True)
        if graceful:
            # With a time limit: if an actor is stuck, or a child starts, Thespian's may hang.
            ending = threading.Thread(target=self._end_thespian, daemon=True)
            with contextlib.suppress(RuntimeError):  # the interpreter ends: no more threads
                ending.start()
            now = time.monotonic()
            look, end = now + STOP_LOOK, now + STOP_PATIENCE
            while ending.is_alive() and (now := time.monotonic()) < end:
                ending.join(0.05)
                # Of two programs that end a system at once, Thespian answers one.
                if now > look and not processes.members(self._session):
                    break
        return processes.end(self._session, patience=2.0 if graceful else 0.0)

    def _end_thespian(self) -> None:
        with contextlib.suppress(Exception):
            self._asys.shutdown()

    def _check_up(self) -> None:
        if self._down:
            raise SystemDownError(f"system {self.name!r} was shut down; start a new one")

    def __enter__(self) -> Self:
        enter_program(self.endpoint.core)  # the innermost from here on
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        if error is None:
            self.shutdown()
        else:  # at once: the user wants to see the error
            self._stop(graceful=True)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *raised: Any) -> None:
        """End as the ``with`` block does; the loop's other tasks go on meanwhile."""
        await asyncio.to_thread(self.__exit__, *raised)


@contextlib.contextmanager
def _errors(what: str) -> Iterator[None]:
    try:
        yield
    except SystemDownError:
        raise
    except Exception as error:
        raise SystemDownError(f"{what}: {error}") from error


class _Unopened:
    """A message to the program, unpickled by the thread that listens."""

    def __init__(self, endpoint: Endpoint, cargo: Cargo, sender: ActorAddress) -> None:
        self._endpoint = endpoint
        self._cargo = cargo
        self._hold = endpoint.core.discards.hold(self, None, cargo.descriptors)
        self.sender = sender

    def __call__(self) -> Any:
        try:
            with running_in(self._endpoint.core):
                return self._endpoint.packer.open(self._cargo)
        finally:
            self._endpoint.core.discards.settle(self._hold)

    def __del__(self) -> None:
        self._endpoint.core.discards.gone(self._hold)


def _program_name(place: str, *, attached: bool) -> str:
    if place:
        return f"program-{os.getpid()}@{place}"
    return f"program-{os.getpid()}" if attached else "program"
