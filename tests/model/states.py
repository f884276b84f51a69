"""The states of an endpoint's records, compared with the table of transitions after every input.

Every step of every program goes through a `WatchedContext`. A transition that has no row in
`farref.protocol.states` raises an `AssertionError` in the step, so the explorer shows the shortest
trace to it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from enum import Enum
from typing import Any

from farref.protocol.context import Context
from farref.protocol.states import MACHINES, TRANSITIONS, inputs

READS_ONLY = {"owner_of", "whereabouts", "uncounted"}
Row = tuple[Enum, str, Enum]
"""The state before, the input, and the state after."""
ROWS: set[Row] = {
    (was, event, becomes) for was, becomes, which in TRANSITIONS for event in inputs(which)
}
"""The transitions in the table."""
REACHED: set[Row] = set()
"""The transitions that the explorations in this process have made so far."""

States = dict[str, dict[Hashable, Enum]]


class WatchedContext(Context):
    """A `Context` that compares the changes of each of its inputs with the tables."""

    seen: States | None = None
    """The states after the last input; None if it does not watch."""

    def watch(self) -> None:
        """Watch the inputs from now on. A copy does not."""
        self.seen = self._read()

    def _read(self) -> States:
        return {name: dict(read(self.state)) for name, (_, read) in MACHINES.items()}

    def take_input(self, name: str, event: str, arguments: Any, keywords: Any) -> Any:
        """Pass an input on, and compare the states before and after it."""
        method = getattr(super(), name)
        before, self.seen = self.seen, None  # inputs within this one are parts of it
        try:
            return method(*arguments, **keywords)
        finally:
            if before is not None:
                self.seen = self._read()
                for row in _changes(event, before, self.seen):
                    check(row)


def _changes(event: str, before: States, after: States) -> Iterator[Row]:
    for name, old in before.items():
        new = after[name]
        if old != new:
            absent = MACHINES[name][0]["ABSENT"]
            for key in old.keys() | new.keys():
                was, becomes = old.get(key, absent), new.get(key, absent)
                if was is not becomes:
                    yield was, event, becomes


def check(row: Row) -> None:
    """Raise an `AssertionError` if *row* is not in the table."""
    if row not in ROWS:
        was, event, becomes = row
        raise AssertionError(f"{was.name} becomes {becomes.name} by {event}: no row of the table")
    REACHED.add(row)


def _watched(name: str) -> Callable[..., Any]:
    def method(self: WatchedContext, *arguments: Any, **keywords: Any) -> Any:
        event = type(arguments[1]).__name__ if name in {"receive", "take"} else name
        return self.take_input(name, event, arguments, keywords)

    return method


for _name in list(vars(Context)):
    if not _name.startswith("_") and _name not in READS_ONLY:
        setattr(WatchedContext, _name, _watched(_name))
