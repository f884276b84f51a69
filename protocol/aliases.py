"""Aliases: a task that returns a reference makes its result stand for that other object.

Let h be created by a function that returned a reference to g. Then h is an **alias** of its
**target** g. If g is an alias too, and so on, the last object is **canonical**: it has a value (or
the error in its place). The endpoint that owns an alias h holds g by a handle of its own, so the
canonical object lives while any alias of it lives. `states.AliasState` has the states of an alias.

The three facts of the 2016 note (h is an alias of g, g is an alias of f, f is canonical) become
known in any order, each at its own endpoint. The knowledge travels against the arrows::

    owner of h                      owner of g                      owner of f
        | -- AliasRef(h, g) ----------> |                               |
        |                               | -- AliasRef(g, f) ----------> |
        |                               | <-- Canonical(f): it is it -- |   f has its value
        | <-- Canonical(g): it is f --- |   with a fork of f for the owner of h

* The owner of an alias asks the owner of the target once what the target is. The answer comes as
  soon as it is known, with a fork of the canonical object. The asker takes that object in place of
  the target and drops the hop (see `names`). So the middle of a chain is freed, and may die, as
  soon as its ends know each other.
* Until then, requests on an alias wait with its owner. Then the owner passes them on in their order
  (`Relay`). The answer to the first one tells the caller the place of the value (`Reply.moved`),
  and from then on the caller asks there itself. To pass a creation on, the owner creates the result
  there; the requested result becomes an alias, too.
* ``Owner.aliases`` is the reverse map, for inspection: the objects that stand for this one.

**Cycles.** Each unresolved object keeps a *label*: the greatest id of an alias on a way to it.
`AliasRef` carries the label down the way, again whenever it grows. There is one way out of an
alias, so a label that comes to the same alias twice has gone round: that alias is on a cycle. From
then on it has an error for a value (`Loss.CYCLE`), which makes it the canonical object of all the
others. (Smaller labels need not be passed on: the greatest one that enters a cycle goes round it.)

**Death.** If the owner of an alias's target dies, the alias gets an error for a value, unless its
owner has been told of the canonical object. If the owner of the alias dies, its users lose it,
unless they have been told of the canonical object.

Invariants:

* an alias is freed like any object, when nobody holds it (G5), and lets go of its target then;
* no request overtakes an earlier one of the same caller on the same alias. A creation that was
  acknowledged here may still be on its way to the canonical object (`Alias.early`). Until it has
  arrived, nobody is told of the place of the value: neither the owners of this alias's aliases nor
  the handles here, which could tell others. Later creations are acknowledged only once they have
  arrived there. Requests passed on share one order with this endpoint's own requests on the
  canonical object, as those may be held back (`names`).
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from .alias import Alias
from .effects import Effect, Lose, Loss, Refusal, Refuse, Send
from .empty import EMPTY
from .entries import Entries
from .errors import ProtocolError
from .ids import CallId, RRefId, WorkerId
from .loans import Loans, loans_among
from .messages import (
    AliasGone,
    AliasRef,
    Canonical,
    Cargo,
    Create,
    Descriptor,
    Fetch,
    Invoke,
    Moved,
    ObjectRequest,
)
from .names import Names
from .owner import Owner
from .references import References
from .requests import Requests
from .state import NOTHING, Relay, Tables, Waiting

MAX_PATH = 32
"""The most ids that describe the way to a canonical object; a longer way loses its middle."""


class Aliases(msgspec.Struct):
    """The aliases among the objects that live here."""

    state: Tables
    entries: Entries
    loans: Loans
    names: Names
    references: References
    requests: Requests

    # ---- becoming an alias

    def stand_for(self, rref: RRefId, target: RRefId) -> list[Effect]:
        """The function of *rref* returned a handle of *target*; the alias gets its own."""
        owner, target = self.state.owners[rref], self.names.whereabouts(target)
        if self.entries.is_lost(target):
            return [Lose(rref, Loss.OWNER)]
        alias = self.state.aliases[rref] = Alias(rref, target)
        owner.stand_for(alias)
        self.entries.hold(target)
        return [*self._ask(alias, target), *self.entries.after(owner, owner.end_if_unused())]

    def _ask(self, alias: Alias, about: RRefId) -> list[Effect]:
        """Ask what *about* is, and have its owner list the alias."""
        call = self.entries.allocate_call(about)
        self.state.asking[call] = alias.rref
        alias.asked[call] = about
        alias.listed.add(about)
        label = self.state.owners[alias.rref].label
        message = AliasRef(call=call, rref=about, alias=alias.rref, label=label)
        return [Send(self.entries.home(self.entries.entry(about)), message)]

    def standing(self) -> dict[RRefId, list[RRefId]]:
        """For each object, the aliases that live here and hold it, each by a handle of its own."""
        found: dict[RRefId, list[RRefId]] = {}
        for alias in self.state.aliases.values():
            if not alias.gone:
                found.setdefault(self.names.whereabouts(alias.target), []).append(alias.rref)
        return found

    # ---- at the target

    def receive_alias_ref(self, sender: WorkerId, message: AliasRef) -> list[Effect]:
        """*sender* asks what an object of this endpoint is: a value, or an alias."""
        if message.call.caller != sender:
            raise ProtocolError(f"{sender} asked by {message.call}, an id that is not its own")
        owner, lost = self.entries.own_or_await(message.rref)
        owner.aliases = owner.aliases or {}
        owner.aliases[message.alias] = sender
        owner.asking = owner.asking or {}
        owner.asking[message.call] = sender
        effects = self.answer_asking(owner) if owner.located else self._hear(owner, message.label)
        return [*lost, *effects]

    def _hear(self, owner: Owner, label: RRefId) -> list[Effect]:
        """An alias with id *label* is on a way to this object."""
        alias = owner.alias
        if alias is not None and alias.canonical is not None:
            return []  # the way has an end
        if alias is not None and label == owner.label:
            return self._break(alias, Loss.CYCLE)
        if label <= owner.label:
            return []
        owner.label = label
        return self._ask(alias, alias.target) if alias is not None else []

    def answer_asking(self, owner: Owner) -> list[Effect]:
        """The nature of this object is known: tell the owners of its aliases."""
        asking, owner.asking = owner.asking, EMPTY
        answers: list[Effect] = [
            Send(to, Canonical(call=call, rref=owner.rref, moved=self._moved(owner, to)))
            for call, to in asking.items()
        ]
        # If no fork and no handle is left, only these questions have kept the object: it ends here.
        return [*answers, *self.entries.after(owner, owner.end_if_unused())] if answers else []

    def _moved(self, owner: Owner, to: WorkerId) -> Moved | None:
        """If this object is an alias and *to* lives: a fork of the canonical object for *to*."""
        if owner.alias is None or owner.alias.shown is None or to in self.state.dead:
            return None
        fork = self.references.share((owner.alias.shown,), to)[0]
        return Moved(fork=fork, path=owner.alias.path)

    def receive_alias_gone(self, sender: WorkerId, message: AliasGone) -> list[Effect]:
        """An alias of *sender* no longer stands for an object of this endpoint."""
        owner = self.state.owners.get(message.rref)
        if owner is not None and owner.aliases.get(message.alias) == sender:
            del owner.aliases[message.alias]
            owner.aliases = owner.aliases or EMPTY
        return []

    # ---- at the alias: its target is known

    def receive_canonical(self, sender: WorkerId, message: Canonical) -> list[Effect]:
        """*sender* answers the question about the target of an alias."""
        asked = self.state.asking.get(message.call)
        alias = self.state.aliases.get(asked) if asked is not None else None
        about = alias.asked.get(message.call) if alias is not None else None
        home = self.entries.home(self.entries.entry(about)) if about is not None else None
        if alias is None or about != message.rref or home != sender:
            raise ProtocolError(f"{sender} answers {message.call}, but got no such question")
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
        """The canonical object is known: tell the askers, and pass the waiting requests on."""
        if self.entries.is_lost(canonical):
            return self._break(alias, Loss.OWNER)
        owner = self.state.owners[alias.rref]
        alias.canonical, alias.path = canonical, path
        effects = self._ask(alias, canonical) if canonical != alias.target else []
        waiting = owner.vacate()
        alias.early = {each.rref for _, each in waiting if isinstance(each, Create)}
        for sender, request in waiting:
            effects += self.pass_on(alias, sender, request, [])
        effects += self._show(alias)
        return effects if alias.gone else effects + self.entries.after(owner, owner.end_if_unused())

    def _show(self, alias: Alias) -> list[Effect]:
        """Tell everybody the canonical object of *alias*, unless a creation is early."""
        if alias.shown is None or alias.gone:
            return []
        effects = self.answer_asking(self.state.owners[alias.rref])
        return effects + self.names.learn(alias.rref, alias.shown, alias.path)

    # ---- at the alias: requests on it

    def passes_on(self, rref: RRefId) -> bool:
        """Whether requests on *rref* go to another object, and that object is known."""
        owner = self.state.owners.get(rref)
        alias = owner.alias if owner is not None else None
        return alias is not None and alias.canonical is not None

    def pass_on(
        self, alias: Alias, sender: WorkerId, request: ObjectRequest, acks: list[Effect]
    ) -> list[Effect]:
        """Pass *request* on to the known canonical object; once there, it causes *acks*."""
        canonical = alias.canonical or alias.target
        to = self.names.owner_of(canonical)
        if isinstance(request, Fetch):
            if (request.direct or not request.copy) and not alias.early:
                moved = self._moved(self.state.owners[alias.rref], sender)
                return self.requests.reply(request.call, NOTHING, moved=moved)
            call = self._relay(to, canonical, NOTHING, Relay(sender, request, alias.rref))
            send = Send(to, replace(request, call=call, rref=canonical, direct=False))
            return self.names.dispatch(canonical, send)
        if self._has_lost(request.cargo):
            if isinstance(request, Create):
                alias.early.discard(request.rref)
            return [*acks, Refuse(sender, request, Refusal.LOST)]
        cargo = self.references.lend_on(request.cargo, to, replies=isinstance(request, Invoke))
        if isinstance(request, Invoke):
            relay = Relay(sender, request, alias.rref)
            call = self._relay(to, canonical, cargo, relay)
            send = Send(to, replace(request, call=call, rref=canonical, cargo=cargo))
            return self.names.dispatch(canonical, send)
        made, effects = self.requests.create(to, cargo, canonical)
        self.state.passed_on[made] = alias.rref, tuple(acks)
        if request.rref in alias.early:
            alias.early.discard(request.rref)
            alias.early.add(made)
        effects += [*self.loans.made(request.rref), *self.stand_for(request.rref, made)]
        return effects + self.entries.drop(made)

    def _relay(self, to: WorkerId, rref: RRefId, cargo: Cargo, relay: Relay) -> CallId:
        loans = loans_among(cargo.descriptors)
        call = self.entries.allocate_call(rref, Waiting(to, rref, loans, relay=relay))
        self.state.relayed[relay.request.call] = call
        return call

    def _pends(self, rref: RRefId, call: CallId) -> bool:
        entry = self.entries.find(rref)
        return entry is not None and call in entry.pending

    def _has_lost(self, cargo: Cargo) -> bool:
        """Whether a reference in *cargo* is lost, so that the cargo cannot be passed on."""
        rrefs = (self.names.whereabouts(each.rref) for each in cargo.descriptors)
        return any(map(self.entries.is_lost, rrefs))

    def arrived(self, rref: RRefId) -> list[Effect]:
        """The creation of *rref* has arrived; it may have been passed on."""
        on, acks = self.state.passed_on.pop(rref, (None, ()))
        alias = self.state.aliases.get(on) if on is not None else None
        if alias is None or rref not in alias.early:
            return list(acks)
        alias.early.discard(rref)
        return self._show(alias)

    def pass_back(self, relay: Relay, cargo: Cargo) -> list[Effect]:
        """Return to its caller the answer to a request that was passed on."""
        caller, call = relay.sender, relay.request.call
        del self.state.relayed[call]
        if caller in self.state.dead:
            return self.loans.end(call, replies=True)[1]
        shared = tuple(self._share_back(each, call) for each in cargo.descriptors)
        owner = self.state.owners.get(relay.alias)
        alias = owner.alias if owner is not None else None
        moved = None
        if owner is not None and alias is not None and caller not in alias.told:
            moved = self._moved(owner, caller)
        if alias is not None and moved is not None:
            alias.told.add(caller)
        waited = isinstance(relay.request, Fetch) and not relay.request.copy
        # The answer to a wait may bring a frozen value, in memory that endpoints near the value
        # can open. This endpoint is near; the asker may not be.
        answer = Cargo(payload=None if waited else cargo.payload, descriptors=shared)
        return self.requests.reply(call, answer, relayed=True, moved=moved)

    def _share_back(self, descriptor: Descriptor, call: CallId) -> Descriptor:
        back = self.references.give((descriptor.rref,), call)[0]
        return replace(back, name=descriptor.name or back.name)

    # ---- the end

    def _break(self, alias: Alias, why: Loss) -> list[Effect]:
        """*alias* cannot stand for any object: an error takes the place of its value."""
        self.state.owners[alias.rref].alias = None
        return [*self.entries.let_go(alias), Lose(alias.rref, why)]

    def died(self, worker: WorkerId, lost: set[RRefId]) -> list[Effect]:
        """The questions to *worker*, and the requests passed on to it, are lost.

        So are the objects *lost*, which it owned.
        """
        state, is_lost = self.state, self.entries.is_lost
        effects: list[Effect] = []
        for call in [call for call, ours in state.relayed.items() if ours not in state.waiting]:
            del state.relayed[call]
        concerned = [
            alias
            for alias in state.aliases.values()
            if alias.asked or alias.gone or alias.canonical is None or alias.canonical in lost
        ]
        for alias in concerned:
            alias.asked = {
                call: about for call, about in alias.asked.items() if self._pends(about, call)
            }
            target = alias.canonical or alias.target
            known = self.names.whereabouts(target)
            if alias.gone:
                effects += self.entries.unlist(alias)
            elif is_lost(known):
                effects += self._break(alias, Loss.OWNER)
            elif alias.canonical is None and not alias.asked:  # another endpoint told it in time
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
