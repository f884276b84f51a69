"""The registrar of a system with a store: its membership service, whose facts are in the store.

It takes the requests that the registrar proxies forward, and answers through them. It creates no
actors, because the proxy of each host does that. It reads its facts from the store when it begins,
and writes each change of them there. Its messages wait for the store (see
`farref.protocol.succession`).

An earlier registrar may have carried out a request without the proxy knowing. So each request may
come a second time, and takes effect once:

==============  ================================================================================
EndpointJoin    the same endpoint gets the same number, and the same answer
Spawn           the order is known by its asker and token: in the member that it has made, or in
                the actor that is being made. Then the proxy there hears of it again
AllocateId      a second number; nobody has got the first one, and it dies with its creator
Settled         the answer, if all had settled that death before
EndSystem       it is a fact, by which each registrar has the hosts leave; its own host is the last
the others      they report an end, which is known by then, or they change nothing
==============  ================================================================================

A proxy keeps a `Spawn` and a `Settled` until it sees the answer, and all other requests until this
registrar says that they are done.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from msgspec.structs import replace
from thespian.actors import ActorAddress

from ...protocol.errors import ProtocolError
from ...protocol.ids import WorkerId
from ...protocol.succession.ledger import Ledger
from ..wire import messages as wire
from ..wire.settings import Settings
from .facts import Noted
from .members import Host
from .membership import MembershipService

ENDED = "ended"
"""The entry in the table of numbers that says that the system was ended."""


class Elected(MembershipService):
    """The registrar of one term."""

    makes = False

    def __init__(
        self,
        ledger: Ledger,
        settings: Settings,
        facts: Mapping[str, bytes],
        proxy: ActorAddress | None = None,
    ) -> None:
        """*proxy* is the one on its own host.

        Raises `UnreadableError` if farref cannot have written *facts*.
        """
        self._ledger = ledger
        self._proxy = proxy
        self._facts = facts
        self._alone = False
        """A host was given up, and the store may not know it yet."""
        self._last: WorkerId | None = None
        """This registrar's own host, if it leaves once the others have: the system ends."""
        self._next: list[tuple[wire.HostJoin, ActorAddress]] = []
        """Hosts that have come since the system was ended."""
        self._proxies: dict[object, str] = {}
        self._homes: dict[object, str] = {}
        """The host of each registrar proxy, and of each endpoint, by its address."""
        self._asking = ""
        """The host of the request that is being taken."""
        super().__init__()
        self._settings = settings
        self._host = ""
        self._detector.count_silence(settings.silence)
        self._begin()

    # ---- the shell

    def table(self, name: str) -> MutableMapping[Any, Any]:
        return Noted(name, self._ledger, self._facts)

    def send(self, address: ActorAddress, message: object) -> None:
        """Send *message* to a proxy, or to the endpoint at *address* through the proxy there."""
        where = address.addressDetails
        host = self._hosts.get(self._proxies.get(where, ""))
        if host is not None:
            self._deliver(host, None, message)
            return
        host = self._hosts.get(self._homes.get(where, self._asking))
        if host is not None:
            self._deliver(host, address, message)

    def tell_all(self, message: wire.Died | wire.AllSettled) -> None:
        for host in self._hosts.values():
            self._deliver(host, None, message)

    def _deliver(self, host: Host, to: ActorAddress | None, message: object, *done: int) -> None:
        self._ledger.send((host.agent, wire.Deliver(self._ledger.term, done, to, message)))

    # ---- the takeover

    def _begin(self) -> None:
        """Go on where the registrar before this one has stopped."""
        for place, host in self._hosts.items():
            self._proxies[host.agent.addressDetails] = place
        for member in self._members.values():
            self._homes[member.address.addressDetails] = member.place
        lost = [w for w, member in self._members.items() if member.place not in self._hosts]
        lost += [w for w in self._members if w in self._tombstones]
        for worker in {w for w in lost if w in self._tombstones}:
            del self._members[worker]  # an earlier registrar was about to
        dying = self._tombstones.dying
        open_deaths = [w for w, gone in dying.items() if not gone.agreed]
        self._wait_for_all(open_deaths)
        for host in self._hosts.values():
            self._detector.expect(host.me)
            self._deliver(host, None, wire.Heard())
        for cause in dict.fromkeys(dying[w].cause for w in open_deaths):
            same = tuple(w for w in open_deaths if dying[w].cause == cause)
            self.tell_all(wire.Died(same, cause))
        self._gone(*[w for w in lost if w in self._members], cause="its host is gone")
        for worker, creating in list(self._creating.items()):
            if creating.place not in self._hosts:
                self._not_created(worker, f"its host, {creating.place}, is gone")
        for child, parent in list(self._numbered.items()):
            if parent not in self._members:
                self._gone(child, cause="its creator is gone")
        self._drop_orders()
        self._agree()
        self._tell_end()

    def _drop_orders(self) -> None:
        """Give up the orders of an earlier registrar that nobody will repeat."""
        for worker, creating in list(self._creating.items()):
            missing = self._order_is_missing(worker)
            if missing and not self._members.at(creating.asker):
                self._not_created(worker, "the endpoint that asked for it is gone")

    def _order_is_missing(self, worker: WorkerId) -> bool:
        """Whether an earlier registrar had *worker* made, and its order has not come again."""
        creating = self._creating.get(worker)
        return creating is not None and creating.order.actor_class == b""

    def _gone(self, *workers: WorkerId, cause: str, event: str = "endpoint.died") -> None:
        for worker in workers:
            if worker in self._members:
                self._homes.pop(self._members[worker].address.addressDetails, None)
        super()._gone(*workers, cause=cause, event=event)
        self._drop_orders()

    # ---- messages of the registrar proxies

    def host(self, message: wire.HostJoin, proxy: ActorAddress) -> None:
        """Let a host join, or note that it follows this registrar; refuse one that was given up."""
        known = self._hosts.get(message.info.address)
        if message.me in self._tombstones:
            self.refuse(message.me, proxy)
        elif message.joined and (known is None or known.me != message.me):
            # It would go on without its endpoints, of which nobody knows any more.
            self.refuse(message.me, proxy, "the registry has lost the facts of this system")
        elif self._ended and not message.joined:
            self._next.append((message, proxy))
        else:
            self._proxies[proxy.addressDetails] = message.info.address
            self._host_joins(message, proxy)
            self._tell_end()

    def beat(self, message: wire.Heartbeat, proxy: ActorAddress) -> wire.Deliver | None:
        """Note that a host is alive. Returns the answer, which need not wait for the store.

        So a system does not end while its store does not answer. But if neither the store nor any
        other host is heard of any more, this one is cut off, and does not answer.
        """
        host = self._hosts.get(message.me.name)
        if host is None or host.me != message.me:
            self.refuse(message.me, proxy)
            return None
        self._detector.heard(message.me)
        self._alone = self._alone and not self._ledger.idle
        if self._alone and len(self._hosts) == 1:
            return None
        return wire.Deliver(self._ledger.term, (), None, wire.Heard())

    def refuse(self, host: WorkerId, proxy: ActorAddress, why: str = "") -> None:
        """Tell a host that it is no longer in the system."""
        self._ledger.send(
            (proxy, wire.Deliver(self._ledger.term, (), None, wire.Died((host,), why)))
        )

    def take(self, forward: wire.Forward, proxy: ActorAddress) -> None:
        """Carry out a request of an endpoint on a host, or of the registrar proxy there."""
        if forward.term != self._ledger.term:
            return  # for an earlier registrar, which was this process; it comes again
        place = forward.host.name
        host = self._hosts.get(place)
        if host is None or host.me != forward.host:
            self.refuse(forward.host, proxy)
            return
        self._asking = place
        done = True
        try:
            done = self._do(forward.message, forward.sender, place)
        finally:
            if place not in self._hosts:
                self.refuse(forward.host, proxy)  # it has left
            elif done:
                self._deliver(host, None, wire.Heard(), forward.number)

    def _do(self, message: Any, sender: ActorAddress, place: str) -> bool:
        """Carry out *message*. Returns False if the proxy sees by an answer that it is done."""
        match message:
            case wire.EndpointJoin():
                self._homes[sender.addressDetails] = place
                self._join(replace(message, place=place, beats=False), sender)
            case wire.EndSystem():
                self._numbers[ENDED] = 1
                self._tell_end()
            case wire.EndpointLeave(me=worker) if self._leaves_last(worker):
                self._last = worker
                return False
            case wire.Unmade(me=me) if message.unfit and self._order_is_missing(me):
                # The proxy of its asker sends the order again, and then another host may get it.
                self._creating[me] = replace(self._creating[me], unfit=True)
            case _ if not self.carry_out(message, sender):
                raise ProtocolError(f"a {type(message).__name__} is no request to a registrar")
        return not isinstance(message, wire.Settled | wire.Spawn)

    def tick(self) -> None:
        """A tick has passed: compact the tombstones, and give up hosts that have been silent."""
        self._compact()
        _, silent = self._detector.tick()  # it watches no process
        for me in silent:
            host = self._hosts.get(me.name)
            if host is not None and host.me == me:
                self.give_up(me.name)

    def give_up(self, place: str) -> None:
        """The host at *place* was silent for too long."""
        self._alone = True
        self._host_gone(place, self._detector.silent(self._hosts[place].me), "host.given_up")

    def _let_go(self, place: str, host: Host) -> None:  # noqa: ARG002 - the service's
        self._tombstones.count([host.me])  # or it might come back, and be believed
        self._proxies.pop(host.agent.addressDetails, None)
        last = self._last
        if not self._hosts:
            self._begin_anew()
        elif last is not None and len(self._hosts) == 1:
            self._last = None
            proxy = next(iter(self._hosts.values())).agent
            self._leave(last)
            self.refuse(last, proxy)

    # ---- the end of the system

    @property
    def _ended(self) -> bool:
        """Whether the system was ended, by this registrar or an earlier one."""
        return ENDED in self._numbers

    def _begin_anew(self) -> None:
        """The last host has left. Whoever has come since is a new system of this name."""
        self._numbers.pop(ENDED, None)
        coming, self._next = self._next, []
        for message, proxy in coming:
            self.host(message, proxy)

    def _tell_end(self) -> None:
        """Have all hosts leave, if the system was ended."""
        if self._ended and not self._hosts:
            self._begin_anew()
        elif self._ended:
            for host in self._hosts.values():
                self._deliver(host, None, wire.Down("it was ended", orderly=True))

    def _leaves_last(self, worker: WorkerId) -> bool:
        """Whether *worker* is this registrar's own host, for which others are to leave first."""
        own = [host.me for host in self._hosts.values() if host.agent == self._proxy]
        return self._ended and [worker] == own and len(self._hosts) > 1

    @property
    def empty(self) -> bool:
        return not self._hosts
