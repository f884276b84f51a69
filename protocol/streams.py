"""The credit of a stream: how many items a holder asks its iterator's owner for, and when.

A holder asks by *pulls*, which are requests on the iterator, so they are answered in order, each
once (G3). A pull has a credit; its answer brings as many items at most, and its end says why there
are not more: the iterator has ended, or its turn was over. Items of a pull may come before its
answer, in order::

    holder      ask() --credit--> runs the iterator        owner: for one pull at a time, while
                                                           it has credit, then for the next one
    came()      <----- items ------                        before the answer, if they wait for long
    answered()  <----- items, end -                        the next pull has begun, if there is one

One pull is under way while the items of the one before are used. The first pull is alone, and for
one item: its answer says what the iterator is, and how large an item is.

Invariants (explored, with two holders and an owner that may die):

* each item goes to one holder; a holder has its items in the order in which they were made;
* at most *ahead* items are made and not used, or one;
* a holder that waits for an item has a pull under way, or knows the end.
"""

from __future__ import annotations

import math
from collections import deque

import msgspec

SLICE = 0.01
"""Seconds that a pull is to take at the owner, if the credit follows the time."""
GROWTH, MOST = 8, 4_000
"""How many times more items a pull may ask for than the one before, and the most."""


class StreamFlow(msgspec.Struct):
    """The pulls of one holder."""

    ahead: int | None
    """The most items that are made and not used; None: as many as take `SLICE` seconds."""
    most: int
    """The most bytes of these items, about; a larger item comes alone."""
    asked: deque[int] = msgspec.field(default_factory=deque)
    """For each pull under way, the oldest first: the items that it may still bring."""
    items: int = 1
    """The items of the next pull, if the credit follows the time."""
    size: float = math.inf
    """The bytes of an item, as the last answer had them."""
    known: bool = False
    """Whether a pull was answered."""
    over: bool = False
    """No further item will come."""

    def ask(self, here: int) -> int:
        """The credit of a new pull, while *here* items are not used yet; 0 for none."""
        asked = self.asked
        if self.over or len(asked) > 1 or (asked and not self.known):
            return 0
        most = self.items if self.ahead is None else self.ahead
        if self.size:
            most = min(most, max(1, int(self.most / self.size)))
        out = here + sum(asked)
        if not out:
            credit = max(1, most)
        elif self.ahead is None:
            credit = most if out <= most else 0
        else:
            credit = most - out if 2 * (most - out) >= most else 0  # few at a time cost more
        if credit > 0:
            asked.append(credit)
        return max(0, credit)

    def came(self, items: int) -> None:
        """So many *items* of the oldest pull have come before its answer."""
        self.asked[0] -= items

    def answered(self, taken: int, seconds: float, size: float | None, *, over: bool) -> None:
        """The oldest pull is over. It took *seconds* at the owner, and *taken* items.

        *size*: the bytes of an item in the answer, if it brings any. *over*: the iterator has
        ended.
        """
        self.asked.popleft()
        self.known = True
        if over:
            self.over = True
        elif taken:
            self.size = self.size if size is None else size
            wanted = int(taken * SLICE / max(seconds, 1e-6))
            self.items = min(wanted, GROWTH * self.items, MOST)

    def failed(self) -> None:
        """The oldest pull has an error for an answer."""
        self.asked.popleft()
