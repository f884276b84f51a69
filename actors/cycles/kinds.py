"""Which types of objects tell all their holders to Python, by its reference counts.

C code of a package may know an object without a reference that Python counts, and hand it out at
any time. A tensor of PyTorch, for example, stands in front of an object in C++: the graph of the
gradients refers to the latter, and hands out the former. (PyTorch 2.13 counts such a reference, and
older versions do not.) Packages made with pybind11 or Cython may do the same. So an object of such
a type counts as reached by something else. Python's own types, and classes that Python code derives
from these, do no such thing.
"""

from __future__ import annotations

import _collections_abc  # it has the types of iterators, and of views of dictionaries
import builtins
import contextvars
import gc
import sys
import types
from typing import Any

_flags_of: Any = vars(type)["__flags__"].__get__
_module_of: Any = vars(type)["__module__"].__get__
_contents_of: Any = vars(type)["__dict__"].__get__
_mro_of: Any = vars(type)["__mro__"].__get__
"""A class's own, past those of a metaclass."""
_ON_THE_HEAP = 1 << 9
"""The flag of each class that Python code defines, and of some that C code does."""
_BUILTIN_NEW: Any = type(object.__new__)
_TRUSTED = sys.stdlib_module_names | {"msgspec"}
"""Packages with C code that keeps no object without a counted reference."""


def _of_contexts() -> set[type]:
    """The types within a `contextvars.Context`; they have no names."""
    context = contextvars.Context()
    for number in range(64):
        variable: contextvars.ContextVar[int] = contextvars.ContextVar(str(number))
        context.run(variable.set, number)
    found: list[object] = [context]
    for each in found:
        found += (part for part in gc.get_referents(each) if type(part) is not type)
        if len(found) > 1_000:
            break
    return {type(each) for each in found}


_BUILTIN = _of_contexts().union(
    each
    for module in (builtins, types, _collections_abc)
    for each in vars(module).values()
    if isinstance(each, type)
)
"""Python's own types without a module. C code of packages makes further ones of that kind."""


_HAS_INLINE_ATTRIBUTES = 1 << 2 if sys.version_info >= (3, 13) else 0
"""The flag of each class whose objects keep their attributes beside their dictionary."""
FRAMES = {
    types.GeneratorType: "gi_frame",
    types.CoroutineType: "cr_frame",
    types.AsyncGeneratorType: "ag_frame",
}


def twin_of(part: object) -> object:
    """The other object that gives out what *part* holds; None if there is none (see `reading`).

    Makes the twin if need be, so that nobody else can do so later without a reference to *part*.
    """
    kind = type(part)
    if kind in FRAMES:
        return getattr(part, FRAMES[kind])
    if _flags_of(kind) & _HAS_INLINE_ATTRIBUTES:
        for base in _mro_of(kind):
            attributes = _contents_of(base).get("__dict__")
            if type(attributes) is types.GetSetDescriptorType:
                return attributes.__get__(part)
    return None


def is_counted(kind: type) -> bool:
    """Whether Python counts every reference to the objects of *kind*."""
    return all(_is_trusted(base) for base in _mro_of(kind) if _is_in_c(base))


def _is_in_c(kind: type) -> bool:
    """Whether C code defines *kind*: it lacks the flag, or creates its objects by C code."""
    new: Any = _contents_of(kind).get("__new__")
    made_there = type(new) is _BUILTIN_NEW and new.__self__ is kind
    return made_there or not _flags_of(kind) & _ON_THE_HEAP


def _is_trusted(kind: type) -> bool:
    module = str(_module_of(kind)).partition(".")[0]
    return kind in _BUILTIN if module == "builtins" else module in _TRUSTED
