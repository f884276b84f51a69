"""What can happen to a run. `State.apply` says what comes of each.

Applied to equal states, equal commands make equal states: there is no clock, chance or order of
sets in them. So a standby that is sent the commands has the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ids import WorkerId

if TYPE_CHECKING:
    from .limits import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """*node* wants to be in a round after number *after*, the last one that it was a member of.

    It may be said again and again. A member of the completed round that wants a later one leaves
    that round by it, and waits for the next.
    """

    node: WorkerId
    limits: Limits
    address: str = ""
    """Where the others reach it; they see it in the members of the round."""
    order: int | None = None
    """Newcomers get their ranks in this order; those without one follow, in natural order."""
    after: int = -1


@dataclass(frozen=True, slots=True)
class Leave:
    """These nodes are gone: they left, died, or were given up for dead."""

    nodes: tuple[WorkerId, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """The last call is over, if there is one."""


@dataclass(frozen=True, slots=True)
class Beat:
    """*node* is alive. Only where nodes are heard of through the state."""

    node: WorkerId


@dataclass(frozen=True, slots=True)
class Close:
    """The run ends: there will be no further round."""


Command = Join | Leave | Finish | Beat | Close
