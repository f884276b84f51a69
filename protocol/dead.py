"""The dead, for ever, in memory that grows with the living.

No endpoint may forget who has died. A packet of one that was stopped for an hour may come still. A
third endpoint may hand on a reference to an object of one that died long ago, or to one that it had
asked for. A program may keep a `WorkerInfo` for days, even in a file, and call it. There is no
moment after which none of this can happen, so no clock and no round of questions makes it safe.

It need not be remembered one by one either. The registrar numbers the lives in its system (see
`ids`): each number is one more than the last one, and none is given twice. All of them die some
day, and everybody is told of each death, those who join later of all before them. So the dead are
*every number that was given, but for those that live*. They are kept as spans of numbers.

Invariants (`tests/protocol/test_dead.py` tries all sequences of small ones):

* a number is in it exactly if it has been added: nothing is ever forgotten, so it is never unsafe;
* spans never touch. Between two of them is one that lives, or is about to. So there are at most as
  many spans as living endpoints, and one more, however many have been here before.

A number of another mint (an actor that ends before it was given one, a stranger) costs a span.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from .ids import Number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .ids import WorkerId

Span = tuple[Number, Number]
"""The first and the last of some numbers in a row."""


class Dead:
    """A set of endpoints, by their numbers, that only grows."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self.merge(spans)

    def __contains__(self, worker: WorkerId) -> bool:
        place = bisect_right(self._firsts, worker.incarnation)
        return place > 0 and worker.incarnation <= self._lasts[place - 1]

    def __len__(self) -> int:
        """How many spans there are: what it costs."""
        return len(self._firsts)

    @property
    def spans(self) -> tuple[Span, ...]:
        """All of it, for `merge`."""
        return tuple(zip(self._firsts, self._lasts, strict=True))

    def add(self, worker: WorkerId) -> None:
        """*worker* has died."""
        self.merge([(worker.incarnation, worker.incarnation)])

    def merge(self, spans: Iterable[Span]) -> None:
        """So have all of these."""
        for first, last in spans:
            begin = bisect_left(self._lasts, first - 1)  # the first span that touches it, or more
            end = bisect_right(self._firsts, last + 1)
            if begin < end:
                first = min(first, self._firsts[begin])  # noqa: PLW2901 - they become one
                last = max(last, self._lasts[end - 1])  # noqa: PLW2901
            self._firsts[begin:end] = [first]
            self._lasts[begin:end] = [last]
