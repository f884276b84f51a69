"""The owner's view of one object: its holders, the requests that wait for it, and its end.

`states.OwnerState` has the states of the object, `states.RequestState` those of the requests on it.

`Owner.forks` holds exactly the known forks. A deleted fork needs no tombstone: a user deletes only
after the owner has confirmed it (see `user`), and every message takes effect at most once. So no
message about a fork can arrive after its `Delete`.

A *placeholder* stands for an object before its creation arrives. Messages come in any order, so a
fork request, a fetch, a call, even a delete (the note's A -> Y -> Z) may overtake the creation.
Forks of a placeholder are counted at once, since counting needs no value; fetches and calls wait,
as they do for any missing value. A placeholder is never freed: its creator holds it, though the
owner does not know it yet. Therefore the dangerous case of the note (some forks unknown, others
deleted) does no harm: while a fork is unknown its parent is pinned (G2). So some known ancestor
remains along the fork tree, or the creation itself is still outstanding.

Invariants:

* the object is freed exactly when it is resolved, or an alias, and ``handles``, ``messages``,
  ``forks``, ``pending``, ``asking``, the queue, the running request and ``aside`` are all empty
  (G4, G5);
* at most one request (fetches included) has the turn at a time, and requests start in the order of
  arrival: an object behind a reference behaves like an actor;
* a request whose code awaits *pauses*: it gives its turn away and stands *aside*. When it can go
  on, it lines up for a new turn behind everything that has come before, as a new request does. So
  no request overtakes another in the line, and neither kind can starve the other (as on an asyncio
  loop). Requests interleave only where their code awaits, and end in any order;
* an object that is not ``serial`` gives no turns: its requests run at once, beside each other;
* a request is refused, never queued, if its chain shows that it would wait for itself (G6). One in
  a ring with requests of other chains is taken out of the queue later (see `deadlocks`). One that
  has begun is never refused. A chain names the objects with a method that keeps the turn while it
  waits. A method that awaits does not, so its object is not in the chains of its calls.

An owner entry of this class shares in calls by forking; `lending` and `borrowing` have their own
entries (see `sharing`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from .alias import Alias
from .effects import Effect, Free, Refusal, Refuse, Resume, Run, Send
from .empty import EMPTY, EMPTY_SET
from .errors import ProtocolError
from .ids import CallId, ForkId, RRefId, WorkerId
from .messages import (
    Ack,
    Busy,
    ChildAck,
    Create,
    Delete,
    Descriptor,
    ForkRequest,
    Grip,
    Hop,
    ObjectRequest,
    Passing,
    Report,
    names,
)

MAX_QUEUED = 100_000
"""The most requests that may wait for their turn on one object; a further one is refused."""


class Owner(msgspec.Struct, gc=False, eq=False):
    """One object that this endpoint owns, from the first message about it to `Free`.

    Nothing in it leads back to it, so Python's garbage collector need not track it.
    """

    rref: RRefId
    label: RRefId
    """The greatest id of an alias on a way to this object; at first its own."""
    born: float = 0.0
    """When the entry was made, by the shell's clock (`Tables.now`)."""
    created: bool = False
    resolved: bool = False
    target: RRefId | None = None
    """The object in whose queue the creating call waits, if it is a method call."""
    handles: int = 0
    """Live handles in this process."""
    messages: int = 0
    """Messages that hold the object until they have been handled."""
    forks: dict[ForkId, WorkerId] = EMPTY
    """The known forks, and the present or future holder of each."""
    lent: dict[ForkId, WorkerId] = EMPTY
    """Loans for calls without an answer so far; see `lending`."""
    pending: set[CallId] = EMPTY_SET
    """This endpoint's own unanswered requests on the object."""
    queue: dict[CallId, tuple[WorkerId, ObjectRequest | Resume]] = EMPTY
    """The requests that wait for their turn: new ones, and those that can go on. An `OrderedDict`,
    as the first one leaves a plain dict in a time that grows with it."""
    running: CallId | None = None
    """The request that has the object's turn."""
    aside: set[CallId] = EMPTY_SET
    """The requests that have begun and have no turn: they await, or line up to go on. If the
    object is not serial, all that run."""
    serial: bool = True
    """Whether requests take turns."""
    alias: Alias | None = None
    """The object's target, if its function returned a reference (see `aliases`)."""
    aliases: dict[RRefId, WorkerId] = EMPTY
    """The reverse map: the objects that stand for this one, and the owner of each."""
    asking: dict[CallId, WorkerId] = EMPTY
    """The questions of owners of aliases that wait to be told what this object is."""
    stamp: int = 0
    """The references and requests that have come or left, and the forks counted since; see
    `cycles`."""

    # ---- holding the object

    def fork(self, fork: ForkId, to: WorkerId) -> None:
        """Share with *to*: the owner is the parent, so the fork is known at once (G2)."""
        self.forks = self.forks or {}
        self.forks[fork] = to

    def lend(self, fork: ForkId, to: WorkerId, *, replies: bool) -> Passing:
        """Share with *to* for a call; with *replies* false the call has no reply."""
        self.fork(fork, to)
        return Passing.FORK

    def loan_ended(self, sender: WorkerId, fork: ForkId, report: Report | None) -> list[Effect]:
        """The call for which *fork* was lent to *sender* has run."""
        raise ProtocolError(f"{sender} returned {fork} of {self.rref}, which was not lent")

    def abandon(self, fork: ForkId) -> list[Effect]:
        """Undo a fork whose message never left."""
        del self.forks[fork]
        self.forks = self.forks or EMPTY
        return self.end_if_unused()

    def arrive(self, descriptor: Descriptor, me: WorkerId) -> list[Effect]:
        """The reference comes home: its message holds the owner's own entry from now on."""
        self.messages += 1
        self.stamp += 1
        if descriptor.passing is not Passing.FORK:
            return []  # the lender keeps its own pin until the reply
        if descriptor.parent == me:
            # The owner shared with itself: its fork ends here.
            del self.forks[descriptor.fork]
            self.forks = self.forks or EMPTY
            return []
        return [Send(descriptor.parent, ChildAck(rref=self.rref, fork=descriptor.fork))]

    # ---- control messages

    def fork_request(self, sender: WorkerId, message: ForkRequest) -> list[Effect]:
        """unknown -> known."""
        self._check_unknown(message.fork)
        self.forks = self.forks or {}
        self.forks[message.fork] = sender
        self.stamp += 1
        return [Send(sender, Ack(rref=self.rref, fork=message.fork))]

    def delete(self, sender: WorkerId, message: Delete) -> list[Effect]:
        """known -> deleted (G1)."""
        self.check_delete(sender, message)
        for fork in message.forks:
            del self.forks[fork]
        if self.forks:
            return []
        self.forks = EMPTY
        return self.end_if_unused()

    def check_delete(self, sender: WorkerId, message: Delete) -> None:
        """Raise `ProtocolError` if *sender* deletes forks that it does not hold."""
        if len(message.forks) > 1 and len(set(message.forks)) < len(message.forks):
            raise ProtocolError(f"{sender} deleted a fork of {self.rref} twice")
        for fork in message.forks:
            if self.forks.get(fork) != sender:
                raise ProtocolError(
                    f"{sender} deleted fork {fork} of {self.rref}, which it does not hold"
                )

    def create(
        self, sender: WorkerId, message: Create, me: WorkerId, before: CallId | None
    ) -> list[Effect]:
        """placeholder -> created. *before*: see `enqueue`."""
        if self.created:
            raise ProtocolError(f"{sender} created {self.rref} a second time")
        self._check_unknown(message.fork)
        self.created = True
        self.target = message.target
        if sender != me:
            self.forks = self.forks or {}
            self.forks[message.fork] = sender
        return self._refuse_self_waits(before)

    def _refuse_self_waits(self, before: CallId | None) -> list[Effect]:
        """Check again the requests that overtook the creation: only now the target is known."""
        effects: list[Effect] = []
        for sender, request in self.vacate():
            if self._waits_for_itself(request, before):
                effects.append(Refuse(sender, request, Refusal.SELF_WAIT))
            else:
                self._line_up(sender, request)
        return effects

    def _check_unknown(self, fork: ForkId) -> None:
        if fork in self.forks:
            raise ProtocolError(f"fork {fork} of {self.rref} is known already")

    # ---- requests on the object

    def enqueue(
        self, sender: WorkerId, request: ObjectRequest, before: CallId | None
    ) -> list[Effect]:
        """Queue *request* for its turn on the object.

        *before*: the request that now runs on the object's target, or makes that.
        """
        self.stamp += 1
        if self._waits_for_itself(request, before):
            return [Refuse(sender, request, Refusal.SELF_WAIT)]
        if len(self.queue) >= MAX_QUEUED:
            return [Refuse(sender, request, Refusal.FULL)]
        self._line_up(sender, request)
        return self._next()

    def vacate(self) -> list[tuple[WorkerId, ObjectRequest]]:
        """Take all requests out of a queue in which none has begun."""
        queue, self.queue = self.queue, EMPTY
        return [each for each in queue.values() if not isinstance(each[1], Resume)]  # type: ignore[misc]  # mypy does not narrow a part of a tuple

    def _line_up(self, sender: WorkerId, request: ObjectRequest | Resume) -> None:
        self.queue = self.queue or OrderedDict()
        self.queue[request.call] = sender, request

    def _waits_for_itself(self, request: ObjectRequest, before: CallId | None) -> bool:
        chain = getattr(request, "chain", ())
        if not chain or self.alias is not None:
            return False  # no function makes an alias any more, and no request runs on it
        if self.resolved:  # a request of the chain may have ended meanwhile
            return self.running is not None and Busy(self.rref, self.running) in chain
        if names(chain, self.rref):
            return True
        if self.target is None or before is None:
            return False
        return Busy(self.target, before) in chain

    def resolve(self, *, serial: bool = True) -> list[Effect]:
        """created -> resolved: the value, or the error in its place, is there."""
        if self.resolved:
            raise AssertionError(f"{self.rref} was resolved twice")
        self.created = self.resolved = True
        self.serial = serial
        self.target = None
        return self._next() or self.end_if_unused()

    def stand_for(self, alias: Alias) -> None:
        """created -> alias: its value is that of another object."""
        self.created = True
        self.target = None
        self.alias = alias

    @property
    def located(self) -> bool:
        """The place of its value is known and may be told: here, or at its canonical object."""
        return self.resolved or (self.alias is not None and self.alias.shown is not None)

    def pause(self, call: CallId) -> list[Effect]:
        """The code of *call*, which runs, awaits: it stands aside, and the next one may go on."""
        if self.running != call:
            raise AssertionError(f"{call} has no turn on {self.rref}")
        self.running = None
        self._step_aside(call)
        return self._next()

    def resume(self, call: CallId) -> list[Effect]:
        """The code of *call* can go on: it lines up for a turn."""
        if call not in self.aside:
            raise AssertionError(f"{call} does not stand aside on {self.rref}")
        self._line_up(call.caller, Resume(call))
        return self._next()

    def has_begun(self, call: CallId) -> bool:
        """Whether *call* has begun on the object and has not ended: it runs, or it awaits."""
        return call == self.running or call in self.aside

    def done(self, call: CallId) -> list[Effect]:
        """Request *call*, which has begun, ended: the next one may start."""
        if self.running == call:
            self.running = None
        elif call in self.aside:
            self.aside.discard(call)
            self.aside = self.aside or EMPTY_SET
        else:
            raise AssertionError(f"{call} does not run on {self.rref}")
        return self._next() or self.end_if_unused()

    def _step_aside(self, call: CallId) -> None:
        self.aside = self.aside or set()
        self.aside.add(call)

    def cancel(
        self,
        sender: WorkerId,
        call: CallId,
        why: Refusal = Refusal.CANCELLED,
        ring: tuple[Hop, ...] = (),
    ) -> list[Effect]:
        """Take a request of *sender* out of the queue, if it has not started."""
        caller, request = self.queue.get(call, (None, None))
        if request is None or isinstance(request, Resume) or caller != sender:
            return []  # it has begun, or ended, or is not the sender's
        del self.queue[call]
        self.queue = self.queue or EMPTY
        return [Refuse(sender, request, why, ring), *self.end_if_unused()]

    def _next(self) -> list[Effect]:
        if self.running or not self.resolved or not self.queue:
            return []
        if not self.serial:
            return self._all()
        sender, request = self.queue.pop(next(iter(self.queue)))
        self.running = request.call
        self.queue = self.queue or EMPTY
        if isinstance(request, Resume):
            self.aside.discard(request.call)
            self.aside = self.aside or EMPTY_SET
            return [request]
        return [Run(sender, request)]

    def _all(self) -> list[Effect]:
        """Start all queued requests of an object that is not serial."""
        waiting = self.vacate()
        for _, request in waiting:
            self._step_aside(request.call)
        return [Run(sender, request) for sender, request in waiting]

    # ---- the end

    @staticmethod
    def holding(worker: WorkerId, owners: Iterable[Owner]) -> list[Owner]:
        """Those of *owners* that `forget` of *worker* may change, or that are not created."""
        return [
            owner
            for owner in owners
            if worker in owner.forks.values()
            or worker in owner.aliases.values()
            or worker in owner.asking.values()
            or worker in owner.lent.values()
            or not owner.created
        ]

    def forget(self, worker: WorkerId) -> list[Effect]:
        """Release the dead *worker*'s holds, once its orphans have had time to announce."""
        self.forks = {fork: to for fork, to in self.forks.items() if to != worker} or EMPTY
        aliases = {rref: owner for rref, owner in self.aliases.items() if owner != worker}
        self.aliases = aliases or EMPTY
        self.asking = {call: to for call, to in self.asking.items() if to != worker} or EMPTY
        return self.end_if_unused()

    @property
    def at_rest(self) -> bool:
        """No message about the object or request on it is under way."""
        return (
            (self.resolved or self.alias is not None)
            and not self.messages
            and not self.lent
            and not self.pending
            and not self.queue
            and not self.asking
            and not self.running
            and not self.aside
        )

    @property
    def unused(self) -> bool:
        """Nobody holds the object, and it is at rest."""
        return not self.handles and not self.forks and self.at_rest

    def grip(self, by: Iterable[RRefId]) -> Grip:
        """How this endpoint holds its object, through the objects *by*."""
        return Grip(
            rref=self.rref,
            stamp=self.stamp,
            by=tuple(by),
            others=tuple(sorted(self.forks.items())),
            owned=True,
            alias=self.alias is not None,
        )

    def end_if_unused(self) -> list[Effect]:
        """resolved -> freed, as soon as nobody holds it (G5) and never before (G4)."""
        return self.leave() if self.unused else []

    def leave(self) -> list[Effect]:
        """The end of an unused entry."""
        return [Free(self.rref)]
