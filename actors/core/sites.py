"""The lines of the program that created objects, if the system asks for them (docs/inspect.md)."""

from __future__ import annotations

import os
import sys
from collections.abc import Container
from types import CodeType
from typing import Any

from ...protocol.ids import RRefId

Place = tuple[CodeType, int]
"""A line of the program: its code, and the place in that."""

VARIABLE = "FARREF_SITES"
"""The environment variable that asks for sites."""
_SPARE = 1024
"""The least number of sites before those of dead references are dropped."""


def asked_for() -> bool:
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


def caller(depth: int) -> Place:
    """The user's line that called the library; the calling function is *depth* calls below it.

    It costs two tenths of a microsecond: `said` makes the words, if they are needed.
    """
    frame = sys._getframe(depth + 1)
    return frame.f_code, frame.f_lasti


def said(place: Place) -> str:
    """``file:line in function``."""
    code, at = place
    lines = (line for start, end, line in code.co_lines() if start <= at < end)
    return f"{code.co_filename}:{next(lines, None) or code.co_firstlineno} in {code.co_name}"


class Sites:
    """The sites of one endpoint's references, if it records any. Under its lock."""

    def __init__(self) -> None:
        self.wanted = False
        self._sites: dict[RRefId, str] = {}
        self._most = _SPARE

    def note(self, rref: RRefId, site: str, *living: Container[RRefId]) -> None:
        """Note that *rref* was created at *site*. References in one of *living* still exist."""
        self._sites[rref] = site
        if len(self._sites) > self._most:
            kept = ((each, any(each in table for table in living)) for each in self._sites)
            self._sites = {each: self._sites[each] for each, lives in kept if lives}
            self._most = 2 * len(self._sites) + _SPARE

    def of(self, rref: RRefId) -> str | None:
        return self._sites.get(rref)
