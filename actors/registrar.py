"""The registrar: one plain actor per system that knows its endpoints and tells of deaths.

It hears of a death in three ways, whichever is first: the framework tells the parent of an
actor; a program's process is gone; or nothing is heard of an endpoint any more. Silence alone
proves nothing of a process on this host, which may just be computing and not let its other
threads run; so there it must be stopped, or gone, too. On another host there is only silence.

It creates the workers, so it is their Thespian parent and the framework tells it when one
exits. It holds no references, runs nothing of the user's and has no threads (it forks), so
it always answers soon.

It also watches the process that the system lives for, and the admin. If one of them is killed,
nobody is left to shut the system down: the registrar then ends every process of the system's
session (the admin is its leader), itself last, and takes the system's entry out of the directory.

Its own death, and the admin's, end the system for every endpoint: those on its host watch both
processes, others expect an answer to each beat.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
import traceback
import types
from collections import deque
from datetime import timedelta
from typing import Any

import cloudpickle
from thespian.actors import (
    Actor,
    ActorAddress,
    ActorExitRequest,
    ChildActorExited,
    WakeupMessage,
)

from ..protocol.errors import ProtocolError
from ..protocol.ids import WorkerId
from ..protocol.liveness import Liveness
from ..serialization.failures import text_of
from . import directory, processes, simple
from .settings import Settings
from .wire import (
    TO_REGISTRAR,
    Beat,
    Died,
    Exited,
    Found,
    Heard,
    Join,
    Joined,
    Leave,
    Lookup,
    Open,
    Spawn,
    Spawned,
    Welcome,
    WorkerInfo,
    check_wire,
)

log = logging.getLogger("farref")

REGISTRAR = "farref registrar"
"""The registrar's global name, by which any actor of the system can find it."""
WATCH = 0.5
"""Seconds between two looks at what is watched, at most."""
SILENT_TURNS = 10
"""Looks without a word of an endpoint after which it is given up."""
REMEMBERED = 10_000
"""Deaths that late joiners are told of."""


def make_findable(actor_class: type) -> type:
    """Have the child that Thespian forks find *actor_class*, which it looks up by its name.

    A class of a function, of a notebook, or defined since the system started is in no module
    of this process; the child inherits the modules as they are now.
    """
    name = actor_class.__module__
    module = sys.modules.setdefault(name, types.ModuleType(name))
    if getattr(module, actor_class.__name__, None) is not actor_class:
        setattr(module, actor_class.__name__, actor_class)
    return actor_class


class Registrar(Actor):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self._settings = Settings()
        self._owner: processes.Watched | None = None
        self._opened = False
        self._workers: dict[WorkerId, ActorAddress] = {}
        self._programs: dict[WorkerId, processes.Watched] = {}
        self._dead: deque[WorkerId] = deque(maxlen=REMEMBERED)
        self._dead_addresses: deque[ActorAddress] = deque(maxlen=REMEMBERED)
        self._creating: dict[WorkerId, tuple[ActorAddress, int, ActorAddress]] = {}
        """Actors that have not joined yet: their address, the asker's token, the asker."""
        self._watching = False
        self._host = processes.host()
        self._pids: tuple[int, ...] = ()
        """Of this process and the admin's, its parent; none on the in-process base."""
        self._liveness: Liveness | None = None
        self._processes: dict[WorkerId, processes.Watched] = {}
        """Of endpoints on this host."""

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        """Handle one message; an exception here would only make the framework repeat it."""
        try:
            if isinstance(message, TO_REGISTRAR):
                check_wire(message)
            self._take(message, sender)
        except ProtocolError as error:
            log.warning("the registrar refused %s", text_of(error))
        except Exception:
            # As text: a log record that is kept would pin what is in the frames.
            name, text = type(message).__name__, traceback.format_exc()
            log.error("the registrar failed on %s:\n%s", name, text)  # noqa: TRY400

    def _take(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case Open(settings=settings, pid=pid):
                if self._opened:
                    raise ProtocolError("an Open of a system that its program opened already")
                self._opened = True
                if not simple.hosts(self):
                    self._pids = (os.getpid(), os.getppid())
                self._settings = settings
                if settings.silence is not None:
                    self._liveness = Liveness(SILENT_TURNS)
                self._owner = processes.Watched.of(pid)
                self._watch()
            case Join():
                self._join(message, sender)
            case Beat(me=worker, answer=answer):
                if self._liveness and not self._liveness.heard(worker):
                    self.send(sender, Died((worker,)))  # it was given up, and has come back
                elif answer:
                    self.send(sender, Heard())
            case Leave(me=worker):
                self._gone(worker)
            case Lookup():
                self.send(sender, self._look_up(message))
            case Spawn():
                self._spawn(message, sender)
            case Exited(address=address) | ChildActorExited(childAddress=address):
                self._exited(address)
            case WakeupMessage():
                self._watching = False
                self._check()
                self._watch()
            case ActorExitRequest():
                if self._owner is not None and not self._owner.alive():
                    directory.remove(self._settings.system)  # the program could not
                self._owner = None
            case _:
                pass

    def _join(self, message: Join, sender: ActorAddress) -> None:
        known = self._workers.setdefault(message.me, sender)
        if known != sender:
            raise ProtocolError(f"a Join of {message.me}, which lives at another address")
        watched = processes.Watched.of(message.pid) if message.host == self._host else None
        if watched is not None:
            self._processes[message.me] = watched
            if message.program:
                self._programs[message.me] = watched
        if self._liveness and message.beats:
            self._liveness.watch(message.me)
        self._watch()
        dead, session = tuple(self._dead), os.getsid(0)
        self.send(sender, Joined(sender, self._settings, dead, session, self._host, self._pids))
        created = self._creating.pop(message.me, None)
        if created is not None:
            _, token, asker = created
            self.send(asker, Spawned(token, WorkerInfo(message.me, sender)))

    def _look_up(self, message: Lookup) -> Found:
        infos = [WorkerInfo(worker, address) for worker, address in self._workers.items()]
        dead = False
        if message.name is not None:
            infos = [info for info in infos if info.name == message.name]
            dead = any(worker.name == message.name for worker in self._dead)
        elif message.address is not None:
            infos = [info for info in infos if info.address == message.address]
            dead = not infos and any(a == message.address for a in self._dead_addresses)
        return Found(message.token, tuple(infos), dead)

    def _spawn(self, message: Spawn, sender: ActorAddress) -> None:
        taken = {worker.name for worker in (*self._workers, *self._creating)}
        if message.name in taken:
            reason = f"the name {message.name!r} is taken in this system; choose another"
            self.send(sender, Spawned(message.token, None, reason))
            return
        me = WorkerId(message.name, secrets.randbits(63))
        try:
            actor_class = make_findable(cloudpickle.loads(message.actor_class))
            address = self.createActor(actor_class, message.requirements)
        except (Exception, SystemExit) as error:  # what it unpickles may do anything
            reason = f"{type(error).__name__}: {text_of(error)}"
            self.send(sender, Spawned(message.token, None, reason))
            return
        self._creating[me] = (address, message.token, sender)
        self.send(address, Welcome(me, self.myAddress, self._settings, message.threads))

    def _exited(self, address: ActorAddress) -> None:
        for worker, (created, token, asker) in list(self._creating.items()):
            if created == address:
                del self._creating[worker]
                reason = "it exited before it had started (see the log), or no system fits it"
                self.send(asker, Spawned(token, None, reason))
        for worker, known in list(self._workers.items()):
            if known == address:
                self._gone(worker)

    def _gone(self, worker: WorkerId) -> None:
        address = self._workers.pop(worker, None)
        self._programs.pop(worker, None)
        self._processes.pop(worker, None)
        if self._liveness:
            self._liveness.forget(worker)
        if address is None:
            return
        self._dead.append(worker)
        self._dead_addresses.append(address)
        for other in self._workers.values():
            self.send(other, Died((worker,)))

    # ---- watching processes

    def _watch(self) -> None:
        if not self._watching and (self._owner or self._programs or self._liveness):
            self._watching = True
            silence = self._settings.silence
            pause = WATCH if silence is None else silence / SILENT_TURNS
            self.wakeupAfter(timedelta(seconds=pause))

    def _check(self) -> None:
        for worker, watched in list(self._programs.items()):
            if not watched.alive():
                self._gone(worker)
        for worker in self._liveness.turn() if self._liveness else ():
            self._give_up(worker)
        killed = self._owner is not None and not self._owner.alive()
        if killed or (self._pids and self._pids != (os.getpid(), os.getppid())):  # or the admin
            directory.remove(self._settings.system)
            processes.end_session()

    def _give_up(self, worker: WorkerId) -> None:
        """Nothing was heard of *worker* for so long that it counts as dead."""
        process = self._processes.get(worker)
        if process is not None and process.running() and self._liveness:
            self._liveness.watch(worker)  # it computes, and will be heard of
            return
        log.warning(
            "%s was silent for %g s and is given up for dead", worker, self._settings.silence
        )
        address = self._workers.get(worker)
        self._gone(worker)
        if address is not None:
            self.send(address, Died((worker,)))  # for when it comes back
