"""Shelves: things that travel once from one endpoint to another, and by their places afterwards.

A thing (for the actors: a function that is pickled by value) goes with the first message that needs
it. The sender and the receiver each put it on a *shelf*. Later messages only name its place. There
is one pair of shelves for each sender, receiver and flow of messages (see `messages.Flow`)::

    sender                                  receiver
    thing is on my shelf: its place     ->  find(place)
    otherwise: put(thing), the thing    ->  put(thing): in the same place, as the shelves are alike

Shelves are bounded. A full shelf lets go of the thing that has been used least recently. Nothing is
said about that: both ends make the same moves in the same order, so both let go of the same thing.

Invariants:

* after the same moves, two shelves are alike: each place has the same thing;
* so a message that names a place finds the thing that the sender meant, or brings the thing itself.

They rest on delivery (G3): messages of one flow are handed over once, and in the order in which
they were sent. So there are three rules. The sender chooses between thing and place in the very
step that gives the message to delivery, not when it pickles the message: another thread might send
first. The receiver makes its moves when a message is handed over, not when it is opened: threads
open messages in any order. And no two flows share a shelf: messages of one flow may wait for room
while those of another overtake them.

A peer is one incarnation. So a restarted peer begins with empty shelves, at both ends.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

from .errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Hashable

PLACES = 256
"""The most things on one shelf."""
CAPACITY = 32 << 20
"""The most bytes on one shelf. A single larger thing must not go on a shelf."""

T = TypeVar("T")


class Shelf(Generic[T]):
    """One end of a pair of shelves."""

    __slots__ = ("_bytes", "_free", "_things")

    def __init__(self) -> None:
        self._things: OrderedDict[int, tuple[T, int]] = OrderedDict()
        """By place: each thing and its size; the one used least recently first."""
        self._free: list[int] = []
        """Places, below the highest used, that have become free."""
        self._bytes = 0

    def find(self, place: int) -> T:
        """The thing in *place*, which is used now. Raises `ProtocolError` if there is none."""
        found = self._things.get(place)
        if found is None:
            raise ProtocolError(f"a message names the empty place {place} of a shelf")
        self._things.move_to_end(place)
        return found[0]

    def put(self, thing: T, size: int) -> tuple[int, list[T]]:
        """Put *thing*, of *size* bytes, on the shelf: its place, and the things let go of for it.

        Raises `ProtocolError` if it is too large.
        """
        if size > CAPACITY:
            raise ProtocolError(f"a thing of {size} bytes for a shelf of {CAPACITY}")
        gone: list[T] = []
        while self._things and (len(self._things) >= PLACES or self._bytes + size > CAPACITY):
            place, (old, freed) = self._things.popitem(last=False)
            self._bytes -= freed
            self._free.append(place)
            gone.append(old)
        place = self._free.pop() if self._free else len(self._things)
        self._things[place] = thing, size
        self._bytes += size
        return place, gone


class Sent:
    """A sender's shelf: it has the names of the things that the receiver has."""

    __slots__ = ("_places", "_shelf")

    def __init__(self) -> None:
        self._shelf: Shelf[Hashable] = Shelf()
        self._places: dict[Hashable, int] = {}

    def known(self, name: Hashable) -> int | None:
        """The place of the thing called *name*; None if it is not there."""
        return self._places.get(name)

    def use(self, place: int) -> None:
        """A message names the thing in *place*, and leaves now."""
        self._shelf.find(place)

    def place(self, name: Hashable, size: int) -> tuple[int, bool]:
        """The place of the thing called *name*, and whether the message has to bring the thing."""
        known = self.known(name)
        if known is not None:
            self.use(known)
            return known, False
        place, gone = self._shelf.put(name, size)
        for old in gone:
            del self._places[old]
        self._places[name] = place
        return place, True
