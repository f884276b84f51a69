"""The searches of one simulated endpoint for garbage in rings, and its answers to others."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..protocol.effects import Looked, Scan
    from ..protocol.ids import RRefId
    from .jobs import Resident
    from .scene import Scene

PATIENCE = 10.0
"""Seconds after which a search no longer waits for endpoints that have not answered."""


class Searches:
    """The searches of *node*, one at a time."""

    def __init__(self, node: Resident, scene: Scene) -> None:
        self._node = node
        self._scene = scene
        self._dice = random.Random(f"searches {scene.plan.seed} {node.me}")
        self._start: RRefId | None = None
        self._number = 0
        self._weighed_at = 0.0

    def begin(self, dice: random.Random) -> bool:
        """Search from some objects here. Returns False if there is nothing to search from."""
        holding = self._holding()
        some = holding if dice.random() < 0.7 else dice.sample(holding, (len(holding) + 1) // 2)
        patience = dice.choice((0.1, PATIENCE, PATIENCE))
        return self._begin(some, cuts=dice.random() < 0.9, patience=patience)

    def begin_with_all(self) -> None:
        """Search from all objects here."""
        self._begin(self._holding(), cuts=True, patience=PATIENCE)

    def _holding(self) -> list[RRefId]:
        """The objects here with handles in their values."""
        return sorted(rref for rref, inside in self._node.inside.items() if inside)

    def _begin(self, rrefs: Sequence[RRefId], *, cuts: bool, patience: float) -> bool:
        if not rrefs or self._start is not None:
            return False
        self._start = rrefs[0]
        self._number += 1
        self._wait(patience, self._number)
        self._node.do(self._node.context.suspect_cycle(rrefs, cuts=cuts))
        return True

    def _wait(self, patience: float, number: int) -> None:
        """After *patience* seconds without all answers, let search *number* do without them."""

        def give_up() -> None:
            if self._start is not None and self._number == number:
                late = self._scene.now >= self._weighed_at + patience
                self._wait(patience, number)
                self._node.do(self._node.context.give_up_cycle(self._start) if late else [])

        self._scene.later(patience, self._node, give_up)

    def looked(self, effect: Looked) -> None:
        """The search has found something, or is over."""
        if effect.over:
            self._start = None

    def scan(self, scan: Scan) -> None:
        """See how values hold the objects, and answer *scan* after a while.

        It may no longer be so then.
        """
        node = self._node
        survey = node.survey(scan)

        def answer() -> None:
            grips = node.context.surveys.finish(survey)
            node.do(node.context.scanned(scan.asker, scan.look, grips))

        self._after_a_while(answer)

    def weigh(self, start: RRefId) -> None:
        """Weigh the answers of the search from *start* after a while."""
        node = self._node

        def weigh() -> None:
            self._weighed_at = self._scene.now
            node.do(node.context.weigh_cycle(start))

        self._after_a_while(weigh)

    def _after_a_while(self, do: Callable[[], object]) -> None:
        self._scene.later(self._dice.choice((0.0, 0.0, 0.05, 0.5)), self._node, do)
