"""Functions and classes that are pickled by value, as cloudpickle does it, with three differences.

**Classes keep their state.** cloudpickle gives each such class an id, so that it is one class in
each process, however often it arrives. But it sets all the attributes of the class each time, which
would undo changes that were made to them there (``Model.instances += 1``). Here each attribute has
a number (see `spaces`), and only those are set that the sender has bound anew. The process that
the class comes from sets nothing: no copy that comes back overwrites the program's own class.

**Slots, enums and more kinds of objects** come back as they are.

**Functions belong to their modules**, if they go as a definition (`library`). In a message they go
as cloudpickle pickles them, with globals of their own. The definition, if one comes, replaces the
methods of a class that came so: its numbers are higher by one.
"""

from __future__ import annotations

import io
import sys
import types
from enum import Enum
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

import cloudpickle
from cloudpickle import cloudpickle as cp

from .cached import REDUCERS, reduce_dispatching
from .spaces import SPACES, Missing

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
_main_is_shared = False


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


class ByValuePickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """cloudpickle with these differences."""

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
            return self.reduce_single(obj, "") if found is None else (getattr, found)
        if kind.__reduce__ is not _reduce and kind not in REDUCERS and is_by_value(kind):
            reduced = obj.__reduce_ex__(5)
            return self.reduce_single(obj, reduced) if type(reduced) is str else reduced
        return NotImplemented

    def reduce_function(self, function: FunctionType) -> Any:
        """How a function is pickled."""
        return reduce_dispatching(function) or super().reducer_override(function)

    def reduce_class(self, kind: type) -> Any:
        """How a class is pickled by value."""
        make, args, state, set_state = parts_of(kind)
        attributes = {n: (number - 1, value) for n, (number, value) in state[0].items()}
        return make, args, (attributes, *state[1:], None), None, None, set_state

    def reduce_single(self, obj: Any, name: str) -> Any:  # noqa: ARG002 - see `library`
        """How an object is pickled that may be one of its kind: a bare one, or with a *name*."""
        return name or NotImplemented


def sentinels() -> dict[int, tuple[ModuleType, str]]:
    """By `id`: the bare objects that are globals of modules that can be imported."""
    return {
        id(value): (module, name)
        for place, module in list(sys.modules.items())
        if place != "__main__" and type(module) is ModuleType
        for name, value in list(vars(module).items())
        if type(value) is object
    }


def dumps(value: object) -> bytes:
    """*value* as bytes, for any process."""
    file = io.BytesIO()
    ByValuePickler(file, protocol=5).dump(value)
    return file.getvalue()


def attributes_of(kind: type) -> dict[str, Any]:
    """The attributes of a class that are pickled."""
    left_out = _MADE
    if isinstance(kind, type(Enum)):
        left_out = _MADE | _MADE_FOR_ENUMS | kind.__members__.keys()
    return {
        name: value
        for name, value in vars(kind).items()
        if type(value) not in _DESCRIPTORS and name not in left_out
    }


def parts_of(kind: type) -> tuple[Any, ...]:
    """How *kind* is pickled: the function that makes it, its arguments, the state, its setter."""
    extra: dict[str, Any] = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    if isinstance(vars(kind).get("__dict__"), property):
        extra["__dict__"] = vars(kind)["__dict__"]
    if "__slots__" in vars(kind):
        extra["__slots__"] = vars(kind)["__slots__"]
    values = members = registered = None
    if isinstance(kind, type(Enum)):
        values = {name: member.value for name, member in kind.__members__.items()}
        members = {
            name: {n: v for n, v in vars(member).items() if n not in _MADE_FOR_MEMBERS}
            for name, member in kind.__members__.items()
        }
    if "_abc_impl" in vars(kind):
        registered = [each for ref in cp.abc._get_dump(kind)[0] if (each := ref()) is not None]
    # `typing.NamedTuple` would make another class; generic classes need their original bases.
    real = values is not None or issubclass(kind, tuple)
    bases = kind.__bases__ if real else cp._get_bases(kind)
    class_id = cp._get_or_create_tracker_id(kind)
    space = SPACES.of_class(kind)
    attributes = {n: (space.number(n), value) for n, value in attributes_of(kind).items()}
    attributes |= {n: (space.number(n), Missing) for n in space.sent() if n not in attributes}
    args = type(kind), (kind.__name__, bases), extra, values, class_id
    return _make_class, args, (attributes, registered, members), _set_class


def _make_class(
    meta: Any, named: tuple[str, Any], extra: dict[str, Any], values: Any, class_id: str
) -> type:
    """The class with this id; if it is not there yet, a new one without attributes."""
    known = cp._DYNAMIC_CLASS_TRACKER_BY_ID.get(class_id)
    if known is not None:
        return known  # type: ignore[no-any-return]  # cloudpickle has no types
    name, bases = named
    if values is None:
        made = types.new_class(name, bases, {"metaclass": meta}, lambda names: names.update(extra))
    else:
        names = meta.__prepare__(name, bases)
        for member, value in values.items():
            names[member] = value
        made = meta.__new__(meta, name, bases, names)
        made.__module__, made.__qualname__ = extra["__module__"], extra["__qualname__"]
    return cp._lookup_class_or_track(class_id, made)  # type: ignore[no-any-return]  # as above


def _set_class(kind: type, state: tuple[dict[str, tuple[int, Any]], Any, Any, object]) -> None:
    """Give *kind*, which was unpickled, its attributes. A pickle calls it."""
    attributes, registered, members, early = state
    space = SPACES.of_class(kind, home=False)
    if space.home:
        return
    is_new = not space.sent()
    if is_new:
        for name, values in (members or {}).items():
            vars(kind.__members__[name]).update(values)  # type: ignore[attr-defined]  # an enum
    # Others use one that is here already: not before the globals of its methods are there.
    if is_new or early is None:
        space.bind([(name, *binding) for name, binding in attributes.items()])
    for each in registered or ():
        kind.register(each)  # type: ignore[attr-defined]  # an ABC
