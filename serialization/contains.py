"""Which references a live value contains: what keeps what alive, asked on demand.

A value's references are ordinary handles somewhere inside it, and nobody keeps a table of
them. To show them, the value is searched as the garbage collector would: each type says what
its objects refer to (``gc.get_referents``), in C, so none of the user's code runs, no
``__getattr__``, property, ``__eq__``, ``__hash__`` or ``__class__``, whatever they do. Objects
are told apart by `id`, each is looked into once, and the search keeps a list of its own, so
cycles end and no depth is too deep.

Not everything that is reachable is *inside* a value. The search does not enter

* modules and their namespaces: a function refers to its module's globals;
* classes: an instance refers to its own;
* references: what is behind one is another value;
* whatever the caller names *opaque*: an endpoint, say, that a future refers to.

It cannot enter objects whose type takes no part in garbage collection, above all NumPy's
object arrays.
"""

from __future__ import annotations

import gc
import sys
import types
from collections import deque
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from .pickling import Reference

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 100_000
"""Objects that one search looks into, in about 0.1 s. Numbers and text do not count."""

_namespace_of: Any = vars(ModuleType)["__dict__"].__get__
"""``module.__dict__``, past a ``__getattribute__`` of the module's own."""
_mro_of: Any = vars(type)["__mro__"].__get__
_contents_of: Any = vars(type)["__dict__"].__get__
"""``kind.__mro__`` and ``kind.__dict__``, past those of a metaclass."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What `references_in` found."""

    references: tuple[Reference, ...]
    """Each handle once, those of the outermost level first; two of one object are both here."""
    complete: bool
    """False if there was more to look into than the limit allows."""
    size: int = field(default=0, compare=False)
    """Bytes of memory that the value takes, each part once, as far as it was looked into: what the
    types written in C say of themselves, with the data of arrays and tensors."""


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

    Call it without locks: what another thread lets go of meanwhile is finalized here.

    Args:
        value: any object, or a `Reference` itself.
        opaque: types whose instances are not looked into.
        limit: objects to look into at most; the outermost come first.
        outside: what `namespaces` says, for those who search many values.
    """
    closed = (ModuleType, type, *opaque)
    # Kept, not only their ids: while an object lives, nothing else gets its id.
    met: dict[int, object] = {id(value): value}
    if outside is None:
        outside = namespaces()
    found: list[Reference] = []
    ahead: deque[object] = deque()
    # By id, and kept: a class is hashed and compared by its metaclass, which may be the user's.
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
        elif gc.is_tracked(obj):  # what is not, refers to nothing
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
    """What says how many bytes an object of *kind* itself takes, without the user's code."""
    data = _attribute(kind, "nbytes")
    if type(data) is types.GetSetDescriptorType:  # of an array, also of one that is a view
        return lambda obj: object.__sizeof__(obj) + data.__get__(obj)
    method = _attribute(kind, "__sizeof__")
    if type(method) is types.MethodDescriptorType:
        return cast("Callable[[Any], int]", method)
    return object.__sizeof__


def _attribute(kind: type, name: str) -> Any:
    """The attribute *name* of *kind* as it stands in the class: nothing is called to get it."""
    for base in _mro_of(kind):
        namespace = _contents_of(base)
        if name in namespace:
            return namespace[name]
    return None
