"""What handles are called, and where their object is: an alias's handles move to its target.

A handle keeps the id that it was made with. When that turns out to be an alias, the endpoint
*learns* the canonical object: all its handles count for that one from then on, each still under
its own name (`Context.names`), and the hop is dropped: the alias's own entry ends like that of
any reference that nobody uses::

    handles of h --learned: h is f--> name h: f, and as many handles of f; h is deleted

A reference shared under such a name is a fork of the canonical object, and says its name, so
that the receiver's handle equals every other handle of h.

Order (a call never overtakes another one on the same reference): requests made before went to
the owner of the alias, which passes them on. Those made after could be faster on the direct way.
So they are *held* until all the earlier ones have been answered. And what is asked after a direct
fetch is held until that one has its value: the fetch may have to be asked again elsewhere.

A request on an object of its own chain is never held. The earlier requests may wait for that
object, and the object waits for this one. Its owner refuses it (see `owner`): it overtakes nothing.

Cancelling: a `Cancel` always follows its call. It could not take back a call that comes with it or
after it, and nobody would know how long to remember it. So a call that is cancelled while held is
marked as *cancelled*. It goes out in its turn, is not run, and is answered, which settles its
loans. A direct fetch that is cancelled is not asked again elsewhere.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .effects import Send
from .loans import Loans
from .messages import Cargo, Create, Descriptor, Fetch, Invoke, Passing
from .owner import Owner
from .user import User

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .effects import Effect
    from .ids import CallId, ForkId, RRefId, WorkerId
    from .messages import Message
    from .sharing import Sharing


class Name:
    """What an alias's handles here stand for."""

    __slots__ = ("canonical", "handles", "path")

    def __init__(self, canonical: RRefId, path: tuple[RRefId, ...]) -> None:
        self.canonical = canonical
        self.path = path
        """From the alias's target, alias by alias, to the canonical object."""
        self.handles = 0
        """How many of the canonical object's handles here have this name."""


class Names(Loans):
    """The tables, loans, and what handles are called."""

    def __init__(self, me: WorkerId, sharing: Sharing = "lend") -> None:
        super().__init__(me, sharing)
        self.names: dict[RRefId, Name] = {}
        self._asking: dict[CallId, RRefId] = {}
        """Unanswered `AliasRef`s: the alias that each is about. They are in nobody's way."""
        self._held: dict[RRefId, deque[Send]] = {}
        """Requests on a handle that wait for earlier ones on it, by what the handle is called."""
        self._held_calls: set[CallId] = set()
        """The calls of all these."""
        self._fetching: dict[RRefId, CallId] = {}
        """Direct fetches under way, which all later requests on the handle wait for."""

    # ---- questions

    def whereabouts(self, rref: RRefId) -> RRefId:
        """The object that requests for *rref* go to: the canonical one, once it is known."""
        name = self.names.get(rref)
        if name is not None:
            return name.canonical
        owner = self.owners.get(rref)
        shown = owner.alias.shown if owner is not None and owner.alias else None
        return shown or rref

    def canonical(self, rref: RRefId) -> RRefId | None:
        """The object behind *rref*, maybe itself; None while this endpoint does not know."""
        found = self.whereabouts(rref)
        entry = self._find(found)
        if found != rref or entry is None:
            return found
        known = entry.resolved if isinstance(entry, Owner) else entry.canonical
        return rref if known else None

    def path(self, rref: RRefId) -> tuple[RRefId, ...]:
        """The way from *rref*, if it is an alias, to its canonical object: the ids behind it."""
        name = self._name(rref)
        return name.path if name is not None else ()

    def owner_of(self, rref: RRefId) -> WorkerId:
        """See `Tables.owner_of`: the endpoint that owns the value."""
        return super().owner_of(self.whereabouts(rref))

    # ---- handles

    def hold(self, rref: RRefId) -> None:
        """One more handle of *rref* lives in this process."""
        name = self._name(rref)
        if name is None:
            self._entry(rref).hold()
            return
        self.names[rref] = name
        name.handles += 1
        self._entry(name.canonical).hold()

    def _name(self, rref: RRefId) -> Name | None:
        name = self.names.get(rref)
        if name is None:
            owner = self.owners.get(rref)
            if owner is not None and owner.alias and owner.alias.shown:
                return Name(owner.alias.shown, owner.alias.path)
        return name

    def take_up(self, descriptor: Descriptor) -> list[Effect]:
        """One more handle, of a reference that arrived under a name and whose message holds it."""
        rref = descriptor.name or descriptor.rref
        effects = self._learn(rref, descriptor.rref, (descriptor.rref,))
        if rref not in self.names and rref != descriptor.rref:
            self.names[rref] = Name(descriptor.rref, (descriptor.rref,))
        self.hold(rref)
        return self._finish(effects)

    def drop(self, *rrefs: RRefId) -> list[Effect]:
        """One handle of each of *rrefs* is gone."""
        return self._finish([effect for rref in rrefs for effect in self._drop(rref)])

    def _drop(self, rref: RRefId) -> list[Effect]:
        name = self.names.get(rref)
        if name is not None:
            name.handles -= 1
            if not name.handles:
                del self.names[rref]
        entry = self._entry(rref if name is None else name.canonical)
        return self._after(entry, entry.drop())

    # ---- learning

    def _learn(self, rref: RRefId, canonical: RRefId, path: tuple[RRefId, ...]) -> list[Effect]:
        """*rref* is an alias of *canonical*, which something here holds: move its handles."""
        entry = self._find(rref)
        if rref == canonical or rref in self.names or entry is None or not entry.handles:
            return []
        name = self.names[rref] = Name(canonical, path)
        name.handles, entry.handles = entry.handles, 0
        self._entry(canonical).handles += name.handles
        return self._after(entry, entry.settle())

    # ---- requests, in order

    def _dispatch(self, rref: RRefId, send: Send, *, first: bool = False) -> list[Effect]:
        """Send a request made on the handle *rref*, after those that were made before."""
        if getattr(send.message, "rref", None) in getattr(send.message, "chain", ()):
            return [send]
        held = self._held.setdefault(rref, deque())
        self._held_calls |= calls_in([send])
        if first:
            held.appendleft(send)
        else:
            held.append(send)
        return self._send_on(rref)

    def _dispatch_cancel(self, send: Send, call: CallId) -> list[Effect]:
        """Take back *call*; if that has not gone yet, it says so itself when it goes."""
        for held in self._held.values() if call in self._held_calls else ():
            for place, each in enumerate(held):
                if isinstance(each.message, Invoke | Fetch) and each.message.call == call:
                    held[place] = Send(each.to, replace(each.message, cancelled=True))
                    return []
        return [send]

    def _send_on(self, rref: RRefId) -> list[Effect]:
        """Send what was made on the handle *rref*, as far as it has not to wait."""
        held = self._held[rref]
        effects: list[Effect] = []
        while held and not self._must_wait(rref, held[0].message):
            send = held.popleft()
            message = send.message
            self._held_calls -= calls_in([send])
            unsure = held or self.canonical(rref) is None
            if unsure and isinstance(message, Fetch) and message.direct and not message.cancelled:
                # It may have to be asked again, elsewhere; or was, and others go by the alias.
                self._fetching[rref] = message.call
            effects.append(send)
        if not held:
            del self._held[rref]
        return effects

    def _must_wait(self, rref: RRefId, message: Message) -> bool:
        """Something on its way, or to be asked again, could be overtaken by *message*."""
        if rref in self._fetching:
            return True
        to = message.target if isinstance(message, Create) else getattr(message, "rref", rref)
        entry = self._find(rref)
        if to == rref or entry is None:
            return False
        asking, held = self._asking, self._held_calls
        return any(call not in asking and call not in held for call in entry.pending)

    def _finish(self, effects: list[Effect]) -> list[Effect]:
        """See `Tables._finish`; what was held and is not any more goes out, last."""
        for rref, call in list(self._fetching.items()):
            if call not in self.waiting:
                del self._fetching[rref]
        for rref in list(self._held):
            effects.extend(self._send_on(rref))
        return super()._finish(effects)

    # ---- references on the way

    def fork(self, rref: RRefId, to: WorkerId) -> Descriptor:
        """Fork a child for *to*; the parent is pinned until it is confirmed (G2)."""
        entry = self._shareable(rref, to)
        fork = self._mint_fork()
        entry.fork(fork, to)
        return self._descriptor(rref, entry, fork)

    def lend(self, rref: RRefId, to: WorkerId, *, replies: bool = True) -> Descriptor:
        """Share for a call on *to*, as the discipline says; a creation has no reply."""
        entry = self._shareable(rref, to)
        fork = self._mint_fork()
        counted = isinstance(entry, User) and entry.counted
        passing = entry.lend(fork, to, replies=replies)
        return self._descriptor(rref, entry, fork, passing, counted=counted)

    def _shareable(self, rref: RRefId, to: WorkerId) -> Owner | User:
        self._check_alive(to)
        return self._living(self.whereabouts(rref))

    def _descriptor(
        self,
        rref: RRefId,
        entry: Owner | User,
        fork: ForkId,
        passing: Passing = Passing.FORK,
        *,
        counted: bool = False,
    ) -> Descriptor:
        return Descriptor(
            rref=entry.rref,
            fork=fork,
            owner=self._home(entry),
            parent=self.me,
            passing=passing,
            counted=counted,
            name=None if entry.rref == rref else rref,
        )

    def give_back(self, rref: RRefId, call: CallId) -> Descriptor | None:
        """The descriptor of *rref* in the reply to *call*, if it was lent for that very call."""
        found = self.whereabouts(rref)
        loan = self._loan(found, call)
        if loan is None:
            return None
        return replace(loan, passing=Passing.BACK, name=None if found == rref else rref)

    def share_on(self, cargo: Cargo, to: WorkerId, *, replies: bool) -> Cargo:
        """Lend *to* whatever is in *cargo*, which this endpoint got for a call and passes on."""
        lent = tuple(
            replace(self.lend(each.rref, to, replies=replies), name=each.name)
            for each in cargo.descriptors
        )
        return Cargo(payload=cargo.payload, descriptors=lent)


def calls_in(held: Iterable[Send]) -> set[CallId]:
    """The calls that have not been sent yet."""
    return {call for each in held if (call := getattr(each.message, "call", None)) is not None}
