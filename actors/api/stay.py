"""The stay of a program in a system: it enters as an endpoint, and leaves.

To enter, a program on a new host has the host agent or the registrar proxy there join first. Then
it asks the registrar for an identity. To leave, it settles what it has promised, tells the
registrar, and ends the system if it has started it.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import logging
import os
import threading
import time
from _thread import RLock
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace
from thespian.actors import ActorAddress

from ...printable import logger
from ...protocol.errors import FarrefError, SystemDownError, VersionError
from ...protocol.ids import WorkerId, is_name
from ...protocol.messages import Cargo
from ...serialization.failures import details_of
from ..base import farewell
from ..base.interrupts import undisturbed
from ..cluster.registrar import REGISTRAR, Registrar
from ..core.current import found, leave_program
from ..core.notices import flush as flush_notices
from ..core.notices import notice
from ..hosting import bases, directory, processes, versions
from ..shells.endpoint import Endpoint
from ..shells.inbox import Unopened
from ..shells.program import ProgramPort, port_of
from ..wire.messages import (
    EndpointJoin,
    EndpointLeave,
    EndSystem,
    Establish,
    Joined,
    LeaveSystem,
    Open,
    Serve,
    Serving,
)
from ..wire.settings import DEFAULT_TIMEOUT, Settings
from . import electing
from .ending import Ending, named

T = TypeVar("T")

log = logger(__name__)

START_PATIENCE = 30.0
START_LOOK = 0.5
"""Seconds between two looks whether the system to attach to has ended."""
DRAIN = 2.0
"""Seconds for the last messages to arrive: a stopped actor acknowledges nothing."""
ALONE = "its other hosts may go on: the registrar, or the registry, did not answer"
"""The warning if a system with a registry was to end on all hosts."""
LEAVING = 3.0
"""Seconds in which a registrar may note that this host leaves."""
ENDING = 15.0
"""Seconds in which all hosts of a system with a registry may leave it, when it is ended."""
LEFT_LOOK = 0.1
"""Seconds between two checks that the registrar proxy, which is to report that its host has left,
is still alive."""
STOP_LOOK = 0.5
"""Seconds after which it is looked whether the processes of the system have ended."""
STOP_PATIENCE = 12.0
"""Seconds; Thespian's own shutdown gives up after 10."""


class Leaving:
    def __init__(self, graceful: bool) -> None:
        self.graceful = graceful
        self.lines: list[str] = []
        """One for each process that had to be killed, and maybe `ALONE`."""


class Stay:
    def __init__(
        self,
        asys: Any,
        settings: Settings,
        name: str | None,
        threads: int,
        place: str = "",
        *,
        entry: dict[str, Any] | None = None,
        attached: bool = False,
        ends: bool = False,
    ) -> None:
        """*name* and *threads* are those of the program; *place* is this host, if it joins.

        *entry* is that of the system in the directory, if the program found it there.
        """
        self._settings = settings
        self._asked_name = name
        self._entry = entry
        self._threads = threads
        self.asys = asys
        self.name = settings.system
        self.place = place
        self.attached = attached
        """Another program has started the system, or this host's part of it."""
        self.down = False
        """This program has left the system, or ended it, or does so now."""
        self._ending = RLock()
        """Held by the thread that leaves. Others wait: the system has ended when they return."""
        self.ends = ends
        """Whether a system with a registry ends on all hosts when this program leaves."""
        self.note: Path | None = None
        """The entry of this host, in the folder of running systems."""
        self.session = os.getsid(0)
        """The operating system's session of the system's processes on this host."""
        self.port: ProgramPort = port_of(asys)
        self._pid = os.getpid()
        self._registrar: ActorAddress | None = None
        """The registrar, once this program has asked it to join."""

    # ---- the beginning

    def enter(self, order: Establish | None) -> Endpoint:
        """Become an endpoint of the started Thespian system.

        *order* is for the registrar proxy of this host, if the registrar is elected.
        """
        try:
            self.port.start()
        except BaseException:  # no thread can be started
            self._end(Leaving(graceful=True))
            raise
        atexit.register(self._exit)
        try:
            return self._enter(order)
        except BaseException:
            self.stop(graceful=True)
            raise

    def _enter(self, order: Establish | None) -> Endpoint:
        place, settings = self.place, self._settings
        serving = self._serve(order) if place or order is not None else None
        registrar = (
            serving.registrar
            if serving is not None
            else self.asys.createActor(Registrar, globalName=REGISTRAR)
        )

        def hand(cargo: Cargo, sender: ActorAddress) -> None:
            self.port.inbox.put(Unopened(self.endpoint, cargo, sender))

        def become(joined: Joined) -> Endpoint:
            self.endpoint = Endpoint(
                joined.me, self.port, joined.settings, registrar, threads=self._threads, hand=hand
            )
            return self.endpoint

        self.port.become = become
        if serving is None and not self.attached:
            self.port.post(registrar, Open(settings, os.getpid()))
        me = WorkerId(self._asked_name or _program_name(place, attached=self.attached), 0)
        self._registrar = registrar
        beats = self.port.runs_by_itself
        self.port.post(
            registrar, EndpointJoin(me, os.getpid(), processes.host(), True, beats, place)
        )
        joined = self._await(self.port.joined)
        core = self.endpoint.core
        if serving is None:
            self.session = joined.session
        else:
            self.name = core.settings.system
            self.endpoint.deaths.live_with(serving.pids)
        if self.attached or place:  # the program chooses the timeout of its own waits
            core.settings = replace(core.settings, timeout=settings.timeout)
            self.endpoint.debugging.guest = True
        return self.endpoint

    def _serve(self, order: Establish | None) -> Serving:
        """Have the host agent, or the registrar proxy, of this host join.

        Returns once the registrar knows the host.
        """
        from ..cluster.host_agent import HOST_AGENT, HostAgent  # noqa: PLC0415 - few programs join

        agent = (
            self.asys.createActor(HostAgent, globalName=HOST_AGENT)
            if order is None
            else electing.registrar_proxy(self.asys)
        )
        self.port.post(agent, (versions.ASK, versions.mine()))
        versions.check(self._await(self.port.versions), "this host's part of the system")
        self.port.post(agent, Serve(os.getpid()) if order is None else order)
        serving = self._await(self.port.serving)
        self.session = serving.session
        self.attached = serving.owner != os.getpid()
        if serving.refused:
            raise (VersionError if serving.versions else SystemDownError)(serving.refused)
        return serving

    def _await(self, answer: concurrent.futures.Future[T]) -> T:
        end = time.monotonic() + START_PATIENCE
        while not self.port.wait(answer, START_LOOK):
            if self._entry is not None and not directory.still_has(self.name, self._entry):
                raise SystemDownError(f"system {self.name!r} has just ended")
            if time.monotonic() > end:
                raise SystemDownError(
                    f"system {self.name!r} did not answer in {START_PATIENCE:g} s; it is "
                    "overloaded, stopped, or has ended"
                )
        return answer.result(0)

    # ---- the end

    @property
    def patience(self) -> float:
        """The longest time of a wait, in seconds."""
        endpoint = self.port.endpoint
        return DEFAULT_TIMEOUT if endpoint is None else endpoint.core.settings.timeout

    def finish(self, seconds: float) -> None:
        """Wait at most *seconds* for the work that this program has asked for."""
        if seconds:
            self._wait_for_work(seconds, f"system {self.name!r} ends without {{}}")

    def _exit(self) -> None:
        """Leave at the program's exit, without its work: maybe an exception ends it."""
        self._wait_for_work(
            0.0,
            f"the program ends, and system {self.name!r} without {{}}; to wait for it, use `with "
            "System() as system:`, or call shutdown()",
        )
        self.stop(graceful=True)

    def _wait_for_work(self, seconds: float, otherwise: str) -> None:
        """Wait for the work. If it takes longer, warn by *otherwise*, a format that names it."""
        endpoint = self.port.endpoint
        if self.down or self._pid != os.getpid() or endpoint is None:
            return
        with contextlib.suppress(FarrefError):  # the system has ended otherwise
            left = Ending(endpoint, last=not self.attached).wait(seconds)
            if left:
                notice(log, logging.WARNING, otherwise.format(named(left)))

    def stop(self, *, graceful: bool) -> list[str]:
        """Leave now. Returns a line for each process that had to be killed, as `System.end`.

        If another thread does so already, wait until it has. Code that interrupts this thread in it
        (a signal handler, a finalizer) cannot wait, and returns at once.

        An interrupt, such as Ctrl-C, ends the waits in here, and the rest is not graceful: it takes
        no time, and nothing stays behind. Then the interrupt is raised.
        """
        if self._pid != os.getpid():
            return []  # a forked child inherits the system, and ends nothing when it exits
        with self._ending:
            if self.down:
                return []
            self.down = True
            leaving, interrupt = Leaving(graceful), None
            for each in (self._settle, self._close, self._depart, self._end):
                try:
                    each(leaving)
                except Exception as error:
                    log.error("system %r ends all the same:\n%s", self.name, details_of(error))
                except BaseException as error:
                    leaving.graceful, interrupt = False, error
            atexit.unregister(self._exit)  # last: an exit of the interpreter waits for this thread
        if interrupt is not None:
            raise interrupt
        return leaving.lines

    # Each step is left by an interrupt only where it waits, and the next one goes on.

    def _settle(self, leaving: Leaving) -> None:
        endpoint = self.port.endpoint
        self.port.inbox.wake()
        if leaving.graceful and endpoint is not None and not endpoint.core.closed:
            endpoint.core.do_soon()
            flush_notices()
            endpoint.drain()
            # Or the news of our end may overtake our messages.
            endpoint.delivery.flush(DRAIN)

    def _close(self, leaving: Leaving) -> None:
        endpoint = self.port.endpoint
        if endpoint is not None:
            leave_program(endpoint.core)
            with undisturbed:
                endpoint.close(f"system {self.name!r} was shut down")
            if leaving.graceful:
                endpoint.core.callbacks.finish()

    def _depart(self, leaving: Leaving) -> None:
        """Tell the registrar; with a registry of its own, this host leaves the system."""
        endpoint = self.port.endpoint
        patience = DRAIN if leaving.graceful and self.attached else 0.0
        try:
            if endpoint is not None:
                endpoint.registrar_client.leave_at_last(patience)
            elif self._registrar is not None:
                self.port.post(self._registrar, EndpointLeave(WorkerId(self.name, 0)))
            elected = endpoint is not None and endpoint.core.settings.registry
            if elected and not self.attached and self._registrar is not None:
                self.port.post(self._registrar, EndSystem() if self.ends else LeaveSystem())
                # In order, because another program may end the system, and then the registrar proxy
                # here may already be gone.
                in_order = endpoint is not None and endpoint.deaths.in_order
                left = self._has_left(ENDING if self.ends or in_order else LEAVING)
                if self.ends and not left and not in_order:
                    leaving.lines.append(ALONE)
        finally:
            self.port.stop()

    def _has_left(self, seconds: float) -> bool:
        """Whether the registrar proxy says within *seconds* that this host has left.

        Until then its processes are needed: the registrar of all may be one of them.
        """
        end = time.monotonic() + seconds
        while not (left := self.port.wait(self.port.left, LEFT_LOOK)):
            if time.monotonic() >= end or not processes.members(self.session):
                break
        return left

    def _end(self, leaving: Leaving) -> None:
        """End the processes of the system on this host, if this program has started them."""
        try:
            if self.attached:
                return
            if not self.place:
                directory.remove(self.name, session=self.session)
            if self.note is not None:
                self.note.unlink(missing_ok=True)
            patience = 0.0
            try:
                if leaving.graceful:
                    self._let_thespian_end()
                    patience = farewell.PATIENCE
            finally:
                leaving.lines[:0] = processes.end(self.session, patience=patience)
                bases.logs_end(self.asys)
        finally:
            self.port.end()

    def _let_thespian_end(self) -> None:
        # With a time limit: if an actor is stuck, or a child starts, Thespian's may hang.
        ending = threading.Thread(target=self._end_thespian, daemon=True)
        try:
            ending.start()
        except RuntimeError:  # there can be no more threads
            self._end_thespian()
            return
        now = time.monotonic()
        look, end = now + STOP_LOOK, now + STOP_PATIENCE
        while ending.is_alive() and (now := time.monotonic()) < end:
            ending.join(0.05)
            # Of two programs that end a system at once, Thespian answers one.
            if now > look and not processes.members(self.session):
                break

    def _end_thespian(self) -> None:
        with contextlib.suppress(Exception):
            self.asys.shutdown()


def check_program(name: str | None, threads: int) -> None:
    """Check the user's choices for the program's own endpoint, and that this is a program."""
    if name is not None and not is_name(name):
        raise ValueError(f"a program's name must be a non-empty text in UTF-8, not {name!r}")
    if threads < 1:
        raise ValueError(f"a program needs at least 1 thread, not {threads}")
    here = found()
    core = here.core if here is not None else None
    if core is not None and core.pid == os.getpid():
        raise SystemDownError(
            f"this code runs on {core.me} of system {core.settings.system!r}, and all that it "
            "calls goes there: it cannot enter another system. Call `farref.rpc_sync` and the "
            "others without one, or start the other system from a program of its own"
        )


def _program_name(place: str, *, attached: bool) -> str:
    if place:
        return f"program-{os.getpid()}@{place}"
    return f"program-{os.getpid()}" if attached else "program"
