"""The names of handles, and the place of their object: an alias's handles move to its target.

A handle keeps the id that it was made with. When that id turns out to be an alias, the endpoint
*learns* the canonical object. From then on all handles of the alias count for the canonical object,
each still under its own name (`Tables.names`). The hop is dropped: the alias's own entry ends like
that of any unused reference::

    handles of h --learned: h is f--> name h: f, and as many handles of f; h is deleted

A reference shared under such a name is a fork of the canonical object and carries its name, so the
receiver's handle equals every other handle of h.

A name lasts as long as a handle, or an unanswered request to the canonical object, has it
(`Tables.named`). A fetch that is asked again at the canonical object is such a request, too.

Order (a call never overtakes another one on the same reference): earlier requests went to the owner
of the alias, which passes them on. Later ones could be faster on the direct way. So they are *held*
until all earlier ones have been answered. Requests after a direct fetch are held until the fetch
has its value, as the fetch may have to be asked again elsewhere.

The last handle of h may be dropped while a direct request is under way. Then h may come back from
an endpoint that does not know the canonical object. Its name is still there, so the next request
takes the direct way as well. By way of the alias it could overtake the one under way. A request to
the owner of the alias needs no name: the next one, if h has no name, goes the same way.

A request on an object of its own chain is never held. The earlier requests may wait for that
object, and the object waits for this request. Its owner refuses the request (see `owner`), so it
overtakes no other.

Cancelling: a `Cancel` always follows its call. An earlier `Cancel` could not take the call back,
and the receiver would not know how long to remember it. So a call that is cancelled while held is
marked as *cancelled*. It goes out in its turn, does not run, and is answered, which settles its
loans. A direct fetch that is cancelled is not asked again elsewhere.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec
from msgspec.structs import replace

from .effects import Effect, Send
from .entries import Entries
from .ids import CallId, RRefId, WorkerId
from .messages import Create, Descriptor, Fetch, Invoke, Message, ObjectRequest, names
from .owner import Owner
from .state import Name, Tables


class Names(msgspec.Struct):
    """The names of handles, and the order of requests on them."""

    state: Tables
    entries: Entries

    # ---- questions

    def whereabouts(self, rref: RRefId) -> RRefId:
        """The object that requests for *rref* go to: the canonical one, once it is known."""
        name = self.state.names.get(rref)
        if name is not None:
            return name.canonical
        owner = self.state.owners.get(rref)
        shown = owner.alias.shown if owner is not None and owner.alias else None
        return shown or rref

    def canonical(self, rref: RRefId) -> RRefId | None:
        """The object behind *rref*, which may be *rref* itself; None while it is unknown here."""
        found = self.whereabouts(rref)
        entry = self.entries.find(found) if found == rref else None
        if entry is None:
            return found
        known = entry.resolved if isinstance(entry, Owner) else entry.canonical
        return rref if known else None

    def path(self, rref: RRefId) -> tuple[RRefId, ...]:
        """The way from *rref*, if it is an alias, to its canonical object: the ids behind it."""
        name = self.entries.name(rref)
        return name.path if name is not None else ()

    def owner_of(self, rref: RRefId) -> WorkerId:
        """The endpoint that owns the value of *rref*. Raises `OwnerDiedError` if it is dead."""
        return self.entries.home(self.entries.living(self.whereabouts(rref)))

    # ---- learning

    def take_up(self, descriptor: Descriptor) -> list[Effect]:
        """Count one more handle of a named reference that arrived; its message holds it."""
        rref = descriptor.name or descriptor.rref
        effects = self.learn(rref, descriptor.rref, (descriptor.rref,))
        if rref not in self.state.names and rref != descriptor.rref:
            self.state.names[rref] = Name(descriptor.rref, (descriptor.rref,))
        self.entries.hold(rref)
        return effects

    def learn(self, rref: RRefId, canonical: RRefId, path: tuple[RRefId, ...]) -> list[Effect]:
        """*rref* is an alias of *canonical*, which is held here: move its handles."""
        entry = self.entries.find(rref)
        if rref == canonical or rref in self.state.names or entry is None or not entry.handles:
            return []
        name = self.state.names[rref] = Name(canonical, path)
        name.handles, entry.handles = entry.handles, 0
        self.entries.entry(canonical).handles += name.handles
        return self.entries.after(entry, entry.end_if_unused())

    # ---- requests, in order

    def dispatch(self, rref: RRefId, send: Send, *, first: bool = False) -> list[Effect]:
        """Send a request made on the handle *rref*, or hold it until all earlier ones are answered.

        With *first* it is held before all others on this handle.
        """
        chain = getattr(send.message, "chain", ())
        if chain and names(chain, getattr(send.message, "rref", None)):
            return [send]
        self._name(rref, send.message)
        held = self.state.held.get(rref)
        if held is None:
            if not self._must_wait(rref, send.message):  # nearly always
                self._leaves(rref, send.message)
                return [send]
            held = self.state.held[rref] = OrderedDict()
        call: CallId = send.message.call  # type: ignore[union-attr,assignment]  # only requests come here
        self.state.held_calls[call] = rref
        held[call] = send
        if first:
            held.move_to_end(call, last=False)
        return self._send_on(rref)

    def _name(self, rref: RRefId, message: Message) -> None:
        """Keep the name of the handle *rref*, if *message* goes to its canonical object."""
        to = goes_to(message)
        if to is None or to == rref or not isinstance(message, ObjectRequest):  # nearly always
            return
        name = self.state.names.get(rref)
        if name is None:  # a fetch that is asked again has no handle any more
            name = self.state.names[rref] = Name(to, (to,))
        name.requests += 1
        self.state.named[message.call] = rref

    def dispatch_cancel(self, send: Send, call: CallId) -> list[Effect]:
        """Take *call* back; if it has not left yet, mark it as cancelled instead."""
        name = self.state.held_calls.get(call)
        if name is None:
            return [send]
        held = self.state.held[name]
        each = held[call]
        if isinstance(each.message, Invoke | Fetch):
            held[call] = Send(each.to, replace(each.message, cancelled=True))
        return []

    def send_held(self) -> list[Effect]:
        """Send the requests that no longer have to be held."""
        held, freed = self.state.held, list(self.state.freed)
        self.state.freed.clear()
        return [effect for rref in freed if rref in held for effect in self._send_on(rref)]

    def _send_on(self, rref: RRefId) -> list[Effect]:
        """Send the requests held on the handle *rref*, up to the first that must wait."""
        state = self.state
        held = state.held[rref]
        effects: list[Effect] = []
        while held and not self._must_wait(rref, next(iter(held.values())).message):
            call, send = held.popitem(last=False)
            del state.held_calls[call]
            self._leaves(rref, send.message, more=bool(held))
            effects.append(send)
        if not held:
            del state.held[rref]
        return effects

    def _leaves(self, rref: RRefId, message: Message, *, more: bool = False) -> None:
        """*message* leaves, on the handle *rref*; with *more*, others are held behind it."""
        if not isinstance(message, Fetch) or not message.direct or message.cancelled:
            return
        if more or self.canonical(rref) is None:
            # The fetch may have to be asked again elsewhere; or it is the repeated one, and other
            # requests go by way of the alias.
            self.state.fetching[rref] = message.call

    def _must_wait(self, rref: RRefId, message: Message) -> bool:
        """*message* could overtake a request on its way, or one to be asked again."""
        state = self.state
        if rref in state.fetching:
            return True
        entry = self.entries.find(rref)
        if goes_to(message) == rref or entry is None:
            return False
        asking, held = state.asking, state.held_calls
        return any(call not in asking and call not in held for call in entry.pending)


def goes_to(message: Message) -> RRefId | None:
    """The object that the request *message* is about."""
    return message.target if isinstance(message, Create) else getattr(message, "rref", None)
