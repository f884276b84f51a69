"""The tables of a `Context` as plain JSON values, and back.

A trace that begins in the middle of an endpoint's life begins with its tables, so that a reader can
run the machines on from there. The tables come back from a file, which may be a stranger's. So
reading makes objects of the protocol's classes only, each with its own fields, and calls nothing.
The user's data, the payloads, is left out.

Ids and strings stay strings, with a letter in front for the type (``r`` a reference, ``f`` a fork,
``c`` a call, ``w`` an endpoint, ``s`` a text). A value with a structure becomes a list that begins
with its type. A machine that stands in two places (an alias) is written once; the second place
points at it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from enum import Enum
from typing import Any

import msgspec

from ...protocol.alias import Alias
from ...protocol.borrowing import BorrowingOwner, BorrowingUser
from ...protocol.context import Context
from ...protocol.creations import Asked, Seen
from ...protocol.dead import Dead
from ...protocol.effects import Garbage, Resume, Send
from ...protocol.empty import EMPTY, EMPTY_SET, Few, added
from ...protocol.ids import CallId, ForkId, RRefId, WorkerId
from ...protocol.lending import LendingOwner, LendingUser
from ...protocol.messages import KINDS, Busy, Cargo, Descriptor, Grip, Hop, Moved, Passing, Report
from ...protocol.owner import Owner
from ...protocol.search import Search
from ...protocol.sharing import DISCIPLINES
from ...protocol.state import Name, Relay, Tables, Waiting
from ...protocol.user import Loan, User
from .tracing import spell

_APART = frozenset({"me", "discipline", "now", "looking"})
"""The parts of a state that are not tables. The shell gives the time, so `born` is left out too.

A probe waits for news within one step only.
"""
_PLAIN = frozenset({"owners", "users", "waiting", "dead", "buried", "causes", "names"})
_TABLES = {
    name if name in _PLAIN else f"_{name}": name
    for name in Tables.__struct_fields__
    if name not in _APART
}
"""The tables, by their names in a trace."""
MOST = 20_000
"""The most entries of an endpoint whose tables are written; more would hold it up for long."""
_MACHINES = (Owner, LendingOwner, BorrowingOwner, User, LendingUser, BorrowingUser)
_CLASSES: dict[str, type[msgspec.Struct]] = {
    each.__name__: each
    for each in (
        *(*_MACHINES, Alias, Name, Asked, Dead, Loan, Seen, Waiting, Relay, Send, Resume, Search),
        *(*KINDS, Busy, Descriptor, Hop, Report, Moved, Grip, Garbage),
    )
}
_FEW = frozenset({"known", "reported"})
"""The fields of an entry that are a `Few` of forks, and are written as a set."""
_IDS: dict[type, str] = {RRefId: "r", ForkId: "f", CallId: "c", WorkerId: "w"}
_LISTS: dict[type, str] = {list: "list", tuple: "tuple", set: "set", deque: "deque"}


def _shared(part: Any) -> Any:
    """*part*, or the shared empty table (see `protocol.empty`)."""
    if part == {} and type(part) is dict:
        return EMPTY
    return EMPTY_SET if part == set() else part


def _few(part: Any) -> Few:
    few: Few = ()
    for fork in part:
        few = added(few, fork)
    return few


class SnapshotError(ValueError):
    """These are not the tables of a `Context`."""


def tables_of(context: Context) -> dict[str, Any] | None:
    """All the knowledge of *context*, for `context_of`; None if it is too large. Under the lock.

    None also while a search weighs its answers: then another thread changes these tables.
    """
    if len(context.owners) + len(context.users) + len(context.waiting) > MOST:
        return None
    if not all(search.asked for search in context.state.searches.values()):
        return None
    write = _TablesWriter()
    return {name: write.plain(getattr(context.state, it)) for name, it in _TABLES.items()}


def context_of(me: WorkerId, sharing: str, tables: object, worker: Any) -> Context:
    """A context with these *tables*; *worker* makes a `WorkerId` from its text.

    Raises `SnapshotError`.
    """
    if sharing not in DISCIPLINES:
        raise SnapshotError(f"{sharing!r} is not a way of sharing")
    state = Tables(me, DISCIPLINES[sharing])
    if not isinstance(tables, dict) or tables.keys() != _TABLES.keys():
        raise SnapshotError("they lack fields of tables, or have others")
    read = _Reader(worker)
    for name, value in tables.items():
        found = read.value(value)
        if type(found) is not type(getattr(state, _TABLES[name])):
            raise SnapshotError(f"their field {name!r} has the wrong type")
        setattr(state, _TABLES[name], found)
    return Context(me, state=state)


class _TablesWriter:
    def __init__(self) -> None:
        self._seen: dict[int, int] = {}

    def plain(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int):
            return value
        if kind is str:
            return f"s{value}"
        if kind in _IDS:
            return _IDS[kind] + spell(value)
        if kind in _LISTS:
            items = sorted(value) if kind is set else value
            return [_LISTS[kind], *map(self.plain, items)]
        if value is EMPTY_SET:
            return [_LISTS[set]]
        if kind in (dict, OrderedDict) or value is EMPTY:
            name = "ordered" if kind is OrderedDict else "dict"
            return [name, *([self.plain(k), self.plain(v)] for k, v in value.items())]
        if isinstance(value, Enum):
            return ["enum", kind.__name__, value.name]
        if kind is Cargo:
            return ["Cargo", ["descriptors", self.plain(value.descriptors)]]
        if kind.__name__ not in _CLASSES:
            raise AssertionError(f"the tables hold a {kind.__name__}, and no code can write one")
        if kind is Alias:
            if id(value) in self._seen:
                return ["again", self._seen[id(value)]]
            self._seen[id(value)] = len(self._seen)
        fields = [(name, getattr(value, name)) for name in _fields(kind)]
        if kind in _MACHINES:
            fields = [(name, set(part) if name in _FEW else part) for name, part in fields]
        return [kind.__name__, *([name, self.plain(part)] for name, part in fields)]


class _Reader:
    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self._seen: list[Any] = []

    def value(self, plain: Any) -> Any:
        try:
            return self._value(plain)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise SnapshotError(f"they hold a value that no table can hold ({error})") from error

    def _value(self, plain: Any) -> Any:
        if plain is None or isinstance(plain, bool | int):
            return plain
        if isinstance(plain, str):
            return self._id(plain[0], plain[1:])
        name, *items = plain
        for kind, called in _LISTS.items():
            if called == name:
                return kind(map(self._value, items))
        if name in ("dict", "ordered"):
            kind_of_table = dict if name == "dict" else OrderedDict
            return kind_of_table((self._value(key), self._value(value)) for key, value in items)
        if name == "enum":
            if items[0] != "Passing":
                raise ValueError(f"tables hold no enum {items[0]}")
            return Passing[items[1]]
        if name == "again":
            return self._seen[items[0]]
        if name == "Cargo":
            return Cargo(descriptors=self._value(items[0][1]))
        kind = _CLASSES[name]
        given = {field: self._value(value) for field, value in items}
        if kind in _MACHINES:
            given = {n: _few(part) if n in _FEW else _shared(part) for n, part in given.items()}
        if set(given) != set(_fields(kind)):
            raise ValueError(f"a {name} with wrong fields")
        made: Any = kind(**given)
        if kind is Alias:
            self._seen.append(made)
        return made

    def _id(self, letter: str, text: str) -> Any:
        if letter == "s":
            return text
        if letter == "w":
            return self._worker(text)
        kind = next(kind for kind, each in _IDS.items() if each == letter)
        minter, _, number = text.rpartition("/")
        return kind(self._worker(minter), int(number))


def _fields(kind: type[msgspec.Struct]) -> list[str]:
    """The names of the fields of a machine or a message."""
    left_out = "by" if kind is Waiting else "born"  # `by` is the shell's
    return [name for name in kind.__struct_fields__ if name != left_out]
