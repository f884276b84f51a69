"""The machines with one rule removed; a program or a trace must catch each of them.

A mutant replaces one piece of the shipped source of one method, in memory, while a test runs. If
the source no longer contains the piece, the import of the mutant fails: a rewritten rule needs a
rewritten mutant. Each table names a program, the smallest that catches them, before its mutants.
Where no small program can, it names a trace in `tests/traces` instead: in a mutant of its, the
messages or the final state are others.
"""

from .mutant import Mutant, mutated
from .of_alias import ALIAS
from .of_borrowing import BORROWING
from .of_context import CONTEXT
from .of_creations import CREATIONS
from .of_cycles import CYCLES
from .of_dead import DEAD, DEATH
from .of_delivery import DELIVERY
from .of_lending import LENDING
from .of_loans import LOANS
from .of_names import NAMES
from .of_owner import OWNER
from .of_rendezvous import RENDEZVOUS
from .of_rings import RINGS
from .of_succession import SUCCESSION
from .of_user import USER

__all__ = [
    "CREATIONS",
    "DEAD",
    "DELIVERY",
    "MACHINES",
    "RENDEZVOUS",
    "SUCCESSION",
    "Mutant",
    "mutated",
]

MACHINES = (*(OWNER, USER, CONTEXT, LENDING, BORROWING, LOANS, DEATH, ALIAS, NAMES, RINGS, CYCLES),)
"""The tables of the reference machines."""
