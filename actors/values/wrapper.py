"""The options of a call travel around its function, or around the name of its method."""

from __future__ import annotations

import types
from typing import Any

import msgspec

from .cell import Cell, CoroutineCell


class Wrapper(msgspec.Struct, frozen=True):
    """A function, or the name of a method, with an option of the call. Wrappers may be nested."""

    function: Any

    @property
    def __name__(self) -> str:
        return str(getattr(self.function, "__name__", self.function))


class OnResult(Wrapper, frozen=True):
    """An option that concerns the result: `changed` is applied to it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The changed result of the function, or a coroutine that will return it."""
        result = self.function(*args, **kwargs)
        if type(result) is types.CoroutineType:
            return self._awaited(CoroutineCell(result))
        return self.changed(result)

    async def _awaited(self, cell: Cell) -> Any:
        return self.changed(await cell.take())

    def changed(self, result: Any) -> Any:
        """What the call returns in place of *result*."""
        raise NotImplementedError


class Making(OnResult, frozen=True):
    """Its result becomes an object of this kind, and comes as `Made`.

    The caller asks for that (``remote(to, fn, frozen=True)``), so functions that know nothing of
    farref can be used (``np.load``). `RRef` has the same keywords for values that exist already.
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


class ByValue(Wrapper, frozen=True):
    """It gets values for the references among its arguments; see `resolving`."""


def unwrapped(what: Any) -> Any:
    """The function, or the name of the method, in *what*."""
    while isinstance(what, Wrapper):
        what = what.function
    return what
