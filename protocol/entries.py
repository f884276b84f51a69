"""One entry for each object that this endpoint knows: its beginning, its holders, its end.

There is an `Owner` for each object that lives here and a `User` for each object that lives
elsewhere, both of the system's discipline (see `sharing`). Handles, messages and calls keep an
entry. An entry that nothing keeps leaves the tables, and an alias that leaves lets go of its
target. This module also allocates ids, and drops messages to the dead.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from .alias import Alias
from .effects import Effect, Lose, Send
from .empty import EMPTY_SET
from .errors import OwnerDiedError, ProtocolError, RefLostError, WorkerDiedError
from .ids import CallId, ForkId, RRefId, WorkerId
from .messages import AliasGone, Descriptor
from .owner import Owner
from .state import Name, Tables, Waiting
from .user import User


class Entries(msgspec.Struct):
    """The entries in the tables of one endpoint."""

    state: Tables

    # ---- looking up

    def find(self, rref: RRefId) -> Owner | User | None:
        return self.state.owners.get(rref) or self.state.users.get(rref)

    def entry(self, rref: RRefId) -> Owner | User:
        """The entry of *rref*, which this endpoint holds."""
        entry = self.state.owners.get(rref) or self.state.users.get(rref)
        if entry is None:
            raise AssertionError(f"{self.state.me} uses {rref}, which it does not hold")
        return entry

    def used(self, rref: RRefId) -> Owner | User:
        """The entry of *rref*, which the program uses now.

        Raises `RefLostError` if all handles of *rref* here have ended. Python ends a handle in a
        cycle of objects before it calls the `__del__` of these objects.
        """
        entry = self.find(rref)
        if entry is None:
            raise RefLostError(
                f"the reference to {rref} was collected with its cycle of Python objects; keep it "
                "in a variable outside of the cycle if `__del__` or another function is to use it"
            )
        return entry

    def living(self, rref: RRefId) -> Owner | User:
        """The entry that `used` returns. Raises `OwnerDiedError` if its owner is dead."""
        entry = self.used(rref)
        if isinstance(entry, User) and entry.lost:
            raise OwnerDiedError(
                f"the owner of {rref}, {entry.owner}, died{self.how(entry.owner)}; the value is "
                "lost: drop this reference and create the object again"
            )
        return entry

    def is_lost(self, rref: RRefId) -> bool:
        """Whether *rref* is used here and its owner has died."""
        user = self.state.users.get(rref)
        return user is not None and user.lost

    def home(self, entry: Owner | User) -> WorkerId:
        """The endpoint that owns the object of *entry*, dead or not."""
        return self.state.me if isinstance(entry, Owner) else entry.owner

    def owner(self, rref: RRefId) -> Owner:
        """The entry of *rref*, which lives here according to a message."""
        owner = self.state.owners.get(rref)
        if owner is None:
            raise ProtocolError(f"{self.state.me} does not own {rref}")
        return owner

    def user(self, rref: RRefId) -> User:
        """The entry of *rref*, which is used here according to a message."""
        user = self.state.users.get(rref)
        if user is None:
            raise ProtocolError(f"{self.state.me} holds no fork of {rref}")
        return user

    def name(self, rref: RRefId) -> Name | None:
        """The name under which handles of *rref* count, if *rref* is known to be an alias."""
        name = self.state.names.get(rref)
        if name is None:
            owner = self.state.owners.get(rref)
            if owner is not None and owner.alias and owner.alias.shown:
                return Name(owner.alias.shown, owner.alias.path)
        return name

    # ---- the beginning

    def use(self, rref: RRefId, owner: WorkerId) -> User:
        """The user entry of *rref*, made now if it is missing."""
        state = self.state
        user = state.users.get(rref)
        if user is None:
            lost = bool(state.dead.firsts) and owner in state.dead
            user = state.users[rref] = state.discipline.user(rref, owner, state.now, lost)
        return user

    def begin(self, rref: RRefId) -> Owner:
        """Begin the entry of an object that lives here."""
        state = self.state
        owner = state.owners[rref] = state.discipline.owner(rref, rref, state.now)
        return owner

    def check_mine(self, rref: RRefId) -> None:
        """Raise `ProtocolError` if *rref* cannot live here."""
        allocated = rref.creator != self.state.me or 0 < rref.number <= self.state.rrefs
        if rref in self.state.users or not allocated:
            raise ProtocolError(f"{rref} is not owned by {self.state.me}")

    def own_or_await(
        self, rref: RRefId, *, created_here: bool = False
    ) -> tuple[Owner, list[Effect]]:
        """The owner entry; a placeholder if the object is not created yet, or is gone.

        If the object is gone, the placeholder is resolved at once, to the loss.
        """
        if not created_here:
            self.check_mine(rref)
        owner = self.state.owners.get(rref)
        if owner is not None:
            return owner, []
        owner = self.begin(rref)
        return owner, [] if created_here or not self._is_gone(rref) else [Lose(rref)]

    def _is_gone(self, rref: RRefId) -> bool:
        """Whether an absent object has been here before, or can no longer come."""
        creator, seen = rref.creator, self.state.seen
        if creator == self.state.me or creator in self.state.dead:
            return True
        return creator in seen and rref.number in seen[creator]

    # ---- keeping

    def hold(self, rref: RRefId) -> None:
        """One more handle of *rref* lives in this process."""
        name = self.name(rref)
        if name is not None:
            self.state.names[rref] = name
            name.handles += 1
        self.entry(rref if name is None else name.canonical).handles += 1

    def hold_all(self, rrefs: Iterable[RRefId]) -> None:
        """`hold` each of *rrefs*."""
        users, names = self.state.users, self.state.names
        for rref in rrefs:
            user = users.get(rref)
            if user is None or (names and rref in names):
                self.hold(rref)
            else:  # nearly always
                user.handles += 1

    def drop_all(self, rrefs: Iterable[RRefId]) -> list[Effect]:
        """`drop` each of *rrefs*; the effects may be for the dead."""
        users, names = self.state.users, self.state.names
        effects: list[Effect] = []
        for rref in rrefs:
            user = users.get(rref)
            if user is None or user.handles == 0 or (names and rref in names):
                effects += self.drop(rref)
                continue
            user.handles -= 1
            if not (user.handles or user.messages) and user.unused:
                del users[rref]
                effects += user.leave()
        return effects

    def drop(self, rref: RRefId) -> list[Effect]:
        """One handle of *rref* is gone."""
        name = self.state.names.get(rref)
        if name is not None:
            name.handles -= 1
            self._end_name_if_unused(rref, name)
        entry = self.entry(rref if name is None else name.canonical)
        if entry.handles == 0:
            raise AssertionError(f"{entry.rref} has no handle to drop")
        entry.handles -= 1
        return self.end_if_unused(entry)

    def release(self, descriptors: Iterable[Descriptor]) -> list[Effect]:
        """A message has been handled: release its references."""
        effects: list[Effect] = []
        users = self.state.users
        for descriptor in descriptors:
            user = users.get(descriptor.rref)
            entry = user or self.entry(descriptor.rref)
            if entry.messages == 0:
                raise AssertionError(f"no message holds {entry.rref}")
            entry.messages -= 1
            if not (entry.handles or (user and user.loans)):  # else they keep it
                effects += self.end_if_unused(entry)
        return effects

    def answered(self, rref: RRefId, request: CallId) -> list[Effect]:
        """The answer to *request*, which was about *rref*, has come."""
        self._free(rref, request)
        entry = self.find(rref)
        if entry is None or request not in entry.pending:
            return []
        entry.pending.discard(request)
        entry.pending = entry.pending or EMPTY_SET
        return self.end_if_unused(entry)

    def _free(self, rref: RRefId, request: CallId) -> None:
        """*request* on *rref* no longer needs its name, and no other request has to wait for it."""
        state = self.state
        handle = state.named.pop(request, None)
        if handle is not None:
            name = state.names[handle]
            name.requests -= 1
            self._end_name_if_unused(handle, name)
        handle = handle or rref
        if state.fetching.get(handle) == request:
            del state.fetching[handle]
        if state.held:
            state.freed[rref] = state.freed[handle] = None

    def _end_name_if_unused(self, rref: RRefId, name: Name) -> None:
        """Forget that *name* is the one of *rref* if no handle and no request has it any more."""
        if not (name.handles or name.requests):
            del self.state.names[rref]

    # ---- the end

    def sendable(self, effects: list[Effect]) -> list[Effect]:
        """*effects* without messages to the dead."""
        dead = self.state.dead
        if not dead.firsts:
            return effects
        return [e for e in effects if not (isinstance(e, Send) and e.to in dead)]

    def check_alive(self, worker: WorkerId) -> None:
        """Raise `WorkerDiedError` if *worker* is dead."""
        if self.state.dead.firsts and worker in self.state.dead:
            raise WorkerDiedError(f"worker {worker} died{self.how(worker)}; choose another one")

    def how(self, worker: WorkerId) -> str:
        """The cause of *worker*'s death, in brackets, for an error; empty if unknown."""
        cause = self.state.causes.get(worker)
        return f" ({cause})" if cause else ""

    def lose(self, user: User) -> list[Effect]:
        """The owner of *user* died, so it will answer no request."""
        for request in user.pending:
            self._free(user.rref, request)
        user.lose()
        return self.after(user, [])

    def end_if_unused(self, entry: Owner | User) -> list[Effect]:
        """Let *entry* go if nothing keeps it any more."""
        if entry.handles or entry.messages or not entry.unused:
            return []
        effects = entry.leave()
        return self._remove(entry, self.sendable(effects) if effects else effects)

    def after(self, entry: Owner | User, effects: list[Effect]) -> list[Effect]:
        """Take *entry* out of the tables if nothing keeps it any more."""
        if effects and self.state.dead.firsts:
            effects = self.sendable(effects)
        if entry.handles or entry.messages:
            return effects  # nearly always
        return self._remove(entry, effects) if entry.unused else effects

    def _remove(self, entry: Owner | User, effects: list[Effect]) -> list[Effect]:
        """Take *entry*, which is unused, out of the tables; *effects* are those of its end."""
        if isinstance(entry, User):
            self.state.users.pop(entry.rref, None)
            return effects
        self.state.owners.pop(entry.rref, None)
        if entry.alias:
            effects += self.let_go(entry.alias)
            entry.alias = None
        return effects

    def let_go(self, alias: Alias) -> list[Effect]:
        """*alias* no longer stands for its target, and releases it."""
        alias.gone = True
        effects = self.unlist(alias)
        return effects + self.drop(alias.target)

    def unlist(self, alias: Alias) -> list[Effect]:
        """Tell the owners that list *alias* and no longer need to."""
        if alias.gone and not alias.asked:
            self.state.aliases.pop(alias.rref, None)
        needed = set(alias.asked.values())
        if not alias.gone:
            needed.add(alias.canonical or alias.target)
        effects: list[Effect] = []
        for about in sorted(alias.listed - needed):
            alias.listed.discard(about)
            entry = self.find(about)
            if entry is not None and not self.is_lost(about):
                effects.append(Send(self.home(entry), AliasGone(rref=about, alias=alias.rref)))
        return effects

    # ---- ids

    def allocate_rref(self) -> RRefId:
        self.state.rrefs += 1
        return RRefId(self.state.me, self.state.rrefs)

    def allocate_fork(self) -> ForkId:
        self.state.forks += 1
        return ForkId(self.state.me, self.state.forks)

    def allocate_call(self, rref: RRefId | None, waiting: Waiting | None = None) -> CallId:
        """Allocate the id of a call on *rref*; it pins that object until it is answered.

        *waiting* is the record of the call, if a `Reply` will answer it.
        """
        self.state.calls += 1
        call = CallId(self.state.me, self.state.calls)
        if rref is not None:
            entry = self.entry(rref)
            entry.stamp += 1
            entry.pending = entry.pending or set()
            entry.pending.add(call)
        if waiting is not None:
            self.state.waiting[call] = waiting
        return call
