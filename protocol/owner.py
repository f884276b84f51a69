"""The owner's view of one object: who holds it, who waits for it, when it is freed.

A fork is, in the owner's view, *unknown*, then *known*, then *deleted*::

    unknown --ForkRequest, Create, or forked by the owner itself--> known
    known   --Delete, the child's death, or the reference came home--> deleted

`Owner.forks` holds exactly the known ones. A deleted fork needs no tombstone: a user
deletes only after the owner confirmed it (see `user`), and every message takes effect at
most once, so nothing about a fork can arrive after its `Delete`.

The object itself goes through three stages of its own::

    placeholder --Create--> created --resolve--> resolved --nobody holds it--> freed

A *placeholder* stands for an object whose creation is still on its way: messages come in
any order, so a fork request, a fetch, a call, even a delete (the note's A -> Y -> Z) may
overtake it. Forks of a placeholder are counted at once, since counting needs no value;
fetches and calls wait, as they do for any value that is not there yet. A placeholder is
never freed: its creator holds it, though the owner does not know it yet. That is why the
dangerous case of the note (some forks unknown, others deleted) does no harm: while one
fork is unknown its parent is pinned (G2), so along the fork tree some known ancestor
remains, or the creation itself is still outstanding.

Invariants:

* the object is freed exactly when it is resolved, or an alias, and ``handles``, ``messages``,
  ``forks``, ``pending``, ``asking``, the queue and the running request are all empty (G4, G5);
* at most one request runs on an object at a time, in the order of arrival (fetches too):
  an object behind a reference behaves like an actor;
* a request whose chain shows that it would wait for itself is refused, never queued (G6); one that
  waits in a ring with requests of other chains is taken out of the queue later (see `rings`).

An owner entry of this class shares in calls by forking; `lending` and `borrowing` have
entries of their own (see `sharing`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from .effects import Effect, Free, Refusal, Refuse, Run, Send
from .errors import ProtocolError
from .messages import Ack, ChildAck, Passing

if TYPE_CHECKING:
    from .alias import Alias
    from .ids import CallId, ForkId, RRefId, WorkerId
    from .messages import Create, Delete, Descriptor, ForkRequest, Hop, ObjectRequest, Report

MAX_QUEUED = 100_000
"""Requests that wait for their turn on one object; a further one is refused."""
NO_QUEUE: deque[tuple[WorkerId, ObjectRequest]] = deque(maxlen=0)
"""Where nothing waits, as for most objects: an empty deque of its own is 760 bytes for each."""


class Owner:
    """One object that this endpoint owns, from its first mention to `Free`."""

    __slots__ = (
        "alias",
        "aliases",
        "asking",
        "born",
        "created",
        "forks",
        "handles",
        "label",
        "messages",
        "pending",
        "queue",
        "resolved",
        "rref",
        "running",
        "target",
    )

    def __init__(self, rref: RRefId) -> None:
        self.rref = rref
        self.born = 0.0
        """When the entry was made, by the shell's clock (`Tables.now`)."""
        self.created = False
        self.resolved = False
        self.target: RRefId | None = None
        """The object in whose queue the creating call waits, if it is a method call."""
        self.handles = 0
        """Live handles in this process."""
        self.messages = 0
        """Messages that hold the object until they have been handled."""
        self.forks: dict[ForkId, WorkerId] = {}
        """The known forks and the endpoint that has, or will have, each."""
        self.pending: set[CallId] = set()
        """Requests of this endpoint on its own object that are not answered yet."""
        self.queue = NO_QUEUE
        self.running: CallId | None = None
        """The request that runs on it."""
        self.alias: Alias | None = None
        """What it stands for, if the function that made it returned a reference (see `aliases`)."""
        self.aliases: dict[RRefId, WorkerId] = {}
        """The reverse map: the objects that stand for this one, and who owns each."""
        self.asking: list[tuple[WorkerId, CallId]] = []
        """Owners of those that wait to be told what this one is."""
        self.label = rref
        """The greatest id of an alias from which the way leads here."""

    # ---- what holds the object

    def fork(self, fork: ForkId, to: WorkerId) -> None:
        """Share with *to*: the owner is the parent, so the fork is known at once (G2)."""
        self.forks[fork] = to

    def lend(self, fork: ForkId, to: WorkerId, *, replies: bool) -> Passing:
        """Share with *to* for a call, of which a reply comes or (*replies* false) none."""
        self.fork(fork, to)
        return Passing.FORK

    def loan_ended(
        self,
        sender: WorkerId,
        fork: ForkId,
        report: Report | None,
    ) -> list[Effect]:
        """The call for which *fork* was lent to *sender* has run."""
        raise ProtocolError(f"{sender} returned {fork} of {self.rref}, which was not lent")

    def abandon(self, fork: ForkId) -> list[Effect]:
        """Undo a fork whose message never left."""
        del self.forks[fork]
        return self.settle()

    def arrive(self, descriptor: Descriptor, me: WorkerId) -> list[Effect]:
        """The reference comes home: its message holds the owner's own entry."""
        self.messages += 1
        if descriptor.passing is not Passing.FORK:
            return []  # the lender keeps its own pin until the reply
        if descriptor.parent == me:
            # The owner shared with itself: its own fork ends here.
            del self.forks[descriptor.fork]
            return []
        return [Send(descriptor.parent, ChildAck(rref=self.rref, fork=descriptor.fork))]

    # ---- control messages

    def fork_request(self, sender: WorkerId, message: ForkRequest) -> list[Effect]:
        """unknown -> known."""
        self._check_unknown(message.fork)
        self.forks[message.fork] = sender
        return [Send(sender, Ack(rref=self.rref, fork=message.fork))]

    def delete(self, sender: WorkerId, message: Delete) -> list[Effect]:
        """known -> deleted (G1)."""
        self.check_delete(sender, message)
        for fork in message.forks:
            del self.forks[fork]
        return self.settle()

    def check_delete(self, sender: WorkerId, message: Delete) -> None:
        """Raise `ProtocolError` if *sender* does not hold what it deletes."""
        if len(set(message.forks)) < len(message.forks):
            raise ProtocolError(f"{sender} deleted a fork of {self.rref} twice")
        for fork in message.forks:
            if self.forks.get(fork) != sender:
                raise ProtocolError(
                    f"{sender} deleted fork {fork} of {self.rref}, which it does not hold"
                )

    def create(self, sender: WorkerId, message: Create, me: WorkerId) -> list[Effect]:
        """placeholder -> created."""
        if self.created:
            raise ProtocolError(f"{sender} created {self.rref} a second time")
        self._check_unknown(message.fork)
        self.created = True
        self.target = message.target
        if sender != me:
            self.forks[message.fork] = sender
        return self._refuse_self_waits()

    def _refuse_self_waits(self) -> list[Effect]:
        """Look again at what overtook the creation: only now the target is known."""
        effects: list[Effect] = []
        queue, self.queue = self.queue, NO_QUEUE
        for sender, request in queue:
            if self._waits_for_itself(request):
                effects.append(Refuse(sender, request, Refusal.SELF_WAIT))
            else:
                self._line_up(sender, request)
        return effects

    def _check_unknown(self, fork: ForkId) -> None:
        if fork in self.forks:
            raise ProtocolError(f"fork {fork} of {self.rref} is known already")

    # ---- requests on the object

    def enqueue(self, sender: WorkerId, request: ObjectRequest) -> list[Effect]:
        """Queue *request* for its turn on the object."""
        if self._waits_for_itself(request):
            return [Refuse(sender, request, Refusal.SELF_WAIT)]
        if len(self.queue) >= MAX_QUEUED:
            return [Refuse(sender, request, Refusal.FULL)]
        self._line_up(sender, request)
        return self._next()

    def _line_up(self, sender: WorkerId, request: ObjectRequest) -> None:
        if self.queue.maxlen == 0:  # a snapshot may hold a copy of the one that says so
            self.queue = deque()
        self.queue.append((sender, request))

    def _waits_for_itself(self, request: ObjectRequest) -> bool:
        chain = getattr(request, "chain", ())
        if self.alias is not None:
            return False  # nothing makes it any more, and nothing runs on it
        if self.rref in chain and (self.running or not self.resolved):
            return True
        return not self.resolved and self.target is not None and self.target in chain

    def resolve(self) -> list[Effect]:
        """created -> resolved: the value (or the error that takes its place) is there."""
        if self.resolved:
            raise AssertionError(f"{self.rref} was resolved twice")
        self.created = self.resolved = True
        self.target = None
        return self._next() or self.settle()

    def stand_for(self, alias: Alias) -> None:
        """created -> alias: its value is another object's."""
        self.created = True
        self.target = None
        self.alias = alias

    @property
    def settled(self) -> bool:
        """It is known where its value is, and may be told: here, or with what it stands for."""
        return self.resolved or (self.alias is not None and self.alias.shown is not None)

    def done(self) -> list[Effect]:
        """The running request ended: the next one may start."""
        if not self.running:
            raise AssertionError(f"nothing runs on {self.rref}")
        self.running = None
        return self._next() or self.settle()

    def cancel(
        self,
        sender: WorkerId,
        call: CallId,
        why: Refusal = Refusal.CANCELLED,
        ring: tuple[Hop, ...] = (),
    ) -> list[Effect]:
        """Take a request of *sender*'s that has not started out of the queue."""
        for index, (caller, request) in enumerate(self.queue):
            if caller == sender and getattr(request, "call", None) == call:
                del self.queue[index]
                return [Refuse(sender, request, why, ring), *self.settle()]
        return []

    def _next(self) -> list[Effect]:
        if self.running or not self.resolved or not self.queue:
            return []
        sender, request = self.queue.popleft()
        self.running = request.call
        if not self.queue:
            self.queue = NO_QUEUE
        return [Run(sender, request)]

    # ---- the end

    def forget(self, worker: WorkerId) -> list[Effect]:
        """Release what the dead *worker* held, once its orphans had time to announce."""
        self.forks = {fork: to for fork, to in self.forks.items() if to != worker}
        self.aliases = {rref: owner for rref, owner in self.aliases.items() if owner != worker}
        self.asking = [each for each in self.asking if each[0] != worker]
        return self.settle()

    @property
    def unused(self) -> bool:
        """Nobody holds the object and nothing is on its way to it or runs on it."""
        return (
            (self.resolved or self.alias is not None)
            and not self.handles
            and not self.messages
            and not self.forks
            and not self.pending
            and not self.queue
            and not self.asking
            and not self.running
        )

    def settle(self) -> list[Effect]:
        """resolved -> freed, as soon as nobody holds it (G5) and never before (G4)."""
        return [Free(self.rref)] if self.unused else []
