"""What an endpoint asks of others, and what it answers: creations, calls, fetches, replies.

Each request is minted here, pins the object that it is about until it is answered, and is
answered once: by its `Reply`, a creation by its `Ack`, or by the death of whom it went to.

A fetch that may not be passed on (`Fetch.direct`) is answered by the owner of an alias with
where the value is, and asked again there under the same id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from .arrivals import Arrivals
from .creations import Asked
from .effects import Fail, Send, Settle
from .errors import FarrefError, ProtocolError
from .messages import Call, Cancel, Cargo, Create, Fetch, Invoke, Reply, Tell
from .tables import Waiting
from .user import User

if TYPE_CHECKING:
    from .effects import Effect
    from .ids import CallId, RRefId, WorkerId
    from .messages import Moved
    from .sharing import Sharing


class ElsewhereError(FarrefError):
    """The request was packed for another endpoint than it must go to by now: pack it again."""


class Requests(Arrivals):
    """The tables, and what waits for answers in them."""

    def __init__(self, me: WorkerId, sharing: Sharing = "lend") -> None:
        super().__init__(me, sharing)
        self._creating: dict[RRefId, tuple[RRefId, CallId]] = {}
        """Objects being created by a method call: the object it is called on, and its pin there."""

    # ---- what the user's code asks for

    def create(
        self, to: WorkerId, cargo: Cargo, target: RRefId | None = None
    ) -> tuple[RRefId, list[Effect]]:
        """A new object on *to*, made by running *cargo*, with one handle here: ``remote``.

        With *target* the function is a method of that object, which *to* owns.
        """
        self._check_alive(to)
        where = None if target is None else self._at(target, to)
        rref, fork = self._mint_rref(), self._mint_fork()
        if to == self.me:
            self._begin(rref)
        else:
            self._use(rref, to).create(fork)
        self.hold(rref)
        call = self._mint_pin(where)
        if where is not None:
            self._creating[rref] = where, call
        settled = self._asked.setdefault(to, Asked()).add(rref.number)
        send = Send(
            to,
            Create(call=call, rref=rref, fork=fork, cargo=cargo, target=where, settled=settled),
        )
        return rref, [send] if target is None else self._dispatch(target, send)

    def call(
        self, to: WorkerId, cargo: Cargo, chain: tuple[RRefId, ...] = ()
    ) -> tuple[CallId, list[Effect]]:
        """Run *cargo* on *to*: ``rpc_sync`` and ``rpc_async``."""
        self._check_alive(to)
        call = self._mint_call(to, None, cargo)
        return call, [Send(to, Call(call=call, cargo=cargo, chain=chain))]

    def invoke(
        self, rref: RRefId, cargo: Cargo, chain: tuple[RRefId, ...] = (), to: WorkerId | None = None
    ) -> tuple[CallId, list[Effect]]:
        """Run a method of the object: ``rref.rpc_sync().method()`` and its kin.

        What is in *cargo* was lent to *to*. Raises `ElsewhereError` if that is not the owner.
        """
        owner = self.owner_of(rref)
        where = self._at(rref, owner if to is None else to)
        call = self._mint_call(owner, where, cargo)
        chain = self._whole(chain, where)
        send = Send(owner, Invoke(call=call, rref=where, cargo=cargo, chain=chain))
        return call, self._dispatch(rref, send)

    def fetch(
        self,
        rref: RRefId,
        chain: tuple[RRefId, ...] = (),
        *,
        copy: bool = True,
        direct: bool = False,
        follow: bool = True,
    ) -> tuple[CallId, list[Effect]]:
        """Ask for a copy of the value (``to_here``), or only whether there is one (``wait``).

        With *direct* an alias answers where the value is; with *follow* it is asked for there.
        """
        to, where = self.owner_of(rref), self.whereabouts(rref)
        direct = direct and self.canonical(rref) is None
        call = self._mint_call(to, where)
        chain = self._whole(chain, where)
        fetch = Fetch(call=call, rref=where, copy=copy, direct=direct, chain=chain)
        if copy and direct and follow:
            self.waiting[call] = replace(self.waiting[call], fetch=fetch)
        return call, self._dispatch(rref, Send(to, fetch))

    def _whole(self, chain: tuple[RRefId, ...], rref: RRefId) -> tuple[RRefId, ...]:
        """*chain*, of a request on *rref*; and *rref*, if a method of one in *chain* is to make it.

        Its owner knows of that, unless the creation is held back here.
        """
        target, creation = self._creating.get(rref, (None, None))
        return (*chain, rref) if target in chain and creation in self._held_calls else chain

    def cancel(self, call: CallId) -> list[Effect]:
        """Ask that *call* is not started any more. Its reply still comes."""
        waiting = self.waiting.get(call)
        if waiting is None:
            return []
        if waiting.fetch is not None:
            self.waiting[call] = replace(waiting, fetch=None)  # nor is it asked again elsewhere
        send = Send(waiting.to, Cancel(call=call, rref=waiting.rref))
        return self._dispatch_cancel(send, call)

    def tell(self, to: WorkerId, cargo: Cargo) -> list[Effect]:
        """Send a one-way message."""
        self._check_alive(to)
        return [Send(to, Tell(cargo=cargo))]

    def _at(self, rref: RRefId, owner: WorkerId) -> RRefId:
        """The object that *rref* stands for, which *owner* owns."""
        if self.owner_of(rref) != owner:
            raise ElsewhereError(f"{rref} turned out to be an alias of {self.whereabouts(rref)}")
        return self.whereabouts(rref)

    # ---- what it answers

    def reply(self, call: CallId, cargo: Cargo) -> list[Effect]:
        """Answer *call*, whose caller is named in its id; what its request held is let go."""
        return self._finish(self._reply(call, cargo))

    def refuse(self, call: CallId, cargo: Cargo) -> list[Effect]:
        """Answer *call*, which was not run, with the error in *cargo*."""
        return self._finish(self._reply(call, cargo, refused=True))

    def _reply(
        self,
        call: CallId,
        cargo: Cargo,
        *,
        relayed: bool = False,
        refused: bool = False,
        moved: Moved | None = None,
    ) -> list[Effect]:
        loans, effects = self._end(call, replies=True)
        answer = Reply(
            call=call, cargo=cargo, loans=loans, relayed=relayed, refused=refused, moved=moved
        )
        return [*effects, Send(call.caller, answer)]

    # ---- what it is answered

    def _created(self, rref: RRefId, owner: WorkerId) -> list[Effect]:
        """*owner* has the creation: the object it was called on needs no more holding."""
        asked = self._asked.get(owner)
        if asked is not None and rref.creator == self.me and asked.acknowledged(rref.number):
            del self._asked[owner]
        creating = self._creating.pop(rref, None)
        return self._answered(*creating) if creating is not None else []

    def _receive_reply(self, sender: WorkerId, message: Reply) -> list[Effect]:
        waiting = self._check_reply(sender, message)
        moved = (message.moved.fork,) if message.moved else ()
        lent = {loan.fork: loan.rref for loan in waiting.loans}
        brought = Cargo(descriptors=(*message.cargo.descriptors, *moved))
        effects = self._accept(sender, brought, lent=lent)
        del self.waiting[message.call]
        if message.moved and waiting.rref is not None:
            target = message.moved.fork.rref
            effects += self._learn(waiting.rref, target, message.moved.path)
        elsewhere = message.moved is not None and not message.relayed
        if not elsewhere or waiting.fetch is None:
            effects += self._settled(sender, waiting, message)
        if waiting.rref is not None:
            effects += self._answered(waiting.rref, message.call)
        if message.moved and elsewhere and waiting.fetch is not None:
            effects += self._fetch_there(waiting.fetch, message.moved.fork.rref)
        effects += self._release(moved)
        reports = {report.fork: report for report in message.loans}
        for fork, rref in lent.items():
            effects += self._loan_ended(sender, rref, fork, reports.get(fork))
        return effects

    def _check_reply(self, sender: WorkerId, message: Reply) -> Waiting:
        waiting = self.waiting.get(message.call)
        if waiting is None or waiting.to != sender:
            raise ProtocolError(f"{sender} replied to {message.call}, which it was not asked")
        lent = {loan.fork: loan.rref for loan in waiting.loans}
        if any(lent.get(report.fork) != report.rref for report in message.loans):
            raise ProtocolError(f"{sender} reports of a loan that {message.call} did not have")
        if message.moved is not None and waiting.rref in {None, message.moved.fork.rref}:
            raise ProtocolError(f"{sender} says that {message.call} was on an alias, and it is not")
        return waiting

    def _settled(self, sender: WorkerId, waiting: Waiting, message: Reply) -> list[Effect]:
        """The answer is there; a further one will not come."""
        user = self.users.get(waiting.rref) if waiting.rref is not None else None
        aside = message.relayed or message.refused
        if user is not None and not aside and message.moved is None:
            user.canonical = True
        return [Settle(sender, message)]

    def _fetch_there(self, fetch: Fetch, target: RRefId) -> list[Effect]:
        """The value is elsewhere: ask there, in turn with what else is asked of the alias."""
        entry = self._entry(target)
        if isinstance(entry, User) and entry.lost:
            return [Fail(fetch.call, entry.owner, target)]
        entry.pending.add(fetch.call)
        to, again = self.owner_of(target), replace(fetch, rref=target)
        self.waiting[fetch.call] = Waiting(to, target, fetch=again)
        self._fetching.pop(fetch.rref, None)
        return self._dispatch(fetch.rref, Send(to, again), first=True)

    def _answered(self, rref: RRefId, request: CallId) -> list[Effect]:
        entry = self._find(rref)
        if entry is None or request not in entry.pending:
            return []
        entry.pending.discard(request)
        return self._after(entry, entry.settle())
