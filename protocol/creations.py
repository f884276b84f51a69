"""The creations that an owner has seen: tells "not created yet" from "freed", in bounded memory.

Messages come in any order, so an owner may hear of an object before its `Create`; then it waits for
that one. The owner may also hear of a freed object, from an endpoint that announces itself too
late, after `orphan_grace`. It would wait forever for a creation of long ago. Therefore each
`Create` carries a *watermark*: all of this creator's objects at this owner with smaller numbers
have been acknowledged. An owner remembers the watermark and the numbers seen above it. Where a link
keeps its messages in order, these are no more than the creations in flight at once.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import heappop, heappush

import msgspec


class Asked(msgspec.Struct, eq=False):
    """A creator's side, for one owner."""

    # The first key of a plain dict is found in a time that grows with the keys removed before.
    _waiting: OrderedDict[int, None] = msgspec.field(default_factory=OrderedDict)

    def add(self, number: int) -> int:
        """Note a requested creation. Returns the watermark to send with it."""
        self._waiting[number] = None
        return next(iter(self._waiting))  # numbers only grow, so the first is the least

    def acknowledged(self, number: int) -> bool:
        """Note that the owner has it. Returns whether no creation is outstanding any more."""
        self._waiting.pop(number, None)
        return not self._waiting


class Seen(msgspec.Struct, eq=False):
    """An owner's side, for one creator."""

    _below: int = 0
    """All of this creator's objects here with smaller numbers have been created."""
    _above: set[int] = set()
    _heap: list[int] = []
    """The same numbers, the least one first."""

    def add(self, number: int, watermark: int) -> None:
        """A creation came, for the first time: so no watermark is above its number yet."""
        if watermark > self._below:
            self._below = watermark
            while self._heap and self._heap[0] < watermark:
                self._above.discard(heappop(self._heap))
        self._above.add(number)
        heappush(self._heap, number)

    def __contains__(self, number: int) -> bool:
        return number < self._below or number in self._above
