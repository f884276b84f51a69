"""The commands that change a run. `State.apply` carries each one out.

Equal commands turn equal states into equal states: they depend on no clock, no chance and no order
of sets. So a standby that gets the commands has the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..ids import WorkerId

if TYPE_CHECKING:
    from .limits import RoundLimits


class Join(msgspec.Struct, frozen=True, kw_only=True):
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


class Leave(msgspec.Struct, frozen=True):
    """These nodes are gone: they left, died, or were given up for dead."""

    nodes: tuple[WorkerId, ...]


class Finish(msgspec.Struct, frozen=True):
    """The last call is over, if there is one."""


class Beat(msgspec.Struct, frozen=True):
    """*node* is alive. Used only where nodes give signs of life through the state."""

    node: WorkerId


class Close(msgspec.Struct, frozen=True):
    """The run ends: there will be no further round."""


Command = Join | Leave | Finish | Beat | Close
