"""An object's target, if the function that made the object returned a reference (see `aliases`)."""

from __future__ import annotations

import msgspec

from .ids import CallId, RRefId, WorkerId


class Alias(msgspec.Struct, eq=False):
    """The target of one object, which lives here."""

    rref: RRefId
    target: RRefId
    """A handle under this name holds it."""
    canonical: RRefId | None = None
    path: tuple[RRefId, ...] = ()
    """From the target, alias by alias, to the canonical object."""
    asked: dict[CallId, RRefId] = {}
    """Unanswered `AliasRef`s, and the object of each question."""
    listed: set[RRefId] = set()
    """The objects whose owners list this alias."""
    early: set[RRefId] = set()
    """Creations that were acknowledged here, then passed on, and have not arrived yet."""
    told: set[WorkerId] = set()
    """The callers that were told the place of the value."""
    gone: bool = False
    """It was freed, or has an error for a value: it stands for nothing any more."""

    @property
    def shown(self) -> RRefId | None:
        """The canonical object, once everybody may know of it."""
        return None if self.early else self.canonical
