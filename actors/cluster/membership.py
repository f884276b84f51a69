"""The membership service: the members of a system, its hosts, names and deaths, and their rules.

All registrars follow these rules: the one of a system that ends with its first host (`registrar`),
and one that was elected (`elected`). A rule takes a message of `wire`, and answers by
`MembershipService.send`. A message may come again, from a registrar proxy that does not know
whether an earlier registrar has carried it out. So each takes effect once.

The facts are in *tables*. `MembershipService.table` makes them, and the tables of an elected
registrar note each change.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter, deque
from collections.abc import Collection, MutableMapping
from random import SystemRandom
from typing import Any, TypeVar

from thespian.actors import ActorAddress

from ...printable import logger
from ...protocol.errors import ProtocolError
from ...protocol.ids import WorkerId
from ..hosting import events, processes
from ..hosting.children import LEFT, ORDERLY
from ..wire import messages as wire
from ..wire.settings import Settings
from .failure_detector import FailureDetector
from .making import UnfitError, UnmadeError
from .members import Creating, Host, Members, RegisteredEndpoint
from .tombstones import Tombstones

log = logger(f"{__package__}.registrar")  # of either registrar
INFO, WARNING = logging.INFO, logging.WARNING

REMEMBERED = 1_000
"""Names and addresses of dead endpoints to keep: a lookup then says "died", not "unknown"."""

Key = TypeVar("Key")
Value = TypeVar("Value")


class MembershipService:
    """Knows every endpoint of the system by its name, and reports each death to all."""

    makes = True
    """Whether this process makes the actors of its own host."""

    def __init__(self) -> None:
        super().__init__()
        self._settings = Settings()
        self._here = wire.HostInfo("", {})
        """The host of this process, if it makes actors."""
        self._members = Members(self.table("members"))
        self._hosts: MutableMapping[str, Host] = self.table("hosts")
        """The other hosts, by their addresses."""
        self._numbered: MutableMapping[WorkerId, WorkerId] = self.table("numbered")
        """Actors with a number that have not joined, and the creator of each."""
        self._creating: MutableMapping[WorkerId, Creating] = self.table("creating")
        """Actors that have not joined. Few at a time: whoever asked for one waits."""
        self._numbers: MutableMapping[str, int] = self.table("numbers")
        """Under ``next`` the number of the last endpoint."""
        self._tombstones = Tombstones(self.table("dying"), self.table("dead"))
        self._detector = FailureDetector()
        self._remembered: deque[tuple[str, ActorAddress]] = deque(maxlen=REMEMBERED)
        self._host = processes.host()
        self._pids: tuple[int, ...] = ()
        """Of this process and of its parent, the admin; none on the in-process base."""

    # ---- the shell

    def table(self, name: str) -> MutableMapping[Any, Any]:  # noqa: ARG002 - an elected registrar's has a name
        """An empty table of facts."""
        return {}

    def send(self, address: ActorAddress, message: object) -> None:
        """Send *message* to an endpoint, or to a host agent."""
        raise NotImplementedError

    def tell_all(self, message: wire.Died | wire.AllSettled) -> None:
        for member in self._members.values():
            self.send(member.address, message)

    def make_here(self, me: WorkerId, creating: Creating) -> None:
        """Make an actor on this host. Raises `UnfitError`, `UnmadeError`."""
        raise NotImplementedError

    def now(self) -> float:
        """The time in seconds."""
        return time.monotonic()

    def _watch(self) -> None:
        """Called when there may be something new to watch."""

    def _let_go(self, place: str, host: Host) -> None:
        """Called when *host*, which was at *place*, is gone."""

    def carry_out(self, message: object, sender: ActorAddress) -> bool:
        """Carry out a request of the endpoint at *sender*. False if *message* is another one."""
        match message:
            case wire.EndpointLeave(me=WorkerId(incarnation=0)):
                self._exited(sender, LEFT)
            case wire.EndpointLeave(me=worker):
                self._leave(worker)
            case wire.Exited(address=address, me=child, cause=cause):
                self._exited(address, cause, child)
            case wire.Settled(me=worker, workers=dead):
                self._settled(worker, dead, sender)
            case wire.Lookup():
                self.send(sender, self._look_up(message))
            case wire.Spawn():
                self._spawn(message, sender)
            case wire.AllocateId(token=token, name=name):
                self.send(sender, wire.AllocatedId(token, self._allocate_child(name, sender)))
            case wire.Unmade():
                self._unmade(message)
            case _:
                return False
        return True

    # ---- joining

    def is_near(self, place: str, host: str) -> bool:
        """Whether this process and one there can see each other."""
        return (place, host) == (self._here.address, self._host)

    def _join(self, message: wire.EndpointJoin, sender: ActorAddress) -> None:
        me = message.me if message.me.incarnation else self._number_of(message.me.name, sender)
        known = self._members.get(me)
        if known is not None and known.address != sender:
            raise ProtocolError(f"an EndpointJoin of {me} from a wrong address")
        if me in self._tombstones:  # the actor, its creator or its host was given up meanwhile
            self.send(sender, wire.Died((me,)))
            return
        created = self._creating.get(me)
        place = message.place or self._here.address
        near = self.is_near(place, message.host)
        self._members[me] = RegisteredEndpoint(
            sender,
            place,
            message.pid,
            message.program,
            message.host,
            worker=created is not None and created.order.threads is not None,
            order=None if created is None else (created.asker, created.order.token),
        )
        self._creating.pop(me, None)
        self._numbered.pop(me, None)
        pid = message.pid if near else None
        self._detector.watch(me, pid, program=message.program, beats=message.beats)
        self._watch()
        self._compact()
        joined = wire.Joined(
            me,
            sender,
            self._settings,
            self._tombstones.spans,
            tuple(self._tombstones.dying),
            os.getsid(0),
            self._pids if near else (),
            answered=not near,
        )
        self.send(sender, joined)
        if created is not None:
            info = wire.WorkerInfo(me, sender)
            self.send(created.asker, wire.Spawned(created.order.token, info))

    def _host_joins(self, message: wire.HostJoin, sender: ActorAddress) -> None:
        place = message.info.address
        if not place or place == self._here.address:
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
        self._detector.expect(message.me)
        self.send(sender, wire.HostJoined(self._settings))

    def _own(self) -> tuple[wire.HostInfo, ...]:
        """This process's host, if it makes actors."""
        return (self._here,) if self.makes else ()

    def _look_up(self, message: wire.Lookup) -> wire.Found:
        if message.hosts:
            others = sorted(self._hosts.items())
            hosts = (*self._own(), *(host.info for _, host in others))
            return wire.Found(message.token, (), hosts=hosts)
        found: Collection[WorkerId]
        dead = False
        if message.name is not None:
            found = self._members.named(message.name)
            dead = any(name == message.name for name, _ in self._remembered)
        elif message.address is not None:
            found = self._members.at(message.address)
            dead = not found and any(a == message.address for _, a in self._remembered)
        else:
            members = self._members.items()
            found = [worker for worker, each in members if each.worker or not message.workers]
        infos = [wire.WorkerInfo(worker, self._members[worker].address) for worker in found]
        host = self._members[infos[0].id].host if len(infos) == 1 else ""
        return wire.Found(message.token, tuple(infos), dead, host=host)

    # ---- creating actors

    def _allocate(self, name: str) -> WorkerId:
        last = self._numbers.get("next")
        number = SystemRandom().getrandbits(62) if last is None else last + 1
        self._numbers["next"] = number  # other systems use other numbers (see `ids`)
        return WorkerId(name, number)

    def _number_of(self, name: str, address: ActorAddress) -> WorkerId:
        """The id of an endpoint that joins without a number; the same one if it asks again."""
        known = (worker for worker in self._members.at(address) if worker.name == name)
        return next(known, None) or self._allocate(name)

    def _allocate_child(self, name: str, creator: ActorAddress) -> WorkerId:
        """The id of an actor that the endpoint at *creator* creates."""
        child = self._allocate(name)
        parent = next(iter(self._members.at(creator)), None)
        if parent is None:  # the creator died meanwhile, so the child will never be
            self._tombstones.count([child])
        else:
            self._numbered[child] = parent
        return child

    def _spawn(self, message: wire.Spawn, sender: ActorAddress) -> None:
        for worker in self._members.made_for(sender, message.token):  # by an earlier registrar
            info = wire.WorkerInfo(worker, self._members[worker].address)
            self.send(sender, wire.Spawned(message.token, info))
            return
        for me, creating in self._creating.items():
            if creating.asker == sender and creating.order.token == message.token:
                self._go_on(me, creating, message)
                return
        making = any(worker.name == message.name for worker in self._creating)
        if making or self._members.named(message.name):
            reason = "the name is taken in this system; choose another"
            self.send(sender, wire.Spawned(message.token, None, reason, taken=True))
            return
        me = self._allocate(message.name)
        self._creating[me] = Creating(message, sender, self._places(message, sender))
        self._create(me, "the chosen host is not in the system, or not any more")

    def _go_on(self, me: WorkerId, creating: Creating, order: wire.Spawn) -> None:
        """Ask the host of *me* again, which knows if an earlier registrar has had *me* made."""
        creating.order = order
        if not creating.places:
            there = self._places(order, creating.asker)
            creating.places = [place for place in there if place != creating.place]
        if creating.unfit:
            creating.unfit = False
            self._create(me, "no possible host meets its requirements")
            return
        host = self._hosts.get(creating.place)
        if host is not None:
            self._order(me, creating, host)

    def _places(self, message: wire.Spawn, asker: ActorAddress) -> list[str]:
        """The hosts to try, best first: the asker's, this one, then the least busy."""
        infos = [*self._own(), *(host.info for host in self._hosts.values())]
        if message.on is not None:
            infos = [info for info in infos if info.fits(message.on)]
        making = Counter(creating.place for creating in self._creating.values())
        near = {self._members[worker].place for worker in self._members.at(asker)}

        def rank(info: wire.HostInfo) -> tuple[bool, bool, int]:
            place = info.address
            busy = making[place] + len(self._members.on(place))
            if message.on is not None:
                return False, False, busy
            return place not in near, info is not self._here, busy

        return [info.address for info in sorted(infos, key=rank)]

    def _create(self, me: WorkerId, otherwise: str) -> None:
        """Try the next host for *me*. *otherwise* is the reason to give if there is none."""
        creating = self._creating[me]
        while creating.places:
            creating.place = creating.places.pop(0)
            self._creating[me] = creating
            host = self._hosts.get(creating.place)
            if host is not None:
                self._order(me, creating, host)
                return
            if self.makes and creating.place == self._here.address:
                try:
                    self.make_here(me, creating)
                except UnmadeError as error:
                    otherwise = str(error)
                    if isinstance(error, UnfitError):
                        continue
                    break
                return
        self._not_created(me, otherwise)

    def _order(self, me: WorkerId, creating: Creating, host: Host) -> None:
        """Have the host agent of *host* make the actor."""
        order = creating.order
        how = order.requirements, order.threads, order.surroundings
        self.send(host.agent, wire.Make(me, order.actor_class, *how))

    def _not_created(self, me: WorkerId, reason: str) -> None:
        creating = self._creating.pop(me)
        self.send(creating.asker, wire.Spawned(creating.order.token, None, reason))
        # It may start yet, unknown to the registrar: so it counts as dead.
        self._gone(me, cause=reason)

    def _unmade(self, message: wire.Unmade) -> None:
        if message.me not in self._creating:
            self._gone(message.me, cause=message.reason)
        elif message.unfit:
            self._create(message.me, message.reason)
        else:
            self._not_created(message.me, message.reason)

    # ---- deaths

    def _exited(self, address: ActorAddress, cause: str, child: WorkerId | None = None) -> None:
        for worker, creating in list(self._creating.items()):
            if creating.address is not None and creating.address == address:
                how = cause or "or no host meets its requirements"
                self._not_created(worker, f"it exited before it had started (see the log), {how}")
        self._gone(
            *self._members.at(address),
            *([child] if child and child in self._numbered else []),
            cause=cause,
        )

    def _leave(self, worker: WorkerId) -> None:
        for place, host in list(self._hosts.items()):
            if host.me == worker:
                self._host_gone(place, LEFT)
                return
        self._gone(worker, cause=LEFT)

    def _gone(self, *workers: WorkerId, cause: str, event: str = "endpoint.died") -> None:
        """Report *workers* as dead to all, so that nobody keeps their numbers.

        Some of them may never have joined. The unjoined children of a dead creator are gone,
        too: nobody else would report them.
        """
        gone = set(workers)
        children = [child for child, parent in self._numbered.items() if parent in gone]
        news = [worker for worker in (*workers, *children) if worker not in self._tombstones]
        if not news:
            return
        self._compact()
        # First of all: the store may take these changes one after the other.
        self._tombstones.add(news, cause)
        for worker in news:
            self._detector.forget(worker)
            self._numbered.pop(worker, None)
            member = self._members.pop(worker, None)
            if member is not None:
                self._remembered.append((worker.name, member.address))
                self._log_end(event, worker, cause, endpoint=worker, host=member.place)
        self.tell_all(wire.Died(tuple(news), cause))
        self._wait_for_all(news)
        self._agree()

    def _wait_for_all(self, dead: Collection[WorkerId]) -> None:
        """Every member has to settle these deaths."""
        self._tombstones.wait(dead, self._members, self.now() + 2 * self._settings.orphan_grace)

    def _settled(self, by: WorkerId, dead: tuple[WorkerId, ...], address: ActorAddress) -> None:
        """*by*, at *address*, has settled these deaths."""
        before = self._tombstones.settled(by, dead)
        if before:
            self.send(address, wire.AllSettled(before))
        self._agree()

    def _agree(self) -> None:
        """Tell all endpoints once they have all settled all deaths."""
        agreed = self._tombstones.agree()
        if agreed:
            self.tell_all(wire.AllSettled(agreed))

    def _compact(self) -> None:
        """Compact the tombstones, once every endpoint has buried the dead."""
        self._tombstones.compact(self.now())

    def _log_end(self, event: str, who: object, cause: str, **about: WorkerId | str) -> None:
        level = INFO if cause in ORDERLY else WARNING
        text = "%s is given up for dead" if event.endswith("given_up") else "%s is gone"
        text += ": %s" if cause else "%s"
        told = {**about, "cause": cause, "system": self._settings.system}
        events.tell(log, level, event, text, who, cause, **told)

    def _host_gone(self, place: str, cause: str, event: str = "host.left") -> None:
        host = self._hosts.pop(place)
        self._log_end(event, f"host {place}", cause, host=place)
        self._detector.forget(host.me)
        for worker, creating in list(self._creating.items()):
            if creating.place == place:
                self._not_created(worker, f"its host, {place}, is gone")
        self._gone(*self._members.on(place), cause=f"its host, {place}, is gone")
        self._let_go(place, host)
