"""Tasks whose results are to be frozen: the caller says so, any function will do.

``remote(to, fn, frozen=True)`` rather than something that *fn* returns: so functions that know
nothing of farref can be used (``np.load``), and no marker can turn up inside a value. It is the
word that `RRef` has for values that are there already.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

from .box import Box


@dataclass(frozen=True)
class Freezing:
    """A function, or the name of a method, the result of which is to be frozen."""

    function: Any

    @property
    def __name__(self) -> str:
        """The function's, for labels and errors."""
        return str(getattr(self.function, "__name__", self.function))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns, `ToFreeze`, maybe when it has been awaited."""
        result = self.function(*args, **kwargs)
        return _awaited(Box(result)) if type(result) is types.CoroutineType else ToFreeze(result)


@dataclass(frozen=True, slots=True)
class ToFreeze:
    """A result, on its way to where it is stored; it is pickled there, and not on the loop."""

    value: Any


async def _awaited(box: Box) -> ToFreeze:
    return ToFreeze(await box.take())
