"""The path from one Python object to another: ``.attribute``, ``['key']``, a variable's name.

The search uses only the interpreter's own knowledge: exact built-in types, the contents of classes
and instances, and frames. It runs none of the user's code: no ``__getattr__``, property or
``__repr__``.
"""

from __future__ import annotations

import inspect
import types
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

LONGEST = 200
"""Characters of a path. The middle of a longer one is left out."""
_PLAIN = (str, int, float, bool, bytes, types.NoneType)
_SUSPENDED = (
    (types.GeneratorType, "gi_frame", "gi_code"),
    (types.CoroutineType, "cr_frame", "cr_code"),
    (types.AsyncGeneratorType, "ag_frame", "ag_code"),
)
_mro_of: Any = vars(type)["__mro__"].__get__
_contents_of: Any = vars(type)["__dict__"].__get__


def locals_of(frame: types.FrameType) -> dict[str, Any]:
    """The local variables of *frame*, which may run in another thread. The frame keeps no copy."""
    found = frame.f_locals
    names = dict(found)
    if type(found) is dict and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        found.clear()  # before Python 3.13 this is a copy, which the frame would keep
    return names


def place_of(frame: types.FrameType) -> str:
    """The place of *frame*: ``file:line in function``."""
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} in {code.co_qualname}"


def path(chain: Sequence[object], *, namespace: bool = False) -> str:
    """The path from the first object of *chain* to its last. Each object refers to the next.

    *namespace*: the first is a dict of names.
    """
    text, number = "", 0
    if namespace and len(chain) > 1:
        text, number = _in_dict(chain[0], chain[1], ".{}"), 1
    while number + 1 < len(chain):
        step, used = _step(chain, number)
        text += step
        number += used
    if len(text) > LONGEST:
        half = LONGEST // 2
        text = f"{text[:half]} ... {text[-half:]}"
    return text


def _step(chain: Sequence[object], number: int) -> tuple[str, int]:
    """The next part of the path after the object at *number*, and how many objects it spans."""
    one, next_one = chain[number], chain[number + 1]
    after = chain[number + 2] if number + 2 < len(chain) else None
    kind = type(one)
    if issubclass(kind, dict):
        return _in_dict(one, next_one, "[{}]"), 1
    if issubclass(kind, list | tuple | deque):
        places = (n for n, each in enumerate(_items(one)) if each is next_one)
        place = next(places, None)
        return ("" if place is None else f"[{place}]"), 1
    if issubclass(kind, set | frozenset):
        return " (an element)", 1
    if kind is types.CellType:
        return "", 1
    if kind is types.FunctionType and (found := _in_function(one, next_one, after)):
        return found
    for suspended, frame, code in _SUSPENDED:
        if kind is suspended:
            return _in_suspended(getattr(one, frame), getattr(one, code), next_one), 1
    if kind is types.FrameType:
        return _local(one, next_one), 1  # type: ignore[arg-type]  # it is a frame
    namespace = namespace_of(one)
    if namespace is not None and next_one is namespace and after is not None:
        return _in_dict(namespace, after, ".{}"), 2
    for name, value in _slots(one):
        if value is next_one:
            return f".{name}", 1
    if namespace is not None:
        step = _in_dict(namespace, next_one, ".{}", otherwise="")
        if step:
            return step, 1
    if issubclass(kind, type) and type(next_one) is dict and after is not None:
        return _in_dict(next_one, after, ".{}"), 2
    if next_one is kind:
        return ".__class__", 1
    return f" -> {type(next_one).__name__}", 1


def _items(sequence: Any) -> list[Any]:
    """The items of a list, tuple or deque; a subclass's own ``__iter__`` is not called."""
    for kind in (list, tuple, deque):
        if issubclass(type(sequence), kind):
            return list(kind.__iter__(sequence))
    return []


def _in_dict(found: Any, value: object, form: str, otherwise: str = " (a key)") -> str:
    try:
        pairs = list(dict.items(found))
    except RuntimeError:  # it grows meanwhile
        return otherwise
    for key, each in pairs:
        if each is value:
            return form.format(key if form == ".{}" and type(key) is str else shown(key))
    return otherwise


def shown(key: object) -> str:
    """A key as people would write it, if it is a simple one; else its type."""
    if _is_plain(key):
        text = repr(key)
        return text if len(text) <= 40 else f"{text[:37]}..."
    if type(key) is tuple and len(key) < 5 and all(map(_is_plain, key)):
        return repr(key)
    return f"<{type(key).__name__}>"


def _is_plain(key: object) -> bool:
    # Not `in`: classes are compared by their metaclass, which may be the user's.
    return any(type(key) is kind for kind in _PLAIN)


def _in_function(function: Any, next_one: object, after: object) -> tuple[str, int] | None:
    """The step from *function* to what only functions have; None if it is an attribute."""
    closure = function.__closure__ or ()
    if next_one is function.__closure__:
        for name, cell in zip(function.__code__.co_freevars, closure, strict=False):
            if cell is after:
                return f" (its variable {name} of {function.__code__.co_qualname})", 2
    for name in ("__defaults__", "__kwdefaults__", "__globals__"):  # others may run code
        if next_one is getattr(function, name):
            return f".{name}", 1
    if type(next_one) is dict and next_one is not namespace_of(function):
        return ".__annotations__", 1
    return None


def _in_suspended(frame: types.FrameType | None, code: types.CodeType, value: object) -> str:
    if frame is None:
        return f" ({code.co_qualname})"
    return f" {_local(frame, value)} of {place_of(frame)}"


def _local(frame: types.FrameType, value: object) -> str:
    for name, each in locals_of(frame).items():
        if each is value:
            return name
    return "(a value in use)"


def namespace_of(one: object) -> dict[str, Any] | None:
    """The ``__dict__`` of an instance, without running code of its class."""
    for base in _mro_of(type(one)):
        found = _contents_of(base).get("__dict__")
        if type(found) is types.GetSetDescriptorType:
            try:
                namespace = found.__get__(one)
            except Exception:
                return None
            return namespace if type(namespace) is dict else None
        if found is not None:
            return None
    return None


def _slots(one: object) -> Iterator[tuple[str, object]]:
    for base in _mro_of(type(one)):
        for name, found in list(_contents_of(base).items()):
            if type(found) is types.MemberDescriptorType:
                try:
                    value = found.__get__(one)
                except Exception:  # noqa: S112 - an empty slot
                    continue
                yield name, value
