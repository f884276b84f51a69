"""An object's target, if the function that made the object returned a reference (see `aliases`)."""

from __future__ import annotations

from .ids import CallId, RRefId, WorkerId


class Alias:
    """The target of one object, which lives here."""

    __slots__ = ("asked", "canonical", "early", "gone", "listed", "path", "rref", "target", "told")

    def __init__(self, rref: RRefId, target: RRefId) -> None:
        self.rref = rref
        self.target = target
        """A handle under this name holds it."""
        self.canonical: RRefId | None = None
        self.path: tuple[RRefId, ...] = ()
        """From the target, alias by alias, to the canonical object."""
        self.asked: dict[CallId, RRefId] = {}
        """Unanswered `AliasRef`s, and the object of each question."""
        self.listed: set[RRefId] = set()
        """The objects whose owners list this alias."""
        self.early: set[RRefId] = set()
        """Creations that were acknowledged here, then passed on, and have not arrived yet."""
        self.told: set[WorkerId] = set()
        """The callers that were told the place of the value."""
        self.gone = False
        """It was freed, or has an error for a value: it stands for nothing any more."""

    @property
    def shown(self) -> RRefId | None:
        """The canonical object, once everybody may know of it."""
        return None if self.early else self.canonical
