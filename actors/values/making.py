"""Tasks whose result is made in a special way: the caller asks for that, and any function will do.

The caller writes ``remote(to, fn, frozen=True)`` or ``serial=False``; *fn* does not return a
marker. So functions that know nothing of farref can be used (``np.load``), and no marker can turn
up inside a value. `RRef` has the same keywords for values that exist already.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .wrapper import OnResult


class Making(OnResult, frozen=True):
    """A function, or the name of a method, and the kind of object to make of its result.

    The result comes as `Made`.
    """

    frozen: bool = False
    serial: bool = True

    def changed(self, result: Any) -> Made:
        return Made(result, self.frozen, self.serial)


def made_as(function: Any, *, frozen: bool, serial: bool) -> Any:
    """*function*, or the name of a method, as a task with a result of this kind."""
    return Making(function, frozen, serial) if frozen or not serial else function


class Made(msgspec.Struct, frozen=True):
    """A result on its way to its store; it is frozen there, and not on the loop."""

    value: Any
    frozen: bool
    serial: bool
