"""The end of the grace after a death, as one object shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import farref

from ..helpers import make_box, references_everywhere

if TYPE_CHECKING:
    from collections.abc import Callable

    from farref import System

_held: list[Any] = []


def _hold_on(ref: Any) -> None:
    _held.append(ref)


def witness(system: System, owner: str, holder: str) -> Callable[[], bool]:
    """Give *holder* the only reference to an object of *owner*; returns whether that is freed.

    If the holder dies, the owner releases all that the dead one held there in one step, after the
    grace.
    """
    ref = farref.remote(owner, make_box)
    farref.rpc_sync(holder, _hold_on, (ref,))
    rref = str(ref.id)
    return lambda: rref not in {row.rref for row in references_everywhere(system).get(owner, ())}
