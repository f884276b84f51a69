"""Arguments with a few references among them, pickled in C alone.

Each reference is replaced by a *hole*: an empty buffer that pickle leaves out, to be given apart
when the arguments are unpickled. The reader gives the handles of the references that came, in
order. So no function is called for any part of the arguments, at either end.
"""

from __future__ import annotations

import pickle
from typing import Any, Final

from .by_pickle import ATOMS
from .pickling import Reference

HOLE: Final = pickle.PickleBuffer(bytearray(1))  # one that may be written: or else it needs more
_is_reference = Reference.__subclasscheck__
_all_atoms = ATOMS.issuperset


def holed(args: tuple[Any, ...], most: int) -> tuple[tuple[Any, ...], list[Reference]] | None:
    """*args* with holes in place of references, and these references, in order.

    None unless every argument is a number, a text, a reference, or a list or tuple of references,
    and there are at most *most* references.
    """
    found: list[Reference] = []
    made: list[Any] = []
    for arg in args:
        kind = type(arg)
        if kind in ATOMS:
            made.append(arg)
        elif kind is list or kind is tuple:
            parts = kind(arg)  # another thread may change a list
            if not 0 < len(parts) <= most or not all(map(_is_reference, map(type, parts))):
                return None
            found += parts
            made.append(kind([HOLE] * len(parts)))
        elif _is_reference(kind):
            found.append(arg)
            made.append(HOLE)
        else:
            return None
    return (tuple(made), found) if 0 < len(found) <= most else None
