"""The registrar: one plain actor per system, which knows its endpoints and reports deaths.

It learns of a death in three ways, and the first counts: the framework tells the parent of an
actor; a program's process is gone; or an endpoint has been silent for too long (see
`failure_detector`).

The registrar creates the workers. So it is their Thespian parent, and the framework tells it when
one exits. On other hosts a host agent does this. A host counts as gone, with every endpoint on it,
when its host agent leaves, when Thespian says so, or when the agent has been silent for too long.
The registrar holds no references, runs none of the user's code and has no threads (it forks), so it
always answers soon.

It also watches the admin and the process that started the system. If one of them is killed, nobody
is left to shut the system down. The registrar then ends every process of the system's session (the
admin is its leader), itself last, and removes the system's entry from the directory.

The death of the registrar or of the admin ends the system for every endpoint: endpoints on the same
host watch both processes, and the others expect an answer to each beat.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from thespian.actors import (
    Actor,
    ActorAddress,
    ActorExitRequest,
    ActorSystemConventionUpdate,
    ChildActorExited,
    WakeupMessage,
)

from ...printable import logger
from ...protocol.errors import ProtocolError
from ...protocol.ids import WorkerId
from ..base import lives, signals
from ..hosting import bases, directory, processes, simple, versions
from ..wire import messages as wire
from .failure_detector import ENDED, SILENT_TICKS
from .making import Maker
from .members import Creating, Host
from .membership import MembershipService
from .system_actor import SystemActor

log = logger(__name__)

REGISTRAR = "farref registrar"
"""The registrar's global name: any actor of the system can find it by this."""
WATCH = 0.5
"""The longest time between two checks of the watched processes, in seconds."""
DOUBT = 0.5
"""Seconds until a report that a host has left the convention is believed."""


class Registrar(MembershipService, SystemActor):
    """The registrar of a system that ends with its first host."""

    takes = wire.TO_REGISTRAR
    title = "the registrar"
    log = log

    def __init__(self) -> None:
        super().__init__()
        self._owner: lives.Watched | None = None
        self._opened = False
        self._early: list[tuple[wire.EndpointJoin, ActorAddress]] = []
        """The joins that came before `Open`."""
        self._ending = False
        """The system is orphaned, and the others have been told."""
        self._doubted: set[WorkerId] = set()
        """Hosts that have left, as Thespian says; it may take that back."""
        self._disowned: set[str] = set()
        """Addresses of hosts that Thespian was told to forget, until it confirms that."""
        self._maker = Maker(self)
        self._watching = False

    def send(self, address: ActorAddress, message: object) -> None:
        """Send *message* as Thespian does."""
        Actor.send(self, address, message)

    def _take(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case wire.Open():
                self._open(message)
            case wire.EndpointJoin():
                self._join(message, sender)
            case (versions.ASK, theirs):
                reason = versions.conflict(theirs, "the joining host")
                if reason:
                    log.warning("%s", reason)
                self.send(sender, (versions.TELL, versions.mine()))
            case wire.HostJoin():
                self._host_joins(message, sender)
            case wire.Heartbeat():
                self._heard(self._detector, message, sender)
            case wire.ProcessChecked(me=worker, running=running):
                if not running and worker in self._members:
                    self._silent(worker)
            case ChildActorExited(childAddress=address):
                self._exited(address, self._maker.cause(address))
            case ActorSystemConventionUpdate():
                self._convention(message)
            case WakeupMessage(payload=WorkerId(name=place) as worker):
                if worker in self._doubted:
                    self._host_gone(place, "it has left the convention")
            case WakeupMessage():
                self._watching = False
                self._check()
                self._watch()
            case ActorExitRequest():
                self._exit()
            case _:
                self.carry_out(message, sender)

    def _open(self, message: wire.Open) -> None:
        if self._opened:
            raise ProtocolError("a second Open of the same system")
        self._opened = True
        self._settings = message.settings
        self._detector.count_silence(self._settings.silence)
        self._owner = lives.Watched.of(message.pid)
        capabilities = bases.capabilities_of(self)
        self._here = wire.HostInfo(capabilities.get(bases.HOST, ""), dict(capabilities))
        if not simple.hosts(self):
            signals.die_of_faults()
            self._pids = (os.getpid(), os.getppid())
            self.take_beats()
        if self._here.address:
            self.notifyOnSystemRegistrationChanges(True)
        self._watch()
        early, self._early = self._early, []
        for join, sender in early:
            self._join(join, sender)

    def _exit(self) -> None:
        if self._orphaned():
            directory.remove(
                self._settings.system, session=processes.mine()[1]
            )  # the program could not
        if not self._ending:
            self._tell_others()
        self._owner = None

    def _orphaned(self) -> bool:
        """Whether the system's program, or its admin, was killed."""
        killed = self._owner is not None and not self._owner.alive()
        return killed or (bool(self._pids) and self._pids != (os.getpid(), os.getppid()))

    def _tell_others(self) -> None:
        """Tell those who cannot watch this process that the system ends.

        They are on other hosts, or in other namespaces of this one, such as a container.
        """
        orderly = not self._orphaned()
        reason = "it was shut down" if orderly else "its program, or its admin, was killed"
        members = self._members.values()
        afar = [each.address for each in members if not self.is_near(each.place, each.host)]
        for address in [*afar, *(host.agent for host in self._hosts.values())]:
            self.send(address, wire.Down(f"{reason} on its first host, {self._here}", orderly))

    # ---- the membership service, and Thespian's part of it

    def _join(self, message: wire.EndpointJoin, sender: ActorAddress) -> None:
        if self._opened:
            super()._join(message, sender)
        else:  # a program attaches to a system that is just being started
            self._early.append((message, sender))

    def _host_joins(self, message: wire.HostJoin, sender: ActorAddress) -> None:
        if not self._opened:
            raise ProtocolError("a HostJoin before the system is open")
        super()._host_joins(message, sender)

    def make_here(self, me: WorkerId, creating: Creating) -> None:
        order = creating.order
        # With one host, a system of the convention that is not farref's may fit, too.
        here = bool(self._hosts) or order.on is not None
        creating.address = self._maker.make(order.actor_class, order.requirements, here=here)
        how = order.threads, order.surroundings
        welcome = wire.Welcome(me, self.myAddress, self._settings, *how)
        self.send(creating.address, welcome)

    def _let_go(self, place: str, host: Host) -> None:
        if host.admin is not None and host.me not in self._doubted:
            self._disowned.add(place)
            self.deRegisterRemoteSystem(host.admin)  # else Thespian sends there for minutes
        self._doubted.discard(host.me)

    def _convention(self, message: ActorSystemConventionUpdate) -> None:
        capabilities = message.remoteCapabilities or {}
        place: str = capabilities.get(bases.HOST, "")
        disowned = not message.remoteAdded and place in self._disowned
        if disowned:  # it may have hit the host's next life, which has the same address
            self._disowned.remove(place)
        host = self._hosts.get(place)
        if host is None or host.me.incarnation != capabilities.get(bases.LIFE) or disowned:
            return
        if message.remoteAdded:
            host.admin = message.remoteAdminAddress
            self._doubted.discard(host.me)
        else:  # Thespian also says so just before it admits a known host again
            self._doubted.add(host.me)
            self.wakeupAfter(timedelta(seconds=DOUBT), payload=host.me)

    # ---- watching processes

    def _watch(self) -> None:
        if not self._watching and (self._owner or not self._detector.idle):
            self._watching = True
            silence = self._settings.silence
            pause = WATCH if silence is None or self._ending else silence / SILENT_TICKS
            self.wakeupAfter(timedelta(seconds=pause))

    def _check(self) -> None:
        self._compact()
        ended, silent = self._detector.tick()
        for worker in ended:
            self._gone(worker, cause=ENDED)
        for worker in silent:
            self._give_up(worker)
        if self._ending or (self._orphaned() and not self._hosts):
            directory.remove(self._settings.system, session=processes.mine()[1])
            processes.end_session()
        elif self._orphaned():
            self._ending = True
            self._tell_others()  # the messages take a moment

    def _give_up(self, worker: WorkerId) -> None:
        """*worker*, a host or an endpoint, was silent for too long."""
        for place, host in list(self._hosts.items()):
            if host.me == worker:
                self._host_gone(place, self._detector.silent(worker), "host.given_up")
                return
        member = self._members.get(worker)
        if member is None:
            return
        afar = self._hosts.get(member.place)
        if afar is None:
            self._silent(worker)
        else:  # perhaps it computes: the agent there checks its process
            self.send(afar.agent, wire.CheckProcess(worker, member.pid))
            self._detector.expect(worker)

    def _silent(self, worker: WorkerId) -> None:
        address = self._members[worker].address
        self._gone(worker, cause=self._detector.silent(worker), event="endpoint.given_up")
        self.send(address, wire.Died((worker,)))  # in case it comes back
