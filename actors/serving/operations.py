"""The operations on an object: its methods, and the other operations of a proxy."""

from __future__ import annotations

import operator
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ..values.several import PART, part_of
from ..values.wrapper import Wrapper, unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...serialization.failures import Failure


def _items(value: Any) -> list[Any]:
    """The items of an iteration over *value*, all at once."""
    iterator = iter(value)
    if iterator is value:
        raise TypeError(
            f"an iteration over this {type(value).__name__} would use it up: have a method of the "
            "object, or a function on its owner, return the items that you need"
        )
    return list(iterator)


def _nothing() -> None:
    """Do nothing: a wait asks only whether the value exists."""


TYPE = "__type__"
"""The operation that gives the type of the object."""
MADE = "__made__"
"""The operation that gives None, once there is a value."""
OPERATIONS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "__call__": lambda value: value,
    "__getitem__": lambda value: partial(operator.getitem, value),
    "__setitem__": lambda value: partial(operator.setitem, value),
    "__delitem__": lambda value: partial(operator.delitem, value),
    "__len__": lambda value: partial(len, value),
    "__contains__": lambda value: partial(operator.contains, value),
    "__iter__": lambda value: partial(_items, value),
    "__bool__": lambda value: partial(operator.truth, value),
    "__getattr__": lambda value: partial(getattr, value),
    "__setattr__": lambda value: partial(setattr, value),
    "__delattr__": lambda value: partial(delattr, value),
    TYPE: lambda value: partial(type, value),
    MADE: lambda _: _nothing,
    PART: lambda value: partial(part_of, value),
}
"""The operations besides methods: each as the function to call with the arguments."""
CHANGES = frozenset({"__setitem__", "__delitem__", "__setattr__", "__delattr__"})
"""Operations that change the object."""


def bound(what: Any, value: Any) -> Callable[..., Any]:
    """The function to call for the operation *what* on *value*.

    *what* is a name, maybe in wrappers with the options of the call; these stay around the
    function.
    """
    if isinstance(what, Wrapper):
        return replace(what, function=bound(what.function, value))  # type: ignore[return-value]  # every kind can be called, or has a function that can
    operation = OPERATIONS.get(what)
    method: Callable[..., Any] = getattr(value, what) if operation is None else operation(value)
    return method


def failed(what: Any, failure: Failure) -> Callable[..., Any]:
    """The function to call for *what* on an object whose creation failed.

    A part of a failed run has the failure of the run itself. Raises the error for all others.
    """
    if is_part(what):
        return lambda *_: failure
    raise failure.rebuild()


def is_part(what: Any) -> bool:
    """Whether the operation *what* takes one of several results."""
    return bool(unwrapped(what) == PART)


def check_frozen(what: Any) -> None:
    """Raise `TypeError` if *what* would change a frozen object: it would change a copy."""
    if unwrapped(what) in CHANGES:
        raise TypeError("the object is frozen, so it cannot be changed: make a new one")
