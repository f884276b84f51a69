"""The lines of the program that created objects (file and line), if the system asks for them.

``System(sites=True)`` asks for them, or ``FARREF_SITES=1`` in the environment of the program that
starts the system. Each creation then looks at its own stack, which takes a microsecond or two
(docs/inspect.md).
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Container

    from ...protocol.ids import RRefId

VARIABLE = "FARREF_SITES"
"""The environment variable that asks for sites."""
_SPARE = 1024
"""The least number of sites before those of dead references are dropped."""


def asked_for() -> bool:
    """Whether the environment asks for sites."""
    return os.environ.get(VARIABLE, "") not in ("", "0")


def is_ours(namespace: dict[str, Any]) -> bool:
    """Whether these are the globals of one of the library's own modules."""
    name = namespace.get("__name__")
    if type(name) is not str or not name.startswith("farref."):
        return False
    return not name.startswith("farref.examples")


def here() -> str:
    """The user's line that called into the library: ``file:line in function``."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_ours(frame.f_globals):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


class Sites:
    """The sites of one endpoint's references, if it records any. Under its lock."""

    def __init__(self) -> None:
        self.wanted = False
        self._sites: dict[RRefId, str] = {}
        self._most = _SPARE

    def note(self, rref: RRefId, site: str, *living: Container[RRefId]) -> None:
        """*rref* was created at *site*. References in one of *living* still exist."""
        self._sites[rref] = site
        if len(self._sites) > self._most:
            kept = ((each, any(each in table for table in living)) for each in self._sites)
            self._sites = {each: self._sites[each] for each, lives in kept if lives}
            self._most = 2 * len(self._sites) + _SPARE

    def of(self, rref: RRefId) -> str | None:
        """The site where *rref* was created, if it is known here."""
        return self._sites.get(rref)
