"""The registrar proxy: it stands in for the registrar on each host of a system with a store.

Only a system that survives the loss of any host has proxies (see `etcd`). A proxy has the global
name of the registrar on its host, so the endpoints there talk to it as they would to a registrar.
It creates the workers of the host and watches its processes, as a host agent does, and forwards
everything else to the registrar, wherever that is (`forwarder`). So the endpoints go on when the
host of the registrar dies, and need not even know of it.

The end of the proxy is the end of its host: every endpoint there watches its process. The proxy
sends the beats of the host to the registrar. When no answer comes, it has the candidate of its host
look for another registrar. When it finds none at all for a long time, its host is cut off from the
system, and ends.
"""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any

from msgspec.structs import replace
from thespian.actors import ActorAddress, ActorExitRequest, ChildActorExited, WakeupMessage

from ...printable import logger
from ...protocol.errors import ProtocolError
from ...protocol.ids import WorkerId
from ..base import lives, signals
from ..hosting import bases, directory, processes, versions
from ..wire import messages as wire
from .candidate import Candidate
from .failure_detector import ENDED, SILENT_TICKS, FailureDetector
from .forwarder import LOST, Forwarder
from .host_actor import HostActor

log = logger(__name__)

SEARCH = 25.0
"""Seconds in which this host has to join. The program that waits for it has a little longer."""
DEFAULT_SILENCE = 5.0
"""Seconds, for the lease and the beats of a system that has no limit for silence."""


class RegistrarProxy(HostActor):
    """The registrar for the endpoints of its host."""

    takes = wire.TO_REGISTRAR_PROXY
    title = "the registrar proxy"
    log = log

    def __init__(self) -> None:
        super().__init__()
        self._order = wire.Establish("", "", 0)
        self._forwarder = Forwarder(WorkerId("", 0), wire.HostInfo("", {}))
        """Of this host, once it has the order to be part of a system."""
        self._candidate: ActorAddress | None = None
        self._joins: list[tuple[ActorAddress, wire.EndpointJoin]] = []
        """Endpoints that have no answer yet."""
        self._near: dict[WorkerId, ActorAddress] = {}
        """The endpoints of this host."""
        self._detector = FailureDetector()
        self._wrong = ""
        """The last problem that the candidate has reported."""
        self._sought = 0.0
        """Seconds that this host has looked for a registrar."""
        self._leaving: ActorAddress | None = None
        """The program that waits until this host has left."""
        self._ender: ActorAddress | None = None
        """The program that waits until the system has ended here."""
        self._down = False
        """The system ends in order, on all hosts."""
        self._ending = False

    def _take(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case wire.Establish():
                self._establish(message, sender)
            case (versions.ASK, _):
                self.send(sender, (versions.TELL, versions.mine()))
            case wire.Meet(refused=refused) if refused:
                self._wrong = refused
                if not self._forwarder.joined:
                    self._refuse(refused)
            case wire.Meet(term=term, registrar=registrar):
                self._hear(wire.Deliver(term, (), None, wire.Heard()), registrar)
            case wire.NoStore(why=why):
                self._wrong = why
            case wire.Deliver():
                wire.check_wire(message.message)
                self._hear(message, sender)
            case wire.Heartbeat():
                self._heard(self._detector, message, sender)
            case wire.EndpointJoin():
                self._joins.append((sender, message))
                self._ask(replace(message, place=self._forwarder.info.address), sender)
            case (
                wire.EndpointLeave()
                | wire.Settled()
                | wire.Lookup()
                | wire.Spawn()
                | wire.AllocateId()
                | wire.Exited()
            ):
                self._ask(message, sender)
            case ChildActorExited(childAddress=address):
                self._exited(address)
            case WakeupMessage():
                self._tick()
            case wire.LeaveSystem():
                self._leave(sender)
            case wire.EndSystem():
                self._end(sender)
            case wire.HostJoin():  # by a host agent, as in a system without a registry
                there = f"{self._order.registry}/{self._settings.system}"
                self.send(
                    sender, wire.Down(f"it has a registry: join it by {there!r}", orderly=False)
                )
            case wire.Resign():
                self._left()
            case ActorExitRequest():
                self._program = None
            case _:
                pass

    # ---- the host

    def _establish(self, order: wire.Establish, program: ActorAddress) -> None:
        self._asking.append(program)
        if not self._order.system:
            signals.die_of_faults()
            self.take_beats()
            self._order = order
            if order.settings is not None:
                self._settings = order.settings
            self._program = lives.Watched.of(order.pid)
            capabilities = dict(bases.capabilities_of(self))
            me = WorkerId(capabilities[bases.HOST], secrets.randbits(62))
            self._forwarder = Forwarder(me, wire.HostInfo(me.name, capabilities))
            self._employ()
            self._tick()
        if self._forwarder.joined or self._refused:
            self._answer()

    def _employ(self) -> None:
        """Create the candidate of this host."""
        self._candidate = self.createActor(Candidate)
        self._apply()

    def _apply(self) -> None:
        order = self._order
        settings = self._settings if self._forwarder.joined or order.settings else None
        self.send(
            self._candidate, wire.Candidacy(order.system, order.registry, self._seconds, settings)
        )

    @property
    def _seconds(self) -> float:
        return self._settings.silence or DEFAULT_SILENCE

    def _answer(self) -> None:
        self._answer_all(self.myAddress, self._order.pid)

    # ---- the registrar

    def _ask(self, message: object, sender: ActorAddress) -> None:
        if not self._order.system:
            raise ProtocolError("this host has no part of a system yet")
        for to, each in self._forwarder.ask(message, sender):
            self.send(to, each)

    def _say(self, message: object) -> None:
        self._ask(message, self.myAddress)

    def _hear(self, message: wire.Deliver, registrar: ActorAddress) -> None:
        forwarder = self._forwarder
        if not self._order.system or not forwarder.line.believes(message.term):
            return
        if isinstance(message.message, wire.Heard | wire.HostJoined) and forwarder.doubts:
            self.send(self._candidate, wire.Doubt(message.term, heard=True))
        self._wrong = ""
        for to, each in forwarder.take(message, registrar):
            if isinstance(each, wire.Joined):
                self._joined(each)
            elif to is None:
                self._for_me(each)
            else:
                self.send(to, each)
        if isinstance(message.message, wire.Died):
            for worker in message.message.workers:
                self._near.pop(worker, None)
                self._detector.forget(worker)

    def _for_me(self, message: Any) -> None:
        match message:
            case wire.HostJoined(settings=settings):
                order = self._order
                if order.settings is not None and settings != order.settings:
                    self._say(wire.EndpointLeave(self._forwarder.me))
                    self._refuse(
                        f"system {settings.system!r} runs already, with other settings; join it "
                        f"by System.join('{order.registry}/{order.system}')"
                    )
                    return
                self._settings = settings
                self._detector.count_silence(settings.silence)
                self._apply()
                self._answer()
            case wire.Make():
                self._obey(message, self.myAddress)
            case wire.Down():
                self._go_down(message)
            case wire.Died(cause=cause):
                if self._leaving is not None or self._down:
                    self.send(self._candidate, wire.Resign())
                elif not self._forwarder.joined:
                    self._refuse(cause)
                else:
                    self._lose(cause or "it was silent for too long, and is given up")

    def _joined(self, joined: wire.Joined) -> None:
        join = next((j for a, j in self._joins if a == joined.address), None)
        self._joins = [(a, j) for a, j in self._joins if a != joined.address]
        if join is not None:
            self._near[joined.me] = joined.address
            self._detector.watch(joined.me, join.pid, program=join.program, beats=join.beats)
        pids, session = processes.mine()
        self.send(joined.address, replace(joined, session=session, pids=pids, answered=False))

    def _exited(self, address: ActorAddress) -> None:
        if address == self._candidate:
            if self._leaving is not None or self._down:
                self._left()
                return
            if self._forwarder.lost:
                return
            log.warning("the candidate of this host has ended, and is replaced")
            self._employ()
            return
        self._child_ended(address)

    def _refuse(self, reason: str) -> None:
        """This host cannot be part of the system."""
        self._refused = reason
        self._forwarder.lost = True
        self._answer()

    # ---- ticks

    def _tick(self) -> None:
        if self._ending:
            processes.end_session()
        forwarder = self._forwarder
        if not forwarder.lost:
            self._look()
            due = forwarder.tick()
            if due.beat:
                self.send(forwarder.line.registrar, wire.Heartbeat(forwarder.me, answer=True))
            if due.doubt:
                self.send(self._candidate, wire.Doubt(forwarder.line.term, heard=False))
            self._sought += self._seconds / SILENT_TICKS
            if due.lost:
                self._lose(self._unheard(self._seconds * LOST / SILENT_TICKS))
            elif not forwarder.joined and self._sought > SEARCH:
                self._refuse(self._unheard(SEARCH))
        if self._program is not None and not self._program.alive():
            self._program = None
            self._lose("its program was killed")
        self.wakeupAfter(timedelta(seconds=self._seconds / SILENT_TICKS))

    def _unheard(self, seconds: float) -> str:
        why = f"nothing was heard of any registrar for {seconds:g} s"
        return f"{why}; {self._wrong}" if self._wrong else why

    def _look(self) -> None:
        """Report endpoints of this host that are dead, or silent and stopped."""
        ended, silent = self._detector.tick()
        for worker in ended:
            self._near.pop(worker)
            self._detector.forget(worker)
            self._say(wire.Unmade(worker, ENDED))
        for worker in silent:
            self._say(wire.Unmade(worker, self._detector.silent(worker)))
            self.send(self._near[worker], wire.Died((worker,)))  # in case it comes back

    # ---- the end

    def _lose(self, why: str) -> None:
        """End this host's part of the system: its endpoints, and then its processes."""
        self._forwarder.lost = True
        self._ending = True
        reason = f"its host {self._forwarder.info.address} is cut off: {why}"
        for near in self._near.values():
            self.send(near, wire.Down(reason, orderly=False))
        directory.remove(self._settings.system, session=processes.mine()[1])

    def _leave(self, program: ActorAddress) -> None:
        """Leave in order: the registrar knows it before the processes end."""
        self._leaving = program
        if self._down and not self._ending:
            return  # it leaves already
        forwarder = self._forwarder
        if not forwarder.joined or forwarder.lost:
            self._left()
            return
        self._say(wire.EndpointLeave(forwarder.me))

    def _left(self) -> None:
        for program in (self._leaving, self._ender):
            if program is not None:
                self.send(program, wire.LeaveSystem())
        self._ending = self._ending or self._down

    def _end(self, program: ActorAddress) -> None:
        """Have the registrar end the system, on all hosts."""
        self._ender = program
        if self._forwarder.joined and not self._forwarder.lost:
            self._say(wire.EndSystem())
        else:
            self._left()

    def _go_down(self, down: wire.Down) -> None:
        """The system ends, in order. This host leaves; the registrar's own is the last."""
        if self._down:
            return
        self._down = True
        for near in self._near.values():
            self.send(near, down)
        directory.remove(self._settings.system, session=processes.mine()[1])
        self._say(wire.EndpointLeave(self._forwarder.me))
