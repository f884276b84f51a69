"""Where in the program objects were created: file and line, if the system asks for it.

``System(sites=True)``, or ``FARREF_SITES=1`` in the environment of the program that starts it. Each
creation then looks at its own stack, which costs it a microsecond or two (docs/inspect.md).
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Container

    from ...protocol.ids import RRefId

VARIABLE = "FARREF_SITES"
"""The environment variable that asks for them."""
_SPARE = 1024
"""Sites kept of references that are gone, at least, before they are looked for."""


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
    """The line of the user's that called into the library: ``file:line in function``."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_ours(frame.f_globals):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


class Sites:
    """The sites of one endpoint's references, if it notes any. Under its lock."""

    def __init__(self) -> None:
        self.wanted = False
        self._sites: dict[RRefId, str] = {}
        self._most = _SPARE

    def note(self, rref: RRefId, site: str, *living: Container[RRefId]) -> None:
        """*rref* was created at *site*; those that are in one of *living* are there still."""
        self._sites[rref] = site
        if len(self._sites) > self._most:
            kept = ((each, any(each in table for table in living)) for each in self._sites)
            self._sites = {each: self._sites[each] for each, lives in kept if lives}
            self._most = 2 * len(self._sites) + _SPARE

    def of(self, rref: RRefId) -> str | None:
        """Where it was created, if that is known here."""
        return self._sites.get(rref)
