"""The operations on an object: its methods, and the other operations of a proxy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from ...serialization.errors import Failure
from ..handles.proxies import ANSWERED, OPERATORS, REFLECTED, Itself
from ..handles.streams import CLOSE, PULL
from ..values.several import PART, part_of
from ..values.wrapper import Wrapper, unwrapped
from . import pulls


def _items(value: Any) -> list[Any]:
    """All items of an iteration over *value* at once."""
    iterator = iter(value)
    if iterator is value:
        raise TypeError(
            f"an iteration over this {type(value).__name__} would use it up: take its items one by "
            "one, by `next(rref.rpc_sync())`, or have a function on its owner return those that "
            "you need"
        )
    return list(iterator)


def _reflected(function: Callable[[Any, Any], Any], value: Any, other: Any) -> Any:
    return function(other, value)


def _in_place(name: str, value: Any, other: Any) -> None:
    """Change *value* in place. The answer is None, so *value* itself does not travel."""
    if getattr(operator, name)(value, other) is not value:
        raise TypeError(
            f"{type(value).__name__} has no {name}(): it cannot be changed in place; set an "
            "attribute or an item of an object instead, or make a new object"
        )


def _entered(value: Any) -> Any:
    entered = type(value).__enter__(value)
    return Itself if entered is value else entered


async def _entered_async(value: Any) -> Any:
    entered = await type(value).__aenter__(value)
    return Itself if entered is value else entered


async def _next_async(value: Any) -> Any:
    return await type(value).__anext__(value)


def _lack(value: Any, name: str) -> str:
    """The reason why *value* has no operation *name*, or an empty text if it has one."""
    try:
        bound(name, value)
    except AttributeError as error:
        return str(error) or repr(name)
    return ""


def _nothing() -> None:
    """Do nothing, as a wait only needs to know that the value exists."""


TYPE = "__type__"
"""The operation that returns the type of the object."""
LACK = "__lack__"
"""The operation that returns the reason why the object lacks an operation; see `_lack`."""
MADE = "__made__"
"""The operation that returns None as soon as there is a value."""
OPERATIONS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "__call__": lambda value: value,
    "__getitem__": lambda value: partial(operator.getitem, value),
    "__setitem__": lambda value: partial(operator.setitem, value),
    "__delitem__": lambda value: partial(operator.delitem, value),
    "__iter__": lambda value: partial(_items, value),
    "__reversed__": lambda value: lambda: list(reversed(value)),
    "__next__": lambda value: partial(next, value),
    "__enter__": lambda value: partial(_entered, value),
    "__aenter__": lambda value: partial(_entered_async, value),
    "__anext__": lambda value: partial(_next_async, value),
    "__getattr__": lambda value: partial(getattr, value),
    "__setattr__": lambda value: partial(setattr, value),
    "__delattr__": lambda value: partial(delattr, value),
    TYPE: lambda value: partial(type, value),
    LACK: lambda value: partial(_lack, value),
    MADE: lambda _: _nothing,
    PART: lambda value: partial(part_of, value),
    PULL: lambda value: partial(pulls.pull, value),
    CLOSE: lambda value: partial(pulls.close, value),
    **{name: partial(partial, function) for name, function in (OPERATORS | ANSWERED).items()},
    **{
        f"__r{name}__": partial(partial, _reflected, OPERATORS[f"__{name}__"]) for name in REFLECTED
    },
    **{
        f"__i{name}__": partial(partial, _in_place, f"__i{name}__")
        for name in REFLECTED
        if name != "divmod"
    },
}
"""The operations besides methods: each as the function to call with the arguments."""
CHANGES = frozenset(
    {
        *("__setitem__", "__delitem__", "__setattr__", "__delattr__", "__next__", "__anext__"),
        *(f"__i{name}__" for name in REFLECTED),
    }
)
"""Operations that change the object."""


def bound(what: Any, value: Any) -> Callable[..., Any]:
    """The function to call for the operation *what* on *value*.

    *what* is a name, maybe in wrappers with the call's options, which stay around the function.
    """
    if isinstance(what, Wrapper):
        return replace(what, function=bound(what.function, value))  # type: ignore[return-value]  # every kind can be called, or has a function that can
    operation = OPERATIONS.get(what)
    method: Callable[..., Any] = getattr(value, what) if operation is None else operation(value)
    return method


def failed(what: Any, failure: Failure) -> Callable[..., Any]:
    """The function to call for *what* on an object whose creation failed.

    A part of a failed run fails as the run did. For every other operation, this raises the error.
    """
    if is_part(what):
        return lambda *_: failure
    raise failure.rebuild()


def is_part(what: Any) -> bool:
    return bool(unwrapped(what) == PART)


def check_frozen(what: Any) -> None:
    """Raise `TypeError` if *what* would change a frozen object, as it would only change a copy."""
    if unwrapped(what) in CHANGES:
        raise TypeError("the object is frozen, so it cannot be changed: make a new one")
