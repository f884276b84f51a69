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

from typing import TYPE_CHECKING

from msgspec.structs import replace

from .effects import Effect, Lose, Loss, Refusal, Refuse, Send
from .errors import ProtocolError
from .messages import (
    AliasGone,
    AliasRef,
    Canonical,
    Cargo,
    Create,
    Delete,
    Descriptor,
    Fetch,
    Invoke,
    Moved,
    Returned,
)
from .owner import Owner
from .requests import Requests
from .tables import NOTHING, Relay, Waiting
from .user import User

if TYPE_CHECKING:
    from .ids import CallId, RRefId, WorkerId
    from .messages import ObjectRequest, Reply
    from .sharing import Sharing

MAX_PATH = 32
"""Ids that the way to a canonical object is told with; of longer ones the middle is left out."""


class Alias:
    """What one object, which lives here, stands for."""

    __slots__ = ("asked", "canonical", "early", "gone", "listed", "path", "rref", "target", "told")

    def __init__(self, rref: RRefId, target: RRefId) -> None:
        self.rref = rref
        self.target = target
        """Held by a handle under this name."""
        self.canonical: RRefId | None = None
        self.path: tuple[RRefId, ...] = ()
        """From the target, alias by alias, to the canonical object."""
        self.asked: dict[CallId, RRefId] = {}
        """Unanswered `AliasRef`s, and the object that each asks about."""
        self.listed: set[RRefId] = set()
        """Objects whose owners have been told that this is an alias of it."""
        self.early: set[RRefId] = set()
        """Creations passed on after they were acknowledged here, that have not arrived yet."""
        self.told: set[WorkerId] = set()
        """Callers that were told where the value is."""
        self.gone = False
        """It was freed, or has an error for a value: it stands for nothing any more."""

    @property
    def shown(self) -> RRefId | None:
        """The canonical object, once anybody may know of it."""
        return None if self.early else self.canonical


class Aliases(Requests):
    """The tables, and the aliases among the objects that live here."""

    def __init__(self, me: WorkerId, sharing: Sharing = "lend") -> None:
        super().__init__(me, sharing)
        self._making: dict[RRefId, CallId] = {}
        """Objects that live here and are being made, and by which request."""
        self._aliases: dict[RRefId, Alias] = {}
        """The aliases that live here, and those that are gone and have an answer to wait for."""
        self._passed_on: dict[RRefId, tuple[RRefId, tuple[Effect, ...]]] = {}
        """Creations passed on: for which alias, and the acknowledgement that waits for them."""
        self._relayed: dict[CallId, CallId] = {}
        """Other requests passed on, by their callers' ids: under which id of our own."""

    # ---- becoming an alias

    def stand_for(self, rref: RRefId, target: RRefId) -> list[Effect]:
        """The function that makes *rref* returned the reference *target*, of which it has a handle.

        The handle stays the function's own: the alias gets one of its own.
        """
        return self._finish([*self._made(rref), *self._stand_for(rref, target)])

    def _made(self, rref: RRefId) -> list[Effect]:
        """The function that makes *rref* has run: settle what was lent for it."""
        call = self._making.pop(rref, None)
        if call is None:
            return []
        loans, effects = self._end(call, replies=False)
        return [*effects, Send(call.caller, Returned(loans=loans))] if loans else effects

    def _stand_for(self, rref: RRefId, target: RRefId) -> list[Effect]:
        owner, target = self.owners[rref], self.whereabouts(target)
        entry = self._entry(target)
        if isinstance(entry, User) and entry.lost:
            return [Lose(rref, Loss.OWNER)]
        alias = self._aliases[rref] = Alias(rref, target)
        owner.stand_for(alias)
        self.hold(target)
        return [*self._ask(alias, target), *self._after(owner, owner.settle())]

    def _ask(self, alias: Alias, about: RRefId) -> list[Effect]:
        """Ask what *about* is, and have it know its alias."""
        call = self._mint_pin(about)
        self._asking[call] = alias.rref
        alias.asked[call] = about
        alias.listed.add(about)
        label = self.owners[alias.rref].label
        message = AliasRef(call=call, rref=about, alias=alias.rref, label=label)
        return [Send(self._home(self._entry(about)), message)]

    def standing_for(self, rref: RRefId) -> list[RRefId]:
        """The aliases that live here and hold *rref*, each by a handle of its own."""
        return [
            alias.rref
            for alias in self._aliases.values()
            if not alias.gone and self.whereabouts(alias.target) == rref
        ]

    # ---- at the target

    def _alias_ref(self, sender: WorkerId, message: AliasRef) -> list[Effect]:
        if message.call.caller != sender:
            raise ProtocolError(f"{sender} asked by {message.call}, an id that is not its own")
        owner, lost = self._own_or_await(message.rref)
        owner.aliases[message.alias] = sender
        owner.asking.append((sender, message.call))
        effects = self._answer_asking(owner) if owner.settled else self._hear(owner, message.label)
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

    def _answer_asking(self, owner: Owner) -> list[Effect]:
        """It is known what this object is: tell the owners of its aliases."""
        asking, owner.asking = owner.asking, []
        answers: list[Effect] = [
            Send(to, Canonical(call=call, rref=owner.rref, moved=self._moved(owner, to)))
            for to, call in asking
        ]
        # Who asks too late is not counted any more, and the question alone has kept the object.
        return [*answers, *self._after(owner, owner.settle())] if answers else []

    def _moved(self, owner: Owner, to: WorkerId) -> Moved | None:
        """For *to*, if it lives: a fork of what this object stands for, if it is an alias."""
        if owner.alias is None or owner.alias.shown is None or to in self.dead:
            return None
        return Moved(fork=self.fork(owner.alias.shown, to), path=owner.alias.path)

    def _alias_gone(self, sender: WorkerId, message: AliasGone) -> list[Effect]:
        owner = self.owners.get(message.rref)
        if owner is not None and owner.aliases.get(message.alias) == sender:
            del owner.aliases[message.alias]
        return []

    # ---- at the alias: its target is known

    def _canonical(self, sender: WorkerId, message: Canonical) -> list[Effect]:
        asked = self._asking.get(message.call)
        alias = self._aliases.get(asked) if asked is not None else None
        about = alias.asked.get(message.call) if alias is not None else None
        if alias is None or about != message.rref or self._home(self._entry(about)) != sender:
            raise ProtocolError(f"{sender} answers {message.call}, which it was not asked")
        moved = message.moved
        if moved is not None and moved.fork.rref == alias.rref and not alias.gone:
            raise ProtocolError(f"{sender} says that {alias.rref} stands for itself")
        brought = Cargo(descriptors=(moved.fork,) if moved else ())
        effects = self._accept(sender, brought)
        canonical, path = about, shortened((about,))
        if moved is not None:
            canonical, path = moved.fork.rref, shortened((about, *moved.path))
            effects += self._learn(about, canonical, moved.path)
        del self._asking[message.call], alias.asked[message.call]
        if not alias.gone and alias.canonical is None:
            effects += self._found(alias, canonical, path)
        effects += self._unlist(alias)
        effects += self._answered(about, message.call)
        return effects + self._release(brought.descriptors)

    def _found(self, alias: Alias, canonical: RRefId, path: tuple[RRefId, ...]) -> list[Effect]:
        """What *alias* stands for is known: tell whoever waits, and pass on what waits."""
        entry = self._entry(canonical)
        if isinstance(entry, User) and entry.lost:
            return self._break(alias, Loss.OWNER)
        owner = self.owners[alias.rref]
        alias.canonical, alias.path = canonical, path
        effects = self._ask(alias, canonical) if canonical != alias.target else []
        waiting = list(owner.queue)
        owner.queue.clear()
        alias.early = {each.rref for _, each in waiting if isinstance(each, Create)}
        for sender, request in waiting:
            effects += self._pass_on(alias, sender, request, [])
        effects += self._show(alias)
        return effects if alias.gone else effects + self._after(owner, owner.settle())

    def _show(self, alias: Alias) -> list[Effect]:
        """Unless something is early, everybody may know from now on what *alias* stands for."""
        if alias.shown is None or alias.gone:
            return []
        effects = self._answer_asking(self.owners[alias.rref])
        return effects + self._learn(alias.rref, alias.shown, alias.path)

    # ---- at the alias: requests on it

    def _passes_on(self, rref: RRefId) -> bool:
        """Whether requests on *rref* go elsewhere, and it is known where to."""
        owner = self.owners.get(rref)
        alias = owner.alias if owner is not None else None
        return alias is not None and alias.canonical is not None

    def _pass_on(
        self,
        alias: Alias,
        sender: WorkerId,
        request: ObjectRequest,
        acks: list[Effect],
    ) -> list[Effect]:
        """*request* is for an alias whose canonical object is known; it gets these *acks* there."""
        canonical = alias.canonical or alias.target
        to = self.owner_of(canonical)
        if isinstance(request, Fetch):
            if (request.direct or not request.copy) and not alias.early:
                moved = self._moved(self.owners[alias.rref], sender)
                return self._reply(request.call, NOTHING, moved=moved)
            call = self._mint_relay(to, canonical, NOTHING, Relay(sender, request, alias.rref))
            send = Send(to, replace(request, call=call, rref=canonical, direct=False))
            return self._dispatch(canonical, send)
        if self._has_lost(request.cargo):
            if isinstance(request, Create):
                alias.early.discard(request.rref)
            return [*acks, Refuse(sender, request, Refusal.LOST)]
        cargo = self.share_on(request.cargo, to, replies=isinstance(request, Invoke))
        if isinstance(request, Invoke):
            relay = Relay(sender, request, alias.rref)
            call = self._mint_relay(to, canonical, cargo, relay)
            send = Send(to, replace(request, call=call, rref=canonical, cargo=cargo))
            return self._dispatch(canonical, send)
        made, effects = self.create(to, cargo, canonical)
        self._passed_on[made] = alias.rref, tuple(acks)
        if request.rref in alias.early:
            alias.early.discard(request.rref)
            alias.early.add(made)
        effects += [*self._made(request.rref), *self._stand_for(request.rref, made)]
        return effects + self._drop(made)

    def _mint_relay(self, to: WorkerId, rref: RRefId, cargo: Cargo, relay: Relay) -> CallId:
        call = self._mint_call(to, rref, cargo, relay)
        self._relayed[relay.request.call] = call
        return call

    def _is_lost(self, rref: RRefId) -> bool:
        entry = self._find(rref)
        return isinstance(entry, User) and entry.lost

    def _pends(self, rref: RRefId, call: CallId) -> bool:
        entry = self._find(rref)
        return entry is not None and call in entry.pending

    def _has_lost(self, cargo: Cargo) -> bool:
        """Something in *cargo* can not be passed on any more."""
        return any(self._is_lost(self.whereabouts(each.rref)) for each in cargo.descriptors)

    def _created(self, rref: RRefId, owner: WorkerId) -> list[Effect]:
        """See `Requests._created`. A creation that was passed on has arrived."""
        return super()._created(rref, owner) + self._arrived(rref)

    def _arrived(self, rref: RRefId) -> list[Effect]:
        on, acks = self._passed_on.pop(rref, (None, ()))
        alias = self._aliases.get(on) if on is not None else None
        if alias is None or rref not in alias.early:
            return list(acks)
        alias.early.discard(rref)
        return self._show(alias)

    def _settled(self, sender: WorkerId, waiting: Waiting, message: Reply) -> list[Effect]:
        """See `Requests._settled`. What was passed on is answered in turn, not settled here."""
        return [] if waiting.relay else super()._settled(sender, waiting, message)

    def _receive_reply(self, sender: WorkerId, message: Reply) -> list[Effect]:
        """See `Requests._receive_reply`. The loans of what was passed on are settled first."""
        waiting = self.waiting.get(message.call)
        effects = super()._receive_reply(sender, message)
        if waiting is None or waiting.relay is None:
            return effects
        effects += self._pass_back(waiting.relay, message.cargo)
        return effects + self._release(message.cargo.descriptors)

    def _pass_back(self, relay: Relay, cargo: Cargo) -> list[Effect]:
        """The answer of a request that was passed on goes to whoever made it."""
        caller, call = relay.sender, relay.request.call
        del self._relayed[call]
        if caller in self.dead:
            return self._end(call, replies=True)[1]
        if self._has_lost(cargo):
            return [Refuse(caller, relay.request, Refusal.LOST)]
        shared = tuple(self._share_back(each, caller, call) for each in cargo.descriptors)
        owner = self.owners.get(relay.alias)
        alias = owner.alias if owner is not None else None
        moved = None
        if owner is not None and alias is not None and caller not in alias.told:
            moved = self._moved(owner, caller)
        if alias is not None and moved is not None:
            alias.told.add(caller)
        waited = isinstance(relay.request, Fetch) and not relay.request.copy
        # What comes with the answer to a wait is for who is near, as we are; its asker may not be.
        answer = Cargo(payload=None if waited else cargo.payload, descriptors=shared)
        return self._reply(call, answer, relayed=True, moved=moved)

    def _share_back(self, descriptor: Descriptor, caller: WorkerId, call: CallId) -> Descriptor:
        back = self.give_back(descriptor.rref, call) or self.fork(descriptor.rref, caller)
        return replace(back, name=descriptor.name or back.name)

    def _cancel(self, sender: WorkerId, call: CallId, rref: RRefId) -> list[Effect]:
        """*sender* takes back *call* on *rref*, which waits here or has been passed on."""
        owner = self.owners.get(rref)
        if owner is None:
            return []
        cancelled = self._after(owner, owner.cancel(sender, call))
        if cancelled or owner.alias is None:
            return cancelled
        ours = self._relayed.get(call)
        return self.cancel(ours) if ours is not None and call.caller == sender else []

    def _delete(self, sender: WorkerId, message: Delete) -> list[Effect]:
        """See `Loans._delete`. Whoever comes back has to be told again."""
        if message.rref in self._aliases:
            self._aliases[message.rref].told.discard(sender)
        return super()._delete(sender, message)

    # ---- the end

    def _after(self, entry: Owner | User, effects: list[Effect]) -> list[Effect]:
        """See `Tables._after`. An alias that is freed lets go of its target."""
        effects = super()._after(entry, effects)
        if isinstance(entry, Owner) and entry.alias and entry.rref not in self.owners:
            effects += self._let_go(entry.alias)
            entry.alias = None
        return effects

    def _break(self, alias: Alias, why: Loss) -> list[Effect]:
        """It cannot stand for anything: an error takes the place of its value."""
        self.owners[alias.rref].alias = None
        return [*self._let_go(alias), Lose(alias.rref, why)]

    def _let_go(self, alias: Alias) -> list[Effect]:
        alias.gone = True
        effects = self._unlist(alias)
        return effects + self._drop(alias.target)

    def _unlist(self, alias: Alias) -> list[Effect]:
        """Tell those who have *alias* on their lists and need not any more."""
        if alias.gone and not alias.asked:
            self._aliases.pop(alias.rref, None)
        needed = set(alias.asked.values())
        if not alias.gone:
            needed.add(alias.canonical or alias.target)
        effects: list[Effect] = []
        for about in sorted(alias.listed - needed):
            alias.listed.discard(about)
            entry = self._find(about)
            if entry is not None and not self._is_lost(about):
                gone = AliasGone(rref=about, alias=alias.rref)
                effects.append(Send(self._home(entry), gone))
        return effects

    def _lose_aliases(self, worker: WorkerId) -> list[Effect]:
        """*worker* is dead: what it was asked about, and what was passed on to it, is lost."""
        effects: list[Effect] = []
        self._relayed = {call: ours for call, ours in self._relayed.items() if ours in self.waiting}
        for alias in list(self._aliases.values()):
            alias.asked = {
                call: about for call, about in alias.asked.items() if self._pends(about, call)
            }
            target = alias.canonical or alias.target
            known = self.whereabouts(target)
            if alias.gone:
                effects += self._unlist(alias)
            elif self._is_lost(known):
                effects += self._break(alias, Loss.OWNER)
            elif self._is_lost(target):  # somebody else said in time what it is
                effects += self._found(alias, known, (known,))
        for made in list(self._passed_on):
            user = self.users.get(made)
            if made not in self.owners and (user is None or user.owner == worker):
                effects += self._arrived(made)
        self._asking = {
            call: rref
            for call, rref in self._asking.items()
            if rref in self._aliases and call in self._aliases[rref].asked
        }
        return effects


def shortened(path: tuple[RRefId, ...]) -> tuple[RRefId, ...]:
    """*path*, or its two ends if it is long."""
    half = MAX_PATH // 2
    return path if len(path) <= MAX_PATH else path[:half] + path[-half:]
