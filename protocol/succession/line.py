"""The line of a registrar proxy to the registrar, on whichever host that is.

The line believes the registrar of the highest term that it has heard of, and ignores messages of
earlier ones. It keeps each request, in order, until the request is done. A registrar of a higher
term gets all that is kept: the one before may have died before it did a request, or answered it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec


class Unanswered(msgspec.Struct, frozen=True):
    """A request that is not done."""

    number: int
    request: Any


class RegistrarLine(msgspec.Struct, eq=False):
    """The line of one registrar proxy."""

    term: int = 0
    registrar: Any = None
    """The address of the registrar of that term."""
    kept: dict[int, Unanswered] = {}
    _number: int = 0

    def keep(self, request: object) -> Unanswered:
        """Number and keep a new *request*; the caller sends it, if there is a registrar."""
        self._number += 1
        kept = self.kept[self._number] = Unanswered(self._number, request)
        return kept

    def believes(self, term: int) -> bool:
        """Whether to believe a registrar of *term*."""
        return term >= self.term

    def follow(self, term: int, registrar: object) -> list[Unanswered] | None:
        """*registrar* has spoken. If it is new here, returns the requests to send to it."""
        if term <= self.term:
            return None
        self.term = term
        self.registrar = registrar
        return list(self.kept.values())

    def done(self, *numbers: int) -> None:
        """These requests are done."""
        for number in numbers:
            self.kept.pop(number, None)

    def done_if(self, done: Callable[[Any], bool]) -> None:
        """Each request for which *done* returns true is done."""
        self.done(*[each.number for each in self.kept.values() if done(each.request)])
