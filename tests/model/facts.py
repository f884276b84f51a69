"""What one endpoint's state says to the properties, read off its machines once.

The machines' private lives are looked at here and nowhere else: a new machine (borrowing,
aliases) says here what it holds, pins and counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from farref.protocol.ids import ForkId, RRefId, WorkerId

from .endpoint import Endpoint
from .script import Script


@dataclass(frozen=True, slots=True)
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
    dead: frozenset[WorkerId]
    """Whom this endpoint knows to be dead."""

    @property
    def children(self) -> frozenset[ForkId]:
        """Every fork whose child is this endpoint."""
        forks = frozenset(fork for _, fork in self.owed)
        return forks.union(self.confirmed, self.unconfirmed.values())


def facts(endpoint: Endpoint) -> Facts:
    """Read *endpoint*."""
    owners = endpoint.context.owners.values()
    users = [user for user in endpoint.context.users.values() if not user.lost]
    counted = frozenset(fork for owner in owners for fork in owner.forks)
    return Facts(
        me=endpoint.me,
        script=endpoint.script,
        held=frozenset(endpoint.holds()),
        freed=frozenset(endpoint.freed),
        pins=counted | {fork for user in users for fork in user.children},
        counted=counted,
        confirmed={fork: user.rref for user in users for fork in user.known},
        owed=tuple((user.rref, fork) for user in users for fork in user.owed),
        unconfirmed={
            user.rref: user.requested for user in users if user.requested and not user.known
        },
        homes={user.rref: user.owner for user in users},
        dead=frozenset(endpoint.context.dead),
    )
