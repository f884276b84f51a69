"""Tasks whose result is made in a special way: the caller asks for that, and any function will do.

The caller writes ``remote(to, fn, frozen=True)`` or ``serial=False``; *fn* does not return a
marker. So functions that know nothing of farref can be used (``np.load``), and no marker can turn
up inside a value. `RRef` has the same keywords for values that exist already.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

from .box import Box


@dataclass(frozen=True)
class Making:
    """A function, or the name of a method, and the kind of object to make of its result."""

    function: Any
    frozen: bool = False
    serial: bool = True

    @property
    def __name__(self) -> str:
        """The function's name, for labels and errors."""
        return str(getattr(self.function, "__name__", self.function))

    def of(self, method: Any) -> Making:
        """The same of *method*, the method that the name stands for."""
        return Making(method, self.frozen, self.serial)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result as `Made`; or its coroutine, which will give that."""
        result = self.function(*args, **kwargs)
        if type(result) is types.CoroutineType:
            return self._awaited(Box(result))
        return self.made(result)

    def made(self, value: Any) -> Made:
        """*value*, to be made an object of this kind."""
        return Made(value, self.frozen, self.serial)

    async def _awaited(self, box: Box) -> Made:
        return self.made(await box.take())


@dataclass(frozen=True, slots=True)
class Made:
    """A result on its way to its store; it is frozen there, and not on the loop."""

    value: Any
    frozen: bool
    serial: bool
