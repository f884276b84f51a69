"""What happens in a simulation: acts, drawn from a seed.

An act names nobody's reference: it says which endpoint does what, and a number that picks among
the references which that one then has. So an act makes sense in any state, one that finds nothing
to do does nothing, and acts can be left out of a plan (see `shrink`).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Literal, cast

from ..protocol.sharing import DISCIPLINES, Sharing

NODES = 4
"""Endpoints, named A, B, C and so on."""
Weather = Literal["calm", "crashes", "cuts", "storm"]
WEATHERS: tuple[Weather, ...] = ("calm", "crashes", "cuts", "storm")

GRACE = 40.0
"""Seconds; see `orphan_grace`. Longer than any notice and a few retransmissions take together."""
SHORT_GRACE = 0.5
"""Shorter than the news of a death may take: who makes itself known may come too late."""
LONG = 500
"""Acts from which on a plan is long: in half of the long ones disasters are rare."""
RARE = 10
"""How much rarer. Else no endpoint of a long plan would live for long."""

PROGRAM = {
    "own": 3,
    "make": 5,
    "nest": 4,
    "alias": 6,
    "circle": 2,
    "lend": 8,
    "pass on": 3,
    "call": 5,
    "pipeline": 5,
    "fetch": 5,
    "wait": 2,
    "tell": 5,
    "cancel": 1,
    "drop": 14,
}
"""What programs do, and how often."""
DISASTERS: dict[Weather, dict[str, int]] = {
    "calm": {},
    "crashes": {"crash": 3},
    "cuts": {"cut": 4, "partition": 2, "nap": 2},
    "storm": {"crash": 2, "cut": 3, "partition": 1, "nap": 2, "freeze": 1},
}
"""What befalls them. A nap ends, and a link is healed, before anybody is given up for dead."""


@dataclass(frozen=True, slots=True)
class Act:
    """At a time, in seconds, *who* does *what*, maybe to *other*; *pick* decides the rest."""

    at: float
    what: str
    who: int
    other: int
    pick: int

    def __str__(self) -> str:
        return (
            f"{self.at:6.2f} s  {name_of(self.who)} {self.what} {name_of(self.other)} ({self.pick})"
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole course of events. The seed also decides what the network does."""

    seed: int
    sharing: Sharing
    weather: Weather
    loss: float
    """Share of the packets that are lost; half as many are repeated."""
    grace: float
    """Seconds from the news of a death to the end of what the dead held."""
    acts: tuple[Act, ...] = field(repr=False)


def draw(
    seed: int,
    acts: int = 60,
    *,
    sharing: Sharing | None = None,
    weather: Weather | None = None,
) -> Plan:
    """The plan of *seed*: *acts* of them, in a discipline and a weather that it decides, too."""
    dice = random.Random(seed)
    how, sky = dice.choice(list(DISCIPLINES)), dice.choice(WEATHERS)
    sharing, weather = sharing or cast("Sharing", how), weather or sky
    loss = dice.choice((0.0, 0.01, 0.05))
    grace = dice.choice((GRACE, SHORT_GRACE)) if weather == "storm" else GRACE
    rare = dice.choice((1, RARE)) if acts >= LONG else 1
    kinds = {what: often * rare for what, often in PROGRAM.items()} | DISASTERS[weather]
    at, plan = 0.0, []
    first = ["make"] * min(acts, NODES)  # something to go on with
    rest = dice.choices(list(kinds), list(kinds.values()), k=acts - len(first))
    for what in first + rest:
        at += dice.expovariate(10) if dice.random() < 0.8 else 0.0
        who, other = dice.sample(range(NODES), 2)
        plan.append(Act(round(at, 3), what, who, other, dice.randrange(10**6)))
    return Plan(seed, sharing, weather, loss, grace, tuple(plan))


def name_of(number: int) -> str:
    """What the endpoint at that place is called."""
    return chr(ord("A") + number)
