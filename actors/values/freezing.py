"""Tasks with frozen results: the caller asks for that, and any function will do.

The caller writes ``remote(to, fn, frozen=True)``; *fn* does not return a marker. So functions that
know nothing of farref can be used (``np.load``), and no marker can turn up inside a value. `RRef`
has the same keyword for values that exist already.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

from .box import Box
from .wrapper import Wrapper


class Freezing(Wrapper):
    """A function, or the name of a method, with a result to freeze."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result as `ToFreeze`; or its coroutine, which will give that."""
        result = self.function(*args, **kwargs)
        return _awaited(Box(result)) if type(result) is types.CoroutineType else ToFreeze(result)


@dataclass(frozen=True, slots=True)
class ToFreeze:
    """A result on its way to its store; it is pickled there, and not on the loop."""

    value: Any


async def _awaited(box: Box) -> ToFreeze:
    return ToFreeze(await box.take())
