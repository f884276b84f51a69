"""Copying and comparing machines of any kind.

The explorer needs two things of an endpoint that the machines do not offer, because no other code
needs them: a copy to try a step on, and a value that is equal exactly when two endpoints will
behave the same. Both go by a machine's attributes, so a new machine needs no change here. The order
in which a plain dict or a set was filled does not count: it decides at most the order of messages,
on a network that has none.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from copy import copy as copy_of
from enum import Enum
from functools import cache
from typing import Any, TypeVar

import msgspec

from farref.protocol.context import Context

Thing = TypeVar("Thing")
_NOTHING: frozenset[object] = frozenset()


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    """The slots of *kind* and of its base classes."""
    return tuple(name for base in kind.__mro__ for name in base.__dict__.get("__slots__", ()))


def clone(thing: Thing) -> Thing:
    """A copy of *thing* and of every machine and container in it.

    A machine that is known in two places is one machine in the copy, too.
    """
    how = _CLONERS[type(thing)]
    return thing if how is None else how(thing, {})


def discard(context: Context) -> None:
    """Free *context*, which refers to itself: Python's collector would take as long as a step."""
    vars(context).clear()


def freeze(thing: object) -> Hashable:
    """A hashable value, equal for equal states."""
    how = _FREEZERS[type(thing)]
    return thing if how is None else how(thing)


class _Ways(dict[type[Any], Any]):
    """The answer of *decide* for each class, asked once: explorations do little else."""

    def __init__(self, decide: Callable[[type[Any]], Any]) -> None:
        super().__init__()
        self.decide = decide

    def __missing__(self, kind: type[Any]) -> Any:
        self[kind] = how = self.decide(kind)
        return how


def _is_machine(kind: type[Any]) -> bool:
    """Whether things of *kind* change, and are neither values nor containers."""
    return (
        kind.__module__.startswith(("farref.protocol.", "tests.model."))
        and not issubclass(kind, tuple | Enum)
        and not (issubclass(kind, msgspec.Struct) and kind.__struct_config__.frozen)
        and not getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)
    )


def _cloner(kind: type[Any]) -> Callable[[Any, dict[int, Any]], Any] | None:
    """Copies a thing of *kind*, given the machines copied so far by id; None: not copied."""
    if issubclass(kind, Context):
        return lambda thing, copies: kind(thing.me, state=_clone_machine(thing.state, copies))
    if issubclass(kind, OrderedDict):
        return lambda thing, copies: OrderedDict(_clone_dict(thing, copies))
    if issubclass(kind, dict):
        return _clone_dict
    if issubclass(kind, set):
        return lambda thing, _: set(thing)
    if issubclass(kind, list | deque):
        return _clone_sequence
    return _clone_machine if _is_machine(kind) else None


def _clone_dict(thing: Any, copies: dict[int, Any]) -> Any:
    if not thing:  # as most tables are
        return {}
    return {
        key: value if (how := _CLONERS[type(value)]) is None else how(value, copies)
        for key, value in thing.items()
    }


def _clone_sequence(thing: Any, copies: dict[int, Any]) -> Any:
    return type(thing)(
        [value if (how := _CLONERS[type(value)]) is None else how(value, copies) for value in thing]
    )


def _clone_machine(thing: Any, copies: dict[int, Any]) -> Any:
    copy = copies.get(id(thing))
    if copy is None:
        copy = copies[id(thing)] = _blank(thing)
        for name in _names(thing.__class__) or vars(thing):
            value = getattr(thing, name)
            how = _CLONERS[type(value)]
            setattr(copy, name, value if how is None else how(value, copies))
    return copy


def _blank(thing: Any) -> Any:
    return copy_of(thing) if isinstance(thing, msgspec.Struct) else object.__new__(type(thing))


def _freezer(kind: type[Any]) -> Callable[[Any], Hashable] | None:
    """Makes a thing of *kind* hashable; None: it is hashable."""
    if issubclass(kind, Context):
        return lambda thing: _freeze_machine(thing.state)
    if issubclass(kind, OrderedDict):
        return lambda thing: tuple([(key, freeze(value)) for key, value in thing.items()])
    if issubclass(kind, dict):
        return _freeze_dict
    if issubclass(kind, set):
        return frozenset
    if issubclass(kind, list | deque):
        return lambda thing: tuple([freeze(value) for value in thing])
    return _freeze_machine if _is_machine(kind) else None


def _freeze_dict(thing: Any) -> Hashable:
    if not thing:
        return _NOTHING
    return frozenset(
        [
            (key, value if (how := _FREEZERS[type(value)]) is None else how(value))
            for key, value in thing.items()
        ]
    )


def _freeze_machine(thing: Any) -> Hashable:
    frozen = []
    for name in _names(thing.__class__) or vars(thing):
        value = getattr(thing, name)
        how = _FREEZERS[type(value)]
        frozen.append(value if how is None else how(value))
    return tuple(frozen)


_CLONERS = _Ways(_cloner)
_FREEZERS = _Ways(_freezer)
