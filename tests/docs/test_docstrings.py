"""What is public has a docstring: a class, a function, and a method or the one that it overrides.

ruff's rules would ask for one everywhere, and know no inherited ones.
"""

import importlib
from functools import cached_property
from types import FunctionType

PUBLIC = ("farref", "farref.elastic", "farref.protocol.errors", "farref.rpc", "farref.testing")
METHODS = (FunctionType, property, cached_property, classmethod, staticmethod)


def test_everything_public_has_a_docstring() -> None:
    found = 0
    for module in map(importlib.import_module, PUBLIC):
        for public in getattr(module, "__all__", vars(module)):
            thing = getattr(module, public)
            if not getattr(thing, "__module__", "").startswith("farref") or public[0] == "_":
                continue
            if isinstance(thing, type | FunctionType):
                assert thing.__doc__, f"{module.__name__}.{public}"
            for name, method in vars(thing).items() if isinstance(thing, type) else ():
                if not name.startswith("_") and isinstance(method, METHODS):
                    found += 1
                    said = [
                        getattr(vars(base).get(name), "__doc__", None) for base in thing.__mro__
                    ]
                    assert any(said), f"{module.__name__}.{public}.{name}"
    assert found > 150
