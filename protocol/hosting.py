"""The requests of others on the objects that live here: creations, method calls, cancellations.

A request waits for its turn on its object (see `owner`), or is passed on if the object is an alias.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .aliases import Aliases
from .creations import Seen
from .effects import Effect, Refusal, Refuse, Run, Send, Stop
from .entries import Entries
from .errors import ProtocolError
from .ids import CallId, RRefId, WorkerId
from .messages import Ack, Create, Fetch, Invoke, ObjectRequest
from .references import References
from .requests import Requests
from .state import Tables


class Hosting(msgspec.Struct):
    """The requests of others on the objects here."""

    state: Tables
    entries: Entries
    references: References
    requests: Requests
    aliases: Aliases

    def create(self, sender: WorkerId, message: Create) -> list[Effect]:
        """*sender* asks this endpoint to make an object."""
        state, entries, rref = self.state, self.entries, message.rref
        if message.rref.creator != sender or message.fork.parent != sender:
            raise ProtocolError(f"{sender} created {message.rref}, an id that is not its own")
        if message.call.caller != sender:
            raise ProtocolError(f"{sender} created by call {message.call}, an id not its own")
        if message.target is not None:
            entries.check_mine(message.target)
        if (
            message.target is None and rref not in state.owners and not message.cargo.descriptors
        ):  # exit: no request has overtaken it
            owner = state.owners[rref] = state.discipline.owner(rref, rref, state.now, True)
            owner.forks = {message.fork: sender}
            self._saw(sender, message)
            return [Send(sender, Ack(rref=rref, fork=message.fork)), Run(sender, message)]
        self.references.check(sender, message.cargo, lendable=True)
        owner, _ = entries.own_or_await(rref, created_here=True)
        before = self._holder(message.target)
        effects = owner.create(sender, message, state.me, before)
        # The acknowledgement says that the creation is accepted, not that it has run.
        ack = Ack(rref=rref, fork=message.fork)
        acks: list[Effect] = [] if sender == state.me else [Send(sender, ack)]
        if message.target is None or not self.aliases.passes_on(message.target):
            effects, acks = [*acks, *effects], []
        self._saw(sender, message)
        effects += self.references.accept_request(sender, message.call, message.cargo)
        if message.target is None:
            effects.append(Run(sender, message))
        else:
            effects += entries.own_or_await(message.target)[1]
            effects += self._enqueue(message.target, sender, message, acks)
        if sender == state.me:
            effects += self.created(rref, sender)
        return effects

    def _saw(self, sender: WorkerId, message: Create) -> None:
        """Remember that the creation came, and which request makes the object."""
        seen = self.state.seen.get(sender)
        if seen is None:
            seen = self.state.seen[sender] = Seen()
        seen.add(message.rref.number, message.settled)
        self.state.making[message.rref] = message.call

    def created(self, rref: RRefId, owner: WorkerId) -> list[Effect]:
        """*owner* has accepted the creation of *rref*, which this endpoint asked for."""
        return self.requests.created(rref, owner) + self.aliases.arrived(rref)

    def invoke(self, sender: WorkerId, message: Invoke) -> list[Effect]:
        """*sender* calls a method of an object here."""
        self._check_caller(sender, message)
        lost: list[Effect] = []
        effects: list[Effect] = []
        if message.rref not in self.state.owners:
            self.references.check(sender, message.cargo, lendable=True)
            _, lost = self.entries.own_or_await(message.rref)
        if message.cargo.descriptors:
            effects = self.references.accept_request(sender, message.call, message.cargo)
        return [*lost, *effects, *self._enqueue(message.rref, sender, message)]

    def fetch(self, sender: WorkerId, message: Fetch) -> list[Effect]:
        """*sender* asks for the value of an object here."""
        self._check_caller(sender, message)
        if message.rref in self.state.owners:  # exit
            return self._enqueue(message.rref, sender, message)
        _, lost = self.entries.own_or_await(message.rref)
        return [*lost, *self._enqueue(message.rref, sender, message)]

    def _check_caller(self, sender: WorkerId, message: Fetch | Invoke) -> None:
        if message.call.caller != sender:
            raise ProtocolError(f"{sender} sent call {message.call}, an id that is not its own")

    def _enqueue(
        self, rref: RRefId, sender: WorkerId, request: ObjectRequest, acks: Sequence[Effect] = ()
    ) -> list[Effect]:
        owner = self.state.owners[rref]
        if not isinstance(request, Create) and request.cancelled:
            return self.entries.after(owner, [Refuse(sender, request, Refusal.CANCELLED)])
        if (
            owner.resolved and owner.serial and owner.running is None
        ):  # exit: it has its turn at once, and cannot wait for itself
            owner.stamp += 1
            owner.running = request.call
            return [Run(sender, request)]
        if owner.alias is not None and owner.alias.canonical is not None:
            return self.aliases.pass_on(owner.alias, sender, request, list(acks))
        before = self._holder(owner.target)
        return self.entries.after(owner, owner.enqueue(sender, request, before))

    def _holder(self, target: RRefId | None) -> CallId | None:
        owner = None if target is None else self.state.owners.get(target)
        return None if owner is None else self.state.holder(owner)

    def cancel(
        self, sender: WorkerId, call: CallId, rref: RRefId, *, interrupt: bool
    ) -> list[Effect]:
        """*sender* cancels *call* on *rref*, which waits here or has been passed on.

        If it has begun, the shell ends it, or refuses to.
        """
        owner = self.state.owners.get(rref)
        if owner is None:
            return []
        cancelled = self.entries.after(owner, owner.cancel(sender, call))
        if not cancelled and call.caller == sender and owner.has_begun(call):
            return [Stop(sender, call, interrupt)]
        if cancelled or owner.alias is None:
            return cancelled
        ours = self.state.relayed.get(call)
        if ours is None or call.caller != sender:
            return []
        return self.requests.cancel(ours, interrupt=interrupt)
