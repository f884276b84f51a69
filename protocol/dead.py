"""The dead, remembered forever, in memory that grows only with the living.

No endpoint may forget the dead. A packet of a process that was stopped for an hour may still come.
A third endpoint may hand on a reference to an object of a worker that died long ago, or to an
object that such a worker requested. A program may keep a `WorkerInfo` for days, even in a file, and
call it. These dangers never end, so no clock and no round of questions makes it safe to forget.

Nor must the dead be remembered one by one. The registrar numbers the lives in its system (see
`ids`): each number is one more than the last one, and none is given twice. All lives end some day.
Every endpoint is told of each death; one that joins later is told of all earlier deaths. So the
dead are *all numbers given so far, except those of the living*. They are kept as spans of numbers.

Invariants (`tests/protocol/test_dead.py` tries all sequences of small ones):

* a number is in the set exactly if it has been added: no death is ever forgotten;
* spans never touch. Between two of them is a number that lives, or is about to. So there is at most
  one span more than there are living endpoints, however many have lived before.

A number from elsewhere (of a stranger, or of an actor that ended before it got its number) costs a
span.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import msgspec

from .ids import Number, WorkerId

Span = tuple[Number, Number]
"""The first and the last of some consecutive numbers."""


class Dead(msgspec.Struct, eq=False):
    """A set of endpoints, by their numbers, that only grows."""

    firsts: list[int] = []
    """The first number of each span. While it is empty, no endpoint needs to be looked up."""
    _lasts: list[int] = []

    def __contains__(self, worker: WorkerId) -> bool:
        place = bisect_right(self.firsts, worker.incarnation)
        return place > 0 and worker.incarnation <= self._lasts[place - 1]

    def __len__(self) -> int:
        """The number of spans: the cost of the set."""
        return len(self.firsts)

    @property
    def spans(self) -> tuple[Span, ...]:
        """All spans, for `merge`."""
        return tuple(zip(self.firsts, self._lasts, strict=True))

    def add(self, worker: WorkerId) -> None:
        """*worker* has died."""
        self.merge([(worker.incarnation, worker.incarnation)])

    def merge(self, spans: Iterable[Span]) -> None:
        """Add all numbers of *spans*."""
        for first, last in spans:
            begin = bisect_left(self._lasts, first - 1)  # the first span that touches it, or more
            end = bisect_right(self.firsts, last + 1)
            if begin < end:
                first = min(first, self.firsts[begin])  # noqa: PLW2901 - they become one
                last = max(last, self._lasts[end - 1])  # noqa: PLW2901 - the same
            self.firsts[begin:end] = [first]
            self._lasts[begin:end] = [last]
