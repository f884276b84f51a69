"""The requests that an endpoint makes and answers: creations, calls, fetches, and their replies.

An endpoint allocates the ids of its requests here. A request pins its object until it is answered.
It is answered once: by its `Reply` (a creation by its `Ack`), or by the death of its receiver.

A fetch that may not be passed on (`Fetch.direct`) gets the place of the value from the owner of an
alias. The endpoint then asks again there, under the same id.

A caller that wants no answer any more cancels its request, and the request still waits for its
reply, which ends the loans. So a cancel may cross the reply, come twice, or be lost with a dead
endpoint, and nothing is left. The callee ends the request if it can: the reply then carries the
error. Otherwise it says at once that it cannot (`CancelRefused`); the reply may be faster.
A request on an alias was passed on as one of the alias's owner. That one is cancelled, and its
refusal goes back the same way.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from .creations import Asked
from .effects import Effect, Fail, Send, Settle, Unstopped
from .empty import EMPTY_SET
from .entries import Entries
from .errors import FarrefError, ProtocolError
from .ids import CallId, ForkId, RRefId, WorkerId
from .loans import Loans, loans_among
from .messages import Busy, Cancel, CancelRefused, Cargo, Create, Fetch, Invoke, Moved, Reply, names
from .names import Names
from .references import References
from .state import Tables, Waiting
from .user import User


class ElsewhereError(FarrefError):
    """The request was packed for one endpoint, and its object is at another: pack it for that one.

    The object is an alias, and its canonical object became known after the packing.
    """


class Requests(msgspec.Struct):
    """The requests that wait for answers."""

    state: Tables
    entries: Entries
    loans: Loans
    names: Names
    references: References

    # ---- requests of the user's code

    def create(
        self, to: WorkerId, cargo: Cargo, target: RRefId | None
    ) -> tuple[RRefId, list[Effect]]:
        """Create an object on *to* by running *cargo*, with one handle here."""
        state, me = self.state, self.state.me
        if state.dead.firsts:
            self.entries.check_alive(to)
        where = None if target is None else self._at(target, to)[0]
        state.rrefs += 1
        state.forks += 1
        rref, fork = RRefId(me, state.rrefs), ForkId(me, state.forks)
        if to == me:
            self.entries.begin(rref).handles = 1
        else:
            user = state.users[rref] = state.discipline.user(rref, to, state.now)
            user.create(fork)
            user.handles = 1
        call = self.entries.allocate_call(where)
        if where is not None:
            state.creating[rref] = where, call
        asked = state.asked.get(to)
        if asked is None:
            asked = state.asked[to] = Asked()
        settled = asked.add(rref.number)
        send = Send(
            to, Create(call=call, rref=rref, fork=fork, cargo=cargo, target=where, settled=settled)
        )
        return rref, [send] if target is None else self.names.dispatch(target, send)

    def invoke(
        self,
        rref: RRefId,
        cargo: Cargo,
        chain: tuple[Busy, ...],
        to: WorkerId | None,
        by: object,
    ) -> tuple[CallId, list[Effect]]:
        """Run a method of the object. Raises `ElsewhereError` if *to* is not its owner."""
        loans = loans_among(cargo.descriptors) if cargo.descriptors else ()
        if (direct := self._direct(rref, to)) is not None:  # exit
            call, user = direct
            self.state.waiting[call] = Waiting(user.owner, rref, loans, None, None, by)
            return call, [Send(user.owner, Invoke(call=call, rref=rref, cargo=cargo, chain=chain))]
        where, owner = self._at(rref, to)
        call = self.entries.allocate_call(where, Waiting(owner, where, loans, by=by))
        if chain:
            chain = self._whole(chain, where)
        send = Send(owner, Invoke(call=call, rref=where, cargo=cargo, chain=chain))
        return call, self.names.dispatch(rref, send)

    def fetch(
        self,
        rref: RRefId,
        chain: tuple[Busy, ...],
        *,
        copy: bool,
        direct: bool,
        follow: bool,
        by: object,
    ) -> tuple[CallId, list[Effect]]:
        """Ask for a copy of the value, or only whether there is one."""
        if (found := self._direct(rref, None)) is not None:  # exit
            call, user = found
            direct = direct and not user.canonical
            fetch = Fetch(call=call, rref=rref, copy=copy, direct=direct, chain=chain)
            again = fetch if copy and direct and follow else None
            self.state.waiting[call] = Waiting(user.owner, rref, fetch=again, by=by)
            if direct:
                self.state.fetching[rref] = call
            return call, [Send(user.owner, fetch)]
        where, to = self._at(rref)
        direct = direct and self.names.canonical(rref) is None
        call = self.entries.allocate_call(where, Waiting(to, where, by=by))
        if chain:
            chain = self._whole(chain, where)
        fetch = Fetch(call=call, rref=where, copy=copy, direct=direct, chain=chain)
        if copy and direct and follow:
            self.state.waiting[call] = replace(self.state.waiting[call], fetch=fetch)
        return call, self.names.dispatch(rref, Send(to, fetch))

    def _direct(self, rref: RRefId, to: WorkerId | None) -> tuple[CallId, User] | None:
        """Begin a request on *rref* that can leave at once. Returns its id and the pinned entry.

        Returns None if *rref* may be an alias, if earlier requests may be held back, or if *to* is
        given and is not the owner.
        """
        state = self.state
        user = state.users.get(rref)
        if user is None or user.lost or rref in state.fetching:  # others may be held behind a fetch
            return None
        if state.held or (state.names and rref in state.names):  # its creation may be held back
            return None
        if to is not None and user.owner != to:
            return None
        state.calls += 1
        call = CallId(state.me, state.calls)
        user.stamp += 1
        user.pending = user.pending or set()
        user.pending.add(call)
        return call, user

    def _whole(self, chain: tuple[Busy, ...], rref: RRefId) -> tuple[Busy, ...]:
        """*chain* for a request on *rref*; with *rref*, if a method of *chain* is to make it.

        The owner of *rref* knows that by itself, unless this endpoint holds the creation back.
        """
        state = self.state
        target, creation = state.creating.get(rref, (None, None))
        if creation is None or creation not in state.held_calls or not names(chain, target):
            return chain
        return (*chain, Busy(rref, creation))

    def _at(self, rref: RRefId, to: WorkerId | None = None) -> tuple[RRefId, WorkerId]:
        """The object that *rref* stands for, and its owner, which has to be *to* if *to* is given.

        Raises `ElsewhereError` and `OwnerDiedError`.
        """
        where = self.names.whereabouts(rref)
        owner = self.entries.home(self.entries.living(where))
        if to is not None and owner != to:
            raise ElsewhereError(f"{rref} turned out to be an alias of {where}")
        return where, owner

    def cancel(self, call: CallId, *, interrupt: bool) -> list[Effect]:
        """Ask the callee to end *call*. Its reply still comes."""
        waiting = self.state.waiting.get(call)
        if waiting is None:
            return []
        if waiting.fetch is not None:  # nor is the fetch asked again elsewhere
            self.state.waiting[call] = replace(waiting, fetch=None)
        send = Send(waiting.to, Cancel(call=call, rref=waiting.rref, interrupt=interrupt))
        return self.names.dispatch_cancel(send, call)

    def cancel_refused(self, sender: WorkerId, call: CallId) -> list[Effect]:
        """*call* goes on, though it was to be cancelled; one that was passed on, for its caller."""
        waiting = self.state.waiting.get(call)
        if waiting is None and call.caller == self.state.me and call.number <= self.state.calls:
            return []  # the reply was faster
        if waiting is None or waiting.to != sender:
            raise ProtocolError(f"{sender} goes on with {call}, but got no such call")
        if waiting.relay is None:
            return [Unstopped(call, waiting.by)]
        theirs = waiting.relay.request.call
        return [Send(theirs.caller, CancelRefused(call=theirs))]

    # ---- answers to others

    def reply(
        self,
        call: CallId,
        cargo: Cargo,
        *,
        relayed: bool = False,
        refused: bool = False,
        moved: Moved | None = None,
    ) -> list[Effect]:
        """Answer *call* (its id names the caller) and release its request's references."""
        loans, effects = (
            self.loans.end(call, replies=True) if call in self.state.serving else ((), [])
        )
        answer = Reply(
            call=call, cargo=cargo, loans=loans, relayed=relayed, refused=refused, moved=moved
        )
        return [*effects, Send(call.caller, answer)]

    # ---- answers from others

    def created(self, rref: RRefId, owner: WorkerId) -> list[Effect]:
        """*owner* has the creation, so the object that it was called on needs no more holding."""
        state = self.state
        asked = state.asked.get(owner)
        if asked is not None and rref.creator == state.me and asked.acknowledged(rref.number):
            del state.asked[owner]
        creating = state.creating.pop(rref, None)
        return self.entries.answered(*creating) if creating is not None else []

    def receive_reply(self, sender: WorkerId, message: Reply, waiting: Waiting) -> list[Effect]:
        """Take the answer to a call for which this endpoint is *waiting*.

        Raises `ProtocolError`, with nothing changed, if no correct peer sends it.
        """
        brings = message.loans or message.cargo.descriptors
        lent = {loan.fork: loan.rref for loan in waiting.loans} if brings else {}
        for report in message.loans:
            if lent.get(report.fork) != report.rref:
                raise ProtocolError(f"{sender} reports a loan that {message.call} did not bring")
        if message.moved is not None and waiting.rref in {None, message.moved.fork.rref}:
            raise ProtocolError(f"{sender} says that {message.call} was on an alias, and it is not")
        moved = (message.moved.fork,) if message.moved else ()
        effects: list[Effect] = []
        if moved or message.cargo.descriptors:
            brought = Cargo(descriptors=(*message.cargo.descriptors, *moved))
            effects = self.references.accept(sender, brought, lent=lent)
        del self.state.waiting[message.call]
        if message.moved and waiting.rref is not None:
            target = message.moved.fork.rref
            effects += self.names.learn(waiting.rref, target, message.moved.path)
        elsewhere = message.moved is not None and not message.relayed
        # A request that was passed on is answered in turn, not handed to the program.
        if waiting.relay is None and (not elsewhere or waiting.fetch is None):
            user = self.state.users.get(waiting.rref) if waiting.rref is not None else None
            aside = message.relayed or message.refused
            if user is not None and not aside and message.moved is None:
                user.canonical = True
            effects.append(Settle(sender, message, waiting.by))
        if waiting.rref is not None:
            effects += self.entries.answered(waiting.rref, message.call)
        if message.moved and elsewhere and waiting.fetch is not None:
            effects += self._fetch_there(waiting.fetch, message.moved.fork.rref, waiting.by)
        if moved:
            effects += self.entries.release(moved)
        if waiting.loans:
            effects += self.loans.ended(sender, waiting.loans, message.loans)
        return effects

    def is_answered(self, rref: RRefId, call: CallId) -> bool:
        """Note that the owner has answered *call* on *rref*, if nothing else follows from that.

        Returns False, with nothing changed, if no handle keeps *rref*, or requests are held back.
        """
        state = self.state
        user = state.users.get(rref)
        if user is None or not user.handles:
            return False
        if state.held or (state.named and call in state.named):  # others may leave, a name may end
            return False
        if state.fetching.get(rref) == call:
            del state.fetching[rref]
        user.canonical = True
        user.pending.discard(call)
        user.pending = user.pending or EMPTY_SET
        return True

    def _fetch_there(self, fetch: Fetch, target: RRefId, by: object) -> list[Effect]:
        """The value is elsewhere: ask there, in order with the other requests on the alias."""
        entry = self.entries.entry(target)
        if isinstance(entry, User) and entry.lost:
            return [Fail(fetch.call, entry.owner, target, by)]
        entry.stamp += 1
        entry.pending = entry.pending or set()
        entry.pending.add(fetch.call)
        to, again = self.names.owner_of(target), replace(fetch, rref=target)
        self.state.waiting[fetch.call] = Waiting(to, target, fetch=again, by=by)
        return self.names.dispatch(fetch.rref, Send(to, again), first=True)
