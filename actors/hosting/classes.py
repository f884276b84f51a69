"""Actor classes and their names; Thespian converts each to the other."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any


def make_findable(actor_class: type) -> type:
    """Make *actor_class* findable for the child that Thespian forks, which looks it up by its name.

    A class of a function, of a notebook, or defined after the system started is in no module of
    this process. The child inherits the modules as they are now.
    """
    name = actor_class.__module__
    module = sys.modules.setdefault(name, types.ModuleType(name))
    if getattr(module, actor_class.__name__, None) is not actor_class:
        setattr(module, actor_class.__name__, actor_class)
    return actor_class


def class_of(actor_class: Any) -> Any:
    """The class that was passed to `createActor`, itself or by name; None if it cannot be found."""
    if not isinstance(actor_class, str):
        return actor_class
    module, _, name = actor_class.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
