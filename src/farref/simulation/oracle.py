"""The oracle of a simulation: it sees all endpoints at once, and what is true in all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..protocol.ids import RRefId, WorkerId
    from .node import Node, Turn


class WrongError(Exception):
    """Something happened that *guarantee*, such as "G4", excludes."""

    def __init__(self, guarantee: str, how: str) -> None:
        super().__init__(f"{guarantee}: {how}")
        self.guarantee = guarantee


class Oracle:
    """What is true, whoever knows of it."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        """The timing assumption holds, so nothing may be lost for being late."""
        self._stands_for: dict[RRefId, RRefId] = {}
        self._owners: dict[RRefId, WorkerId] = {}
        self._methods_of: dict[RRefId, RRefId] = {}
        """Objects that a method of another one makes."""
        self._turns: dict[tuple[WorkerId, RRefId], int] = {}
        self.dead: set[WorkerId] = set()

    # ---- what happens

    def made(self, rref: RRefId, owner: WorkerId, on: RRefId | None = None) -> None:
        """*owner* owns, or will own, *rref*, which a method of *on* makes, if that is given."""
        self._owners[rref] = owner
        if on is not None:
            self._methods_of[rref] = on

    def aliased(self, rref: RRefId, target: RRefId) -> None:
        """*rref* stands for *target* from now on."""
        self._stands_for[rref] = target

    def freed(self, rref: RRefId, nodes: Iterable[Node]) -> None:
        """Its owner freed *rref*. Raises `WrongError` if somebody alive holds it (G4)."""
        if not self._strict:
            return
        for node in nodes:
            for name in node.held():
                if node.context.whereabouts(name) == rref:
                    raise WrongError("G4", f"{rref} is freed, and {node.me} holds it as {name}")

    def answered(self, rref: RRefId, content: object) -> None:
        """Somebody got *content* for the value of *rref*. Raises `WrongError` if it is not."""
        if content != self.canonical(rref):
            raise WrongError(
                "value", f"{rref} has that of {self.canonical(rref)}, not of {content}"
            )

    def ran(self, turn: Turn) -> None:
        """A method begins. Raises `WrongError` if it overtook one of the same caller's."""
        whose = turn.caller, turn.name
        if turn.number <= self._turns.get(whose, 0):
            raise WrongError(
                "G3", f"{turn.caller}'s call {turn.number} on {turn.name} was overtaken"
            )
        self._turns[whose] = turn.number

    def failed(self, rref: RRefId | None, worker: WorkerId | None, why: str) -> None:
        """A request failed. Raises `WrongError` unless a death explains it (G6)."""
        concerned, about = {worker}, self._way(rref)
        while about:
            each = about.pop()
            concerned |= {self._owners.get(each), each.creator}
            about += self._way(self._methods_of.get(each))
        # What is LOST may be another reference, in a message that was to be passed on.
        anybody = why == "LOST" or not self._strict
        if not (self.dead if anybody else concerned & self.dead):
            raise WrongError(
                "G6", f"a request on {rref or worker} failed ({why}), and nobody's death is why"
            )

    # ---- what is true

    def canonical(self, rref: RRefId) -> RRefId:
        """What *rref* stands for, in the end."""
        return self._way(rref)[-1]

    def _way(self, rref: RRefId | None) -> list[RRefId]:
        way = [] if rref is None else [rref]
        while way and way[-1] in self._stands_for:
            way.append(self._stands_for[way[-1]])
        return way
