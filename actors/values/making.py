"""Tasks whose result is made in a special way: the caller asks for that, and any function will do.

The caller writes ``remote(to, fn, frozen=True)`` or ``serial=False``; *fn* does not return a
marker. So functions that know nothing of farref can be used (``np.load``), and no marker can turn
up inside a value. `RRef` has the same keywords for values that exist already.
"""

from __future__ import annotations

import types
from typing import Any

import msgspec

from .box import Box, CoroutineBox
from .wrapper import Wrapper


class Making(Wrapper, frozen=True):
    """A function, or the name of a method, and the kind of object to make of its result."""

    frozen: bool = False
    serial: bool = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result as `Made`; or its coroutine, which will give that."""
        result = self.function(*args, **kwargs)
        if type(result) is types.CoroutineType:
            return self._awaited(CoroutineBox(result))
        return self.made(result)

    def made(self, value: Any) -> Made:
        """*value*, to be made an object of this kind."""
        return Made(value, self.frozen, self.serial)

    async def _awaited(self, box: Box) -> Made:
        return self.made(await box.take())


def made_as(function: Any, *, frozen: bool, serial: bool) -> Any:
    """*function*, or the name of a method, as a task with a result of this kind."""
    return Making(function, frozen, serial) if frozen or not serial else function


class Made(msgspec.Struct, frozen=True):
    """A result on its way to its store; it is frozen there, and not on the loop."""

    value: Any
    frozen: bool
    serial: bool
