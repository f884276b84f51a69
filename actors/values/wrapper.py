"""The options of a call travel around its function, or around the name of its method."""

from __future__ import annotations

from typing import Any

import msgspec


class Wrapper(msgspec.Struct, frozen=True):
    """A function, or the name of a method, with an option of the call. Wrappers may be nested."""

    function: Any

    @property
    def __name__(self) -> str:
        """The function's name, for labels and errors."""
        return str(getattr(self.function, "__name__", self.function))


class ByValue(Wrapper, frozen=True):
    """It gets values for the references among its arguments; see `resolving`."""


def unwrapped(what: Any) -> Any:
    """The function, or the name of the method, in *what*."""
    while isinstance(what, Wrapper):
        what = what.function
    return what
