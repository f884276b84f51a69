"""The functions that peers have of this endpoint, and this one of them; see `protocol.shelves`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from msgspec.structs import replace

from ...protocol.errors import ProtocolError
from ...protocol.messages import Cargo
from ...protocol.shelves import PLACES, Sent, Shelf
from ...serialization.definitions import Definition, Placed

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ...protocol.ids import WorkerId
    from ...protocol.messages import Flow, Message

    Pair = tuple[WorkerId, Flow]


_AT = tuple(map(Placed, range(PLACES)))
"""Each place alone: nearly every message has one of these."""


class Shelves:
    """The shelves of one endpoint. Used under its lock."""

    def __init__(self, let_go: Callable[[list[Any]], object]) -> None:
        """*let_go* empties a list later: finalizers of their values are user code."""
        self._let_go = let_go
        self._sent: dict[Pair, Sent] = {}
        self._kept: dict[Pair, Shelf[Definition]] = {}
        self._known: WeakValueDictionary[Hashable, Definition] = WeakValueDictionary()
        """A definition that comes twice, by two flows or senders, is one: its function is one."""

    def place(self, to: WorkerId, flow: Flow, message: Any) -> tuple[Message, int]:
        """*message*, which leaves now, with places for its definitions, and those that *to* lacks.

        Returns the bytes of these, too. It must reach delivery before any other message of *flow*.
        """
        sent = self._sent.get((to, flow))
        if sent is None:
            sent = self._sent[to, flow] = Sent()
        rows, size = [], 0
        for each in message.cargo.payload.functions:
            place, new = sent.place(each.name, len(each.data))
            rows.append(Placed(place, each.origin, each.number, each.data) if new else _AT[place])
            size += len(each.data) if new else 0
        return _with(message, tuple(rows)), size

    def known(self, to: WorkerId, flow: Flow, definition: Definition) -> Placed | None:
        """The place of *definition*; None if *to* does not have it."""
        sent = self._sent.get((to, flow))
        place = sent.known(definition.name) if sent is not None else None
        return _AT[place] if place is not None else None

    def use(self, to: WorkerId, flow: Flow, at: Placed) -> None:
        """A message that names the definition in the place *at* leaves now."""
        self._sent[to, flow].use(at.place)

    def unshelve(self, sender: WorkerId, flow: Flow, message: Any) -> Message:
        """*message*, which has been handed over, with its definitions. Raises `ProtocolError`."""
        kept = self._kept.get((sender, flow))
        if kept is None:
            kept = self._kept[sender, flow] = Shelf()
        found = []
        for row in message.cargo.payload.functions:
            if row.origin is None:
                found.append(kept.find(row.place))
                continue
            made = Definition(row.origin, row.number, row.data)
            definition = self._known.setdefault(made.name, made)
            place, gone = kept.put(definition, len(row.data))
            if gone:
                self._let_go(gone)
            if place != row.place:
                raise ProtocolError(f"a function for place {row.place}, which belongs in {place}")
            found.append(definition)
        return _with(message, tuple(found))

    def forget(self, peer: WorkerId) -> None:
        """*peer* is dead."""
        for pair in [pair for pair in self._sent if pair[0] == peer]:
            del self._sent[pair]
        for pair in [pair for pair in self._kept if pair[0] == peer]:
            self._let_go([self._kept.pop(pair)])


def _with(message: Any, functions: tuple[Any, ...]) -> Message:
    payload = replace(message.cargo.payload, functions=functions)
    cargo = Cargo(payload=payload, descriptors=message.cargo.descriptors)
    changed: Message = replace(message, cargo=cargo)
    return changed
