"""What one endpoint knows of each object, and where to look it up.

One `Owner` for each object that lives here, one `User` for each that lives elsewhere, both
of the system's discipline (see `sharing`); the calls that wait; who is dead. The rules that
hold for every entry are here: when one begins and ends, whom nothing is sent to any more,
and how an id is minted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .borrowing import batched
from .creations import Asked, Seen
from .dead import Dead
from .effects import Effect, Lose, Send
from .errors import OwnerDiedError, ProtocolError, WorkerDiedError
from .ids import CallId, ForkId, RRefId, WorkerId
from .messages import Cargo, Descriptor, Fetch, Invoke, Passing
from .owner import Owner
from .sharing import DISCIPLINES, Sharing
from .user import User

if TYPE_CHECKING:
    from collections.abc import Iterable

NOTHING = Cargo()


def loans_among(descriptors: Iterable[Descriptor]) -> tuple[Descriptor, ...]:
    """Those that are lent for a call."""
    return tuple(each for each in descriptors if each.passing is Passing.LOAN)


class Waiting(msgspec.Struct, frozen=True):
    """A call that this endpoint made: whom it waits for, on which object, what it lent."""

    to: WorkerId
    rref: RRefId | None
    loans: tuple[Descriptor, ...] = ()
    fetch: Fetch | None = None
    """What to ask again where the value is, if it turns out to be elsewhere."""
    relay: Relay | None = None
    """For whom this endpoint asks, if not for itself."""


class Relay(msgspec.Struct, frozen=True):
    """A request on an alias that its owner passed on: whose, and on which alias."""

    sender: WorkerId
    request: Fetch | Invoke
    alias: RRefId


class Tables:
    """The tables of the endpoint *me*, which shares by *sharing* in calls."""

    def __init__(self, me: WorkerId, sharing: Sharing = "lend") -> None:
        self.me = me
        self.now = 0.0
        """What the shell's clock says, for those who look at how old an entry is."""
        self.discipline = DISCIPLINES[sharing]
        self.owners: dict[RRefId, Owner] = {}
        self.users: dict[RRefId, User] = {}
        self.waiting: dict[CallId, Waiting] = {}
        self.dead = Dead()
        self.buried = Dead()
        """Those of the dead whose grace is over: they hold nothing any more."""
        self.causes: dict[WorkerId, str] = {}
        """How those ended who died lately, or owned an object that is used here. For errors."""
        self._asked: dict[WorkerId, Asked] = {}
        self._seen: dict[WorkerId, Seen] = {}
        self._rrefs = self._forks = self._calls = 0

    # ---- looking up

    def owner_of(self, rref: RRefId) -> WorkerId:
        """The endpoint that owns *rref*. Raises `OwnerDiedError` if it is dead."""
        return self._home(self._living(rref))

    def _home(self, entry: Owner | User) -> WorkerId:
        """The endpoint that owns the object of *entry*, dead or not."""
        return self.me if isinstance(entry, Owner) else entry.owner

    def _living(self, rref: RRefId) -> Owner | User:
        """The entry of an object that exists. Raises `OwnerDiedError` if its owner is dead."""
        entry = self._entry(rref)
        if isinstance(entry, User) and entry.lost:
            raise OwnerDiedError(
                f"the owner of {rref}, {entry.owner}, died{self.how(entry.owner)}, and the value "
                "with it; drop this reference and create the object again"
            )
        return entry

    def how(self, worker: WorkerId) -> str:
        """How *worker* died, in brackets, for an error; empty if that is not known."""
        cause = self.causes.get(worker)
        return f" ({cause})" if cause else ""

    def _find(self, rref: RRefId) -> Owner | User | None:
        return self.owners.get(rref) or self.users.get(rref)

    def _entry(self, rref: RRefId) -> Owner | User:
        entry = self._find(rref)
        if entry is None:
            raise AssertionError(f"{self.me} uses {rref}, which it does not hold")
        return entry

    def _owner(self, rref: RRefId) -> Owner:
        owner = self.owners.get(rref)
        if owner is None:
            raise ProtocolError(f"{self.me} does not own {rref}")
        return owner

    def _user(self, rref: RRefId) -> User:
        user = self.users.get(rref)
        if user is None:
            raise ProtocolError(f"{self.me} holds no fork of {rref}")
        return user

    def _use(self, rref: RRefId, owner: WorkerId) -> User:
        """The user entry, a new one if there is none."""
        user = self.users.get(rref)
        if user is None:
            user = self.users[rref] = self.discipline.use(rref, owner)
            user.born = self.now
            user.lost = owner in self.dead
        return user

    def _begin(self, rref: RRefId) -> Owner:
        """The entry of an object that lives here, from now on."""
        owner = self.owners[rref] = self.discipline.own(rref)
        owner.born = self.now
        return owner

    def _check_mine(self, rref: RRefId) -> None:
        minted = rref.creator != self.me or 0 < rref.number <= self._rrefs
        if rref in self.users or not minted:
            raise ProtocolError(f"{rref} is not owned by {self.me}")

    def _own_or_await(
        self, rref: RRefId, *, created_here: bool = False
    ) -> tuple[Owner, list[Effect]]:
        """The owner entry: a placeholder, if the creation is still on its way, or has long been.

        In the second case the placeholder is resolved at once, to the loss.
        """
        if not created_here:
            self._check_mine(rref)
        owner = self.owners.get(rref)
        if owner is not None:
            return owner, []
        owner = self._begin(rref)
        return owner, [] if created_here or not self._is_gone(rref) else [Lose(rref)]

    def _is_gone(self, rref: RRefId) -> bool:
        """Whether an object that is not here has been here, or can not come any more."""
        creator = rref.creator
        if creator == self.me or creator in self.dead:
            return True
        return creator in self._seen and rref.number in self._seen[creator]

    # ---- effects

    def _filter(self, effects: list[Effect]) -> list[Effect]:
        """Nothing is sent to the dead."""
        if not self.dead:
            return effects
        return [e for e in effects if not (isinstance(e, Send) and e.to in self.dead)]

    def _after(self, entry: Owner | User, effects: list[Effect]) -> list[Effect]:
        """Take *entry* out of the tables when its machine has come to its end."""
        if entry.unused:
            (self.owners if isinstance(entry, Owner) else self.users).pop(entry.rref, None)
        return self._filter(effects)

    def _finish(self, effects: list[Effect]) -> list[Effect]:
        """All that a step asks for, in as few messages as it can be."""
        return batched(self._filter(effects))

    def _check_alive(self, worker: WorkerId) -> None:
        if worker in self.dead:
            raise WorkerDiedError(f"worker {worker} died{self.how(worker)}; choose another one")

    # ---- ids

    @property
    def minted(self) -> tuple[int, int]:
        """How many forks and how many calls have been named so far."""
        return self._forks, self._calls

    def _mint_rref(self) -> RRefId:
        self._rrefs += 1
        return RRefId(self.me, self._rrefs)

    def _mint_fork(self) -> ForkId:
        self._forks += 1
        return ForkId(self.me, self._forks)

    def _mint_call(
        self,
        to: WorkerId,
        rref: RRefId | None,
        cargo: Cargo = NOTHING,
        relay: Relay | None = None,
    ) -> CallId:
        call = self._mint_pin(rref)
        self.waiting[call] = Waiting(to, rref, loans_among(cargo.descriptors), relay=relay)
        return call

    def _mint_pin(self, rref: RRefId | None) -> CallId:
        """A new call's id; it pins the object that it is called on until it is answered."""
        self._calls += 1
        call = CallId(self.me, self._calls)
        if rref is not None:
            self._entry(rref).pending.add(call)
        return call
