"""The choice of rows, and their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from ..actors.inspect.inspection import ReferenceInfo
from ..actors.inspect.snapshot import Snapshot
from ..plurals import some

Order = Literal["id", "new", "age", "size", "type", "role", "worker", "handles"]
"""The order of rows: names from a to z, numbers from the greatest down; of `new`, the newest."""
State = Literal["placeholder", "created", "resolved", "alias", "unconfirmed", "confirmed", "lost"]


@dataclass(frozen=True, slots=True)
class Choice:
    """Rows must have all that is said here."""

    worker: str | None = None
    role: str | None = None
    type: str | None = None
    state: str | None = None
    """Of the row, or at the owner."""
    prefix: str = ""
    """What the id begins with."""
    older: float = 0.0
    """Seconds."""
    suspects: bool = False
    """Only rows with a mark."""

    def check(self, snapshot: Snapshot) -> None:
        """Raise `LookupError` if it names an endpoint that *snapshot* does not know."""
        there = sorted({*snapshot.counters, *snapshot.silent})
        if self.worker is not None and self.worker not in there:
            raise LookupError(
                f"there is no endpoint {self.worker} in system {snapshot.system!r}; "
                f"there are {some(there)}"
            )

    def of(self, rows: Iterable[ReferenceInfo], order: Order = "id") -> list[ReferenceInfo]:
        """The chosen ones of *rows*, in *order*."""
        return ordered([row for row in rows if self._means(row)], order)

    def _means(self, row: ReferenceInfo) -> bool:
        return (
            self.worker in (None, row.worker)
            and self.role in (None, row.role)
            and self.type in (None, row.type)
            and (self.state is None or self.state in (row.state, row.owner_state))
            and row.rref.startswith(self.prefix)
            and row.age >= self.older
            and (bool(row.marks) or not self.suspects)
        )


_KEYS: dict[Order, Callable[[ReferenceInfo], Any]] = {
    "id": lambda _: 0,
    "new": lambda row: row.age,
    "age": lambda row: -row.age,
    "size": lambda row: -(row.size or 0),
    "type": lambda row: row.type or "",
    "role": lambda row: row.role,
    "worker": lambda row: row.worker,
    "handles": lambda row: -row.handles,
}


def ordered(rows: list[ReferenceInfo], order: Order) -> list[ReferenceInfo]:
    """*rows*, which come by their ids, in *order*."""
    if order == "new":  # ages are rounded, and numbers grow
        rows = [*reversed(rows)]
    return sorted(rows, key=_KEYS[order])
