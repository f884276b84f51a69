"""The commands that change a run. `State.apply` carries each one out.

Equal commands turn equal states into equal states: they depend on no clock, no chance and no order
of sets. So a standby that gets the commands has the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ids import WorkerId

if TYPE_CHECKING:
    from .limits import RoundLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """*node* wants a round with a number above *after*, its last round as a member.

    It may be repeated. A member of the completed round that wants a later one leaves its round by
    this command, and waits for the next.
    """

    node: WorkerId
    limits: RoundLimits
    address: str = ""
    """The node's address for the others, who see it among the round's members."""
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
    """*node* is alive. Used only where nodes give signs of life through the state."""

    node: WorkerId


@dataclass(frozen=True, slots=True)
class Close:
    """The run ends: there will be no further round."""


Command = Join | Leave | Finish | Beat | Close
