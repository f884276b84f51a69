"""Export caches: items that travel once between two endpoints, and by their index afterwards.

An item (for the actors: the definition of a function that is pickled by value) goes with the first
message that needs it. The sender and the receiver each put it into a cache. Later messages contain
only its index there. There is one pair of caches for each sender, receiver and flow of messages
(see `messages.Flow`)::

    sender                                     receiver
    the item is in my cache: its index     ->  find(index)
    otherwise: add(item), the item itself  ->  add(item): the same index, as the caches are equal

The caches are bounded. A full cache evicts the item that has been used least recently. No message
tells of that: both ends perform the same operations in the same order, so both evict the same item.

Invariants:

* after the same operations two caches are equal: each index has the same item;
* so a message with an index finds the item that the sender meant, or brings the item itself.

They rest on delivery (G3): messages of one flow are handed over once, and in the order in which
they were sent. So there are three rules. The sender chooses between item and index in the very step
that gives the message to delivery, not when it pickles the message, because another thread might
send first. The receiver updates its cache when a message is handed over, not when it is opened,
because threads open messages in any order. And no two flows share a cache, because messages of one
flow may wait for credit while those of another one overtake them.

A peer is one incarnation. So a restarted peer begins with empty caches, at both ends.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

import msgspec

from .errors import ProtocolError

ITEMS = 256
"""The most items in one cache."""
CAPACITY = 32 << 20
"""The most bytes in one cache. A single larger item must not be exported."""

T = TypeVar("T")


class ExportCache(msgspec.Struct, Generic[T], eq=False):
    """One end of a pair of caches."""

    _items: OrderedDict[int, tuple[T, int]] = msgspec.field(default_factory=OrderedDict)
    """By index: each item and its size; the one used least recently first."""
    _free: list[int] = []
    """Indices, below the highest used, that have become free."""
    _bytes: int = 0

    def find(self, index: int) -> T:
        """The item at *index*, which is used now. Raises `ProtocolError` if there is none."""
        found = self._items.get(index)
        if found is None:
            raise ProtocolError(
                f"a message names index {index}, which is empty in the export cache"
            )
        self._items.move_to_end(index)
        return found[0]

    def add(self, item: T, size: int) -> tuple[int, list[T]]:
        """Add *item*, of *size* bytes. Returns its index, and the items that are evicted for it.

        Raises `ProtocolError` if it is too large.
        """
        if size > CAPACITY:
            raise ProtocolError(f"an item of {size} bytes for an export cache of {CAPACITY}")
        evicted: list[T] = []
        while self._items and (len(self._items) >= ITEMS or self._bytes + size > CAPACITY):
            index, (old, freed) = self._items.popitem(last=False)
            self._bytes -= freed
            self._free.append(index)
            evicted.append(old)
        index = self._free.pop() if self._free else len(self._items)
        self._items[index] = item, size
        self._bytes += size
        return index, evicted


class SentExports(msgspec.Struct, eq=False):
    """A sender's cache: it has the names of the items that the receiver has."""

    _cache: ExportCache[Hashable] = msgspec.field(default_factory=ExportCache)
    _indices: dict[Hashable, int] = {}

    def export(self, name: Hashable, size: int) -> tuple[int, bool]:
        """The index of the item called *name*, and whether the message has to bring the item."""
        known = self._indices.get(name)
        if known is not None:
            self._cache.find(known)
            return known, False
        index, evicted = self._cache.add(name, size)
        for old in evicted:
            del self._indices[old]
        self._indices[name] = index
        return index, True
