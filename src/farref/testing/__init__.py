"""Injects faults and checks that nothing is left, for the tests of programs on farref.

::

    from farref import System, rpc_sync
    from farref.testing import Faults, assert_nothing_held, delay, drop

    with System(faults=Faults(drop(0.2), delay(0.2, seconds=0.05), seed=7)) as system:
        system.worker("B")
        assert rpc_sync("B", pow, args=(2, 10)) == 1024  # it takes longer, and that is all
        assert_nothing_held(system)

`Faults` are rules about packets, made by `drop`, `delay`, `duplicate` and `reorder`. While the
system runs, `set_faults` replaces the rules, `cut` and `heal` cut and restore the link between two
endpoints, and `counts` returns the numbers so far. `farref.testing.fixtures` has fixtures for
pytest.
"""

from ..actors.wire.faults import Counts, Faults, Rule
from .held import assert_nothing_held, references_everywhere, until
from .links import counts, cut, heal, set_faults, severed
from .rules import KINDS, delay, drop, duplicate, reorder

__all__ = [
    "KINDS",
    "Counts",
    "Faults",
    "Rule",
    "assert_nothing_held",
    "counts",
    "cut",
    "delay",
    "drop",
    "duplicate",
    "heal",
    "references_everywhere",
    "reorder",
    "set_faults",
    "severed",
    "until",
]
