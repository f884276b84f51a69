"""Messages with one error: one field of a right message is replaced, however deep it is."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import msgspec

from .cases import junk

Path = tuple[int | str, ...]


def paths(thing: Any, at: Path = ()) -> Iterator[Path]:
    """Every place in *thing*, including *thing* itself."""
    yield at
    if names := fields(thing):
        for name in names:
            yield from paths(getattr(thing, name), (*at, name))
    elif isinstance(thing, tuple) and not isinstance(thing, Enum):
        for place, each in enumerate(thing):
            yield from paths(each, (*at, place))


def fields(thing: Any) -> tuple[str, ...]:
    """The names of the fields of *thing*, if it is a struct or a dataclass."""
    kind: Any = type(thing)
    names: Any = getattr(kind, "__struct_fields__", ()) or getattr(kind, "__dataclass_fields__", ())
    return tuple(names)


def put(thing: Any, path: Path, value: Any) -> Any:
    """A copy of *thing* with *value* at *path*; the checks of its creation are not repeated."""
    if not path:
        return value
    first, *rest = path
    if isinstance(first, str):
        each = put(getattr(thing, first), tuple(rest), value)
        if isinstance(thing, msgspec.Struct):
            return msgspec.structs.replace(thing, **{first: each})
        copy = object.__new__(type(thing))
        for name in fields(thing):
            object.__setattr__(copy, name, each if name == first else getattr(thing, name))
        return copy
    parts = [put(each, tuple(rest), value) if n == first else each for n, each in enumerate(thing)]
    return tuple.__new__(type(thing), parts)


def look(thing: Any, path: Path) -> Any:
    """The value at *path*."""
    for step in path:
        thing = getattr(thing, step) if isinstance(step, str) else thing[step]
    return thing


def wrong(rng: random.Random, message: Any, other: Callable[[random.Random, Any], Any]) -> Any:
    """*message* with one place wrong: junk, or *other*'s replacement of the old value."""
    for _ in range(rng.choice((1, 1, 1, 2))):
        path = rng.choice(list(paths(message)))
        there = look(message, path)
        message = put(message, path, other(rng, there) if rng.random() < 0.5 else junk(rng))
    return message
