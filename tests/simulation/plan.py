"""The events of a simulation: acts, drawn from a seed.

An act names no reference. It names an endpoint, a kind of act, and a number that picks among the
references that the endpoint has at that time. So an act makes sense in any state: without a fitting
reference it does nothing, and acts can be left out of a plan.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Literal

from farref.protocol.sharing import DISCIPLINES, Sharing

NODES = 4
"""Endpoints, named A, B, C and so on."""
Weather = Literal["calm", "crashes", "cuts", "storm"]
WEATHERS: tuple[Weather, ...] = ("calm", "crashes", "cuts", "storm")

GRACE = 40.0
"""Seconds (see `orphan_grace`): longer than any notice and a few retransmissions together."""
SHORT_GRACE = 0.5
"""Shorter than the news of a death may take: an orphan's announcement may come too late."""
LONG = 500
"""The least number of acts of a long plan. In half of the long plans disasters are rare."""
RARE = 10
"""The factor by which they are rarer. Without it no endpoint of a long plan would live long."""

PROGRAM = {
    "own": 3,
    "make": 5,
    "nest": 4,
    "alias": 6,
    "circle": 2,
    "ring": 2,
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
"""The acts of programs, and how often each occurs."""
RINGS = {"link": 5, "tie": 8, "untie": 4, "search": 12}
"""More acts, of programs with objects that hold each other, and with searches for garbage."""
DISASTERS: dict[Weather, dict[str, int]] = {
    "calm": {},
    "crashes": {"crash": 3},
    "cuts": {"cut": 4, "partition": 2, "nap": 2},
    "storm": {"crash": 2, "cut": 3, "partition": 1, "nap": 2, "freeze": 1},
}
"""The disasters. A nap ends, and a link heals, before any endpoint is given up for dead."""


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
    """A whole course of events. The network draws its decisions from the seed, too."""

    seed: int
    sharing: Sharing
    weather: Weather
    loss: float
    """The share of packets that are lost. Half as many are repeated."""
    grace: float
    """Seconds from the news of a death to the release of the dead endpoint's references."""
    rings: bool
    """Whether objects may come to hold each other, and endpoints search for such garbage."""
    acts: tuple[Act, ...] = field(repr=False)


def draw(
    seed: int,
    acts: int = 60,
    *,
    sharing: Sharing | None = None,
    weather: Weather | None = None,
    rings: bool | None = None,
) -> Plan:
    """Draw the plan of *seed*, with *acts* acts.

    The seed decides discipline, weather and rings, too: half of the plans have rings.
    """
    dice = random.Random(seed)
    how, sky = dice.choice(list(DISCIPLINES)), dice.choice(WEATHERS)
    sharing, weather = sharing or how, weather or sky
    loss = dice.choice((0.0, 0.01, 0.05))
    grace = dice.choice((GRACE, SHORT_GRACE)) if weather == "storm" else GRACE
    rare = dice.choice((1, RARE)) if acts >= LONG else 1
    if rings is None:
        rings = random.Random(f"rings {seed}").random() < 0.5
    program = PROGRAM | RINGS if rings else PROGRAM
    kinds = {what: often * rare for what, often in program.items()} | DISASTERS[weather]
    at, plan = 0.0, []
    first = ["make"] * min(acts, NODES)  # objects for the other acts
    rest = dice.choices(list(kinds), list(kinds.values()), k=acts - len(first))
    for what in first + rest:
        at += dice.expovariate(10) if dice.random() < 0.8 else 0.0
        who, other = dice.sample(range(NODES), 2)
        plan.append(Act(round(at, 3), what, who, other, dice.randrange(10**6)))
    return Plan(seed, sharing, weather, loss, grace, rings, tuple(plan))


def name_of(number: int) -> str:
    """The name of the endpoint at that place."""
    return chr(ord("A") + number)
