"""`System`: start an actor system, work in it as an endpoint, and leave nothing behind."""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import os
import queue
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from operator import index
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_args

from thespian.actors import (
    Actor,
    ActorAddress,
    ActorSystemFailure,
    ActorSystemMessage,
    InvalidActorSpecification,
    PoisonMessage,
)

from ...plurals import counted
from ...printable import html_table, logger
from ...protocol.effects import Garbage
from ...protocol.errors import (
    FarrefError,
    FetchTimeoutError,
    NotAnEndpointError,
    OverloadedError,
    SystemDownError,
    WorkerDiedError,
)
from ...protocol.sharing import DISCIPLINES, Sharing
from ...serialization.failures import pass_on
from ..base import lives
from ..base.certificates import TLS
from ..base.lacks import hint
from ..calls.futures import Future
from ..cluster import hosts
from ..core import port as core_port
from ..core.counters import Counters
from ..core.current import enter_program, running_in
from ..core.sites import asked_for
from ..handles.front import Front
from ..handles.rref import RRef
from ..hosting import bases, directory, launched, logs, versions
from ..inspect.inspector import COLLECT_PATIENCE, LATENCIES, LEAK_AGE, PATIENCE
from ..shells.endpoint import Endpoint
from ..shells.inbox import Unopened
from ..shells.ordinary import refuse_references
from ..shells.program import CallInPort
from ..shells.surroundings import Folder, Variables
from ..telemetry import switch as spans
from ..wire.faults import Faults
from ..wire.messages import Establish, HostInfo, WorkerInfo
from ..wire.settings import DEFAULT_TIMEOUT, LONGEST, THREADS, CycleMode, Settings, check_timeout
from . import board, electing, sessions
from .creating import create_actor, create_worker
from .pool import WorkerPool
from .stay import Stay, check_program

if TYPE_CHECKING:
    from ..inspect.overview import Overview
    from ..inspect.snapshot import Snapshot
    from ..inspect.why import Reason

T = TypeVar("T")

log = logger(__name__)

LACKS = OSError, MemoryError, RuntimeError, InvalidActorSpecification, ActorSystemFailure
"""The errors for want of descriptors, memory, disk, threads, or an admin that answers."""
SHOWN = 1.0
"""Seconds that endpoints have to answer for the table in a notebook."""
GAP = 0.25
"""Seconds between the two looks for that table."""
MOST_NAMES = 8
"""Workers that the `repr` of a system names."""
LOOK = 1.0
"""Seconds between two looks at the end of the system, while `messages` waits."""
GLANCE = 1.0
"""Seconds after which a thread that serves wakes, so that its signal handlers run."""


class System:
    """An actor system, and this program as an endpoint of it.

    Use it as a context manager::

        with farref.System() as system:
            worker = system.worker("B")
            print(farref.rpc_sync("B", pow, args=(2, 10)))

    In a coroutine, ``async with`` leaves the loop's other tasks running while the system ends. (Its
    start blocks, for some tenths of a second.)

    Args:
        base: a Thespian system base by name. The default, ``"farrefBase"``, is farref's own: a
            process per actor. ``"simpleSystemBase"`` runs actors in this process, during the
            program's calls. ``"multiprocTCPBase"`` also runs a process per actor, but anybody who
            reaches its ports can run code in them. Or a base object, made with its capabilities;
            such a system cannot be attached to by name. Thespian's other bases are refused.
        name: for `System.attach`; random by default.
        capabilities: of the Thespian system, for actors that require some.
        sharing: the way to share references in the arguments of calls. ``"lend"``: a reference
            costs no message unless the callee keeps it. ``"borrow"``: the same, but the borrowing
            protocol counts a reference that is kept. ``"fork"``: the owner counts every callee.
        timeout: the longest time of a wait in seconds, unless the wait has its own (G6); 60 by
            default. `math.inf` means no limit.
        orphan_grace: seconds between the notice of a death and the release of the references that
            the dead endpoint held. The release also waits until every living endpoint that got
            references from the dead one is counted, which takes longer if packets are lost.
        silence: seconds; a cut between hosts that is shorter loses nobody. An endpoint that is
            silent for longer (7.5 s at the default of 5) counts as dead if its process is stopped
            or cut off, but not if it is only busy, or if a person stopped it, by Ctrl-Z or in a
            debugger. None: a silent endpoint never counts as dead.
        cycles: whether endpoints search for objects that only hold each other, over any number of
            endpoints. ``"collect"``, the default: such objects are freed after half a
            minute without use. ``"report"``: they are only logged. ``"off"``: only `collect`
            searches, as always on ``"simpleSystemBase"``.
        trace: a folder in which every endpoint records its protocol steps.
        sites: whether creations record their file and line, for `farref refs`. By default the
            environment variable ``FARREF_SITES`` decides.
        telemetry: whether calls, creations, fetches and messages make OpenTelemetry spans, and
            counters its metrics (``farref[otel]``). By default the environment variable
            ``FARREF_TELEMETRY`` decides. Or a function without arguments that sets the providers of
            a process: it is called once in this process and in each actor's.
        dashboard: whether to start `farref dashboard` for this system (``farref[web]``), in a
            process that ends with it. Prints the address.
        faults: faults to inject into the packets, in tests; see `farref.testing`.
        host: the address of this machine for other hosts, which may then `join` the system. A name
            is resolved at once. With *advertise* it may also be ``"0.0.0.0"`` or ``"::"``, for all
            interfaces. A program that `farref run` started gets it from the environment by default,
            with *port* and *key*; then this waits until all nodes have joined.
        port: the one port for other hosts, 1900 by default.
        advertise: ``"address:port"`` or ``"name:port"`` that other hosts must dial, if it differs
            from *host* and *port*: behind NAT, or in a container with a published port. Each host
            resolves the name for itself.
        tls: certificates of your own authority, a `farref.TLS`. Each host then shows its
            certificate, and requires one of the others. You still need the key.
        registry: ``"etcd://a:2379,b:2379"``, the servers of an etcd. With it the system survives
            the loss of any host, including this one, and outlives this program. Other hosts
            `join` it by ``"etcd://a:2379,b:2379/NAME"``. A second program with the same *name*,
            *registry* and settings joins as well. Needs *host*, `farrefBase` and ``farref[etcd]``.
        key: the secret of all hosts: the path of a file made by `farref key`, or 32 random bytes.
            Without a key only loopback addresses are allowed.
        program: the name of this program as an endpoint; ``"program"`` by default.
        threads: how many functions of others run in this program at once, as for `worker`.

    Raises:
        ValueError: an argument is out of range, or farref does not run on *base*.
        TypeError: *base* is a running `ActorSystem`, which no system can take over.
        ModuleNotFoundError: spans are asked for, and OpenTelemetry is not installed; or a
            dashboard, and uvicorn is not.
        SystemDownError: the system cannot be started, or a system of that name runs already.
    """

    _board: board.Board | None = None

    def __init__(  # noqa: PLR0915 - it checks its arguments, step by step
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
        dashboard: bool = False,
        faults: Faults | None = None,
        host: str | None = None,
        port: int | None = None,
        key: bytes | str | os.PathLike[str] | None = None,
        advertise: str | None = None,
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
        check_program(program, threads)
        timeout = check_timeout(timeout, DEFAULT_TIMEOUT)
        orphan_grace = check_timeout(orphan_grace, DEFAULT_TIMEOUT, poll=True)
        if silence is not None:
            seconds = check_timeout(silence, DEFAULT_TIMEOUT)
            silence = seconds if seconds < LONGEST else None
        if trace is not None:
            os.makedirs(trace, exist_ok=True)
        settings = Settings(
            system=f"system-{os.urandom(4).hex()}" if name is None else name,
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
        if dashboard:
            board.check(base)
        given = {"port": port, "key": key, "advertise": advertise, "tls": tls}
        if host is None and (useless := [name for name in given if given[name] is not None]):
            raise ValueError(
                f"{'= and '.join(useless)}= need host= too, this machine's address for other hosts"
            )
        failed = f"system {settings.system!r} on {base} did not start"
        with _errors(failed, LACKS):
            entry = {
                "base": base if isinstance(base, str) else bases.OBJECT,
                "pid": os.getpid(),
                "started": lives.started(os.getpid()),
                "versions": versions.mine(),
            }
        capabilities = {**(capabilities or {}), **launched.capabilities()}
        nodes, ends = 1, False
        if host is None and base == bases.DEFAULT and (place := launched.place()) is not None:
            host, port, key, nodes = place.host, place.port, place.key, place.hosts
            entry["path"] = [os.path.abspath(folder) for folder in sys.path]
            if registry is None and place.registry is not None:
                registry, ends = place.registry, True
        order: Establish | None = None
        if registry is not None:
            order = electing.order_to_start(registry, base, host, settings, capabilities)
            entry["registry"] = registry
        with _errors(failed, LACKS):
            directory.add(settings.system, entry)
        try:
            with _errors(failed):
                how: dict[str, Any] = {"advertise": advertise, "tls": tls}
                reach = hosts.reach_of(base, host, port, key, **how) if host is not None else None
                asys, door = bases.start(base, settings.system, capabilities, reach)
            with _errors(failed, LACKS):
                directory.replace(settings.system, entry := {**entry, "door": door})
            self._base = entry["base"]
            with _errors(failed, LACKS):
                self._enter(Stay(asys, settings, program, threads, ends=ends), order)
                directory.replace(settings.system, entry | {"session": self._stay.session})
            self._complete(nodes, telemetry, dashboard=dashboard)
        except BaseException:
            directory.remove(settings.system, pid=entry["pid"], started=entry["started"])
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
        check_program(program, threads)
        timeout = check_timeout(timeout, DEFAULT_TIMEOUT)
        with _errors(f"cannot attach to system {name!r}", LACKS):
            entry = directory.find(name)
            versions.check(entry.get("versions"), f"system {name!r}")
        with _errors(f"cannot attach to system {name!r}"):
            asys = bases.join(entry["base"], name, entry.get("door", {}))
        self = cls.__new__(cls)
        self._base = entry["base"]
        settings = Settings(system=name, timeout=timeout)
        with _errors(f"cannot attach to system {name!r}", LACKS):
            self._enter(Stay(asys, settings, program, threads, entry=entry, attached=True))
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
        tls: TLS | None = None,
        base: str | None = None,
        capabilities: dict[str, Any] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        program: str | None = None,
        threads: int = THREADS,
    ) -> Self:
        """Make this machine one more host of the system at *first*, and this program part of it.

        Waits for the first host for up to 30 s. The system can then create workers here until
        this program shuts down or dies, which ends these workers but not the system. Another
        program of this machine that joins with the same arguments shares the host; when it leaves,
        the host stays.

        Args:
            first: ``"address:port"`` or ``"name:port"`` of the first host, at any address that
                leads there, such as a forwarded port or the end of a tunnel; the default port is
                1900. Or ``"etcd://a:2379,b:2379/NAME"``: a system with a registry.
            key: the first host's.
            host: the address of this machine for the other hosts; by default the one that the
                first host sees.
            port: of this machine; 1900 by default.
            advertise: as in `System`.
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
        check_program(program, threads)
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
                tls=tls,
            )
        self = cls.__new__(cls)
        self._base = base
        settings = Settings(system=first, timeout=timeout)
        attached = not bases.started(asys)
        with _errors(f"cannot join {first}", LACKS):
            self._enter(Stay(asys, settings, program, threads, place, attached=attached), order)
        if not self.is_attached:
            self._stay.note = directory.add_host(
                {
                    "system": self.name,
                    "first": first,
                    "host": place,
                    "base": base,
                    "pid": os.getpid(),
                    "started": lives.started(os.getpid()),
                    "session": self._stay.session,
                }
            )
        return self

    def _enter(self, stay: Stay, order: Establish | None = None) -> None:
        """Enter a started Thespian system. *order*: see `Stay.enter`."""
        self._stay = stay
        self._asys, self._port = stay.asys, stay.port
        self.endpoint = stay.enter(order)
        enter_program(self.endpoint.core)
        sessions.enter(self)

    @staticmethod
    def running() -> list[System]:
        """The systems that this program started, joined or attached to, and has not shut down.

        In this order. The last one is the one that `remote` and its kin use outside of actors,
        unless the program entered another one since. Does not block.
        """
        return sessions.entered()

    def _complete(self, nodes: int, telemetry: object, *, dashboard: bool) -> None:
        """Prepare this process for spans, and wait until *nodes* hosts of `farref run` are there.

        Now, because no actor is forked from this process any more. Then start the dashboard.
        """
        try:
            spans.prepare(self.endpoint.core.settings.telemetry, telemetry)
            hosts.gather(self.endpoint.registrar_client, nodes, self.name)
            if dashboard:
                with _errors(f"system {self.name!r} did not start", LACKS):
                    self._board = board.Board(self.name)
        except BaseException:
            self._stop(graceful=True)
            raise

    # ---- actors

    def worker(
        self,
        name: str,
        *,
        threads: int = THREADS,
        on: str | dict[str, Any] | None = None,
        env: Variables | None = None,
        cwd: Folder | None = None,
    ) -> WorkerInfo:
        """Create a worker and wait until it runs.

        It begins with this program's environment variables, working directory and ``sys.path`` as
        they are now; on another host, with those that this host's part of the system has.

        Args:
            name: unique in this system.
            threads: how many functions it runs at once, not counting those that wait in a call.
                With 1, functions that one sender calls begin in the order sent.
            on: the host: its address, or capabilities that it must have. Of several the one with
                the fewest endpoints is chosen. Waits until it has joined. None: this program's.
            env: environment variables that it has besides, or in place of, the program's; None
                for one removes it.
            cwd: its working directory.

        Raises:
            ValueError: the name is empty or not a string, *threads* is less than 1, or *on* is
                not an address; or *env* or *cwd* is given on the in-process base.
            FetchTimeoutError: no such host joined within the system's timeout.
            NameTakenError: another endpoint has this name.
            CreationError: it could not be created, or ended before it had started; says the cause.
        """
        return create_worker(self._front, name, threads, on, env=env, cwd=cwd)

    def pool(
        self,
        size: int,
        name: str = "pool",
        *,
        threads: int = 1,
        on: str | dict[str, Any] | None = None,
        env: Variables | None = None,
        cwd: Folder | None = None,
    ) -> WorkerPool:
        """A pool of *size* new workers, as a `concurrent.futures.Executor`. Blocks.

        Each worker runs *threads* tasks at once. Their names begin with *name*, which must be
        another one for each pool. *on*, *env* and *cwd* are as in `worker`, whose errors this
        raises.
        """

        def make(member: str) -> WorkerInfo:
            return self.worker(member, threads=threads, on=on, env=env, cwd=cwd)

        return WorkerPool(self._front, make, name, size, threads)

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

        The class may be defined anywhere, also in ``__main__`` or a notebook. *requirements*
        are Thespian's: passed to the class's capability check. *on* is as for `worker`. If it is
        None, the actor is created on this program's host if that passes the class's check, or
        on another host that does. Its process begins as that of a `worker` does.

        A plain Thespian actor class is accepted, too, but without any other argument. Its actor has
        no name, holds no references, and must be importable, as in Thespian.

        *args* and *kwargs* are for ``__init__``, and may contain references. ``__init__`` runs on
        the actor's loop, before its first handler: it may send messages and use references.
        Without arguments its error is the cause of a `CreationError`.

        Raises:
            TypeError: it is not a class of actors, ``__init__`` takes other arguments, or a plain
                class is given an argument that only `RefActor` classes take.
            Exception: the error of ``__init__`` with arguments, with the remote traceback. The
                actor is ended.
            ValueError: the name is empty or not a string.
            FetchTimeoutError: no such host joined within the system's timeout.
            NameTakenError: another endpoint has this name.
            CreationError: it could not be created, or ended before it had started; says the cause.
        """
        if not hasattr(actor_class, "_is_ref_actor"):
            if name is not None or args or kwargs or requirements is not None or on is not None:
                raise TypeError(
                    f"{actor_class!r} is no class of RefActors: only these take name=, args=, "
                    "kwargs=, requirements= and on="
                )
            return self._create_plain(actor_class)
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
        port = self._here.core.port
        address: ActorAddress
        if isinstance(port, CallInPort):
            address = self._asys.createActor(actor_class)
        else:
            with self._asys.private() as context:
                address = context.createActor(actor_class)
        return address

    @property
    def _here(self) -> Endpoint:
        """This program's endpoint. Raises `SystemDownError` if the program has left the system."""
        if self._stay.down:
            raise SystemDownError(f"system {self.name!r} was shut down; start a new one")
        return self.endpoint

    @property
    def _front(self) -> Front:
        """The services of this endpoint. Raises as `_here` does."""
        front: Front = self._here.core.front
        return front

    def hosts(self) -> list[HostInfo]:
        """The hosts of the system now, the first one first. Blocks for one answer."""
        return self._here.registrar_client.hosts()

    def workers(self) -> list[WorkerInfo]:
        """Every living endpoint of the system, this program included, sorted by name.

        Blocks for one answer of the registrar.
        """
        return self._here.registrar_client.workers()

    # ---- inspection

    def __repr__(self) -> str:
        """The name, the base, the state, and the workers that this program has used so far."""
        where, down = f"{self.name!r} on {self._base}", self._stay.down
        endpoint = self._port.endpoint
        if down or endpoint is None:
            return f"<System {where}: {'shut down' if down else 'starting'}>"
        state = "ended" if endpoint.core.closed else "attached" if self.is_attached else "running"
        known = sorted(endpoint.core.peers.named.copy())
        more = f" and {len(known) - MOST_NAMES} more" if len(known) > MOST_NAMES else ""
        workers = f", with {', '.join(known[:MOST_NAMES])}{more}" if known else ""
        return f"<System {where}: {state}{workers}>"

    def _repr_html_(self) -> str:
        """A notebook shows the hosts and endpoints. Blocks for two looks, as rates need two."""
        rows: list[tuple[object, ...]] = []
        with contextlib.suppress(FarrefError):  # it has ended, or not begun
            before = self.overview(timeout=SHOWN)
            time.sleep(GAP)
            now = self.overview(timeout=SHOWN)
            for name, each in sorted(now.endpoints.items()):
                counters, last = each.counters, before.endpoints.get(name, each).counters
                calls = (counters.served - last.served) / max(GAP, now.time - before.time)
                queue, objects = counters.waiting + counters.inbox, counters.references
                rows.append((name, each.host, f"{calls:,.0f}", queue, objects.get("owner", 0)))
        hosts = f"; {counted(len({row[1] for row in rows}), 'host')}" if rows else ""
        heads = "endpoint", "host", "calls/s", "queue", "objects"
        return html_table(repr(self).strip("<>") + hosts, heads, rows)

    @property
    def name(self) -> str:
        """The system's name, for `System.attach`."""
        return self._stay.name

    @property
    def is_attached(self) -> bool:
        """Whether another program started the system: leaving it does not end it."""
        return self._stay.attached

    def references(self, *, timeout: float = PATIENCE, leak_age: float = LEAK_AGE) -> Snapshot:
        """The references of every endpoint, as `farref.references` lists them for one.

        Blocks until all have answered. Endpoints answer in a thread of their own, so busy ones
        answer, too.

        Args:
            timeout: seconds; endpoints that do not answer in that time are in `Snapshot.silent`.
            leak_age: seconds after which an object without a handle is suspected.

        Raises:
            ValueError: a number is out of range.
        """
        inspector = self._here.inspector
        with _modules():
            from ..inspect.snapshot import take_snapshot  # noqa: PLC0415 - few programs inspect
        seconds = check_timeout(timeout, PATIENCE)
        return take_snapshot(inspector, seconds, leak_age, attached=self.is_attached)

    def why(
        self, rref: RRef[Any] | str, *, timeout: float = PATIENCE, leak_age: float = LEAK_AGE
    ) -> Reason:
        """Why an object is alive: its holders, endpoint by endpoint, down to the variables. Blocks.

        Args:
            rref: a reference, or its id as text, or the beginning of its id.
            timeout: seconds that each endpoint has to answer.
            leak_age: as for `references`.

        Raises:
            LookupError: there is no such reference, or several.
        """
        inspector = self._here.inspector
        with _modules():
            from ..inspect.why import why  # noqa: PLC0415 - few programs inspect
        seconds = check_timeout(timeout, PATIENCE)
        return why(inspector, rref, seconds, leak_age)

    def counters(self, *, timeout: float = PATIENCE) -> dict[str, Counters]:
        """The counters of every endpoint that answers within *timeout* seconds, by name. Blocks."""
        inspector = self._here.inspector
        with _modules():
            from ..inspect.snapshot import count  # noqa: PLC0415 - few programs inspect
        seconds = check_timeout(timeout, PATIENCE)
        return count(inspector, seconds, attached=self.is_attached)[0]

    def overview(self, *, timeout: float = PATIENCE, latencies: float = LATENCIES) -> Overview:
        """What every endpoint does now, in few numbers: the figures of `farref top`. Blocks.

        Endpoints answer in a thread of their own, so busy ones answer, too. The answers take
        milliseconds, however many objects there are: of a large table they show a part.

        Args:
            timeout: seconds; endpoints that do not answer in that time are in `Overview.silent`.
            latencies: for so many seconds from now on the endpoints count the latencies of their
                calls. Two looks in that time tell those of the calls in between.
        """
        inspector = self._here.inspector
        with _modules():
            from ..inspect.snapshot import take_overview  # noqa: PLC0415 - few programs inspect
        seconds = check_timeout(timeout, PATIENCE)
        return take_overview(inspector, seconds, latencies, attached=self.is_attached)

    def collect(
        self, *, dry_run: bool = False, timeout: float = COLLECT_PATIENCE
    ) -> tuple[Garbage, ...]:
        """Search now for objects that only hold each other, and free them (G5).

        Blocks until all endpoints have searched, whatever the system's `cycles=`. The objects are
        freed soon afterwards.

        Args:
            dry_run: only search.
            timeout: seconds for each endpoint's searches; what it cannot search then is left.

        Returns:
            The garbage: the ids of the objects found together, and a ring among them.
        """
        seconds = check_timeout(timeout, COLLECT_PATIENCE)
        return self._here.inspector.collect(seconds, cuts=not dry_run)

    def logging(self, level: int | str, logger: str = "") -> None:
        """Set the level of a *logger*, by default the root, here and in all actors. Blocks.

        Actors begin with the levels that this program's loggers have then, and their records come
        to this program's handlers. Raises `ValueError` for an unknown level.
        """
        logging.getLogger(logger).setLevel(level)
        chosen = {logger: logging.getLogger(logger).level}
        mine = self.endpoint.core.me.name
        told = [
            self._front.calls.call(info, (logs.set_levels, (chosen,), {}), None, ())
            for info in self.workers()
            if info.name != mine
        ]
        for each in told:
            with contextlib.suppress(WorkerDiedError):
                each.result()

    # ---- messages

    def tell(self, to: str | WorkerInfo | ActorAddress, message: Any) -> None:
        """Send *message*, which may contain references, to an actor.

        Does not wait until it has been handled, and blocks only where `farref.remote` does.

        Raises:
            WorkerNotFoundError, WorkerDiedError: there is no such actor, or it has died.
            NotAnEndpointError: *message* contains references, and the target is a plain actor.
            SerializationError: *message* cannot be pickled.
            OverloadedError: the actor did not take the many earlier messages in time.
        """
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
        *,
        answers: int | None = None,
    ) -> Any:
        """Send *message* and return the answer of the actor, or of another one for it. Blocks.

        Further answers are dropped, with a warning; give *answers* if the actor sends several.

        Args:
            to: an actor's name, its `WorkerInfo`, or its address.
            message: may contain references unless the actor is a plain one.
            timeout: seconds, or a `timedelta` as in Thespian; the system's default for None.
            answers: how many to wait for; the result is then a list of them, as they came. Not for
                plain actors.

        Raises:
            WorkerNotFoundError, WorkerDiedError: there is no such actor, or it died meanwhile.
            NoHandlerError: the actor has no handler for such a message.
            FetchTimeoutError: no answer in time. A late one is dropped, and never answers
                another ask.
            WouldBlockError: in a handler; write ``await system.ask_async(...)`` there.
            Exception: the exception of the handler, or an error of `tell`.
        """
        core, calls = self._here.core, self.endpoint.calls
        core.check_may_block("the answer", "`await system.ask_async(...)`")
        seconds = check_timeout(timeout, core.settings.timeout)
        info = self._asked(to, answers)
        if not isinstance(info, WorkerInfo):
            return self._ask_plain(info, message, seconds)
        futures = calls.ask(info, message, seconds, answers or 1)
        try:
            got = [each.result() for each in futures]
            return got[0] if answers is None else got
        finally:
            calls.drop(futures[-1])
            del futures  # an error's traceback holds this frame

    def ask_async(
        self,
        to: str | WorkerInfo | ActorAddress,
        message: Any,
        timeout: float | timedelta | None = None,
        *,
        answers: int | None = None,
    ) -> Future[Any]:
        """As `ask`, but returns a `Future` for its result: ``await system.ask_async(...)``.

        Does not wait for the answer. Raises the errors of `tell`; the future has the others.
        """
        core = self._here.core
        seconds = check_timeout(timeout, core.settings.timeout)
        info = self._asked(to, answers)
        if isinstance(info, WorkerInfo):
            futures = self.endpoint.calls.ask(info, message, seconds, answers or 1)
            last = futures[-1]  # it is done last
            return last if answers is None else last.then(lambda _: [f.result() for f in futures])
        refuse_references(message, info)
        with running_in(core):
            answer: Future[Any] = Future()

        def wait() -> None:
            try:
                answer.set_result(self._ask_plain(info, message, seconds))
            except BaseException as error:
                with contextlib.suppress(concurrent.futures.InvalidStateError):  # cancelled
                    answer.set_exception(error)

        core.pool.submit(wait)
        return answer

    def listen(self, timeout: float | timedelta | None = None) -> Any:
        """The next message that an actor sent to this program, except answers to asks. Blocks.

        Messages that are not listened for keep holding their references.

        Raises:
            FetchTimeoutError: none came within *timeout* (seconds or a `timedelta`;
                default: the system's).
            WouldBlockError: in a handler or an `async def` that others call.
        """
        core = self._here.core
        core.check_may_block("listen", "`async for message in system.messages()`")
        seconds = check_timeout(timeout, core.settings.timeout)
        try:
            if isinstance(self._port, CallInPort):
                message = self._port.receive(seconds)
            else:
                message = self._port.inbox.get(timeout=seconds)
        except queue.Empty as error:
            raise FetchTimeoutError(
                f"no message came to {core.me} within {seconds:g} s; listen again, "
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
        import asyncio  # noqa: PLC0415 - the running loop has loaded it

        core, inbox = self._here.core, self._port.inbox
        loop, came = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop ended
                loop.call_soon_threadsafe(came.set)

        inbox.wakers.add(wake)
        try:
            while not self._stay.down:
                came.clear()
                try:
                    message = inbox.get_nowait()
                except queue.Empty:
                    core.check_open()
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

    def _find_or_plain(self, to: str | WorkerInfo | ActorAddress) -> WorkerInfo | ActorAddress:
        """The endpoint that *to* means; the address itself of a plain actor."""
        registrar_client = self._here.registrar_client
        if isinstance(to, ActorAddress):
            return registrar_client.at(to) or to
        return registrar_client.find(to)

    def _asked(
        self, to: str | WorkerInfo | ActorAddress, answers: int | None
    ) -> WorkerInfo | ActorAddress:
        """The actor that is asked for so many *answers*."""
        if answers is not None and index(answers) < 1:
            raise ValueError(f"answers must be a number of at least 1, not {answers!r}")
        info = self._find_or_plain(to)
        if answers is not None and not isinstance(info, WorkerInfo):
            raise NotAnEndpointError(
                f"the actor at {info} is a plain Thespian actor, of which `ask` has one answer; "
                "`tell` it the message, and `listen` for each answer"
            )
        return info

    def _ask_plain(self, address: ActorAddress, message: Any, seconds: float) -> Any:
        refuse_references(message, address)
        if isinstance(self._port, CallInPort):
            self._port.post(address, message)
            return self.listen(seconds)
        # A context of its own for each question: a late answer reaches no other.
        with self._asys.private() as context:
            answer = context.ask(address, message, seconds)
        if answer is None:
            raise FetchTimeoutError(
                f"the plain actor at {address} did not answer in {seconds:g} s; ask again with a "
                "longer timeout, or see whether its handler answers this message"
            )
        return answer

    def _opened(self, message: Any) -> Any:
        if self._port.queued() == core_port.MAX_INBOX // 2:
            self.endpoint.core.wake()  # senders that wait may send again
        return message() if isinstance(message, Unopened) else message

    # ---- the end

    def serve(self) -> None:
        """Take part until the first host shuts the system down. For a program that joined.

        Raises:
            SystemDownError: the system ended otherwise, or this host is cut off from it.
            GivenUpError: this host was silent for too long, and counts as dead.
        """
        endpoint = self.endpoint
        progress = endpoint.delivery.progress
        with progress:
            # The kernel may give a signal that a stopped process gets to another thread. Python's
            # handler then runs when this one wakes.
            while not progress.wait_for(lambda: endpoint.core.closed, GLANCE):
                pass
        if not endpoint.deaths.in_order:
            endpoint.core.check_open()

    def shutdown(self, graceful: bool = True, timeout: float | None = None) -> list[str]:
        """End the system (or, if attached, leave it). Blocks.

        Any thread may call it, also a callback, and again: each call returns when the system has
        ended. Only code that interrupts the end itself, such as a signal handler, returns at once.

        Args:
            graceful: first wait for the work that this program has asked for: its unanswered calls,
                the objects that others make for it, and the callbacks of its futures. A warning
                names the work that is given up. Then send the deletes of the references that this
                program dropped, and let actors finish their current handler. Otherwise kill them
                at once.
            timeout: seconds to wait for the work, at most (default: the system's timeout); 0 gives
                it up. A call is given up sooner if its own timeout ends.

        Returns:
            A line for each process that outlived its system and was killed.

        Raises:
            ValueError: the timeout is negative.
            KeyboardInterrupt: the user pressed Ctrl-C meanwhile. The system has ended, at once.
        """
        seconds = check_timeout(timeout, self._stay.patience, poll=True)
        finished = False
        try:
            if graceful:
                self._stay.finish(seconds)
                finished = True
        finally:  # after Ctrl-C at once
            survivors = self._stop(graceful=finished)
        return survivors

    def end(self) -> list[str]:
        """End the system, even if another program has started it, as `farref down` does. Blocks.

        That program, and all others in the system, get `SystemDownError` in their waits. Call it on
        the first host, or on any host if the system has a registry. It ends on all hosts.

        Returns:
            A line for each process that outlived the system and was killed, and one if a registry
            does not answer, in which case only this host has ended.

        Raises:
            ValueError: this program has joined from another host, and there is no registry.
        """
        if self.endpoint.core.settings.registry:
            self._stay.ends = True
        elif place := self._stay.place:
            raise ValueError(f"{place} is not the first host of {self.name!r}; end it there")
        self._stay.attached = False
        return self.shutdown(timeout=0)

    def _stop(self, *, graceful: bool) -> list[str]:
        """End now."""
        sessions.leave(self)
        if self._board is None:
            return self._stay.stop(graceful=graceful)
        self._board.ends = True
        try:
            return self._stay.stop(graceful=graceful)
        finally:
            self._board.wait()

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
        import asyncio  # noqa: PLC0415 - the running loop has loaded it

        await asyncio.to_thread(self.__exit__, *raised)


@contextlib.contextmanager
def _modules() -> Iterator[None]:
    """Load modules at their first use: for that a process may have no descriptor left."""
    try:
        yield
    except OSError as error:
        raise OverloadedError(f"cannot load a module: {error}{hint(error)}") from error


@contextlib.contextmanager
def _errors(what: str, kinds: tuple[type[Exception], ...] = (Exception,)) -> Iterator[None]:
    try:
        yield
    except SystemDownError:
        raise
    except kinds as error:
        pass_on(error)
        if isinstance(error, FarrefError) and kinds is LACKS:
            raise
        raise SystemDownError(f"{what}: {error}{hint(error)}") from error
