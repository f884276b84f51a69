"""The host agent: it acts for the registrar on a host that has joined.

On its own host the registrar creates the actors and sees their processes. On every other host the
host agent does both. It is a plain actor with a global name, and the parent of the workers there,
which are forked from it. In everything else the workers talk to the registrar directly.

The host agent stands for its host: it sends heartbeats like an endpoint, and after too long a
silence the host counts as gone, with every endpoint on it. It also watches the program that started
this host's part of the system, as the registrar does on the first host.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from thespian.actors import ActorAddress, ActorExitRequest, ChildActorExited, WakeupMessage

from ...printable import logger
from ...protocol.ids import WorkerId
from ..base import lives, signals
from ..hosting import bases, processes, versions
from ..wire import messages as wire
from .failure_detector import BEATS, missed
from .host_actor import HostActor
from .registrar import REGISTRAR, Registrar

log = logger(__name__)

HOST_AGENT = "farref host agent"
"""The global name of the host agent. Each Thespian system that has joined has one."""
AGAIN = 0.1
"""Seconds between two tries to join."""
ASK_AGAIN = 20
"""Tries after which the host agent looks for the registrar again."""
WATCH = 0.5
"""Seconds between two checks, if the system has no limit for silence."""


class HostAgent(HostActor):
    """Creates the workers of its host, and reports their ends to the registrar."""

    takes = wire.TO_HOST_AGENT
    log = log

    def __init__(self) -> None:
        super().__init__()
        self._registrar: ActorAddress | None = None
        self._tries = 0
        self._me = WorkerId("", 0)
        self._compared = False
        """The registrar has sent its versions."""
        self._versions = False
        """Whether a difference of versions is the reason why this host may not join."""
        self._joined = False
        self._lost = False
        """The system has ended, has given this host up, or cannot be reached; or the host has
        left."""
        self._ending = False
        """The host's program was killed, and the system has been told."""
        self._unheard = 0
        self._owner = 0

    @property
    def title(self) -> str:  # type: ignore[override]  # it has a name only once it serves
        """Its name in the log."""
        return f"the host agent of {self._me.name}"

    def _take(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case wire.Serve():
                self._serve(message, sender)
            case (versions.ASK, _):
                self.send(sender, (versions.TELL, versions.mine()))
            case (versions.TELL, theirs) if not self._compared:
                self._compared = True
                self._refused = versions.conflict(theirs, self._leader())
                self._versions = bool(self._refused)
                if self._refused:
                    self._lost = True
                    self._answer()
            case wire.HostJoined(settings=settings) if not self._joined:
                self._registrar = sender
                self._settings = settings
                self._joined = True
                self._unheard = 0
                self._answer()
            case wire.Make():
                self._obey(message, self._registrar)
            case ChildActorExited(childAddress=address):
                self._child_ended(address)
            case wire.CheckProcess(me=worker, pid=pid):
                process = lives.Watched.of(pid)
                self._say(wire.ProcessChecked(worker, process is not None and process.running()))
            case wire.Heard():
                self._unheard = 0
            case wire.Died(workers=workers):
                self._lost = self._lost or self._me in workers
            case wire.Down(reason=reason):
                self._lost = True
                if not self._joined and not self._refused:
                    self._refused = f"{self._leader()} cannot be joined so: {reason}"
                    self._answer()
            case WakeupMessage():
                self._tick()
            case ActorExitRequest():
                self._program = None
                self._leave()
            case _:
                pass

    def _serve(self, message: wire.Serve, sender: ActorAddress) -> None:
        if not self._owner:
            signals.die_of_faults()
            self._owner = message.pid
            self._program = lives.Watched.of(message.pid)
            capabilities = bases.capabilities_of(self)
            self._me = WorkerId(capabilities[bases.HOST], capabilities[bases.LIFE])
            self._tick()
        self._asking.append(sender)
        if self._joined or self._refused:
            self._answer()

    def _answer(self) -> None:
        self._answer_all(self._registrar, self._owner, versions=self._versions)

    def _leader(self) -> str:
        return f"the system at {bases.capabilities_of(self)[bases.CONVENTION]}"

    def _say(self, message: object) -> None:
        self.send(self._registrar, message)

    def _leave(self) -> None:
        """Tell the system that this host is gone, unless it is lost or knows that."""
        if self._registrar is not None and not self._lost:
            self._lost = True
            self._say(wire.EndpointLeave(self._me))

    def _tick(self) -> None:
        """Beat; check that the registrar is heard of and that the program lives."""
        if self._ending:
            processes.end_session()
        silence = self._settings.silence
        if self._refused:
            return
        if not self._joined:
            if self._tries % ASK_AGAIN == 0:
                self._registrar = bases.of_the_system(self, Registrar, REGISTRAR)
            self._tries += 1
            capabilities = dict(bases.capabilities_of(self))
            if self._compared:
                self._say(wire.HostJoin(self._me, wire.HostInfo(self._me.name, capabilities)))
            else:
                self._say((versions.ASK, versions.mine()))
        elif silence is not None and not self._lost:
            self._unheard += 1
            self._say(wire.Heartbeat(self._me, answer=True))
            if self._unheard > BEATS + missed(silence / BEATS):
                self._leave()  # the message may still get through
        if self._program is not None and not self._program.alive():
            self._ending = True
            self._leave()  # the message takes a moment
        pause = WATCH if silence is None or self._ending else silence / BEATS
        if not self._joined:
            pause = AGAIN
        self.wakeupAfter(timedelta(seconds=pause))
