"""What one endpoint's state says to the properties, read off its machines once.

The machines' private lives are looked at here and nowhere else: a new machine (borrowing,
aliases) says here what it holds, pins and counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from farref.protocol.borrowing import BorrowingUser
from farref.protocol.effects import Loss
from farref.protocol.ids import ForkId, RRefId, WorkerId
from farref.protocol.lending import LendingOwner
from farref.protocol.loans import loans_among

from .endpoint import Endpoint, workers
from .script import Script


@dataclass(frozen=True)
class Facts:
    """The facts of *me*, in one state."""

    me: WorkerId
    script: Script
    held: frozenset[RRefId]
    """The objects that the program has a handle of, or a message that holds them."""
    freed: frozenset[RRefId]
    pins: frozenset[ForkId]
    """The forks passed on from here that are pinned (at an owner: that are counted)."""
    counted: frozenset[ForkId]
    """The forks that the owners here count."""
    confirmed: dict[ForkId, RRefId]
    """The forks here that the owner counts, as far as this endpoint knows."""
    owed: tuple[tuple[RRefId, ForkId], ...]
    """The forks here whose parents wait for the child's ACK."""
    unconfirmed: dict[RRefId, ForkId]
    """The objects of which the owner counts no fork here, and the fork that was requested."""
    homes: dict[RRefId, WorkerId]
    """The owner of each object used here that is not lost."""
    shared: dict[RRefId, frozenset[WorkerId]]
    """Of each object: who holds it because of this endpoint, by its pins, counts and tables."""
    creating: frozenset[RRefId]
    """The objects that were asked for here and whose owner has not acknowledged that."""
    loans: dict[ForkId, RRefId]
    """The forks lent to this endpoint for calls that run."""
    reported: frozenset[ForkId]
    """The loans kept, and reported to the lender, of which the owner has said nothing yet."""
    lost: frozenset[RRefId]
    """The objects here that got a loss for a value."""
    late: frozenset[RRefId]
    """Of these, the ones that had been freed."""
    took_back: frozenset[RRefId]
    """The objects of which tables were taken back here."""
    valueless: frozenset[RRefId]
    """The objects here that are resolved and counted, and have neither a value nor a loss."""
    stood: dict[RRefId, RRefId]
    """What each object here stands for, if its function returned a reference (past ones too)."""
    broken: dict[RRefId, Loss]
    """Of these, the ones that have an error for a value."""
    known: dict[RRefId, RRefId]
    """What is known here to be an alias, and of which canonical object."""
    dead: frozenset[WorkerId]
    """Whom this endpoint knows to be dead."""

    def kept_by(self, rref: RRefId) -> list[ForkId]:
        """The forks of *rref* here whose parents keep it until somebody else does."""
        if rref in self.confirmed.values():
            return []
        forks = [fork for fork, lent in self.loans.items() if lent == rref]
        forks += [fork for owed, fork in self.owed if owed == rref]
        return forks + ([self.unconfirmed[rref]] if rref in self.unconfirmed else [])

    @cached_property
    def children(self) -> frozenset[ForkId]:
        """Every fork whose child is this endpoint."""
        forks = frozenset(fork for _, fork in self.owed)
        return forks.union(self.confirmed, self.unconfirmed.values(), self.loans, self.reported)


def facts(endpoint: Endpoint) -> Facts:
    """Read *endpoint*."""
    owners = endpoint.context.owners.values()
    users = [user for user in endpoint.context.users.values() if not user.lost]
    counted = frozenset(fork for owner in owners for fork in owner.forks)
    asking = {user.rref: user.requested for user in users if user.requested and not user.known}
    shared = {owner.rref: frozenset(owner.forks.values()) for owner in owners}
    for user in users:
        table = user.borrowers.values() if isinstance(user, BorrowingUser) else ()
        shared[user.rref] = frozenset((*user.children.values(), *table))
    return Facts(
        me=endpoint.me,
        script=endpoint.script,
        held=frozenset(endpoint.holds()),
        freed=frozenset(endpoint.freed),
        pins=counted.union(
            *(owner.lent for owner in owners if isinstance(owner, LendingOwner)),
            *(user.children for user in users),
        ),
        counted=counted,
        confirmed={fork: user.rref for user in users for fork in user.known},
        owed=tuple((user.rref, fork) for user in users for fork in user.owed),
        unconfirmed=asking,
        homes={user.rref: user.owner for user in users},
        shared=shared,
        creating=frozenset(rref for rref in asking if rref.creator == endpoint.me),
        loans={
            loan.fork: loan.rref
            for descriptors in endpoint.context.state.serving.values()
            for loan in loans_among(descriptors)
            if loan.rref in endpoint.context.users and not endpoint.context.users[loan.rref].lost
        },
        reported=frozenset(
            fork for user in users if isinstance(user, BorrowingUser) for fork in user.reported
        ),
        lost=frozenset(endpoint.lost),
        late=frozenset(endpoint.late),
        took_back=frozenset(endpoint.took_back),
        valueless=frozenset(
            owner.rref
            for owner in owners
            if owner.resolved
            and owner.rref not in endpoint.values.keys() | endpoint.lost | endpoint.broken.keys()
        ),
        stood=endpoint.stood,
        broken=endpoint.broken,
        known={
            **{rref: name.canonical for rref, name in endpoint.context.state.names.items()},
            **{
                rref: alias.canonical
                for rref, alias in endpoint.context.state.aliases.items()
                if alias.canonical is not None
            },
        },
        dead=workers(endpoint.context.dead),
    )
