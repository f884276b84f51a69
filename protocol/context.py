"""All knowledge of one endpoint about references: the machines, composed.

A `Context` routes every message to its machine. The machines share one `Tables`, and each has the
machines below it (the package's docstring has the order); only the `Context` knows all of them. It
is sans-IO: each event of the endpoint is a method call, and the answer is a list of effects for the
shell to carry out, in order. It is not thread-safe; the shell calls it under one lock.

The way of a reference, seen from both ends::

    sender                                      receiver
    fork_all(rrefs, to) -> Descriptors          receive(message) accepts every descriptor:
      for the references in a pickled value       each holds its entry once ("arrive")
    tell / call / create / ... -> Send          hold(rref) for each handle unpickled
      or abandon(descriptors), if the message   release(descriptors) when the message has
      could not be pickled or sent                been handled, unpickled or not; those of a
                                                  request with its `reply` or `resolve`

So a reference is held without a gap, from the sender's handle over the pin to the receiver's handle
(G4). Nothing depends on the receiver's ability to unpickle (G5). References in the arguments of a
call are lent instead, by the system's discipline (see `sharing`).

Death reaches a context in two steps, ``died`` and ``bury`` (see `death`).

A shell calls the public methods of a context. It reads the tables (``state``; ``owners``,
``users``, ``waiting`` and ``dead`` have short names here), sets ``state.now`` and fills
``state.causes``. It asks `Names.canonical`, `Names.path`, `Aliases.standing`, `Loans.borrowed`,
`Loans.served`, `DeadlockDetector.blocker`, `CycleCollector.may_be_garbage`, `Entries.how` and
`HolderReports`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .aliases import Aliases
from .borrowing import batched
from .cycles import CycleCollector
from .dead import Span
from .deadlocks import DeadlockDetector
from .death import Death
from .effects import Effect, Hand, Run, Send, Settle, Stop
from .entries import Entries
from .errors import ProtocolError
from .holders import HolderReports
from .hosting import Hosting
from .ids import CallId, ForkId, RRefId, WorkerId
from .loans import Loans, loans_among
from .messages import (
    OF_DELIVERY,
    Ack,
    AliasGone,
    AliasRef,
    Busy,
    Call,
    Cancel,
    CancelRefused,
    Canonical,
    Cargo,
    ChildAck,
    Create,
    Cut,
    Delete,
    Descriptor,
    Fetch,
    ForkRequest,
    Grip,
    Holders,
    InBulk,
    Invoke,
    Message,
    NotifyRefRemoved,
    Probe,
    RefRemoved,
    Reply,
    Returned,
    Tell,
    WhoHolds,
    check_message,
)
from .names import Names
from .references import References
from .requests import Requests
from .sharing import DISCIPLINES, Sharing
from .state import Tables, Waiting


def _ignore(_: WorkerId, __: Message) -> list[Effect]:
    return []


class Context:
    """All the reference machines of the endpoint *me*, which shares by *sharing* in calls."""

    def __init__(
        self, me: WorkerId, sharing: Sharing = "lend", *, state: Tables | None = None
    ) -> None:
        """With *state* the machines continue from that state."""
        self.state = state = state or Tables(me, DISCIPLINES[sharing])
        self.me = me
        self.owners, self.users = state.owners, state.users
        self.waiting, self.dead = state.waiting, state.dead
        entries = self.entries = Entries(state)
        loans = self.loans = Loans(state, entries)
        names = self.names = Names(state, entries)
        references = self._references = References(state, entries, loans, names)
        requests = self._requests = Requests(state, entries, loans, names, references)
        aliases = self.aliases = Aliases(state, entries, loans, names, references, requests)
        self._hosting = Hosting(state, entries, references, requests, aliases)
        self._death = Death(state, entries, loans, aliases)
        self.deadlocks = DeadlockDetector(state, entries)
        self.cycles = CycleCollector(state)
        self.holder_reports = HolderReports(state, entries, aliases)
        self._batches = state.discipline.batches
        self._takers: dict[type, Callable[[WorkerId, Any], list[Effect]]] = {
            Reply: self._reply,
            Call: self._call,
            Fetch: self._hosting.fetch,
            Invoke: self._hosting.invoke,
            Create: self._hosting.create,
            Tell: self._tell,
            Cancel: self._cancel,
            CancelRefused: self._cancel_refused,
            Ack: self._ack,
            Delete: loans.delete,
            ForkRequest: self._fork_request,
            ChildAck: self._child_ack,
            Returned: loans.returned,
            NotifyRefRemoved: loans.notified,
            RefRemoved: loans.removed,
            AliasRef: aliases.receive_alias_ref,
            Canonical: aliases.receive_canonical,
            AliasGone: aliases.receive_alias_gone,
            Probe: self.deadlocks.receive_probe,
            WhoHolds: self.cycles.receive_who_holds,
            Holders: self.cycles.receive_holders,
            Cut: self.cycles.receive_cut,
            **dict.fromkeys(OF_DELIVERY, _ignore),  # delivery has taken it
        }

    # ---- questions

    def owner_of(self, rref: RRefId) -> WorkerId:
        """The endpoint that owns the value of *rref*. Raises `OwnerDiedError` if it is dead."""
        return self.names.owner_of(rref)

    def whereabouts(self, rref: RRefId) -> RRefId:
        """The object that requests for *rref* go to: the canonical one, once it is known."""
        return self.names.whereabouts(rref)

    # ---- handles, and references on the way

    def own(self, *, serial: bool = True) -> RRefId:
        """Make a new object here, with its value and one handle: ``RRef(value)``."""
        rref = self.entries.allocate_rref()
        owner = self.entries.begin(rref)
        owner.created = owner.resolved = True
        owner.serial = serial
        owner.handles = 1
        return rref

    def hold(self, *rrefs: RRefId) -> None:
        """One more handle of each of *rrefs* lives in this process."""
        self.entries.hold_all(rrefs)

    def take_up(self, descriptor: Descriptor) -> list[Effect]:
        """Count one more handle of a named reference that arrived; its message holds it."""
        return self._finish(self.names.take_up(descriptor))

    def drop(self, *rrefs: RRefId) -> list[Effect]:
        """One handle of each of *rrefs* is gone."""
        return self._finish(self.entries.drop_all(rrefs))

    def fork_all(
        self, rrefs: Sequence[RRefId], to: WorkerId, *, lost: bool = False
    ) -> tuple[Descriptor, ...]:
        """Fork a child of each for *to*; the parent is pinned until it is confirmed (G2).

        Raises `OwnerDiedError`, with nothing forked, if an object is lost; with *lost*, for
        answers, it does not. So a value comes although a reference in it is lost. The use of that
        reference raises the error.
        """
        return self._references.share(rrefs, to, lost=lost)

    def lend_all(
        self, rrefs: Sequence[RRefId], to: WorkerId, *, replies: bool = True
    ) -> tuple[Descriptor, ...]:
        """Share for a call on *to*, as the discipline says; a creation has no reply.

        Raises `OwnerDiedError`, with nothing lent, if an object is lost.
        """
        return self._references.share(rrefs, to, replies=replies)

    def give_all(self, rrefs: Sequence[RRefId], call: CallId) -> tuple[Descriptor, ...]:
        """Share *rrefs* in the reply to *call*: give its loans back, and fork the others."""
        return self._references.give(rrefs, call)

    def abandon(self, descriptors: Iterable[Descriptor]) -> list[Effect]:
        """Undo forks whose message could not be pickled, or never left."""
        return self._references.abandon(descriptors)

    def release(self, descriptors: Iterable[Descriptor]) -> list[Effect]:
        """A message or reply has been handled: release its hold on its references."""
        return self._finish(self.entries.release(descriptors))

    # ---- requests of the user's code

    def create(
        self, to: WorkerId, cargo: Cargo, target: RRefId | None = None
    ) -> tuple[RRefId, list[Effect]]:
        """Create an object on *to* by running *cargo*, with one handle here: ``remote``.

        With *target* the function is a method of that object, which *to* owns.
        """
        return self._requests.create(to, cargo, target)

    def call(
        self, to: WorkerId, cargo: Cargo, chain: tuple[Busy, ...] = (), by: object = None
    ) -> tuple[CallId, list[Effect]]:
        """Run *cargo* on *to*: ``rpc_sync`` and ``rpc_async``. *by*: see `Waiting.by`."""
        state = self.state
        if state.dead.firsts:
            self.entries.check_alive(to)
        loans = loans_among(cargo.descriptors) if cargo.descriptors else ()
        state.calls += 1
        call = CallId(state.me, state.calls)
        state.waiting[call] = Waiting(to, None, loans, None, None, by)
        return call, [Send(to, Call(call=call, cargo=cargo, chain=chain))]

    def invoke(
        self,
        rref: RRefId,
        cargo: Cargo,
        chain: tuple[Busy, ...] = (),
        to: WorkerId | None = None,
        by: object = None,
    ) -> tuple[CallId, list[Effect]]:
        """Run a method of the object: ``rref.rpc_sync().method()`` and its kin.

        The references in *cargo* were lent to *to*. Raises `ElsewhereError` if *to* is not the
        owner.
        """
        return self._requests.invoke(rref, cargo, chain, to, by)

    def fetch(
        self,
        rref: RRefId,
        chain: tuple[Busy, ...] = (),
        *,
        copy: bool = True,
        direct: bool = False,
        follow: bool = True,
        by: object = None,
    ) -> tuple[CallId, list[Effect]]:
        """Ask for a copy of the value (``to_here``), or only whether there is one (``wait``).

        With *direct* an alias answers with the value's place; with *follow* the fetch is repeated
        there.
        """
        return self._requests.fetch(rref, chain, copy=copy, direct=direct, follow=follow, by=by)

    def cancel(self, call: CallId, *, interrupt: bool = False) -> list[Effect]:
        """Ask the callee to end *call*. Its reply still comes; `Unstopped` may come before it.

        With *interrupt* also if a plain function runs it.
        """
        return self._requests.cancel(call, interrupt=interrupt)

    def tell(self, to: WorkerId, cargo: Cargo) -> list[Effect]:
        """Send a one-way message."""
        self.entries.check_alive(to)
        return [Send(to, Tell(cargo=cargo))]

    # ---- reports of the shell on requests, and on the objects that live here

    def reply(self, call: CallId, cargo: Cargo) -> list[Effect]:
        """Answer *call* (its id names the caller). Release the references that came with it."""
        if not (call in self.state.serving or self.state.dead.firsts):  # exit: it brought nothing
            return [Send(call.caller, Reply(call=call, cargo=cargo))]
        return self._finish(self._requests.reply(call, cargo))

    def refuse(self, call: CallId, cargo: Cargo) -> list[Effect]:
        """Answer *call*, which was not run, with the error in *cargo*."""
        return self._finish(self._requests.reply(call, cargo, refused=True))

    def refuse_cancel(self, call: CallId) -> list[Effect]:
        """The answer to a `Stop`: a plain function runs *call*, and goes on."""
        return self._finish([Send(call.caller, CancelRefused(call=call))])

    def resolve(self, rref: RRefId, *, serial: bool = True) -> list[Effect]:
        """The value of *rref*, or the error in its place, is there; see `Owner.serial`."""
        owner, state = self.owners[rref], self.state
        if (
            (owner.handles or owner.forks)
            and not (owner.queue or owner.asking)
            and state.making.get(rref) not in state.serving
        ):  # exit: nobody has asked for it yet
            state.making.pop(rref, None)
            owner.created = owner.resolved = True
            owner.serial = serial
            owner.target = None
            return []
        effects = self.loans.made(rref)
        effects += self.entries.after(owner, owner.resolve(serial=serial))
        return self._finish(effects + self.aliases.answer_asking(owner))

    def stand_for(self, rref: RRefId, target: RRefId) -> list[Effect]:
        """Make *rref* an alias of *target*: its function returned a reference to *target*.

        The alias gets a new handle of *target*. The handle that was returned stays as it is.
        Raises `RefLostError` if it has ended already.
        """
        self.entries.used(self.whereabouts(target))
        effects = self.loans.made(rref)
        return self._finish(effects + self.aliases.stand_for(rref, target))

    def pause(self, rref: RRefId, call: CallId) -> list[Effect]:
        """The code of *call*, which has the turn on *rref*, awaits: it gives the turn away."""
        return self.owners[rref].pause(call)

    def resume(self, rref: RRefId, call: CallId) -> list[Effect]:
        """The code of *call*, which paused on *rref*, can go on: `Resume` gives it a turn."""
        return self.owners[rref].resume(call)

    def done(self, rref: RRefId, call: CallId) -> list[Effect]:
        """Request *call*, which ran on *rref*, has ended."""
        owner = self.owners[rref]
        if (
            owner.running == call and not owner.queue and (owner.handles or owner.forks)
        ):  # exit: no other request waits
            owner.running = None
            return []
        return self.entries.after(owner, owner.done(call))

    def suspect(self, rref: RRefId) -> list[Effect]:
        """Requests have been queued on *rref* for some time: check whether they wait in a ring."""
        return self._finish(self.deadlocks.suspect(rref))

    def waits(self, run: CallId, call: CallId | None, number: int, what: str) -> list[Effect]:
        """The answer to a `Look`: *run* waits for *call*, or (None) for no request.

        *number* distinguishes this wait of *run* from its others; *what* is the wait in words.
        """
        return self._finish(self.deadlocks.waits(run, call, number, what))

    def suspect_cycle(self, rrefs: Iterable[RRefId], *, cuts: bool = True) -> list[Effect]:
        """The objects *rrefs* here may be garbage in rings: search, until `Looked`.

        The first of them names the search. Without *cuts* it only reports.
        """
        return self._finish(self.cycles.suspect(rrefs, cuts=cuts))

    def scanned(self, asker: WorkerId, look: int, grips: tuple[Grip, ...]) -> list[Effect]:
        """The answer to a `Scan`, made by `HolderReports`; no *grips* if the shell cannot tell."""
        return self._finish(self.cycles.scanned(asker, look, grips))

    def weigh_cycle(self, start: RRefId) -> list[Effect]:
        """The answer to a `Weigh`: the search from *start* goes on."""
        return self._finish(self.cycles.weigh(start))

    def give_up_cycle(self, start: RRefId) -> list[Effect]:
        """In the search from *start*, wait no longer for others that have not answered."""
        return self._finish(self.cycles.give_up(start))

    # ---- messages

    def receive(self, sender: WorkerId, message: Message) -> list[Effect]:
        """`take` one message of *sender* with unchecked content.

        Raises `ProtocolError`, with nothing changed, if no correct peer sends it.
        """
        if sender not in self.dead:
            check_message(message)
        return self.take(sender, message)

    def take(self, sender: WorkerId, message: Message) -> list[Effect]:
        """Take one message of *sender*; messages of a dead worker are ignored (fencing).

        *message* is right in every field: it was decoded, or never left here. Raises
        `ProtocolError`, with nothing changed, if no correct peer sends it.
        """
        state = self.state
        if state.dead.firsts and sender in state.dead:
            return []
        effects = self._takers[type(message)](sender, message)
        if (len(effects) < 2 or not self._batches) and not (state.freed or state.dead.firsts):
            return effects  # there is nothing to add, to drop or to join
        return self._finish(effects)

    def take_all(
        self, sender: WorkerId, messages: Sequence[InBulk]
    ) -> tuple[list[Effect], list[ProtocolError]]:
        """`take` each of *messages* of *sender*, all of one kind, which came in a `Bulk`.

        Returns the effects of those that took effect, and the errors of the others.
        """
        if self.dead.firsts and sender in self.dead:
            return [], []
        take = self._takers[type(messages[0])]
        effects: list[Effect] = []
        errors: list[ProtocolError] = []
        for message in messages:
            try:
                effects += take(sender, message)
            except ProtocolError as error:  # it has changed nothing
                errors.append(error)
        return self._finish(effects), errors

    def _reply(self, sender: WorkerId, message: Reply) -> list[Effect]:
        state, call = self.state, message.call
        waiting = state.waiting.get(call)
        if waiting is None or waiting.to != sender:
            raise ProtocolError(f"{sender} replied to {call}, but got no such call")
        if (
            waiting.relay is None
            and message.moved is None
            and not (message.loans or message.cargo.descriptors)
            and not (message.relayed or message.refused)
            and (waiting.rref is None or self._requests.is_answered(waiting.rref, call))
        ):  # exit: nothing but the call ends
            del state.waiting[call]
            if waiting.loans:
                settle = Settle(sender, message, waiting.by)
                return [settle, *self.loans.ended(sender, waiting.loans, ())]
            return [Settle(sender, message, waiting.by)]
        effects = self._requests.receive_reply(sender, message, waiting)
        if waiting.relay is not None:  # its loans have ended
            effects += self.aliases.pass_back(waiting.relay, message.cargo)
            effects += self.entries.release(message.cargo.descriptors)
        return effects

    def _call(self, sender: WorkerId, message: Call) -> list[Effect]:
        call, cargo = message.call, message.cargo
        if call.caller != sender:
            raise ProtocolError(f"{sender} sent call {call}, an id that is not its own")
        if not cargo.descriptors:
            return [Run(sender, message)]
        return [*self._references.accept_request(sender, call, cargo), Run(sender, message)]

    def _tell(self, sender: WorkerId, message: Tell) -> list[Effect]:
        return [*self._references.accept(sender, message.cargo), Hand(sender, message)]

    def _cancel(self, sender: WorkerId, message: Cancel) -> list[Effect]:
        if message.rref is None:
            return [Stop(sender, message.call, message.interrupt)]
        return self._hosting.cancel(sender, message.call, message.rref, interrupt=message.interrupt)

    def _cancel_refused(self, sender: WorkerId, message: CancelRefused) -> list[Effect]:
        return self._requests.cancel_refused(sender, message.call)

    def _ack(self, sender: WorkerId, message: Ack) -> list[Effect]:
        rref, state = message.rref, self.state
        user = self.entries.user(rref)
        effects = user.ack(sender, message)
        if rref.creator == self.me or state.passed_on:  # else nobody here asked for it
            effects += self._hosting.created(rref, sender)
        return effects if user.handles else self.entries.after(user, effects)

    def _fork_request(self, sender: WorkerId, message: ForkRequest) -> list[Effect]:
        known = self.owners.get(message.rref)
        if known is not None:  # nearly always
            return known.fork_request(sender, message)
        owner, lost = self.entries.own_or_await(message.rref)
        return [*owner.fork_request(sender, message), *lost]

    def _child_ack(self, sender: WorkerId, message: ChildAck) -> list[Effect]:
        user = self.users.get(message.rref)
        if user is None or user.lost:
            return []  # the pin ended with it
        effects = user.child_ack(sender, message)
        return effects if user.handles else self.entries.after(user, effects)

    def _finish(self, effects: list[Effect]) -> list[Effect]:
        """All effects of a step, in as few messages as possible; held-back ones come last."""
        state = self.state
        if state.freed:
            effects += self.names.send_held()
        if state.dead.firsts:
            effects = self.entries.sendable(effects)
        return batched(effects) if len(effects) > 1 and self._batches else effects

    # ---- death

    def outlive(self, spans: Iterable[Span]) -> None:
        """These were dead and buried before this endpoint came: they never held anything here."""
        for dead in (self.dead, self.state.buried):
            dead.merge(spans)

    def died(self, worker: WorkerId, unacknowledged: Iterable[Message] = ()) -> list[Effect]:
        """*worker* is dead; it may not have received the *unacknowledged* messages."""
        effects = self._death.died(worker, unacknowledged)
        return self._finish(effects + self.cycles.died())

    def uncounted(self) -> frozenset[ForkId]:
        """The forks that owners were asked to count, and have not acknowledged.

        A death is settled here when those after `died` have all left this set: see `death`.
        """
        return self._death.uncounted()

    def bury(self, worker: WorkerId) -> list[Effect]:
        """The grace of the dead *worker* is over: all endpoints have settled all deaths."""
        return self._finish(self._death.bury(worker))
