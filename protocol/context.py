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

from typing import TYPE_CHECKING, assert_never

from .creations import Seen
from .effects import Effect, Fail, Hand, Lose, Refusal, Refuse, Run, Send, Stop
from .errors import ProtocolError
from .messages import (
    Ack,
    AliasGone,
    AliasRef,
    Call,
    Cancel,
    Canonical,
    ChildAck,
    Create,
    Delete,
    Fetch,
    ForkRequest,
    Invoke,
    Message,
    NotifyRefRemoved,
    ObjectRequest,
    Probe,
    RefRemoved,
    Reply,
    Returned,
    RoomAsked,
    RoomGiven,
    Tell,
    check_message,
)
from .rings import Rings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .dead import Span
    from .ids import RRefId, WorkerId


class Context(Rings):
    """All the reference machines of the endpoint *me*, which shares by *sharing* in calls."""

    # ---- what the user's code does

    def own(self) -> RRefId:
        """A new object, here, with its value and one handle: ``RRef(value)``."""
        rref = self._mint_rref()
        owner = self._begin(rref)
        owner.created = owner.resolved = True
        owner.hold()
        return rref

    # ---- what the shell reports of the objects that live here

    def resolve(self, rref: RRefId) -> list[Effect]:
        """The value of *rref*, or the error that takes its place, is there."""
        owner = self.owners[rref]
        effects = self._made(rref)
        effects += self._after(owner, owner.resolve())
        return self._finish(effects + self._answer_asking(owner))

    def done(self, rref: RRefId) -> list[Effect]:
        """The request that ran on *rref* has ended."""
        owner = self.owners[rref]
        return self._after(owner, owner.done())

    # ---- messages

    def receive(self, sender: WorkerId, message: Message) -> list[Effect]:
        """`take` one message of *sender*'s that may be anything at all.

        Raises `ProtocolError`, with nothing changed, if no correct peer sends it.
        """
        if sender not in self.dead:
            check_message(message)
        return self.take(sender, message)

    def take(self, sender: WorkerId, message: Message) -> list[Effect]:
        """Take one message of *sender*'s; what a dead worker sent is ignored (fencing).

        *message* is right in every field: it was decoded (see `packets`), or never left here.
        Raises `ProtocolError`, with nothing changed, if no correct peer sends it.
        """
        if sender in self.dead:
            return []
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
                return [Stop(sender, call)] if rref is None else self._cancel(sender, call, rref)
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
            case AliasRef():
                return self._alias_ref(sender, message)
            case Canonical():
                return self._canonical(sender, message)
            case AliasGone():
                return self._alias_gone(sender, message)
            case Probe():
                return self._receive_probe(sender, message)
            case RoomAsked() | RoomGiven():
                return []  # delivery has seen to it
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
        # Acknowledged now, when it is accepted, not when it has run.
        ack = Ack(rref=message.rref, fork=message.fork)
        acks: list[Effect] = [] if sender == self.me else [Send(sender, ack)]
        if message.target is None or not self._passes_on(message.target):
            effects, acks = [*acks, *effects], []
        self._seen.setdefault(sender, Seen()).add(message.rref.number, message.settled)
        self._making[message.rref] = message.call
        effects += self._accept_request(sender, message.call, message.cargo)
        if message.target is None:
            effects.append(Run(sender, message))
        else:
            effects += self._own_or_await(message.target)[1]
            effects += self._enqueue(message.target, sender, message, acks)
        if sender == self.me:
            effects += self._created(message.rref, self.me)
        return effects

    def _enqueue(
        self, rref: RRefId, sender: WorkerId, request: ObjectRequest, acks: Sequence[Effect] = ()
    ) -> list[Effect]:
        owner = self.owners[rref]
        if not isinstance(request, Create) and request.cancelled:
            return self._after(owner, [Refuse(sender, request, Refusal.CANCELLED)])
        if owner.alias is not None and self._passes_on(rref):
            return self._pass_on(owner.alias, sender, request, list(acks))
        return self._after(owner, owner.enqueue(sender, request))

    # ---- death

    def outlive(self, spans: Iterable[Span]) -> None:
        """These were dead and buried before this endpoint came: they never held anything here."""
        for dead in (self.dead, self.buried):
            dead.merge(spans)

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
                relay = waiting.relay
                effects.append(
                    Fail(call, worker, waiting.rref)
                    if relay is None
                    else Refuse(relay.sender, relay.request, Refusal.LOST)
                )
        for user in list(self.users.values()):
            if user.owner == worker:
                user.lose()
                self._creating.pop(user.rref, None)
                effects += self._after(user, [])
            else:
                effects += self._after(user, user.died(worker, self._mint_fork))
        effects += self._lose_aliases(worker)
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
        missed = {user.owner for user in self.users.values()}
        self.causes = {
            dead: cause
            for dead, cause in self.causes.items()
            if dead not in self.buried or dead in missed
        }
        return self._finish(effects)
