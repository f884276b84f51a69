"""The functions that an endpoint exports to its peers, and those that it imports from them.

A function that is pickled by value travels once to each peer; see `protocol.exports`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any
from weakref import WeakValueDictionary

from msgspec.structs import replace

from ...protocol.errors import ProtocolError
from ...protocol.exports import ExportCache, SentExports
from ...protocol.ids import WorkerId
from ...protocol.messages import Cargo, Flow, Message
from ...serialization.definitions import Definition, Exported

Pair = tuple[WorkerId, Flow]


class Exports:
    """The export caches of one endpoint. Used under its lock."""

    def __init__(self, let_go: Callable[[list[Any]], object]) -> None:
        """*let_go* empties a list later, because finalizers of the values in it are user code."""
        self._let_go = let_go
        self._sent: dict[Pair, SentExports] = {}
        self._imported: dict[Pair, ExportCache[Definition]] = {}
        self._known: WeakValueDictionary[Hashable, Definition] = WeakValueDictionary()
        """A definition that comes by two flows or senders is one object: its function is one."""

    def export_functions(self, to: WorkerId, flow: Flow, message: Any) -> tuple[Message, int]:
        """*message*, which leaves now, with indexes of functions, and with those that *to* lacks.

        Also returns their size. The message must reach delivery before the next of *flow*.
        """
        sent = self._sent.get((to, flow))
        if sent is None:
            sent = self._sent[to, flow] = SentExports()
        rows, size = [], 0
        for each in message.cargo.payload.functions:
            index, new = sent.export(each.name, len(each.data))
            rows.append(
                Exported(index, each.origin, each.number, each.data) if new else Exported(index)
            )
            size += len(each.data) if new else 0
        return _with(message, tuple(rows)), size

    def import_functions(self, sender: WorkerId, flow: Flow, message: Any) -> Message:
        """*message*, which was handed over, with its definitions. Raises `ProtocolError`."""
        cache = self._imported.get((sender, flow))
        if cache is None:
            cache = self._imported[sender, flow] = ExportCache()
        found = []
        for row in message.cargo.payload.functions:
            if row.origin is None:
                found.append(cache.find(row.index))
                continue
            made = Definition(row.origin, row.number, row.data)
            definition = self._known.setdefault(made.name, made)
            index, evicted = cache.add(definition, len(row.data))
            if evicted:
                self._let_go(evicted)
            if index != row.index:
                raise ProtocolError(f"a function for index {row.index}, which belongs at {index}")
            found.append(definition)
        return _with(message, tuple(found))

    def forget(self, peer: WorkerId) -> None:
        for pair in [pair for pair in self._sent if pair[0] == peer]:
            del self._sent[pair]
        for pair in [pair for pair in self._imported if pair[0] == peer]:
            self._let_go([self._imported.pop(pair)])


def _with(message: Any, functions: tuple[Any, ...]) -> Message:
    payload = replace(message.cargo.payload, functions=functions)
    cargo = Cargo(payload=payload, descriptors=message.cargo.descriptors)
    changed: Message = replace(message, cargo=cargo)
    return changed
