"""Aliases: a task that returns a reference makes its result stand for that other object.

Let h be created by a function that returned a reference to g. Then h is an **alias** of its
**target** g. If g is an alias too, and so on, the last one is **canonical**: it has a value (or
the error that took its place). The endpoint that owns h, an alias, holds g by a handle of its
own, so the canonical object lives while any alias of it does.

The three facts of the 2016 note (h is an alias of g, g is one of f, f is canonical) become known
in any order, each at its own endpoint. What is needed elsewhere travels against the arrows::

    owner of h                      owner of g                      owner of f
        | -- AliasRef(h, g) ----------> |                               |
        |                               | -- AliasRef(g, f) ----------> |
        |                               | <-- Canonical(f): it is it -- |   f has its value
        | <-- Canonical(g): it is f --- |   with a fork of f for the owner of h

* The owner of an alias asks its target's owner once what that is, and is answered when it is
  known. Whoever is told gets a fork of the canonical object with the answer, takes it in place of
  the target, and drops the hop (see `names`). So the middle of a chain is freed, and may die, as
  soon as its ends know each other.
* Requests on an alias wait with its owner until then, and are passed on in their order (`Relay`).
  The answer of the first one tells the caller where the value is (`Reply.moved`), and from then on
  it asks there itself. A creation is passed on by creating the result there: the result that was
  asked for is an alias, too.
* ``Owner.aliases`` is the reverse map, for people who look: who stands for this object.

**Cycles.** Each unresolved object keeps a *label*: the greatest id of an alias from which the way
leads to it. `AliasRef` carries it down the way, again whenever it grows. There is one way out of
an alias, so a label that comes to the same alias twice has gone round: that alias is on a cycle.
It stands for nothing from then on, but has an error for a value (`Loss.CYCLE`), which makes it the
canonical object of all the others. (Smaller labels need not be passed on: the greatest one that
enters a cycle goes round it, wherever it came from.)

**Death.** If the owner of what an alias stands for dies, the alias gets an error for a value. If
the owner of the alias dies, its users lose it unless they have been told of the canonical object.

Invariants:

* an alias is freed like any object, when nobody holds it (G5), known canonical object or not, and
  lets go of its target then;
* no request overtakes an earlier one of the same caller on the same alias: nobody is told where
  the value is while a creation that was acknowledged here may still be on its way there
  (`Alias.early`), not the owners of its aliases, nor the handles here, which could tell others;
  and later ones are acknowledged only once they have arrived. What is passed on goes out in turn
  with what this endpoint asks of the canonical object itself, as that may be held back (`names`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .alias import Alias
from .effects import Lose, Loss, Refusal, Refuse, Send
from .errors import ProtocolError
from .messages import AliasRef, Canonical, Cargo, Create, Fetch, Invoke, Moved
from .state import NOTHING, Relay

if TYPE_CHECKING:
    from .effects import Effect
    from .entries import Entries
    from .ids import CallId, RRefId, WorkerId
    from .loans import Loans
    from .messages import AliasGone, Descriptor, ObjectRequest
    from .names import Names
    from .owner import Owner
    from .references import References
    from .requests import Requests
    from .state import Tables

MAX_PATH = 32
"""Ids that the way to a canonical object is told with; of longer ones the middle is left out."""


@dataclass(slots=True)
class Aliases:
    """The aliases among the objects that live here."""

    state: Tables
    entries: Entries
    loans: Loans
    names: Names
    references: References
    requests: Requests

    # ---- becoming an alias

    def stand_for(self, rref: RRefId, target: RRefId) -> list[Effect]:
        """The function that makes *rref* returned a handle of *target*; the alias gets its own."""
        owner, target = self.state.owners[rref], self.names.whereabouts(target)
        if self.entries.is_lost(target):
            return [Lose(rref, Loss.OWNER)]
        alias = self.state.aliases[rref] = Alias(rref, target)
        owner.stand_for(alias)
        self.entries.hold(target)
        return [*self._ask(alias, target), *self.entries.after(owner, owner.settle())]

    def _ask(self, alias: Alias, about: RRefId) -> list[Effect]:
        """Ask what *about* is, and have it know its alias."""
        call = self.entries.mint_pin(about)
        self.state.asking[call] = alias.rref
        alias.asked[call] = about
        alias.listed.add(about)
        label = self.state.owners[alias.rref].label
        message = AliasRef(call=call, rref=about, alias=alias.rref, label=label)
        return [Send(self.entries.home(self.entries.entry(about)), message)]

    def standing_for(self, rref: RRefId) -> list[RRefId]:
        """The aliases that live here and hold *rref*, each by a handle of its own."""
        return [
            alias.rref
            for alias in self.state.aliases.values()
            if not alias.gone and self.names.whereabouts(alias.target) == rref
        ]

    # ---- at the target

    def receive_alias_ref(self, sender: WorkerId, message: AliasRef) -> list[Effect]:
        """*sender* asks what an object of this endpoint is."""
        if message.call.caller != sender:
            raise ProtocolError(f"{sender} asked by {message.call}, an id that is not its own")
        owner, lost = self.entries.own_or_await(message.rref)
        owner.aliases[message.alias] = sender
        owner.asking.append((sender, message.call))
        effects = self.answer_asking(owner) if owner.settled else self._hear(owner, message.label)
        return [*lost, *effects]

    def _hear(self, owner: Owner, label: RRefId) -> list[Effect]:
        """The way leads to this object from an alias with id *label*."""
        alias = owner.alias
        if alias is not None and alias.canonical is not None:
            return []  # there is an end to it
        if alias is not None and label == owner.label:
            return self._break(alias, Loss.CYCLE)
        if label <= owner.label:
            return []
        owner.label = label
        return self._ask(alias, alias.target) if alias is not None else []

    def answer_asking(self, owner: Owner) -> list[Effect]:
        """It is known what this object is: tell the owners of its aliases."""
        asking, owner.asking = owner.asking, []
        answers: list[Effect] = [
            Send(to, Canonical(call=call, rref=owner.rref, moved=self._moved(owner, to)))
            for to, call in asking
        ]
        # Who asks too late is not counted any more, and the question alone has kept the object.
        return [*answers, *self.entries.after(owner, owner.settle())] if answers else []

    def _moved(self, owner: Owner, to: WorkerId) -> Moved | None:
        """For *to*, if it lives: a fork of what this object stands for, if it is an alias."""
        if owner.alias is None or owner.alias.shown is None or to in self.state.dead:
            return None
        return Moved(fork=self.references.fork(owner.alias.shown, to), path=owner.alias.path)

    def receive_alias_gone(self, sender: WorkerId, message: AliasGone) -> list[Effect]:
        """An alias of *sender*'s does not stand for an object of this endpoint any more."""
        owner = self.state.owners.get(message.rref)
        if owner is not None and owner.aliases.get(message.alias) == sender:
            del owner.aliases[message.alias]
        return []

    # ---- at the alias: its target is known

    def receive_canonical(self, sender: WorkerId, message: Canonical) -> list[Effect]:
        """*sender* says what the target of an alias is."""
        asked = self.state.asking.get(message.call)
        alias = self.state.aliases.get(asked) if asked is not None else None
        about = alias.asked.get(message.call) if alias is not None else None
        home = self.entries.home(self.entries.entry(about)) if about is not None else None
        if alias is None or about != message.rref or home != sender:
            raise ProtocolError(f"{sender} answers {message.call}, which it was not asked")
        moved = message.moved
        if moved is not None and moved.fork.rref == alias.rref and not alias.gone:
            raise ProtocolError(f"{sender} says that {alias.rref} stands for itself")
        brought = Cargo(descriptors=(moved.fork,) if moved else ())
        effects = self.references.accept(sender, brought)
        canonical, path = about, shortened((about,))
        if moved is not None:
            canonical, path = moved.fork.rref, shortened((about, *moved.path))
            effects += self.names.learn(about, canonical, moved.path)
        del self.state.asking[message.call], alias.asked[message.call]
        if not alias.gone and alias.canonical is None:
            effects += self._found(alias, canonical, path)
        effects += self.entries.unlist(alias)
        effects += self.entries.answered(about, message.call)
        return effects + self.entries.release(brought.descriptors)

    def _found(self, alias: Alias, canonical: RRefId, path: tuple[RRefId, ...]) -> list[Effect]:
        """What *alias* stands for is known: tell whoever waits, and pass on what waits."""
        if self.entries.is_lost(canonical):
            return self._break(alias, Loss.OWNER)
        owner = self.state.owners[alias.rref]
        alias.canonical, alias.path = canonical, path
        effects = self._ask(alias, canonical) if canonical != alias.target else []
        waiting = list(owner.queue)
        owner.queue.clear()
        alias.early = {each.rref for _, each in waiting if isinstance(each, Create)}
        for sender, request in waiting:
            effects += self.pass_on(alias, sender, request, [])
        effects += self._show(alias)
        return effects if alias.gone else effects + self.entries.after(owner, owner.settle())

    def _show(self, alias: Alias) -> list[Effect]:
        """Unless something is early, everybody may know from now on what *alias* stands for."""
        if alias.shown is None or alias.gone:
            return []
        effects = self.answer_asking(self.state.owners[alias.rref])
        return effects + self.names.learn(alias.rref, alias.shown, alias.path)

    # ---- at the alias: requests on it

    def passes_on(self, rref: RRefId) -> bool:
        """Whether requests on *rref* go elsewhere, and it is known where to."""
        owner = self.state.owners.get(rref)
        alias = owner.alias if owner is not None else None
        return alias is not None and alias.canonical is not None

    def pass_on(
        self,
        alias: Alias,
        sender: WorkerId,
        request: ObjectRequest,
        acks: list[Effect],
    ) -> list[Effect]:
        """*request* is for an alias whose canonical object is known; it gets these *acks* there."""
        canonical = alias.canonical or alias.target
        to = self.names.owner_of(canonical)
        if isinstance(request, Fetch):
            if (request.direct or not request.copy) and not alias.early:
                moved = self._moved(self.state.owners[alias.rref], sender)
                return self.requests.reply(request.call, NOTHING, moved=moved)
            call = self._mint_relay(to, canonical, NOTHING, Relay(sender, request, alias.rref))
            send = Send(to, replace(request, call=call, rref=canonical, direct=False))
            return self.names.dispatch(canonical, send)
        if self._has_lost(request.cargo):
            if isinstance(request, Create):
                alias.early.discard(request.rref)
            return [*acks, Refuse(sender, request, Refusal.LOST)]
        cargo = self.references.lend_on(request.cargo, to, replies=isinstance(request, Invoke))
        if isinstance(request, Invoke):
            relay = Relay(sender, request, alias.rref)
            call = self._mint_relay(to, canonical, cargo, relay)
            send = Send(to, replace(request, call=call, rref=canonical, cargo=cargo))
            return self.names.dispatch(canonical, send)
        made, effects = self.requests.create(to, cargo, canonical)
        self.state.passed_on[made] = alias.rref, tuple(acks)
        if request.rref in alias.early:
            alias.early.discard(request.rref)
            alias.early.add(made)
        effects += [*self.loans.made(request.rref), *self.stand_for(request.rref, made)]
        return effects + self.entries.drop(made)

    def _mint_relay(self, to: WorkerId, rref: RRefId, cargo: Cargo, relay: Relay) -> CallId:
        call = self.requests.mint(to, rref, cargo, relay)
        self.state.relayed[relay.request.call] = call
        return call

    def _pends(self, rref: RRefId, call: CallId) -> bool:
        entry = self.entries.find(rref)
        return entry is not None and call in entry.pending

    def _has_lost(self, cargo: Cargo) -> bool:
        """Something in *cargo* can not be passed on any more."""
        rrefs = (self.names.whereabouts(each.rref) for each in cargo.descriptors)
        return any(map(self.entries.is_lost, rrefs))

    def arrived(self, rref: RRefId) -> list[Effect]:
        """The creation of *rref*, if it was passed on, has arrived."""
        on, acks = self.state.passed_on.pop(rref, (None, ()))
        alias = self.state.aliases.get(on) if on is not None else None
        if alias is None or rref not in alias.early:
            return list(acks)
        alias.early.discard(rref)
        return self._show(alias)

    def pass_back(self, relay: Relay, cargo: Cargo) -> list[Effect]:
        """The answer of a request that was passed on goes to whoever made it."""
        caller, call = relay.sender, relay.request.call
        del self.state.relayed[call]
        if caller in self.state.dead:
            return self.loans.end(call, replies=True)[1]
        if self._has_lost(cargo):
            return [Refuse(caller, relay.request, Refusal.LOST)]
        shared = tuple(self._share_back(each, caller, call) for each in cargo.descriptors)
        owner = self.state.owners.get(relay.alias)
        alias = owner.alias if owner is not None else None
        moved = None
        if owner is not None and alias is not None and caller not in alias.told:
            moved = self._moved(owner, caller)
        if alias is not None and moved is not None:
            alias.told.add(caller)
        waited = isinstance(relay.request, Fetch) and not relay.request.copy
        # What comes with the answer to a wait is for who is near, as we are; its asker may not be.
        answer = Cargo(payload=None if waited else cargo.payload, descriptors=shared)
        return self.requests.reply(call, answer, relayed=True, moved=moved)

    def _share_back(self, descriptor: Descriptor, caller: WorkerId, call: CallId) -> Descriptor:
        rref, references = descriptor.rref, self.references
        back = references.give_back(rref, call) or references.fork(rref, caller)
        return replace(back, name=descriptor.name or back.name)

    # ---- the end

    def _break(self, alias: Alias, why: Loss) -> list[Effect]:
        """It cannot stand for anything: an error takes the place of its value."""
        self.state.owners[alias.rref].alias = None
        return [*self.entries.let_go(alias), Lose(alias.rref, why)]

    def died(self, worker: WorkerId) -> list[Effect]:
        """What *worker* was asked about, and what was passed on to it, is lost."""
        state, is_lost = self.state, self.entries.is_lost
        effects: list[Effect] = []
        for call in [call for call, ours in state.relayed.items() if ours not in state.waiting]:
            del state.relayed[call]
        for alias in list(state.aliases.values()):
            alias.asked = {
                call: about for call, about in alias.asked.items() if self._pends(about, call)
            }
            target = alias.canonical or alias.target
            known = self.names.whereabouts(target)
            if alias.gone:
                effects += self.entries.unlist(alias)
            elif is_lost(known):
                effects += self._break(alias, Loss.OWNER)
            elif is_lost(target):  # somebody else said in time what it is
                effects += self._found(alias, known, (known,))
        for made in list(state.passed_on):
            user = state.users.get(made)
            if made not in state.owners and (user is None or user.owner == worker):
                effects += self.arrived(made)
        for call, rref in list(state.asking.items()):
            if rref not in state.aliases or call not in state.aliases[rref].asked:
                del state.asking[call]
        return effects


def shortened(path: tuple[RRefId, ...]) -> tuple[RRefId, ...]:
    """*path*, or its two ends if it is long."""
    half = MAX_PATH // 2
    return path if len(path) <= MAX_PATH else path[:half] + path[-half:]
