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
      could not be pickled or sent                been handled, unpickled or not

So a reference is held without a gap from the sender's handle, over the pin, to the
receiver's (G4), and nothing depends on the receiver being able to unpickle (G5).

Death reaches a context in two steps. ``died(worker)`` fails what waits for the worker, at
once (G6). ``bury(worker)``, an `orphan_grace` later, releases what it held: in between,
endpoints that it had passed references to, and that the owner has not heard of, make
themselves known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from .effects import Effect, Fail, Hand, Lose, Run, Send, Settle, Stop
from .errors import OwnerDiedError, ProtocolError, WorkerDiedError
from .ids import CallId, ForkId, RRefId, WorkerId
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
    ObjectRequest,
    Reply,
    Tell,
)
from .owner import Owner
from .user import User

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call that this endpoint made: whom it waits for, and on which object."""

    to: WorkerId
    rref: RRefId | None


class Context:
    """All the reference machines of the endpoint *me*."""

    def __init__(self, me: WorkerId) -> None:
        self.me = me
        self.owners: dict[RRefId, Owner] = {}
        self.users: dict[RRefId, User] = {}
        self.waiting: dict[CallId, Waiting] = {}
        self.dead: set[WorkerId] = set()
        self._creating: dict[RRefId, tuple[RRefId, CallId]] = {}
        """Objects being created by a method call: the object it is called on, and its pin there."""
        self._rrefs = self._forks = self._calls = 0

    # ---- what the user's code does

    def own(self) -> RRefId:
        """A new object, here, with its value and one handle: ``RRef(value)``."""
        rref = self._mint_rref()
        owner = self.owners[rref] = Owner(rref)
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
            self.owners[rref] = Owner(rref)
        else:
            self.users[rref] = User(rref, to)
            self.users[rref].create(fork)
        self.hold(rref)
        if target is not None:
            pin = self._mint_pin(target)
            self._creating[rref] = target, pin
        message = Create(rref=rref, fork=fork, cargo=cargo, target=target)
        return rref, [Send(to, message)]

    def call(
        self, to: WorkerId, cargo: Cargo, chain: tuple[RRefId, ...] = ()
    ) -> tuple[CallId, list[Effect]]:
        """Run *cargo* on *to*: ``rpc_sync`` and ``rpc_async``."""
        self._check_alive(to)
        call = self._mint_call(to, None)
        return call, [Send(to, Call(call=call, cargo=cargo, chain=chain))]

    def invoke(
        self, rref: RRefId, cargo: Cargo, chain: tuple[RRefId, ...] = ()
    ) -> tuple[CallId, list[Effect]]:
        """Run a method of the object: ``rref.rpc_sync().method()`` and its kin."""
        to = self.owner_of(rref)
        call = self._mint_call(to, rref)
        return call, [Send(to, Invoke(call=call, rref=rref, cargo=cargo, chain=chain))]

    def fetch(
        self, rref: RRefId, chain: tuple[RRefId, ...] = (), *, copy: bool = True
    ) -> tuple[CallId, list[Effect]]:
        """Ask for a copy of the value (``to_here``), or only whether there is one (``wait``)."""
        to = self.owner_of(rref)
        call = self._mint_call(to, rref)
        return call, [Send(to, Fetch(call=call, rref=rref, copy=copy, chain=chain))]

    def cancel(self, call: CallId) -> list[Effect]:
        """Ask that *call* is not started any more. Its reply still comes."""
        waiting = self.waiting.get(call)
        if waiting is None:
            return []
        return self._send(waiting.to, Cancel(call=call, rref=waiting.rref))

    def tell(self, to: WorkerId, cargo: Cargo) -> list[Effect]:
        """Send a one-way message."""
        self._check_alive(to)
        return [Send(to, Tell(cargo=cargo))]

    def reply(self, call: CallId, cargo: Cargo) -> list[Effect]:
        """Answer *call*, whose caller is named in its id."""
        return self._send(call.caller, Reply(call=call, cargo=cargo))

    # ---- references on the way

    def fork(self, rref: RRefId, to: WorkerId) -> Descriptor:
        """Fork a child for *to*; the parent is pinned until it is confirmed (G2)."""
        self._check_alive(to)
        owner = self.owner_of(rref)
        fork = self._mint_fork()
        self._entry(rref).fork(fork, to)
        return Descriptor(rref=rref, fork=fork, owner=owner, parent=self.me)

    def abandon(self, descriptors: Iterable[Descriptor]) -> list[Effect]:
        """Undo forks whose message could not be pickled, or never left."""
        effects: list[Effect] = []
        for descriptor in descriptors:
            entry = self._find(descriptor.rref)
            children = entry.forks if isinstance(entry, Owner) else entry.children if entry else {}
            if entry is not None and descriptor.fork in children:
                effects += self._after(entry, entry.abandon(descriptor.fork))
        return effects

    def hold(self, rref: RRefId) -> None:
        """One more handle of *rref* lives in this process."""
        self._entry(rref).hold()

    def drop(self, rref: RRefId) -> list[Effect]:
        """One handle of *rref* is gone."""
        entry = self._entry(rref)
        return self._after(entry, entry.drop())

    def release(self, descriptors: Iterable[Descriptor]) -> list[Effect]:
        """A message has been handled: its own hold on the references in it ends."""
        return [effect for each in descriptors for effect in self.drop(each.rref)]

    # ---- what the shell reports of the objects that live here

    def resolve(self, rref: RRefId) -> list[Effect]:
        """The value of *rref*, or the error that takes its place, is there."""
        owner = self.owners[rref]
        return self._after(owner, owner.resolve())

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
        if isinstance(message, Call | Invoke | Fetch) and message.call.caller != sender:
            raise ProtocolError(f"{sender} sent call {message.call}, an id that is not its own")
        match message:
            case ForkRequest():
                return self._own_or_await(message.rref).fork_request(sender, message)
            case Delete():
                owner = self._owner(message.rref)
                return self._after(owner, owner.delete(sender, message))
            case Ack():
                user = self._user(message.rref)
                return self._after(user, user.ack(sender, message) + self._created(message.rref))
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
            case Tell(cargo=cargo):
                return [*self._accept(sender, cargo), Hand(sender, message)]
            case Call(cargo=cargo):
                return [*self._accept(sender, cargo), Run(sender, message)]
            case Create():
                return self._receive_create(sender, message)
            case Invoke(rref=rref, cargo=cargo):
                self._check_cargo(sender, cargo)
                self._own_or_await(rref)
                return [*self._accept(sender, cargo), *self._enqueue(rref, sender, message)]
            case Fetch(rref=rref):
                self._own_or_await(rref)
                return self._enqueue(rref, sender, message)
            case Reply():
                return self._receive_reply(sender, message)
            case _:
                assert_never(message)

    def _receive_create(self, sender: WorkerId, message: Create) -> list[Effect]:
        if message.rref.creator != sender or message.fork.parent != sender:
            raise ProtocolError(f"{sender} created {message.rref}, an id that is not its own")
        if message.target is not None:
            self._check_mine(message.target)
        self._check_cargo(sender, message.cargo)
        effects = self._own_or_await(message.rref, created_here=True).create(
            sender, message, self.me
        )
        effects += self._accept(sender, message.cargo)
        if message.target is None:
            return [*effects, Run(sender, message)]
        self._own_or_await(message.target)
        effects += self._enqueue(message.target, sender, message)
        if sender == self.me:
            effects += self._created(message.rref)
        return effects

    def _created(self, rref: RRefId) -> list[Effect]:
        """The owner has the creation: the object it was called on needs no more holding."""
        creating = self._creating.pop(rref, None)
        return self._answered(*creating) if creating is not None else []

    def _receive_reply(self, sender: WorkerId, message: Reply) -> list[Effect]:
        waiting = self.waiting.get(message.call)
        if waiting is None or waiting.to != sender:
            raise ProtocolError(f"{sender} replied to {message.call}, which it was not asked")
        effects = self._accept(sender, message.cargo)
        del self.waiting[message.call]
        effects.append(Settle(sender, message))
        if waiting.rref is not None:
            effects += self._answered(waiting.rref, message.call)
        return effects

    def _answered(self, rref: RRefId, request: CallId) -> list[Effect]:
        entry = self._find(rref)
        if entry is None or request not in entry.pending:
            return []
        entry.pending.discard(request)
        return self._after(entry, entry.settle())

    def _accept(self, sender: WorkerId, cargo: Cargo) -> list[Effect]:
        """Take over every reference in *cargo*; the message holds each once from now on."""
        self._check_cargo(sender, cargo)
        effects: list[Effect] = []
        for descriptor in cargo.descriptors:
            if descriptor.owner == self.me:
                home = self._own_or_await(descriptor.rref)
                effects += self._filter(home.arrive(descriptor, self.me))
            else:
                user = self.users.get(descriptor.rref)
                if user is None:
                    user = self.users[descriptor.rref] = User(descriptor.rref, descriptor.owner)
                    user.lost = descriptor.owner in self.dead
                effects += self._filter(user.arrive(descriptor))
        return effects

    def _check_cargo(self, sender: WorkerId, cargo: Cargo) -> None:
        if len({descriptor.fork for descriptor in cargo.descriptors}) < len(cargo.descriptors):
            raise ProtocolError(f"{sender} sent one fork twice")
        for descriptor in cargo.descriptors:
            if descriptor.parent != sender or descriptor.fork.parent != sender:
                raise ProtocolError(f"{sender} sent {descriptor.rref} with a fork not its own")
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

    def died(self, worker: WorkerId) -> list[Effect]:
        """*worker* is dead: whatever waits for it fails now (G6), and it is fenced off."""
        if worker in self.dead or worker == self.me:
            return []
        self.dead.add(worker)
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
        return effects

    def bury(self, worker: WorkerId) -> list[Effect]:
        """Release what the dead *worker* held, was sent, or was owed (G4 and G5)."""
        effects: list[Effect] = []
        for owner in list(self.owners.values()):
            effects += self._after(owner, owner.forget(worker))
            if not owner.created and owner.rref.creator == worker:
                # Its creation can not arrive any more, so neither can its value.
                effects.append(Lose(owner.rref))
        for user in list(self.users.values()):
            effects += self._after(user, user.forget(worker))
        return effects

    # ---- looking up

    def owner_of(self, rref: RRefId) -> WorkerId:
        """The endpoint that owns *rref*. Raises `OwnerDiedError` if it is dead."""
        entry = self._entry(rref)
        if isinstance(entry, Owner):
            return self.me
        if entry.lost:
            raise OwnerDiedError(
                f"the owner of {rref}, {entry.owner}, died, and the value with it; "
                "drop this reference and create the object again"
            )
        return entry.owner

    def _find(self, rref: RRefId) -> Owner | User | None:
        return self.owners.get(rref) or self.users.get(rref)

    def _entry(self, rref: RRefId) -> Owner | User:
        entry = self._find(rref)
        if entry is None:
            raise AssertionError(f"{self.me} uses {rref}, which it does not hold")
        return entry

    def _owner(self, rref: RRefId) -> Owner:
        owner = self.owners.get(rref)
        if owner is None:
            raise ProtocolError(f"{self.me} does not own {rref}")
        return owner

    def _user(self, rref: RRefId) -> User:
        user = self.users.get(rref)
        if user is None:
            raise ProtocolError(f"{self.me} holds no fork of {rref}")
        return user

    def _check_mine(self, rref: RRefId) -> None:
        if rref in self.users or (rref not in self.owners and rref.creator == self.me):
            raise ProtocolError(f"{rref} is not owned by {self.me}, or is freed")

    def _own_or_await(self, rref: RRefId, *, created_here: bool = False) -> Owner:
        """The owner entry; a placeholder, if the object's creation is still on its way."""
        if not created_here:
            self._check_mine(rref)
        owner = self.owners.get(rref)
        if owner is None:
            owner = self.owners[rref] = Owner(rref)
        return owner

    # ---- effects

    def _send(self, to: WorkerId, message: Message) -> list[Effect]:
        return self._filter([Send(to, message)])

    def _filter(self, effects: list[Effect]) -> list[Effect]:
        """Nothing is sent to the dead."""
        if not self.dead:
            return effects
        return [e for e in effects if not (isinstance(e, Send) and e.to in self.dead)]

    def _after(self, entry: Owner | User, effects: list[Effect]) -> list[Effect]:
        """Take *entry* out of the tables when its machine has come to its end."""
        if isinstance(entry, Owner):
            if entry.unused:
                self.owners.pop(entry.rref, None)
        elif entry.unused:
            self.users.pop(entry.rref, None)
        return self._filter(effects)

    def _check_alive(self, worker: WorkerId) -> None:
        if worker in self.dead:
            raise WorkerDiedError(f"worker {worker} died; nothing can be sent to it")

    def _mint_rref(self) -> RRefId:
        self._rrefs += 1
        return RRefId(self.me, self._rrefs)

    def _mint_fork(self) -> ForkId:
        self._forks += 1
        return ForkId(self.me, self._forks)

    def _mint_call(self, to: WorkerId, rref: RRefId | None) -> CallId:
        call = self._mint_pin(rref)
        self.waiting[call] = Waiting(to, rref)
        return call

    def _mint_pin(self, rref: RRefId | None) -> CallId:
        """A new call's id; it pins the object that it is called on until it is answered."""
        self._calls += 1
        call = CallId(self.me, self._calls)
        if rref is not None:
            self._entry(rref).pending.add(call)
        return call
