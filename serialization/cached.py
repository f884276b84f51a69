"""Functions with `functools.cache` or `functools.lru_cache`, pickled by value.

Python pickles them by their names. A function of a notebook, or one inside another function, has no
name that the other process knows. There it becomes a new cached function, with a cache of its own.
"""

from __future__ import annotations

import functools
import pickle
from collections import ChainMap
from types import FunctionType
from typing import TYPE_CHECKING, Any

import cloudpickle

if TYPE_CHECKING:
    from collections.abc import Callable

CachedFunction: Any = type(functools.cache(len))


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


REDUCERS = ChainMap({CachedFunction: _reduce}, *cloudpickle.Pickler.dispatch_table.maps)
"""The dispatch table of a pickler that pickles such functions by value."""
