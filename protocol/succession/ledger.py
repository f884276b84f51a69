"""The facts of the registrar on their way to the store, and its messages, which wait for them.

A `Write` holds the changes since the last one. One is under way at a time. The store takes it if

* it still names the registrar of this term, and
* the last write that it has taken is the one before this.

So a write takes effect once, though it may have to be sent again and again until an answer comes,
and though an earlier copy of it may reach the store later than the next write. If the store has
taken this very write before, it says so.

Otherwise it refuses, and will always refuse: another registrar has the role, and has read the facts
after the last write that was taken. All messages that wait are dropped, so nobody hears of them.
"""

from __future__ import annotations

import msgspec

MOST = 100
"""Changes in one write, at most: etcd takes 128 operations in a transaction."""

Change = tuple[str, bytes | None]
"""A key, and its new value; None: it is gone."""


class Write(msgspec.Struct, frozen=True):
    """Registrar -> store: change these facts, if I am still the registrar."""

    term: int
    number: int
    after: int
    """The revision of the store at which it took the write before this one."""
    changes: tuple[Change, ...]


class Written(msgspec.Struct, frozen=True):
    """Store -> registrar: the facts are changed."""

    revision: int


class Refused(msgspec.Struct, frozen=True):
    """Store -> registrar: there is a later registrar, or you have lost your lease."""


class Ledger(msgspec.Struct, eq=False):
    """The changes of one registrar in one term."""

    term: int
    _revision: int
    """The store's, at its last write; at first, when this registrar read the facts."""
    _number: int = 0
    _changes: dict[str, bytes | None] = {}
    _waiting: list[object] = []
    """Messages that wait for the changes."""
    _flying: Write | None = None
    _held: list[object] = []
    """Messages that wait for the write under way, and for no later one."""
    _free: list[object] = []

    def change(self, key: str, value: bytes | None) -> None:
        """The fact *key* is *value* from now on; None: it is gone."""
        self._changes.pop(key, None)  # the order of the last changes is kept
        self._changes[key] = value

    def send(self, message: object) -> None:
        """Release *message* once all changes so far are stored."""
        if self._changes:
            self._waiting.append(message)
        elif self._flying is not None:
            self._held.append(message)
        else:
            self._free.append(message)

    def released(self) -> list[object]:
        """The messages that may leave now, in order. Each is returned once."""
        free, self._free = self._free, []
        return free

    def write(self) -> Write | None:
        """The next write, unless one is under way or there is nothing to write."""
        if self._flying is not None or not self._changes:
            return None
        keys = list(self._changes)[:MOST]
        changes = tuple((key, self._changes.pop(key)) for key in keys)
        self._number += 1
        self._flying = Write(self.term, self._number, self._revision, changes)
        if not self._changes:
            self._held, self._waiting = self._waiting, []
        return self._flying

    def answered(self, answer: Written | None) -> Write | None:
        """Take the store's answer; None if none came. Returns the write to send, if any."""
        if answer is None:
            return self._flying
        self._flying = None
        self._revision = answer.revision
        self._free += self._held
        self._held = []
        return self.write()

    @property
    def idle(self) -> bool:
        """Whether everything is stored."""
        return self._flying is None and not self._changes
