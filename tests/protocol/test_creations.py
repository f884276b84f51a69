"""An owner's record of creations: against plain sets, in every order, in bounded memory.

A creator requests some of the objects that it numbers from one owner; creations and
acknowledgements travel at any speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from farref.protocol.creations import Asked, Seen

NUMBERS = (1, 3, 4, 6)
"""Other owners have the numbers between."""


@dataclass
class Creations:
    """A creator, an owner, the messages between them, and the true state."""

    numbers: list[int]
    in_order: bool = False
    """The link keeps the order, as `delivery` does."""
    asked: Asked = field(default_factory=Asked)
    seen: Seen = field(default_factory=Seen)
    creations: list[tuple[int, int]] = field(default_factory=list)
    acks: list[int] = field(default_factory=list)
    created: set[int] = field(default_factory=set)
    waiting: set[int] = field(default_factory=set)
    watermark: int = 0
    """The highest watermark that has come."""
    most: int = 0
    """The most creations that were in flight or unacknowledged at once."""

    def moves(self) -> list[tuple[str, int]]:
        """Every possible next move: a kind, and the place of its message in flight."""
        moves = [("ask", 0)] if self.numbers else []
        for kind, flying in ("create", self.creations), ("ack", self.acks):
            there = flying[:1] if self.in_order else flying
            moves += [(kind, at) for at, _ in enumerate(there)]
        return moves

    def move(self, kind: str, at: int) -> str | None:
        """Make a move. Returns the fault, if there is one."""
        wrong = None
        if kind == "ask":
            number = self.numbers.pop(0)
            self.waiting.add(number)
            self.most = max(self.most, len(self.waiting))
            watermark = self.asked.add(number)
            if watermark != min(self.waiting):
                wrong = f"the watermark is {watermark}, and {self.waiting} are not acknowledged"
            self.creations.append((number, watermark))
        elif kind == "create":
            number, watermark = self.creations.pop(at)
            self.seen.add(number, watermark)
            self.watermark = max(self.watermark, watermark)
            self.created.add(number)
            self.acks.append(number)
        else:
            number = self.acks.pop(at)
            self.waiting.discard(number)
            if self.asked.acknowledged(number) == bool(self.waiting):
                wrong = f"{self.waiting} are waited for, and it says otherwise"
        return wrong or self.flaw()

    def flaw(self) -> str | None:
        """The fault in the two records, compared with the true state."""
        for number in (*self.created, *self.waiting, *self.numbers):
            if (number in self.seen) != (number in self.created):
                return f"it is wrong about {number}, with {self.created} created"
        if set(self.asked._waiting) != self.waiting:
            return f"it waits for {list(self.asked._waiting)}, not for {self.waiting}"
        if self.seen._above != {number for number in self.created if number >= self.watermark}:
            return f"it remembers {self.seen._above}, and {self.watermark} was the watermark"
        if self.in_order and len(self.seen._above) > self.most:
            return f"it remembers {self.seen._above}; {self.most} were in flight at most"
        return None


def every_order(now: Creations) -> Iterator[str]:
    """All faults from *now* on, in every order of moves."""
    for kind, at in now.moves():
        after = deepcopy(now)
        wrong = after.move(kind, at)
        if wrong is not None:
            yield wrong
        else:
            yield from every_order(after)


def test_the_owner_tells_what_it_has_seen_in_every_order() -> None:
    assert next(every_order(Creations(list(NUMBERS))), None) is None


@given(st.data(), st.booleans())
def test_the_owner_tells_what_it_has_seen_in_long_runs(data: st.DataObject, in_order: bool) -> None:
    numbers = sorted(data.draw(st.sets(st.integers(1, 60), max_size=25)))
    world = Creations(numbers, in_order)
    while moves := world.moves():
        assert world.move(*data.draw(st.sampled_from(moves))) is None


def test_memory_does_not_grow_with_the_number_of_creations() -> None:
    world = Creations(list(range(1, 300)), in_order=True)
    for number in range(1, 300):
        assert len(world.seen._above) <= 3
        world.move("ask", 0)
        if number > 2:
            world.move("create", 0)
            world.move("ack", 0)
