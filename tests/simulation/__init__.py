"""Whole programs of references over the shipped machines, in virtual time, from a seed.

A `Plan` is the course of events. A few endpoints make, pass on, lend, nest, alias, call and drop
references. Meanwhile messages are lost, repeated, delayed and reordered, links are cut and healed,
and processes crash, freeze and start again. A plan is a list of acts drawn from a seed. `simulate`
plays it on the machines of the actors (`Context`, `Channel`, `Liveness`), without threads, sockets
and clocks. So the same plan takes the same course every time, and minutes pass in milliseconds.

The `Oracle` knows everything, and reports every violation: a freed object that a living endpoint
holds (G4), a wrong value, an error that no death explains, a wait that does not end (G6), and
anything left after all references have been dropped (G5).
"""

from .oracle import WrongError
from .plan import Act, Plan, draw
from .world import Outcome, simulate

__all__ = ["Act", "Outcome", "Plan", "WrongError", "draw", "simulate"]
