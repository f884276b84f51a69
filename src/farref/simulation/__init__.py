"""Whole programs of references over the shipped machines, in virtual time, from a seed.

A `Plan` is what happens: a few endpoints make, pass on, lend, nest, alias, call and drop
references while messages are lost, repeated, delayed and reordered, links are cut and healed, and
processes crash, freeze and start again. It is a list of acts drawn from a seed. `simulate` plays
it on the machines that the actors run (`Context`, `Channel`, `Liveness`): nothing in between is
threads, sockets or clocks, so the same plan takes the same course every time, and minutes pass in
milliseconds.

The `Oracle` knows everything, and says what must not happen: an object freed that somebody alive
holds (G4), a wrong value, an error that no death explains, a wait that does not end (G6), and
anything that is left when all has been let go (G5). A plan that goes wrong is `shrink`-ed to the
acts that are needed for it.
"""

from .oracle import WrongError
from .plan import Act, Plan, draw
from .shrink import shrink
from .world import Outcome, simulate

__all__ = ["Act", "Outcome", "Plan", "WrongError", "draw", "shrink", "simulate"]
