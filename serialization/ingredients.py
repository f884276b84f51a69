"""The things that went into a definition, to see whether they are still the same."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from .classes import attributes_of
from .definitions import Missing
from .sameness import are_same, is_same, seen

if TYPE_CHECKING:
    from types import CellType, FunctionType

    from .definitions import Definition


class Space:
    """The sender's record of one module's globals."""

    def __init__(self, number: int, names: dict[str, Any]) -> None:
        self.number = number
        self.names = names
        """The globals themselves."""
        self.generation = 1
        self._bound: dict[str, tuple[Any, int]] = {}
        """By name: the value, as `seen` returns it, and its *since*."""

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


class Ingredients:
    """The things that went into one definition, to see whether it is still right."""

    def __init__(self, definition: Definition | None) -> None:
        self.definition = definition
        """None if there can be none, as long as these things stay the same."""
        self.functions: list[tuple[Any, Any, Any, Any, tuple[tuple[CellType, Any], ...], Any]] = []
        self.classes: list[tuple[Any, dict[str, Any]]] = []
        self.globals: list[tuple[Space, int, dict[str, Any]]] = []

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
        for space, generation, values in self.globals:
            if space.generation != generation:
                return False
            get = space.names.get
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
