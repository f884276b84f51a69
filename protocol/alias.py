"""What one object stands for, if the function that made it returned a reference (see `aliases`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .ids import CallId, RRefId, WorkerId


class Alias:
    """What one object, which lives here, stands for."""

    __slots__ = ("asked", "canonical", "early", "gone", "listed", "path", "rref", "target", "told")

    def __init__(self, rref: RRefId, target: RRefId) -> None:
        self.rref = rref
        self.target = target
        """Held by a handle under this name."""
        self.canonical: RRefId | None = None
        self.path: tuple[RRefId, ...] = ()
        """From the target, alias by alias, to the canonical object."""
        self.asked: dict[CallId, RRefId] = {}
        """Unanswered `AliasRef`s, and the object that each asks about."""
        self.listed: set[RRefId] = set()
        """Objects whose owners have been told that this is an alias of it."""
        self.early: set[RRefId] = set()
        """Creations passed on after they were acknowledged here, that have not arrived yet."""
        self.told: set[WorkerId] = set()
        """Callers that were told where the value is."""
        self.gone = False
        """It was freed, or has an error for a value: it stands for nothing any more."""

    @property
    def shown(self) -> RRefId | None:
        """The canonical object, once anybody may know of it."""
        return None if self.early else self.canonical
