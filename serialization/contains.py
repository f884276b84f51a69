"""Finds the references in a live value, on demand.

A value's references are ordinary handles somewhere inside it, and no table lists them. The search
works like the garbage collector: each type reports the objects that its instances refer to
(``gc.get_referents``), in C. So none of the user's code runs: no ``__getattr__``, property,
``__eq__``, ``__hash__`` or ``__class__``. Objects are distinguished by `id`, and each is searched
once. The search keeps a list of its own, so cycles end and any depth works.

Not every reachable object is *inside* a value. The search does not enter

* modules and their namespaces: a function refers to its module's globals;
* classes: an instance refers to its class;
* references: the object behind one is another value;
* types that the caller names *opaque*, for instance the endpoint that a future refers to.

It cannot enter objects of types that take no part in garbage collection, above all NumPy's
object arrays.
"""

from __future__ import annotations

import gc
import sys
import types
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, cast

from .pickling import Reference

LIMIT = 100_000
"""The most objects that one search enters, in about 0.1 s. Numbers and text do not count."""

_namespace_of: Any = vars(ModuleType)["__dict__"].__get__
"""``module.__dict__``, past a ``__getattribute__`` of the module's own."""
_mro_of: Any = vars(type)["__mro__"].__get__
_contents_of: Any = vars(type)["__dict__"].__get__
"""``kind.__mro__`` and ``kind.__dict__``, past those of a metaclass."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The result of `references_in`."""

    references: tuple[Reference, ...]
    """Each handle once, outermost first; two handles of one object are both here."""
    complete: bool
    """False if the search stopped at its limit."""
    size: int = field(default=0, compare=False)
    """Bytes of memory of the searched parts, each once, as types written in C report them, with the
    data of arrays and tensors."""


def namespaces() -> dict[int, object]:
    """The namespaces of all modules, by their ids: no search enters them."""
    found: dict[int, object] = {}
    for module in list(sys.modules.values()):
        if issubclass(type(module), ModuleType):
            namespace = _namespace_of(module)
            found[id(namespace)] = namespace
    return found


def references_in(
    value: object,
    *,
    opaque: tuple[type, ...] = (),
    limit: int = LIMIT,
    outside: dict[int, object] | None = None,
) -> Contents:
    """The handles that keep other objects alive as long as *value* lives. Runs no user code.

    Call it without locks: objects that another thread drops meanwhile are finalized here.

    Args:
        value: any object, or a `Reference` itself.
        opaque: types whose instances are not entered.
        limit: the most objects to enter, outermost first.
        outside: the result of `namespaces`, to share it among many searches.
    """
    closed = (ModuleType, type, *opaque)
    # Kept, not only their ids: while an object lives, nothing else gets its id.
    met: dict[int, object] = {id(value): value}
    if outside is None:
        outside = namespaces()
    found: list[Reference] = []
    ahead: deque[object] = deque()
    # By id, and kept: a metaclass of the user's may define the hash of a class.
    sizers: dict[int, tuple[type, Callable[[Any], int]]] = {}
    size = 0

    def meet(obj: object) -> None:
        nonlocal size
        # Not `isinstance`: it asks `obj.__class__`, which may be a property.
        kind = type(obj)
        if issubclass(kind, closed):
            return
        if id(kind) not in sizers:
            sizers[id(kind)] = kind, _sizer(kind)
        size += sizers[id(kind)][1](obj)
        if issubclass(kind, Reference):
            found.append(cast("Reference", obj))
        elif gc.is_tracked(obj):  # an untracked object refers to nothing
            ahead.append(obj)

    meet(value)
    for _ in range(limit):
        if not ahead:
            break
        for each in gc.get_referents(ahead.popleft()):
            if id(each) not in met and id(each) not in outside:
                met[id(each)] = each
                meet(each)
    return Contents(tuple(found), complete=not ahead, size=size)


def _sizer(kind: type) -> Callable[[Any], int]:
    """A function that returns the size of an object of *kind* alone, without the user's code."""
    data = _attribute(kind, "nbytes")
    if type(data) is types.GetSetDescriptorType:  # of an array, also of one that is a view
        return lambda obj: object.__sizeof__(obj) + data.__get__(obj)
    method = _attribute(kind, "__sizeof__")
    if type(method) is types.MethodDescriptorType:
        return cast("Callable[[Any], int]", method)
    return object.__sizeof__


def _attribute(kind: type, name: str) -> Any:
    """The attribute *name* of *kind* as it stands in the class, read without any call."""
    for base in _mro_of(kind):
        namespace = _contents_of(base)
        if name in namespace:
            return namespace[name]
    return None
