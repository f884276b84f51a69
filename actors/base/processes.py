"""The main functions of a system's processes: admin, logger, actors.

They follow ``startAdmin``, ``_startLogger`` and ``startChild`` of Thespian's ``multiprocCommon``,
with our managers and these differences:

- the sockets exist before the process does;
- the admin first forks its reaper;
- a process that ends closes its transport, which acknowledges the handled messages and removes its
  socket;
- a child ends at once if its parent is gone when it starts.
"""

# ruff: noqa: N803, PLR0917 (Thespian chose the names and the order of arguments)

from __future__ import annotations

import gc
import os
import signal
from datetime import timedelta
from functools import partial
from multiprocessing import current_process
from typing import Any, Final

from . import farewell, reaper, rundir, signals, titles
from ._thespian import (
    ActorAddress,
    ActorLocalAddress,
    ChildInfo,
    EndpointConnected,
    LoggerExitRequest,
    RunExpired,
    TransmitIntent,
    child_exit_signals,
    exit_signals,
    shutdown_signal_detector,
    signal_admin_sts,
    signal_detector,
    startupASLogger,
    thesplog,
    uncatchable_signals,
)
from .endpoints import ChildInit
from .logs import adopt as adopt_loggers
from .logs import begin as begin_logging
from .logs import begin_anew
from .managers import Admin, Manager
from .transport import Transport

QUIET: Final = timedelta(seconds=0.05)
"""The logger ends when it was told to, and no record has come for so long."""


def _begin() -> None:
    # Objects inherited by fork are never collected here, and each pass would copy all their pages.
    gc.freeze()
    signals.begin_anew()
    farewell.begin()


def start_admin(
    endpoint: ChildInit,
    starter: ActorAddress,
    starter_pid: int,
    capabilities: dict[str, Any],
    log_defs: object,
    context: object,
) -> None:
    """Become the admin: a daemon in a session of its own, with a reaper."""
    os.setsid()  # all processes of the system share this session; see the reaper
    settings, (said, saying) = endpoint.settings, os.pipe()
    try:
        if os.fork():
            os.close(saying)
            os._exit(ord(os.read(said, 1) or b"\1"))  # the program tells this reason
        _begin()
        titles.name_process("admin")
        reaper.start(settings, starter_pid)
        rundir.declare_alive(settings.directory, settings.system_id, settings.name)
        os.write(saying, b"\0")
    except OSError as error:
        os.write(saying, bytes([error.errno or 1]))
        os._exit(error.errno or 1)
    os.close(said)
    os.close(saying)
    transport = Transport(endpoint)
    try:
        begin_anew()
        admin = Admin(transport, endpoint.admin, capabilities, log_defs, context)
        admin.actor_main = start_actor
        admin.addrOfStarter = starter
        for number in child_exit_signals:
            signal.signal(number, admin.signalChildDied)
        signal.signal(signal.SIGUSR1, signal_admin_sts(admin))
        prepare_logger(admin)
        adopt_loggers()  # it has made a new root, which sends to the logger process
        transport.enableRXPauseFlowControl(False)
        admin.run()
    finally:
        transport.close()


def prepare_logger(admin: Admin) -> None:
    """Prepare the process that writes the system's log, which starts with the first record.

    If it is killed, the next record starts it anew, at the same address.
    """
    transport = admin.transport
    # Not through the address manager: the logger is no child like others.
    address = ActorAddress(ActorLocalAddress(transport.myAddress, -1, None))
    endpoint = transport.prepEndpoint(address, admin.capabilities)

    def start() -> None:
        process = admin.mpcontext.Process(
            target=run_logger,
            args=(transport.myAddress, endpoint, admin.logdefs, _log_aggregator(admin)),
            name="logger",
            daemon=True,
        )
        process.start()
        admin.asLogProc = ChildInfo(address, "logger", process, endpoint.addrInst)

    admin.log_to(ActorAddress(endpoint.sockets.address), transport.when_dialled(endpoint, start))


def _log_aggregator(admin: Admin) -> ActorAddress | None:
    """The convention's leader, which gets a copy of each warning; None if that is this host."""
    transport = admin.transport
    try:
        leaders = transport.getConventionAddress(admin.capabilities)
    except Exception as error:
        thesplog("cannot use log aggregator: %s", error, level=30)
        return None
    if not leaders or leaders[0] == transport.myAddress:
        return None
    return leaders[0]


class LoggerTransport(Transport):
    """Delivers the order to end last, after all records."""

    _end: Any = None

    def run(self, handler: Any, maximumDuration: Any = None) -> Any:
        """Wait for the next message.  The order to end may overtake the records of others."""
        if self._end is None:
            found = super().run(handler, maximumDuration)
            if not isinstance(getattr(found, "message", None), LoggerExitRequest):
                return found
            self._end = found
        found = super().run(handler, QUIET)
        return self._end if isinstance(found, RunExpired) else found


def run_logger(
    admin: ActorAddress, endpoint: ChildInit, log_defs: object, aggregator: ActorAddress | None
) -> None:
    """Write the log until told to exit."""
    _begin()
    titles.name_process("logger")
    current_process().name = "logger"
    made: list[LoggerTransport] = []

    def make_transport(init: ChildInit) -> LoggerTransport:
        made.append(LoggerTransport(init))
        return made[-1]

    try:
        startupASLogger(admin, endpoint, log_defs, make_transport, aggregator)
    finally:
        for transport in made:
            transport.close()


def start_actor(
    actor_class: str,
    global_name: str | None,
    endpoint: ChildInit,
    source_hash: str | None,
    source: object,
    parent: ActorAddress,
    admin: ActorAddress,
    notify: ActorAddress,
    logger: ActorAddress,
    requirements: object,
    capabilities: dict[str, Any],
    context: object,
    log_defs: object,
) -> None:
    """Become an actor, until it exits."""
    _begin()
    transport = Transport(endpoint)
    try:
        begin_logging(log_defs, logger, transport)
        manager = Manager(
            actor_class,
            global_name,
            transport,
            source_hash,
            source,
            parent,
            admin,
            requirements,
            capabilities,
            context,
            log_defs,
        )
        farewell.held.append(partial(setattr, manager, "actorInst", None))
        manager.actor_main = start_actor
        manager.asLogger = logger

        def orphaned(_status: object, _intent: object) -> None:
            manager._exiting = True
            transport.abort_run()

        transport.scheduleTransmit(
            None, TransmitIntent(notify, EndpointConnected(endpoint.addrInst), onError=orphaned)
        )
        name = actor_class.rpartition(".")[2]
        titles.name_process(name)
        current_process().name = name  # log records have it
        _catch_signals(name, manager)
        manager.run()
    finally:
        transport.close()


def _catch_signals(name: str, manager: Manager) -> None:
    address = manager.myAddress
    note = signal_detector(name, address, manager)
    leave = shutdown_signal_detector(name, address, manager)
    for number in range(1, signal.NSIG):
        if number in uncatchable_signals:
            continue
        if number in child_exit_signals:
            signal.signal(number, manager.signalChildDied)
            continue
        try:
            signal.signal(number, leave if number in exit_signals else note)
        except (OSError, ValueError, RuntimeError):
            continue  # reserved on this system
