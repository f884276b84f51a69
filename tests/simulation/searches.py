"""The searches of one simulated endpoint for garbage in rings, and its answers to others."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from farref.protocol.effects import Looked
from farref.protocol.ids import RRefId

if TYPE_CHECKING:
    from .node import Node
    from .world import SimulatedWorld

PATIENCE = 10.0
"""Seconds after which a search no longer waits for endpoints that have not answered."""


class Searches:
    """The searches of *node*, one at a time."""

    def __init__(self, node: Node, world: SimulatedWorld) -> None:
        self._node = node
        self._world = world
        self._dice = random.Random(f"searches {world.plan.seed} {node.me}")
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
                late = self._world.now >= self._weighed_at + patience
                self._wait(patience, number)
                self._node.do(self._node.context.give_up_cycle(self._start) if late else [])

        self._world.later(patience, self._node, give_up)

    def looked(self, effect: Looked) -> None:
        """The search has found something, or is over."""
        if effect.over:
            self._start = None

    def weigh_after_a_while(self, weigh: Callable[[], object]) -> None:
        def weigh_now() -> None:
            self._weighed_at = self._world.now
            weigh()

        self.after_a_while(weigh_now)

    def after_a_while(self, step: Callable[[], object]) -> None:
        """Let the node take *step* now or soon."""

        def take_it() -> None:
            step()
            self._node.do([])

        self._world.later(self._dice.choice((0.0, 0.0, 0.05, 0.5)), self._node, take_it)
