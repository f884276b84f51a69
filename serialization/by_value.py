"""Functions and classes that are pickled by value, as cloudpickle does it, with four differences.

**Classes keep their state.** cloudpickle sets all the attributes of a class each time it arrives,
which would undo changes that were made to them there (``Model.instances += 1``). Here each
attribute has a number (see `spaces`), and only those are set that the sender has bound anew.

**Slots, enums and more kinds of objects** come back as they are. A function of `functools.cache`
that has no name elsewhere becomes a new one, with a cache of its own. So do properties with a
cache. A function of `functools.singledispatch` becomes a new one with the same implementations.

**Functions belong to their modules**, if they go as a definition (`library`). In a message they go
as cloudpickle pickles them, with globals of their own. The definition, if one comes, replaces the
methods of a class that came so: its numbers are higher by one.

**Code keeps the name of its file**, so tracebacks, debuggers and profilers show the user's lines. A
definition also brings the lines themselves (`sources`).
"""

from __future__ import annotations

import dataclasses
import functools
import io
import sys
import types
from collections import ChainMap
from enum import EnumType
from types import (
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any

from cloudpickle import cloudpickle as cp

from .spaces import SPACES, Binding, Space, bind, dispatches

CachedFunction: Any = type(functools.cache(len))
_DESCRIPTORS = frozenset({GetSetDescriptorType, MemberDescriptorType})
_AT_START = frozenset({"__module__", "__dict__", "__slots__", "__orig_bases__"})
"""The attributes that a class needs when it is made."""
_MADE = frozenset(
    {"__dict__", "__weakref__", "__slotnames__", "__slots__", "_abc_impl"}
    | {"__firstlineno__", "__annotate_func__", "__annotate__", "__annotations_cache__"}
)
"""The attributes that Python itself makes, or that are set in another way."""
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
    found = cp._lookup_module_and_qualname(thing)
    return found is None or bool(cp._is_registered_pickle_by_value(found[0]))


def _reduce_cached(cached: Any) -> Any:
    if not is_by_value(cached):
        return cached.__reduce__()
    attributes = {n: value for n, value in vars(cached).items() if n != "cache_parameters"}
    return _cached, (cached.__wrapped__, cached.cache_parameters()), attributes


def _cached(function: Any, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _dispatching(implementations: dict[type, Any]) -> Any:
    made: Any = functools.singledispatch(implementations[object])
    for kind, function in implementations.items():
        made.register(kind, function)
    return made


def _reduce_code(code: CodeType) -> Any:
    # cloudpickle forgets the file; then no traceback, debugger or profiler would show the line.
    kind, args = cp._code_reduce(code)
    return kind, tuple(code.co_filename if each == "<dynamic-code>" else each for each in args)


def _reduce_cell(cell: CellType) -> Any:
    # Its variable may refer to the function, so it is set when both have been made.
    content = cp._get_cell_contents(cell)
    empty = content is cp._empty_cell_value
    return CellType, (), None if empty else (None, {"cell_contents": content})


def _reduce_descriptor(it: Any) -> Any:
    # The cache that it may have, and its lock, stay where they are.
    kept = {"attrname", "dispatcher"}
    return type(it), (it.func,), {n: value for n, value in vars(it).items() if n in kept}


_MARKS = "MISSING", "KW_ONLY", "_HAS_DEFAULT_FACTORY"
_OWN: dict[Any, Any] = {
    CachedFunction: _reduce_cached,
    CellType: _reduce_cell,
    CodeType: _reduce_code,
    functools.cached_property: _reduce_descriptor,
    functools.singledispatchmethod: _reduce_descriptor,
    # The marks of `dataclasses` are compared by identity, so they go by their names.
    **{type(getattr(dataclasses, name)): (lambda _, name=name: name) for name in _MARKS},
}
REDUCERS = ChainMap(_OWN, *cp.Pickler.dispatch_table.maps)


class ByValuePickler(cp.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """cloudpickle with these differences."""

    dispatch_table = REDUCERS
    entire = True
    """Whether a class is pickled with all its bindings, since no list of them follows."""

    def reducer_override(self, obj: Any) -> Any:
        """Pickle's hook. What all processes have in ``__main__`` goes by its name."""
        kind = type(obj)
        if kind is FunctionType:
            return self.reduce_function(obj) if is_by_value(obj) else NotImplemented
        if isinstance(obj, type) and not is_shared_main(obj):
            return self.reduce_class(obj) if is_by_value(obj) else super().reducer_override(obj)
        if kind is object:
            found = self._sentinels.get(id(obj))
            return self.reduce_single(obj, "") if found is None else (getattr, found)
        if kind.__reduce__ is not _reduce and kind not in REDUCERS and is_by_value(kind):
            reduced = obj.__reduce_ex__(5)
            return self.reduce_single(obj, reduced) if type(reduced) is str else reduced
        return NotImplemented

    def reduce_function(self, function: Any) -> Any:
        if not dispatches(function):
            return super().reducer_override(function)
        made = vars(functools.singledispatch(len))
        attributes = {n: value for n, value in vars(function).items() if n not in made}
        return _dispatching, (dict(function.registry),), attributes

    def reduce_class(self, kind: type) -> Any:
        there = {n: v for n, v in vars(kind).items() if type(v) not in _DESCRIPTORS}
        start = {n: v for n, v in there.items() if n in _AT_START}
        start["__qualname__"] = kind.__qualname__
        members: Any = kind.__members__ if isinstance(kind, EnumType) else {}
        start.update({name: member.value for name, member in members.items()})
        known = cp.abc._get_dump(kind)[0] if "_abc_impl" in there else ()
        registered = [each for ref in known if (each := ref()) is not None]
        # `typing.NamedTuple` would make another class; generic classes need their original bases.
        bases = kind.__bases__ if issubclass(kind, tuple) else cp._get_bases(kind)
        args = type(kind), kind.__name__, bases, start, cp._get_or_create_tracker_id(kind)
        space = SPACES.of_class(kind)
        given = _MADE | members.keys()
        bindings = self.bindings(space, [n for n in {**there, **space.known} if n not in given])
        states = {name: vars(member) for name, member in members.items()}
        state = bindings, states, registered, self.entire
        return _make_class, args, state, None, None, _set_class

    def bindings(self, space: Space, names: list[str]) -> Any:
        """The attributes of a class: a list, in the pickle. They may be replaced by definitions."""
        return [(space, name, n - 1, value) for _, name, n, value in map(space.binding, names)]

    def reduce_single(self, obj: Any, name: str) -> Any:  # noqa: ARG002 - see `library`
        """How an object is pickled that may be one of its kind: a bare one, or with a *name*."""
        return name or NotImplemented

    @functools.cached_property
    def _sentinels(self) -> dict[int, tuple[ModuleType, str]]:
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


def _make_class(meta: Any, name: str, bases: Any, start: dict[str, Any], class_id: str) -> type:
    """The class with this id; if it is not there yet, a new one without most attributes."""

    def fill(names: Any) -> None:
        for each, value in start.items():  # `update` would not do what an enum does for each
            names[each] = value

    known = cp._DYNAMIC_CLASS_TRACKER_BY_ID.get(class_id)
    if known is None:
        made = types.new_class(name, bases, {"metaclass": meta}, fill)
        known = cp._lookup_class_or_track(class_id, made)
    return known  # type: ignore[no-any-return]  # cloudpickle has no types


def _set_class(kind: type, state: tuple[list[Binding], dict[str, Any], list[type], bool]) -> None:
    """Give *kind*, which was unpickled, its attributes. A pickle calls it."""
    bindings, members, registered, entire = state
    space = SPACES.of_class(kind, home=False)
    is_new = not space.home and not space.known
    for name, values in members.items() if is_new else ():
        vars(kind.__members__[name]).update(values)  # type: ignore[attr-defined]  # an enum
    for each in registered if not space.home else ():
        kind.register(each)  # type: ignore[attr-defined]  # an ABC

    def is_due(binding: Binding) -> bool:
        # Others use a class that is here already, and globals: those change at the end only.
        return entire or (is_new if binding[0] is space else binding[1] not in binding[0].names)

    bind(filter(is_due, bindings))
