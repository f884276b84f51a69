"""The registrar: one plain actor per system, which knows its endpoints and reports deaths.

It learns of a death in three ways, and the first counts: the framework tells the parent of an
actor; a program's process is gone; or an endpoint has been silent for too long. Silence alone
proves nothing: a process may be computing and not let its other threads run. So the process must
also be stopped, or gone. On another host the steward checks that.

The registrar creates the workers. So it is their Thespian parent, and the framework tells it when
one exits. On other hosts a steward does this. When a host is gone, every endpoint on it is: when
its steward leaves, when Thespian says so, or when the steward has been silent for too long. The
registrar holds no references, runs none of the user's code and has no threads (it forks), so it
always answers soon.

It also watches the admin and the process that started the system. If one of them is killed, nobody
is left to shut the system down. The registrar then ends every process of the system's session (the
admin is its leader), itself last, and removes the system's entry from the directory.

The death of the registrar or of the admin ends the system for every endpoint: endpoints on the same
host watch both processes, and the others expect an answer to each beat.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections import deque
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

from ...protocol.dead import Dead
from ...protocol.errors import ProtocolError
from ...protocol.ids import WorkerId
from ...protocol.liveness import Liveness
from ...serialization.failures import details_of
from ..base import signals
from ..hosting import bases, directory, events, processes, simple, versions
from ..hosting.children import LEFT, ORDERLY
from ..wire.messages import (
    TO_REGISTRAR,
    AllSettled,
    CheckProcess,
    Died,
    Down,
    EndpointJoin,
    EndpointLeave,
    Exited,
    Found,
    Heard,
    Heartbeat,
    HostInfo,
    HostJoin,
    HostJoined,
    Joined,
    Lookup,
    Make,
    Mint,
    Minted,
    Open,
    ProcessChecked,
    Settled,
    Spawn,
    Spawned,
    Unmade,
    Welcome,
    WorkerInfo,
    check_wire,
)
from ..wire.settings import Settings
from .agreement import Agreement
from .making import Maker, UnfitError, UnmadeError
from .members import Creating, Host, RegisteredEndpoint

log = logging.getLogger(__name__)
INFO, WARNING = logging.INFO, logging.WARNING

REGISTRAR = "farref registrar"
"""The registrar's global name: any actor of the system can find it by this."""
WATCH = 0.5
"""The longest time between two checks of the watched processes, in seconds."""
SILENT_TURNS = 10
"""Checks after which a silent endpoint is given up."""
DOUBT = 0.5
"""Seconds until a report that a host has left the convention is believed."""
REMEMBERED = 1_000
"""Names and addresses of dead endpoints to keep: a lookup then says "died", not "unknown"."""


class Registrar(Actor):
    """Knows every endpoint of the system by its name, and reports each death to all."""

    def __init__(self) -> None:
        super().__init__()
        self._settings = Settings()
        self._owner: processes.Watched | None = None
        self._opened = False
        self._early: list[tuple[EndpointJoin, ActorAddress]] = []
        """The joins that came before `Open`."""
        self._ending = False
        """The system is orphaned, and the others have been told."""
        self._members: dict[WorkerId, RegisteredEndpoint] = {}
        self._here = HostInfo("", {})
        self._hosts: dict[str, Host] = {}
        """The other hosts, by their addresses."""
        self._doubted: set[WorkerId] = set()
        """Hosts that have left, as Thespian says; it may take that back."""
        self._disowned: set[str] = set()
        """Addresses of hosts that Thespian was told to forget, until it confirms that."""
        self._next = secrets.randbits(62)
        """The number of the next endpoint. Other systems use other numbers (see `ids`)."""
        self._numbered: dict[WorkerId, WorkerId] = {}
        """Actors with a number that have not joined, and the creator of each."""
        self._dead = Dead()
        """All dead endpoints but the dying: these died so recently that some endpoints may not have
        buried them."""
        self._dying: dict[WorkerId, None] = {}
        self._buried_at = 0.0
        """The time when every endpoint will have buried the dying."""
        self._agreement = Agreement()
        self._remembered: deque[tuple[str, ActorAddress]] = deque(maxlen=REMEMBERED)
        self._creating: dict[WorkerId, Creating] = {}
        self._maker = Maker(self)
        self._watching = False
        self._host = processes.host()
        self._pids: tuple[int, ...] = ()
        """Of this process and of its parent, the admin; none on the in-process base."""
        self._liveness: Liveness | None = None

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        """Handle one message. Raises nothing, or the framework would repeat the message."""
        try:
            if isinstance(message, TO_REGISTRAR):
                check_wire(message)
            self._take(message, sender)
        except ProtocolError as error:
            events.refused(log, "the registrar", "a message", error, system=self._settings.system)
        except Exception as error:
            name, text = type(message).__name__, details_of(error)
            log.error("the registrar failed on %s:\n%s", name, text)

    def _take(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case Open():
                self._open(message)
            case EndpointJoin():
                self._join(message, sender)
            case (versions.ASK, theirs):
                reason = versions.conflict(theirs, "the joining host")
                if reason:
                    log.warning("%s", reason)
                self.send(sender, (versions.TELL, versions.mine()))
            case HostJoin():
                self._host_joins(message, sender)
            case Heartbeat(me=worker, answer=answer):
                if self._liveness and not self._liveness.heard(worker):
                    self.send(sender, Died((worker,)))  # it was given up, and is back
                elif answer:
                    self.send(sender, Heard())
            case EndpointLeave(me=WorkerId(incarnation=0)):
                self._exited(sender, LEFT)
            case EndpointLeave(me=worker):
                self._leave(worker)
            case Settled(me=worker, workers=dead):
                self._settled(worker, dead, sender)
            case Lookup():
                self.send(sender, self._look_up(message))
            case Spawn():
                self._spawn(message, sender)
            case Mint(token=token, name=name):
                self.send(sender, Minted(token, self._mint_child(name, sender)))
            case Unmade():
                self._unmade(message)
            case ProcessChecked(me=worker, running=running):
                if not running and worker in self._members:
                    self._silent(worker)
            case Exited(address=address, me=child, cause=cause):
                self._exited(address, cause, child)
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

    def _open(self, message: Open) -> None:
        if self._opened:
            raise ProtocolError("a second Open of the same system")
        self._opened = True
        self._settings = message.settings
        if self._settings.silence is not None:
            self._liveness = Liveness(SILENT_TURNS)
        self._owner = processes.Watched.of(message.pid)
        capabilities = bases.capabilities_of(self)
        self._here = HostInfo(capabilities.get(bases.HOST, ""), dict(capabilities))
        if not simple.hosts(self):
            signals.die_of_faults()
            self._pids = (os.getpid(), os.getppid())
        if self._here.address:
            self.notifyOnSystemRegistrationChanges(True)
        self._watch()
        early, self._early = self._early, []
        for join, sender in early:
            self._join(join, sender)

    def _exit(self) -> None:
        if self._orphaned():
            directory.remove(self._settings.system)  # the program could not
        if not self._ending:
            self._tell_others()
        self._owner = None

    def _orphaned(self) -> bool:
        """Whether the system's program, or its admin, was killed."""
        killed = self._owner is not None and not self._owner.alive()
        return killed or (bool(self._pids) and self._pids != (os.getpid(), os.getppid()))

    def _tell_others(self) -> None:
        """Tell the other hosts that the system ends."""
        orderly = not self._orphaned()
        reason = "it was shut down" if orderly else "its program, or its admin, was killed"
        afar = [m.address for m in self._members.values() if m.place in self._hosts]
        for address in [*afar, *(host.steward for host in self._hosts.values())]:
            self.send(address, Down(f"{reason} on its first host, {self._here}", orderly))

    # ---- who is there

    def _join(self, message: EndpointJoin, sender: ActorAddress) -> None:
        if not self._opened:  # a program attaches to a system that is just being started
            self._early.append((message, sender))
            return
        me = message.me if message.me.incarnation else self._mint(message.me.name)
        known = self._members.get(me)
        if known is not None and known.address != sender:
            raise ProtocolError(f"an EndpointJoin of {me} from a wrong address")
        if self._is_dead(me):  # the actor, its creator or its host was given up meanwhile
            self.send(sender, Died((me,)))
            return
        self._numbered.pop(me, None)
        place = message.place or self._here.address
        near = message.host == self._host and place == self._here.address
        process = processes.Watched.of(message.pid) if near else None
        self._members[me] = RegisteredEndpoint(
            sender, place, message.pid, process, message.program, message.host
        )
        if self._liveness and message.beats:
            self._liveness.watch(me)
        self._watch()
        self._bury()
        joined = Joined(
            me,
            sender,
            self._settings,
            self._dead.spans,
            tuple(self._dying),
            os.getsid(0),
            self._pids if near else (),
            answered=not near,
        )
        self.send(sender, joined)
        created = self._creating.pop(me, None)
        if created is not None:
            info = WorkerInfo(me, sender)
            self._members[me].worker = created.order.threads is not None
            self.send(created.asker, Spawned(created.order.token, info))

    def _host_joins(self, message: HostJoin, sender: ActorAddress) -> None:
        place = message.info.address
        if not self._opened or not place or place == self._here.address:
            raise ProtocolError(f"a HostJoin of {place!r}, which cannot join")
        known = self._hosts.get(place)
        if known is not None and known.me != message.me:
            known.admin = None  # the new host's admin has the same address, or will have
            self._host_gone(place, "it was started again")  # its silence would tell later
        if known is None or known.me != message.me:
            system = self._settings.system
            events.tell(
                log, INFO, "host.joined", "host %s has joined", place, host=place, system=system
            )
        self._hosts[place] = Host(message.me, message.info, sender)
        if self._liveness:
            self._liveness.watch(message.me)
        self.send(sender, HostJoined(self._settings))

    def _look_up(self, message: Lookup) -> Found:
        if message.hosts:
            others = sorted(self._hosts.items())
            hosts = (self._here, *(host.info for _, host in others))
            return Found(message.token, (), hosts=hosts)
        infos = [WorkerInfo(worker, each.address) for worker, each in self._members.items()]
        dead = False
        if message.name is not None:
            infos = [info for info in infos if info.name == message.name]
            dead = any(name == message.name for name, _ in self._remembered)
        elif message.address is not None:
            infos = [info for info in infos if info.address == message.address]
            dead = not infos and any(a == message.address for _, a in self._remembered)
        elif message.workers:
            infos = [info for info in infos if self._members[info.id].worker]
        host = self._members[infos[0].id].host if len(infos) == 1 else ""
        return Found(message.token, tuple(infos), dead, host=host)

    # ---- creating actors

    def _mint(self, name: str) -> WorkerId:
        self._next += 1
        return WorkerId(name, self._next)

    def _mint_child(self, name: str, creator: ActorAddress) -> WorkerId:
        """The id of an actor that the endpoint at *creator* creates."""
        child = self._mint(name)
        parents = (w for w, member in self._members.items() if member.address == creator)
        parent = next(parents, None)
        if parent is None:  # the creator died meanwhile, so the child will never be
            self._dead.add(child)
        else:
            self._numbered[child] = parent
        return child

    def _spawn(self, message: Spawn, sender: ActorAddress) -> None:
        taken = {worker.name for worker in (*self._members, *self._creating)}
        if message.name in taken:
            reason = "the name is taken in this system; choose another"
            self.send(sender, Spawned(message.token, None, reason, taken=True))
            return
        me = self._mint(message.name)
        self._creating[me] = Creating(message, sender, self._places(message, sender))
        self._create(me, "the chosen host is not in the system, or not any more")

    def _places(self, message: Spawn, asker: ActorAddress) -> list[str]:
        """The hosts to try, best first: the asker's, this one, then the least busy."""
        infos = [self._here, *(host.info for host in self._hosts.values())]
        if message.on is not None:
            infos = [info for info in infos if info.fits(message.on)]
        busy = [member.place for member in self._members.values()]
        busy += [creating.place for creating in self._creating.values()]

        near = {m.place for m in self._members.values() if m.address == asker}

        def rank(info: HostInfo) -> tuple[bool, bool, int]:
            place = info.address
            if message.on is not None:
                return False, False, busy.count(place)
            return place not in near, info is not self._here, busy.count(place)

        return [info.address for info in sorted(infos, key=rank)]

    def _create(self, me: WorkerId, otherwise: str) -> None:
        """Try the next host for *me*. *otherwise* is the reason to give if there is none."""
        creating = self._creating[me]
        order = creating.order
        while creating.places:
            creating.place = creating.places.pop(0)
            host = self._hosts.get(creating.place)
            if host is not None:
                make_it = Make(me, order.actor_class, order.requirements, order.threads)
                self.send(host.steward, make_it)
                return
            if creating.place == self._here.address:
                # With one host, a system of the convention that is not farref's may fit, too.
                here = bool(self._hosts) or order.on is not None
                try:
                    address = self._maker.make(order.actor_class, order.requirements, here=here)
                except UnmadeError as error:
                    otherwise = str(error)
                    if isinstance(error, UnfitError):
                        continue
                    break
                creating.address = address
                welcome = Welcome(me, self.myAddress, self._settings, order.threads)
                self.send(address, welcome)
                return
        self._not_created(me, otherwise)

    def _not_created(self, me: WorkerId, reason: str) -> None:
        creating = self._creating.pop(me)
        self.send(creating.asker, Spawned(creating.order.token, None, reason))
        # It may start yet, unknown to the registrar: so it counts as dead.
        self._gone(me, cause=reason)

    def _unmade(self, message: Unmade) -> None:
        if message.me not in self._creating:
            self._gone(message.me, cause=message.reason)
        elif message.unfit:
            self._create(message.me, message.reason)
        else:
            self._not_created(message.me, message.reason)

    # ---- who is gone

    def _exited(self, address: ActorAddress, cause: str, child: WorkerId | None = None) -> None:
        for worker, creating in list(self._creating.items()):
            if creating.address is not None and creating.address == address:
                how = cause or "or no host meets its requirements"
                self._not_created(worker, f"it exited before it had started (see the log), {how}")
        gone = [w for w, member in self._members.items() if member.address == address]
        self._gone(*gone, *([child] if child in self._numbered else []), cause=cause)

    def _leave(self, worker: WorkerId) -> None:
        for place, host in list(self._hosts.items()):
            if host.me == worker:
                self._host_gone(place, LEFT)
                return
        self._gone(worker, cause=LEFT)

    def _is_dead(self, worker: WorkerId) -> bool:
        return worker in self._dying or worker in self._dead

    def _gone(self, *workers: WorkerId, cause: str, event: str = "endpoint.died") -> None:
        """Report *workers* as dead to all, so that nobody keeps their numbers.

        Some of them may never have joined. The unjoined children of a dead creator are gone,
        too: nobody else would report them.
        """
        gone = set(workers)
        children = [child for child, parent in self._numbered.items() if parent in gone]
        news = [worker for worker in (*workers, *children) if not self._is_dead(worker)]
        for worker in news:
            if self._liveness:
                self._liveness.forget(worker)
            self._numbered.pop(worker, None)
            member = self._members.pop(worker, None)
            if member is not None:
                self._remembered.append((worker.name, member.address))
                self._log_end(event, worker, cause, endpoint=worker, host=member.place)
        if news:
            self._bury()
            self._dying.update(dict.fromkeys(news))
            # A further death restarts the grace, here and at the others. Theirs starts later.
            self._buried_at = time.monotonic() + 2 * self._settings.orphan_grace
            for other in self._members.values():
                self.send(other.address, Died(tuple(news), cause))
            self._agreement.add(news, self._members)
            self._agree()

    def _settled(self, by: WorkerId, dead: tuple[WorkerId, ...], address: ActorAddress) -> None:
        """*by*, at *address*, has settled these deaths."""
        before = self._agreement.settled(by, dead)
        if before:
            self.send(address, AllSettled(before))
        self._agree()

    def _agree(self) -> None:
        """Tell all endpoints once they have all settled all deaths."""
        agreed = self._agreement.reached()
        if agreed:
            for member in self._members.values():
                self.send(member.address, AllSettled(agreed))

    def _bury(self) -> None:
        """Move the dying to the dead once every endpoint has buried them."""
        if not self._agreement.waits and time.monotonic() >= self._buried_at:
            for worker in self._dying:
                self._dead.add(worker)
            self._dying.clear()

    def _log_end(self, event: str, who: object, cause: str, **about: WorkerId | str) -> None:
        level = INFO if cause in ORDERLY else WARNING
        text = "%s is given up for dead" if event.endswith("given_up") else "%s is gone"
        text += ": %s" if cause else "%s"
        told = {**about, "cause": cause, "system": self._settings.system}
        events.tell(log, level, event, text, who, cause, **told)

    def _host_gone(self, place: str, cause: str, event: str = "host.left") -> None:
        host = self._hosts.pop(place)
        self._log_end(event, f"host {place}", cause, host=place)
        if self._liveness:
            self._liveness.forget(host.me)
        for worker, creating in list(self._creating.items()):
            if creating.place == place:
                self._not_created(worker, f"its host, {place}, is gone")
        there = (w for w, member in self._members.items() if member.place == place)
        self._gone(*there, cause=f"its host, {place}, is gone")
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
        programs = any(member.program and member.process for member in self._members.values())
        if not self._watching and (self._owner or programs or self._liveness):
            self._watching = True
            silence = self._settings.silence
            pause = WATCH if silence is None or self._ending else silence / SILENT_TURNS
            self.wakeupAfter(timedelta(seconds=pause))

    def _check(self) -> None:
        self._bury()
        for worker, member in list(self._members.items()):
            if member.program and member.process and not member.process.alive():
                self._gone(worker, cause="its process has ended")
        for worker in self._liveness.turn() if self._liveness else ():
            self._give_up(worker)
        if self._ending or (self._orphaned() and not self._hosts):
            directory.remove(self._settings.system)
            processes.end_session()
        elif self._orphaned():
            self._ending = True
            self._tell_others()  # the messages take a moment

    def _give_up(self, worker: WorkerId) -> None:
        """Find out whether *worker* is dead: it has been silent for too long."""
        for place, host in list(self._hosts.items()):
            if host.me == worker:
                silent = f"it was silent for {self._settings.silence:g} s"
                self._host_gone(place, silent, "host.given_up")
                return
        member = self._members.get(worker)
        if member is None:
            return
        afar = self._hosts.get(member.place)
        runs = afar is None and member.process is not None and member.process.running()
        if afar is None and not runs:
            self._silent(worker)
            return
        if afar is not None:
            self.send(afar.steward, CheckProcess(worker, member.pid))
        if self._liveness:
            self._liveness.watch(worker)  # it computes, and will beat again

    def _silent(self, worker: WorkerId) -> None:
        silent = f"it was silent for {self._settings.silence:g} s"
        address = self._members[worker].address
        self._gone(worker, cause=silent, event="endpoint.given_up")
        self.send(address, Died((worker,)))  # in case it comes back
