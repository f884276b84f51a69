"""Copying machines and comparing them, whatever machines there are.

The explorer needs two things of an endpoint that the machines do not offer, because
nobody else needs them: a copy to try a step on, and a value that is equal exactly when two
endpoints will behave the same. Both go by the attributes that a machine has, so that a new
machine needs nothing here. The order in which a dict or a set was filled decides at most
the order of messages on a network that has none, so it does not count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar

Thing = TypeVar("Thing")


def attributes(machine: object) -> Iterator[tuple[str, Any]]:
    """The names and values of what *machine* remembers."""
    kind: Any = type(machine)
    for name in _names(kind) or vars(machine):
        yield name, getattr(machine, name)


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    """The slots of *kind* and of what it inherits from."""
    return tuple(name for base in kind.__mro__ for name in base.__dict__.get("__slots__", ()))


def is_machine(thing: object) -> bool:
    """Whether *thing* is an object that changes, and not a value or a container."""
    kind = type(thing)
    return (
        kind.__module__.startswith("farref.protocol.")
        and not isinstance(thing, tuple | Enum)
        and not (is_dataclass(thing) and kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]
    )


def clone(thing: Thing, copies: dict[int, Any] | None = None) -> Thing:
    """A copy of *thing* and of every machine and container in it.

    A machine that is known in two places is one machine in the copy, too (*copies*, by id).
    """
    copy: Any
    copies = {} if copies is None else copies
    if isinstance(thing, dict):
        copy = {key: clone(value, copies) for key, value in thing.items()}
    elif isinstance(thing, set):
        copy = set(thing)
    elif isinstance(thing, list | deque):
        copy = type(thing)(clone(item, copies) for item in thing)
    elif is_machine(thing):
        if id(thing) in copies:
            return copies[id(thing)]  # type: ignore[no-any-return]
        copy = copies[id(thing)] = object.__new__(type(thing))
        for name, value in attributes(thing):
            setattr(copy, name, clone(value, copies))
    else:
        copy = thing
    return copy  # type: ignore[no-any-return]


def freeze(thing: object) -> Hashable:
    """A hashable value, equal for equal states."""
    if isinstance(thing, dict):
        return frozenset((key, freeze(value)) for key, value in thing.items())
    if isinstance(thing, set):
        return frozenset(thing)
    if isinstance(thing, list | deque):
        return tuple(freeze(item) for item in thing)
    if is_machine(thing):
        return tuple(freeze(value) for _, value in attributes(thing))
    return thing
