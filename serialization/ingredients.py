"""The things that went into a definition, to see whether they are still the same."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

from .classes import attributes_of
from .definitions import Missing
from .sameness import are_same, is_same, seen

if TYPE_CHECKING:
    from types import CellType, FunctionType

    from .definitions import Definition

_CHANGED: Any = object()
"""In the place of a value that was let go of: equal to none."""


class Space:
    """The sender's record of one module's globals.

    It does not keep the globals alive, unless a module does. So whoever runs code in a dict of its
    own (`exec`) is rid of the objects in it when the last function is gone.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.generation = 1
        self.names: dict[str, Any] | None = None
        """The globals, if they are those of a module."""
        self._users: weakref.WeakSet[FunctionType] = weakref.WeakSet()
        """Functions with these globals, if there is no module."""
        self._bound: dict[str, tuple[Any, int]] = {}
        """By name: the value, as `seen` returns it, and its *since*."""

    def meet(self, function: FunctionType) -> None:
        """These are the globals of *function*."""
        names = function.__globals__
        if self.names is None:
            module = sys.modules.get(names.get("__name__", ""))
            self.names = names if getattr(module, "__dict__", None) is names else None
        if self.names is None:
            self._users.add(function)

    def is_of(self, names: dict[str, Any]) -> bool:
        """Whether it is the record of *names*, and not of a dict that was in the same place."""
        return self.names is names or any(each.__globals__ is names for each in self._users)

    def bind(self, values: dict[str, Any]) -> dict[str, int]:
        """The *since* of each name in *values*; a changed one begins a new generation."""
        changed = [
            name
            for name, value in values.items()
            if name in self._bound and not is_same(value, self._bound[name][0])
        ]
        if changed:
            self.generation += 1
        for name, value in values.items():
            if name in changed or name not in self._bound:
                self._bound[name] = seen(value), self.generation
        return {name: self._bound[name][1] for name in values}

    def tidy(self) -> list[Any]:
        """Let go of values that are not bound any more; they are returned."""
        names = self.names
        for user in () if names is not None else self._users:
            names = user.__globals__
        old = [
            name
            for name, (value, _) in self._bound.items()
            if names is None or not is_same(names.get(name, Missing), value)
        ]
        gone: list[Any] = []
        for name in old:
            value, since = self._bound[name]
            self._bound[name] = _CHANGED, since
            gone.append(value)
        return gone


class Ingredients:
    """The things that went into one definition, to see whether it is still right."""

    def __init__(self, definition: Definition | None) -> None:
        self.definition = definition
        """None if there can be none, as long as these things stay the same."""
        self.functions: list[tuple[Any, Any, Any, Any, tuple[tuple[CellType, Any], ...], Any]] = []
        self.classes: list[tuple[Any, dict[str, Any]]] = []
        self.globals: list[tuple[Space, int, Any, dict[str, Any]]] = []
        """The dict of each is either here, or that of a function of which there is a weak
        reference."""

    def add_function(self, function: FunctionType) -> None:
        """*function* is in it."""
        cells = tuple((cell, seen(content_of(cell))) for cell in function.__closure__ or ())
        attributes = {name: seen(value) for name, value in vars(function).items()}
        self.functions.append(
            (
                weakref.ref(function),
                function.__code__,
                function.__defaults__,
                function.__kwdefaults__,
                cells,
                attributes or None,
            )
        )

    def add_class(self, kind: type) -> None:
        """*kind* is in it."""
        attributes = {name: seen(value) for name, value in attributes_of(kind).items()}
        self.classes.append((weakref.ref(kind), attributes))

    def holds(self) -> bool:
        """Whether all of them are the same objects as they were.

        Loops without calls: it is asked before each call of the function.
        """
        for space, generation, names, values in self.globals:
            if space.generation != generation:
                return False
            if type(names) is weakref.ref:
                user = names()
                if user is None:
                    return False
                names = user.__globals__  # noqa: PLW2901 - found by way of the function
            get = names.get
            for name, before in values.items():
                now = get(name, Missing)
                if (
                    now is not before
                    and not (type(before) is weakref.ref and before() is now)
                    and not is_same(now, before)
                ):
                    return False
        for ref, code, defaults, kwdefaults, cells, attributes in self.functions:
            function = ref()
            if function is None:
                continue
            if (
                function.__code__ is not code
                or function.__defaults__ is not defaults
                or function.__kwdefaults__ is not kwdefaults
            ):
                return False
            for cell, before in cells:
                if not is_same(content_of(cell), before):
                    return False
            if (attributes or function.__dict__) and not are_same(
                function.__dict__, attributes or {}
            ):
                return False
        for ref, attributes in self.classes:
            kind = ref()
            if kind is not None and not are_same(attributes_of(kind), attributes):
                return False
        return True


def content_of(cell: CellType) -> Any:
    """The variable of a closure; `Missing` if it has no value so far."""
    try:
        return cell.cell_contents
    except ValueError:  # it is empty so far
        return Missing
