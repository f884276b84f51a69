"""Checks that every part of a message has the type that its class says.

Type annotations do not bind a writer to a mailbox: a message may come from another program, or
another version, with any value in any field. The machines take a message apart while they change
their tables. So the receiver checks it first, once. A malformed message is refused by a
`ProtocolError` and has changed nothing.

The checks are made from the annotations of the structs and dataclasses themselves, so
a new message or a new field needs no change here. A whole number must be from 0 to 2**64 - 1, like
all ids and sequence numbers; the cost of a check must not grow with the digits of a number.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterable
from enum import Enum
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from .errors import ProtocolError

Check = Callable[[Any], bool]

LARGEST = (1 << 64) - 1
_NONE = object()
"""The value of a slot that was never filled; it is right nowhere."""


def check(thing: object, family: Collection[type], what: str, but: str = "") -> None:
    """Raise `ProtocolError` unless *thing* is one of *family*, and right in every field.

    *what* names the expected kind in the error. The field named *but* is not checked. Of *thing*,
    the error's text holds only the name of its class: anything else could be large, or have a
    ``__str__`` of its own.
    """
    kind: Any = type(thing)
    if kind not in family:
        raise ProtocolError(f"a {kind.__name__:.80} is not a {what}")
    for name, right in _fields(kind):
        if name != but and not right(getattr(thing, name, _NONE)):
            raise ProtocolError(f"a {kind.__name__} with a wrong {name!r}")


def prepare(*kinds: type) -> None:
    """Make the checks of *kinds* now.  Processes that are forked later inherit them."""
    for kind in kinds:
        _fields(kind)


@cache
def _fields(kind: Any) -> tuple[tuple[str, Check], ...]:
    hints = get_type_hints(kind)
    structs = issubclass(kind, msgspec.Struct)
    names: Iterable[str] = kind.__struct_fields__ if structs else kind.__dataclass_fields__
    checks = ((name, _check_of(hints[name])) for name in names)
    return tuple((name, right) for name, right in checks if right is not _anything)


def _anything(_: Any) -> bool:
    return True


def _nothing(value: Any) -> bool:
    return value is None


def _number(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST


def _seconds(value: Any) -> bool:
    return type(value) is float or _number(value)


_LEAVES: dict[Any, Check] = {
    Any: _anything,
    object: _anything,
    None: _nothing,
    types.NoneType: _nothing,
    int: _number,
    float: _seconds,
}


@cache
def _check_of(hint: Any) -> Check:
    leaf = _LEAVES.get(hint)
    if leaf is not None:
        return leaf
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _one_of(tuple(map(_check_of, args)))
    if origin is Literal:
        return lambda value: type(value) is str and value in args
    if origin is tuple:
        return _all_of(_check_of(args[0])) if args[1:] == (...,) else _row_of(args)
    if origin is not None:
        return lambda value: type(value) is origin
    if hasattr(hint, "__struct_fields__") or hasattr(hint, "__dataclass_fields__"):
        return _record(hint)
    if issubclass(hint, str | bytes | bool | Enum):
        return lambda value: type(value) is hint
    return lambda value: isinstance(value, hint)


def _one_of(checks: tuple[Check, ...]) -> Check:
    return lambda value: any(right(value) for right in checks)


def _all_of(right: Check) -> Check:
    def every(value: Any) -> bool:
        return type(value) is tuple and (not value or all(map(right, value)))

    return every


def _row_of(args: tuple[Any, ...]) -> Check:
    checks = tuple(enumerate(map(_check_of, args)))
    size = len(checks)

    # Loops, here and below: a generator for each small thing would take most of the time.
    def row(value: Any) -> bool:
        if type(value) is not tuple or len(value) != size:
            return False
        for place, right in checks:  # noqa: SIM110 - see above
            if not right(value[place]):
                return False
        return True

    return row


def _record(kind: Any) -> Check:
    checks = _fields(kind)

    def whole(value: Any) -> bool:
        if type(value) is not kind:
            return False
        for name, right in checks:  # noqa: SIM110 - see above
            if not right(getattr(value, name, _NONE)):
                return False
        return True

    return whole
