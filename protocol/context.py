"""Everything that one endpoint knows about references: the machines, composed.

A `Context` holds one `Owner` for each object that lives here and one `User` for each
object that lives elsewhere, mints ids, and routes every message to the machine it is for.
It is sans-IO: whatever happens to the endpoint is a method call, and the answer is a list
of effects for the shell to carry out, in order. It is not thread-safe; the shell calls it
under one lock.

How a reference travels, seen from both ends::

    sender                                      receiver
    fork(rref, to) -> Descriptor                receive(message) accepts every descriptor:
      for each reference while pickling           each holds its entry once ("arrive")
    tell / call / create / ... -> Send          hold(rref) for each handle unpickled
      or abandon(descriptors), if the message   release(descriptors) when the message has
      could not be pickled or sent                been handled, unpickled or not; those of a
                                                  request with its `reply` or `resolve`

So a reference is held without a gap from the sender's handle, over the pin, to the
receiver's (G4), and nothing depends on the receiver being able to unpickle (G5). What is in
the arguments of a call is lent instead, as the system's discipline says (see `sharing`).

Death reaches a context in two steps. ``died(worker)`` fails what waits for the worker, at
once (G6). ``bury(worker)``, an `orphan_grace` later, releases what it held: in between,
endpoints that it had passed references to, and that the owner has not heard of, make
themselves known. For one that comes too late the owner puts a placeholder in the place of the
object, has it resolved to a `RefLostError` (`Lose`), and counts it as ever: so the late
endpoint is answered like any other, and learns of the loss when it uses the reference (G6).
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, assert_never

from .creations import Asked, Seen
from .effects import Effect, Fail, Hand, Lose, Run, Send, Settle, Stop
from .errors import ProtocolError
from .loans import Loans
from .messages import (
    Ack,
    Call,
    Cancel,
    Cargo,
    ChildAck,
    Create,
    Delete,
    Descriptor,
    Fetch,
    ForkRequest,
    Invoke,
    Message,
    NotifyRefRemoved,
    ObjectRequest,
    Passing,
    RefRemoved,
    Reply,
    Returned,
    Tell,
    check_message,
)
from .owner import Owner
from .user import User

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .ids import CallId, ForkId, RRefId, WorkerId
    from .sharing import Sharing

_NOTHING_LENT: Mapping[ForkId, RRefId] = MappingProxyType({})


class Context(Loans):
    """All the reference machines of the endpoint *me*, which shares by *sharing* in calls."""

    def __init__(self, me: WorkerId, sharing: Sharing = "lend") -> None:
        super().__init__(me, sharing)
        self._creating: dict[RRefId, tuple[RRefId, CallId]] = {}
        """Objects being created by a method call: the object it is called on, and its pin there."""
        self._making: dict[RRefId, CallId] = {}
        """Objects that live here and are being made, and by which request."""

    # ---- what the user's code does

    def own(self) -> RRefId:
        """A new object, here, with its value and one handle: ``RRef(value)``."""
        rref = self._mint_rref()
        owner = self.owners[rref] = self.discipline.own(rref)
        owner.created = owner.resolved = True
        owner.hold()
        return rref

    def create(
        self, to: WorkerId, cargo: Cargo, target: RRefId | None = None
    ) -> tuple[RRefId, list[Effect]]:
        """A new object on *to*, made by running *cargo*, with one handle here: ``remote``."""
        self._check_alive(to)
        rref, fork = self._mint_rref(), self._mint_fork()
        if to == self.me:
            self.owners[rref] = self.discipline.own(rref)
        else:
            self._use(rref, to).create(fork)
        self.hold(rref)
        call = self._mint_pin(target)
        if target is not None:
            self._creating[rref] = target, call
        settled = self._asked.setdefault(to, Asked()).add(rref.number)
        message = Create(
            call=call, rref=rref, fork=fork, cargo=cargo, target=target, settled=settled
        )
        return rref, [Send(to, message)]

    def call(
        self, to: WorkerId, cargo: Cargo, chain: tuple[RRefId, ...] = ()
    ) -> tuple[CallId, list[Effect]]:
        """Run *cargo* on *to*: ``rpc_sync`` and ``rpc_async``."""
        self._check_alive(to)
        call = self._mint_call(to, None, cargo)
        return call, [Send(to, Call(call=call, cargo=cargo, chain=chain))]

    def invoke(
        self, rref: RRefId, cargo: Cargo, chain: tuple[RRefId, ...] = ()
    ) -> tuple[CallId, list[Effect]]:
        """Run a method of the object: ``rref.rpc_sync().method()`` and its kin."""
        to = self.owner_of(rref)
        call = self._mint_call(to, rref, cargo)
        return call, [Send(to, Invoke(call=call, rref=rref, cargo=cargo, chain=chain))]

    def fetch(
        self, rref: RRefId, chain: tuple[RRefId, ...] = (), *, copy: bool = True
    ) -> tuple[CallId, list[Effect]]:
        """Ask for a copy of the value (``to_here``), or only whether there is one (``wait``)."""
        to = self.owner_of(rref)
        call = self._mint_call(to, rref, Cargo())
        return call, [Send(to, Fetch(call=call, rref=rref, copy=copy, chain=chain))]

    def cancel(self, call: CallId) -> list[Effect]:
        """Ask that *call* is not started any more. Its reply still comes."""
        waiting = self.waiting.get(call)
        if waiting is None:
            return []
        return [Send(waiting.to, Cancel(call=call, rref=waiting.rref))]

    def tell(self, to: WorkerId, cargo: Cargo) -> list[Effect]:
        """Send a one-way message."""
        self._check_alive(to)
        return [Send(to, Tell(cargo=cargo))]

    def reply(self, call: CallId, cargo: Cargo) -> list[Effect]:
        """Answer *call*, whose caller is named in its id; what its request held is let go."""
        loans, effects = self._end(call, replies=True)
        effects.append(Send(call.caller, Reply(call=call, cargo=cargo, loans=loans)))
        return self._finish(effects)

    # ---- references on the way

    def fork(self, rref: RRefId, to: WorkerId) -> Descriptor:
        """Fork a child for *to*; the parent is pinned until it is confirmed (G2)."""
        entry, descriptor = self._share(rref, to)
        entry.fork(descriptor.fork, to)
        return descriptor

    def lend(self, rref: RRefId, to: WorkerId, *, replies: bool = True) -> Descriptor:
        """Share for a call on *to*, as the discipline says; a creation has no reply."""
        entry, descriptor = self._share(rref, to)
        counted = isinstance(entry, User) and entry.counted
        passing = entry.lend(descriptor.fork, to, replies=replies)
        return replace(descriptor, passing=passing, counted=counted)

    def _share(self, rref: RRefId, to: WorkerId) -> tuple[Owner | User, Descriptor]:
        self._check_alive(to)
        owner = self.owner_of(rref)
        fork = self._mint_fork()
        return self._entry(rref), Descriptor(rref=rref, fork=fork, owner=owner, parent=self.me)

    def abandon(self, descriptors: Iterable[Descriptor]) -> list[Effect]:
        """Undo forks whose message could not be pickled, or never left."""
        effects: list[Effect] = []
        for descriptor in descriptors:
            entry = self._find(descriptor.rref)
            children = entry.forks if isinstance(entry, Owner) else entry.children if entry else {}
            back = descriptor.passing is Passing.BACK  # the lender's fork, and none of ours
            if entry is not None and descriptor.fork in children and not back:
                effects += self._after(entry, entry.abandon(descriptor.fork))
        return effects

    def hold(self, rref: RRefId) -> None:
        """One more handle of *rref* lives in this process."""
        self._entry(rref).hold()

    def drop(self, *rrefs: RRefId) -> list[Effect]:
        """One handle of each of *rrefs* is gone."""
        effects: list[Effect] = []
        for rref in rrefs:
            entry = self._entry(rref)
            effects += self._after(entry, entry.drop())
        return self._finish(effects)

    def release(self, descriptors: Iterable[Descriptor]) -> list[Effect]:
        """A message or reply has been handled: its own hold on its references ends."""
        return self._finish(self._release(descriptors))

    # ---- what the shell reports of the objects that live here

    def resolve(self, rref: RRefId) -> list[Effect]:
        """The value of *rref*, or the error that takes its place, is there."""
        effects: list[Effect] = []
        call = self._making.pop(rref, None)
        if call is not None:
            loans, effects = self._end(call, replies=False)
            if loans:
                effects.append(Send(call.caller, Returned(loans=loans)))
        owner = self.owners[rref]
        return self._finish(effects + self._after(owner, owner.resolve()))

    def done(self, rref: RRefId) -> list[Effect]:
        """The request that ran on *rref* has ended."""
        owner = self.owners[rref]
        return self._after(owner, owner.done())

    # ---- messages

    def receive(self, sender: WorkerId, message: Message) -> list[Effect]:
        """Take one message of *sender*'s; what a dead worker sent is ignored (fencing).

        Raises `ProtocolError`, with nothing changed, if no correct peer sends it.
        """
        if sender in self.dead:
            return []
        check_message(message)
        return self._finish(self._receive(sender, message))

    def _receive(self, sender: WorkerId, message: Message) -> list[Effect]:
        if isinstance(message, Call | Invoke | Fetch) and message.call.caller != sender:
            raise ProtocolError(f"{sender} sent call {message.call}, an id that is not its own")
        match message:
            case ForkRequest():
                owner, lost = self._own_or_await(message.rref)
                return [*owner.fork_request(sender, message), *lost]
            case Delete():
                return self._delete(sender, message)
            case Ack():
                user = self._user(message.rref)
                return self._after(
                    user, user.ack(sender, message) + self._created(message.rref, sender)
                )
            case ChildAck():
                found_user = self.users.get(message.rref)
                if found_user is None or found_user.lost:
                    return []  # the owner died meanwhile, and with it went the pin
                return self._after(found_user, found_user.child_ack(sender, message))
            case Cancel(call=call, rref=rref):
                if rref is None:
                    return [Stop(sender, call)]
                found = self.owners.get(rref)
                return self._after(found, found.cancel(sender, call)) if found else []
            case Returned(loans=loans):
                return [e for r in loans for e in self._loan_ended(sender, r.rref, r.fork, r)]
            case NotifyRefRemoved(loans=notices):
                self._check_notices(sender, notices)
                return [e for rref, fork in notices for e in self._notified(sender, rref, fork)]
            case RefRemoved(removed=removed):
                self._check_removed(sender, removed)
                return [effect for each in removed for effect in self._delete(sender, each)]
            case Tell(cargo=cargo):
                return [*self._accept(sender, cargo), Hand(sender, message)]
            case Call(call=call, cargo=cargo):
                return [*self._accept_request(sender, call, cargo), Run(sender, message)]
            case Create():
                return self._receive_create(sender, message)
            case Invoke(call=call, rref=rref, cargo=cargo):
                self._check_cargo(sender, cargo, lendable=True)
                _, lost = self._own_or_await(rref)
                effects = self._accept_request(sender, call, cargo)
                return [*lost, *effects, *self._enqueue(rref, sender, message)]
            case Fetch(rref=rref):
                _, lost = self._own_or_await(rref)
                return [*lost, *self._enqueue(rref, sender, message)]
            case Reply():
                return self._receive_reply(sender, message)
            case _:
                assert_never(message)

    def _receive_create(self, sender: WorkerId, message: Create) -> list[Effect]:
        if message.rref.creator != sender or message.fork.parent != sender:
            raise ProtocolError(f"{sender} created {message.rref}, an id that is not its own")
        if message.call.caller != sender:
            raise ProtocolError(f"{sender} created by call {message.call}, an id not its own")
        if message.target is not None:
            self._check_mine(message.target)
        self._check_cargo(sender, message.cargo, lendable=True)
        owner, _ = self._own_or_await(message.rref, created_here=True)
        effects = owner.create(sender, message, self.me)
        self._seen.setdefault(sender, Seen()).add(message.rref.number, message.settled)
        self._making[message.rref] = message.call
        effects += self._accept_request(sender, message.call, message.cargo)
        if message.target is None:
            effects.append(Run(sender, message))
        else:
            effects += self._own_or_await(message.target)[1]
            effects += self._enqueue(message.target, sender, message)
        if sender == self.me:
            effects += self._created(message.rref, self.me)
        return effects

    def _created(self, rref: RRefId, owner: WorkerId) -> list[Effect]:
        """*owner* has the creation: the object it was called on needs no more holding."""
        asked = self._asked.get(owner)
        if asked is not None and rref.creator == self.me and asked.acknowledged(rref.number):
            del self._asked[owner]
        creating = self._creating.pop(rref, None)
        return self._answered(*creating) if creating is not None else []

    def _receive_reply(self, sender: WorkerId, message: Reply) -> list[Effect]:
        waiting = self.waiting.get(message.call)
        if waiting is None or waiting.to != sender:
            raise ProtocolError(f"{sender} replied to {message.call}, which it was not asked")
        lent = {loan.fork: loan.rref for loan in waiting.loans}
        if any(lent.get(report.fork) != report.rref for report in message.loans):
            raise ProtocolError(f"{sender} reports of a loan that {message.call} did not have")
        effects = self._accept(sender, message.cargo, lent=lent)
        del self.waiting[message.call]
        effects.append(Settle(sender, message))
        if waiting.rref is not None:
            effects += self._answered(waiting.rref, message.call)
        reports = {report.fork: report for report in message.loans}
        for fork, rref in lent.items():
            effects += self._loan_ended(sender, rref, fork, reports.get(fork))
        return effects

    def _answered(self, rref: RRefId, request: CallId) -> list[Effect]:
        entry = self._find(rref)
        if entry is None or request not in entry.pending:
            return []
        entry.pending.discard(request)
        return self._after(entry, entry.settle())

    def _accept_request(self, sender: WorkerId, call: CallId, cargo: Cargo) -> list[Effect]:
        effects = self._accept(sender, cargo, lendable=True)
        if cargo.descriptors:
            self._serving[call] = cargo.descriptors
        return effects

    def _accept(
        self,
        sender: WorkerId,
        cargo: Cargo,
        *,
        lendable: bool = False,
        lent: Mapping[ForkId, RRefId] = _NOTHING_LENT,
    ) -> list[Effect]:
        """Take over every reference in *cargo*; the message holds each once from now on."""
        self._check_cargo(sender, cargo, lendable=lendable, lent=lent)
        effects: list[Effect] = []
        for descriptor in cargo.descriptors:
            if descriptor.owner == self.me:
                home, lost = self._own_or_await(descriptor.rref)
                effects += [*self._filter(home.arrive(descriptor, self.me)), *lost]
            else:
                user = self._use(descriptor.rref, descriptor.owner)
                effects += self._filter(user.arrive(descriptor))
        return effects

    def _check_cargo(
        self,
        sender: WorkerId,
        cargo: Cargo,
        *,
        lendable: bool = False,
        lent: Mapping[ForkId, RRefId] = _NOTHING_LENT,
    ) -> None:
        """*lendable*: it is a request; *lent*: it is a reply, to a call that lent these."""
        # A loan comes back as often as the reply has handles of it.
        new = [each.fork for each in cargo.descriptors if each.passing is not Passing.BACK]
        if len(set(new)) < len(new):
            raise ProtocolError(f"{sender} sent one fork twice")
        for descriptor in cargo.descriptors:
            back = descriptor.passing is Passing.BACK
            parent = self.me if back else sender
            if descriptor.parent != parent or descriptor.fork.parent != parent:
                raise ProtocolError(f"{sender} sent {descriptor.rref} with a fork not its own")
            if back and lent.get(descriptor.fork) != descriptor.rref:
                raise ProtocolError(f"{sender} gives {descriptor.rref} back, which it was not lent")
            if descriptor.passing is Passing.LOAN and not lendable:
                raise ProtocolError(f"{sender} lent {descriptor.rref}, but not for a call")
            if descriptor.passing is Passing.LOAN and not self.discipline.lends:
                raise ProtocolError(f"{sender} lent {descriptor.rref}; this system forks in calls")
            user = self.users.get(descriptor.rref)
            if user is not None and user.owner != descriptor.owner:
                raise ProtocolError(f"{sender} names a wrong owner of {descriptor.rref}")
            if descriptor.owner == self.me:
                self._check_mine(descriptor.rref)
                mine = self.owners.get(descriptor.rref)
                if sender == self.me and (mine is None or descriptor.fork not in mine.forks):
                    raise ProtocolError(f"{sender} sent itself fork {descriptor.fork} twice")

    def _enqueue(self, rref: RRefId, sender: WorkerId, request: ObjectRequest) -> list[Effect]:
        owner = self.owners[rref]
        return self._after(owner, owner.enqueue(sender, request))

    # ---- death

    def died(self, worker: WorkerId, unacknowledged: Iterable[Message] = ()) -> list[Effect]:
        """*worker* is dead: whatever waits for it fails now (G6), and it is fenced off.

        *unacknowledged* are the messages of this endpoint that it may not have received.
        """
        if worker in self.dead or worker == self.me:
            return []
        self.dead.add(worker)
        self._asked.pop(worker, None)
        effects: list[Effect] = []
        for call, waiting in list(self.waiting.items()):
            if waiting.to == worker:
                del self.waiting[call]
                effects.append(Fail(call, worker, waiting.rref))
        for user in list(self.users.values()):
            if user.owner == worker:
                user.lose()
                self._creating.pop(user.rref, None)
                effects += self._after(user, [])
            else:
                effects += self._after(user, user.died(worker, self._mint_fork))
        for message in unacknowledged:
            effects += self._take_back(message)
        return self._finish(effects)

    def bury(self, worker: WorkerId) -> list[Effect]:
        """Release what the dead *worker* held, was sent, or was owed (G4 and G5)."""
        self.buried.add(worker)
        effects: list[Effect] = []
        for owner in list(self.owners.values()):
            effects += self._after(owner, owner.forget(worker))
            if not owner.created and owner.rref.creator == worker:
                # Its creation can not arrive any more, so neither can its value.
                effects.append(Lose(owner.rref))
        for user in list(self.users.values()):
            effects += self._after(user, user.forget(worker))
        self._seen.pop(worker, None)
        return self._finish(effects)
