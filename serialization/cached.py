"""Functions and singletons of the standard library that pickle by names, or not at all.

Python pickles a function with `functools.cache` by its name. A function of a notebook, or one
inside another function, has no name that the other process knows. There it becomes a new cached
function, with a cache of its own. So do properties with a cache. A function of
`functools.singledispatch` becomes a new one with the same implementations. The marks of
`dataclasses` are compared by identity, so they go by their names.
"""

from __future__ import annotations

import dataclasses
import functools
import pickle
from collections import ChainMap
from types import FunctionType
from typing import TYPE_CHECKING, Any

import cloudpickle

if TYPE_CHECKING:
    from collections.abc import Callable

CachedFunction: Any = type(functools.cache(len))
_MARKS = "MISSING", "KW_ONLY", "_HAS_DEFAULT_FACTORY"
_DISPATCHING = functools.singledispatch(len).__code__  # type: ignore[attr-defined]  # it is a function
_DISPATCH = frozenset({"register", "dispatch", "registry", "_clear_cache"})


def _reduce(cached: Any) -> Any:
    function = cached.__wrapped__
    if type(function) is not FunctionType or _has_a_name(cached):
        return cached.__reduce__()
    return _cached, (function, cached.cache_parameters(), vars(cached))


def _has_a_name(cached: Any) -> bool:
    """Whether *cached* can be imported by its name elsewhere."""
    if cached.__module__ == "__main__":
        return False
    try:
        pickle.dumps(cached, 5)
    except pickle.PicklingError:
        return False
    return True


def _cached(
    function: Callable[..., Any], parameters: dict[str, Any], attributes: dict[str, Any]
) -> Any:
    made = functools.lru_cache(**parameters)(function)
    vars(made).update(attributes)
    return made


def _reduce_property(cached: Any) -> Any:
    return _property, (cached.func, cached.attrname)


def _property(function: Callable[..., Any], name: str | None) -> Any:
    made = functools.cached_property(function)
    made.attrname = name
    return made


def _reduce_method(method: Any) -> Any:
    return _method, (method.func, method.dispatcher)


def _method(function: Callable[..., Any], dispatcher: Any) -> Any:
    # From Python 3.13 on it also has a cache, which cannot be pickled.
    made: Any = functools.singledispatchmethod(function)
    made.dispatcher = dispatcher
    return made


def state_of(function: Any) -> dict[Any, Any]:
    """The attributes of a function, and its implementations if it dispatches."""
    state: dict[Any, Any] = vars(function)
    return {**state, **function.registry} if function.__code__ is _DISPATCHING else state


def reduce_dispatching(function: Any) -> Any:
    """How a function of `functools.singledispatch` is pickled by value; None for other ones."""
    if function.__code__ is not _DISPATCHING or _has_a_name(function):
        return None
    others = {kind: each for kind, each in function.registry.items() if kind is not object}
    attributes = {n: value for n, value in vars(function).items() if n not in _DISPATCH}
    make = functools.singledispatch
    return make, (function.registry[object],), (others, attributes), None, None, _register


def _register(function: Any, state: tuple[dict[type, Any], dict[str, Any]]) -> None:
    if len(function.registry) == 1:  # it is a new one
        for kind, each in state[0].items():
            function.register(kind, each)
        vars(function).update(state[1])


_OWN: dict[Any, Any] = {
    CachedFunction: _reduce,
    functools.cached_property: _reduce_property,
    functools.singledispatchmethod: _reduce_method,
    **{type(getattr(dataclasses, name)): (lambda _, name=name: name) for name in _MARKS},
}
REDUCERS = ChainMap(_OWN, *cloudpickle.Pickler.dispatch_table.maps)
"""The dispatch table of a pickler that pickles them by value."""
