"""Classes that are pickled by value: one class in each process, whose attributes are bindings.

cloudpickle gives each such class an id, so that it is one class in each process, however often it
arrives. But it sets all the attributes of the class each time, which would undo changes that were
made to them there (``Model.instances += 1``). So each attribute has a number (see `definitions`),
and only those are set that the sender has bound anew. The process that the class comes from sets
nothing: no copy that comes back overwrites the program's own class.

A class that goes whole in a message, not as a definition, has methods with globals of their own.
The definition, if one comes, replaces them: its numbers are higher by one.
"""

from __future__ import annotations

import os
import sys
import threading
import types
import weakref
from enum import Enum
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

import cloudpickle
from cloudpickle import cloudpickle as cp

from .cached import REDUCERS, reduce_dispatching, sentinels
from .definitions import Missing, is_same, seen, tick

_DESCRIPTORS = frozenset({GetSetDescriptorType, MemberDescriptorType})
_MADE = frozenset(
    {"__dict__", "__weakref__", "__slotnames__", "__slots__", "_abc_impl"}
    | {"__firstlineno__", "__annotate_func__", "__annotate__", "__annotations_cache__"}
)
"""The attributes that Python itself makes, or that `_make_class` gets apart."""
_MADE_FOR_ENUMS = frozenset(
    {"_generate_next_value_", "_member_names_", "_member_map_", "_member_type_", "_new_member_"}
    | {"_value2member_map_", "_unhashable_values_", "_unhashable_values_map_", "_use_args_"}
    | {"_hashable_values_", "_value_repr_", "__new__", "__new_member__"}
)
_MADE_FOR_MEMBERS = frozenset({"_value_", "_name_", "__objclass__", "_sort_order_"})
_reduce: Any = object.__reduce__
_lock = threading.RLock()
_main_is_shared = False
_own: weakref.WeakKeyDictionary[type, dict[str, tuple[Any, Any, int]]] = weakref.WeakKeyDictionary()
"""The classes that come from this process: each attribute as `seen`, its code, and its number."""
arrived: weakref.WeakKeyDictionary[type, dict[str, int]] = weakref.WeakKeyDictionary()
"""The classes that came from others, with the numbers of their attributes."""


def _renew() -> None:
    """This process is another one than its parent: it has not defined the classes it inherited."""
    global _lock  # noqa: PLW0603 - a matter of the whole process
    _lock = threading.RLock()  # a thread of the parent may have held it
    _own.clear()


os.register_at_fork(after_in_child=_renew)


def share_main(on: bool) -> None:
    """Whether all processes that this one sends to run its ``__main__``, so that names suffice."""
    global _main_is_shared  # noqa: PLW0603 - a matter of the whole process
    _main_is_shared = on


def is_shared_main(thing: Any) -> bool:
    """Whether *thing*, a function or a class, is one that every process has in ``__main__``."""
    if not _main_is_shared or thing.__module__ != "__main__":
        return False
    found: Any = sys.modules["__main__"]
    for name in thing.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is thing


def is_by_value(thing: Any) -> bool:
    """Whether *thing*, a function or a class, is pickled by value."""
    if getattr(thing, "__module__", None) == "builtins" or is_shared_main(thing):
        return False
    return not cp._should_pickle_by_reference(thing)


def id_of(kind: type) -> str:
    """The id of a class, which is the same in all processes."""
    return str(cp._get_or_create_tracker_id(kind))


def attributes_of(kind: type) -> dict[str, Any]:
    """The attributes of a class that are pickled."""
    found = {
        name: value
        for name, value in vars(kind).items()
        if type(value) not in _DESCRIPTORS and name not in _MADE
    }
    if isinstance(kind, type(Enum)):
        for name in (*_MADE_FOR_ENUMS, *kind.__members__):
            found.pop(name, None)
    return found


class TheUnpickler:
    """Stands, in a definition, for the object that unpickles it (see `spaces`)."""


def reduce_class(kind: type, here: type[TheUnpickler] | None = None) -> tuple[Any, ...]:
    """How *kind* is pickled by value: as cloudpickle does it, but with its slots and its numbers.

    *here* is given for a definition.
    """
    extra: dict[str, Any] = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    if isinstance(vars(kind).get("__dict__"), property):
        extra["__dict__"] = vars(kind)["__dict__"]
    if "__slots__" in vars(kind):
        extra["__slots__"] = vars(kind)["__slots__"]
    members: dict[str, Any] | None = None
    if isinstance(kind, type(Enum)):
        members = {name: member.value for name, member in kind.__members__.items()}
    # `typing.NamedTuple` would make another class; generic classes need their original bases.
    real = members is not None or issubclass(kind, tuple)
    bases = kind.__bases__ if real else cp._get_bases(kind)
    args = (type(kind), (kind.__name__, bases), extra, members, id_of(kind))
    return _make_class, args, (here, *_state_of(kind, here is None)), None, None, set_class


def _state_of(kind: type, odd: bool) -> tuple[Any, Any, Any]:
    """The attributes with their numbers, the registered subclasses, and the members' attributes."""
    attributes = attributes_of(kind)
    state: dict[str, tuple[int, Any]] = {}
    with _lock:
        if kind in arrived:
            numbers = arrived[kind]
            state = {n: (numbers.get(n, 0), value) for n, value in attributes.items()}
        else:
            known = _own.setdefault(kind, {})
            for name in known.keys() - attributes.keys():
                attributes[name] = Missing
            for name, value in attributes.items():
                code = getattr(getattr(value, "__func__", value), "__code__", None)
                before, _, number = known.get(name, (None, None, 0))
                if not number or not is_same(value, before) or code is not known[name][1]:
                    number = tick()
                    known[name] = seen(value), code, number
                state[name] = number - odd, value
    registered = None
    if "_abc_impl" in vars(kind):
        registered = [each for ref in cp.abc._get_dump(kind)[0] if (each := ref()) is not None]
    members = None
    if isinstance(kind, type(Enum)):
        members = {
            name: {n: v for n, v in vars(member).items() if n not in _MADE_FOR_MEMBERS}
            for name, member in kind.__members__.items()
        }
    return state, registered, members


def _make_class(
    meta: Any, named: tuple[str, Any], extra: dict[str, Any], members: Any, class_id: str
) -> type:
    """The class with this id; if it is not there yet, a new one without attributes."""
    known = cp._DYNAMIC_CLASS_TRACKER_BY_ID.get(class_id)
    if known is not None:
        return known  # type: ignore[no-any-return]
    name, bases = named
    if members is None:
        made = types.new_class(name, bases, {"metaclass": meta}, lambda names: names.update(extra))
    else:
        names = meta.__prepare__(name, bases)
        for member, value in members.items():
            names[member] = value
        made = meta.__new__(meta, name, bases, names)
        made.__module__, made.__qualname__ = extra["__module__"], extra["__qualname__"]
    return cp._lookup_class_or_track(class_id, made)  # type: ignore[no-any-return]


def set_class(kind: type, state: tuple[Any, Any, Any, Any]) -> None:
    """Give *kind*, which was unpickled, its attributes. A pickle calls it."""
    here, attributes, registered, members = state
    with _lock:
        if kind in _own and kind not in arrived:
            return
        new = kind not in arrived
    if new:
        for name, values in (members or {}).items():
            vars(kind.__members__[name]).update(values)  # type: ignore[attr-defined]  # an enum
    if new or here is None:
        set_attributes(kind, attributes)
    else:  # others use it meanwhile: not before the globals of its methods are there
        here.later.append((kind, attributes))
    for each in registered or ():
        kind.register(each)  # type: ignore[attr-defined]  # an ABC


def set_attributes(kind: type, attributes: dict[str, tuple[int, Any]]) -> None:
    """Set the attributes that have been bound anew since they were set here."""
    with _lock:
        numbers = arrived.setdefault(kind, {})
        for name, (number, value) in attributes.items():
            if number <= numbers.get(name, -1):
                continue
            numbers[name] = number
            if value is not Missing:
                type.__setattr__(kind, name, value)
            elif name in vars(kind):
                type.__delattr__(kind, name)


class ByValuePickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """cloudpickle, which never sets what the receiver has, and with more kinds of objects."""

    dispatch_table = REDUCERS
    _sentinels: dict[int, tuple[ModuleType, str]] | None = None

    def reducer_override(self, obj: Any) -> Any:
        """What all processes have in ``__main__`` goes by its name."""
        kind = type(obj)
        if kind is FunctionType:
            return NotImplemented if is_shared_main(obj) else self.reduce_function(obj)
        if isinstance(obj, type):
            return self.reduce_class(obj) if is_by_value(obj) else super().reducer_override(obj)
        if kind is object:
            if self._sentinels is None:
                self._sentinels = sentinels()
            found = self._sentinels.get(id(obj))
            return self.reduce_global(obj, None) if found is None else (getattr, found)
        if kind.__reduce__ is not _reduce and kind not in REDUCERS and is_by_value(kind):
            reduced = obj.__reduce_ex__(5)
            return self.reduce_global(obj, reduced) if type(reduced) is str else reduced
        return NotImplemented

    def reduce_function(self, function: FunctionType) -> Any:
        """How a function is pickled."""
        return reduce_dispatching(function) or super().reducer_override(function)

    def reduce_class(self, kind: type) -> Any:
        """How a class is pickled by value."""
        return reduce_class(kind)

    def reduce_global(self, obj: Any, reduced: str | None) -> Any:  # noqa: ARG002 - see `library`
        """How an object is pickled that is one of its kind: a global of a module, or *reduced*."""
        return reduced or NotImplemented


def dumps(value: object) -> bytes:
    """*value* as bytes, for any process."""
    file = cp.io.BytesIO()
    ByValuePickler(file, protocol=5).dump(value)
    return file.getvalue()  # type: ignore[no-any-return]
