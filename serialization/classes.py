"""Classes that are pickled by value: set once, and never over the program's own.

cloudpickle gives each such class an id, so that it is one class in each process, however often it
arrives. But it sets all the attributes of the class each time. That would undo changes that were
made to them there (``Model.instances += 1``), and it would replace the methods of the program's own
class when an instance comes back. So the sender gives each state of a class a *version*. A receiver
that has set this version sets only the methods again (they may use other globals by now, see
`spaces`); the process that the class comes from sets nothing.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

from .sameness import are_same, seen

if TYPE_CHECKING:
    from collections.abc import Callable

    Version = tuple[str, int]

_DESCRIPTORS = frozenset({GetSetDescriptorType, MemberDescriptorType})
_CODE = (FunctionType, classmethod, staticmethod, property)
_lock = threading.RLock()
_numbers = itertools.count(1)
_own: weakref.WeakKeyDictionary[type, tuple[Version, dict[str, Any]]] = weakref.WeakKeyDictionary()
"""The classes that come from this process: the last version, and the attributes that it had."""
_arrived: weakref.WeakKeyDictionary[type, Version] = weakref.WeakKeyDictionary()
"""The classes that came from others, and the version that was set last."""
_here = ""


def _renew() -> None:
    """This process is another one than its parent: it has not defined the classes it inherited."""
    global _here, _lock
    _here, _lock = (
        os.urandom(16).hex(),
        threading.RLock(),
    )  # a thread of the parent may have held it
    _own.clear()


_renew()
os.register_at_fork(after_in_child=_renew)


def attributes_of(kind: type) -> dict[str, Any]:
    """The attributes of a class, but for the ones that Python makes, which refer to the class."""
    return {n: each for n, each in vars(kind).items() if type(each) not in _DESCRIPTORS}


def version_of(kind: type) -> Version:
    """The version of *kind*, which is about to be pickled."""
    attributes = attributes_of(kind)
    with _lock:
        known = _own.get(kind)
        if known is not None and are_same(attributes, known[1]):
            return known[0]
        version = _here, next(_numbers)
        _own[kind] = version, {name: seen(value) for name, value in attributes.items()}
        return version


def set_class(kind: type, state: tuple[Version, Any, Callable[[type, Any], object]]) -> None:
    """Give *kind*, which was unpickled, its attributes, unless it has them. A pickle calls it."""
    version, (attributes, slots), setter = state
    with _lock:
        if kind in _own and kind not in _arrived:
            return
        same = _arrived.get(kind) == version
        _arrived[kind] = version
    if same:
        attributes = {n: each for n, each in attributes.items() if isinstance(each, _CODE)}
    setter(kind, (attributes, slots))
