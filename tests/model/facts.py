"""The facts of one endpoint's state for the properties, read off its machines once.

Only this module looks at the machines' private data. A new machine (borrowing, aliases) lists here
the references that it holds, pins and counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from farref.protocol.borrowing import BorrowingUser
from farref.protocol.effects import Loss
from farref.protocol.ids import ForkId, RRefId, WorkerId
from farref.protocol.lending import LendingOwner
from farref.protocol.loans import loans_among

from .endpoint import ScriptedEndpoint, workers
from .reach import edges_of, roots_of


@dataclass(frozen=True, eq=False)
class Facts:
    """The facts of *me*, in one state."""

    me: WorkerId
    held: frozenset[RRefId]
    """The objects with a handle in the program, or with a message that holds them."""
    freed: frozenset[RRefId]
    pins: frozenset[ForkId]
    """The pinned forks passed on from here (at an owner: the counted ones)."""
    counted: frozenset[ForkId]
    """The forks that the owners here count."""
    confirmed: dict[ForkId, RRefId]
    """The forks here that the owner counts, to this endpoint's knowledge."""
    owed: tuple[tuple[RRefId, ForkId], ...]
    """The forks here with parents that wait for the child's ACK."""
    unconfirmed: dict[RRefId, ForkId]
    """The objects without a counted fork here, and the fork that was requested."""
    homes: dict[RRefId, WorkerId]
    """The owner of each object used here that is not lost."""
    shared: dict[RRefId, frozenset[WorkerId]]
    """For each object: its holders because of this endpoint, by its pins, counts and tables."""
    creating: frozenset[RRefId]
    """The objects that were requested here and that the owner has not acknowledged."""
    loans: dict[ForkId, RRefId]
    """The forks lent to this endpoint for calls that run."""
    reported: frozenset[ForkId]
    """The loans that were kept and reported to the lender, without a word of the owner yet."""
    lost: frozenset[RRefId]
    """The objects here that got a loss for a value."""
    late: frozenset[RRefId]
    """Of these, the ones that had been freed."""
    took_back: frozenset[RRefId]
    """The objects with tables that were taken back here."""
    valueless: frozenset[RRefId]
    """The objects here that are resolved and counted, and have neither a value nor a loss."""
    stood: dict[RRefId, RRefId]
    """The target of each object here with a function that returned a reference (past ones too)."""
    broken: dict[RRefId, Loss]
    """Of these, the ones that have an error for a value."""
    known: dict[RRefId, RRefId]
    """The known aliases here, and the canonical object of each."""
    dead: frozenset[WorkerId]
    """The endpoints that this one knows to be dead."""
    collected: frozenset[RRefId] = frozenset()
    """The objects here that were collected, as garbage in a ring."""
    roots: frozenset[RRefId] = frozenset()
    """The objects that code here reaches at once, as far as the program searches for rings."""
    edges: dict[RRefId, frozenset[RRefId]] = field(default_factory=dict)
    """The objects that each object here leads to, in the same case."""

    def kept_by(self, rref: RRefId) -> list[ForkId]:
        """The forks of *rref* here with parents that keep it until another endpoint does."""
        if rref in self.confirmed.values():
            return []
        forks = [fork for fork, lent in self.loans.items() if lent == rref]
        forks += [fork for owed, fork in self.owed if owed == rref]
        return forks + ([self.unconfirmed[rref]] if rref in self.unconfirmed else [])

    @cached_property
    def children(self) -> frozenset[ForkId]:
        """Every fork that has this endpoint as its child."""
        forks = frozenset(fork for _, fork in self.owed)
        return forks.union(self.confirmed, self.unconfirmed.values(), self.loans, self.reported)


def facts(endpoint: ScriptedEndpoint, *, searches: bool = False) -> Facts:
    """Read *endpoint*; *searches*: somebody searches for garbage in cycles."""
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
            and owner.rref
            not in endpoint.inside.keys()
            | endpoint.lost
            | endpoint.broken.keys()
            | endpoint.collected
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
        collected=frozenset(endpoint.collected),
        roots=frozenset(roots_of(endpoint)) if searches else frozenset(),
        edges=edges_of(endpoint) if searches else {},
    )
