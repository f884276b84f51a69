"""Every public method of a public class has a docstring: its own, or an overridden method's.

ruff knows no inherited docstrings (without `typing.override`, which Python 3.11 lacks), so this
replaces its D102.
"""

import importlib
import importlib.util
import pkgutil
from functools import cached_property
from types import FunctionType

import farref

# Read with their module's prose.
ELSEWHERE = ("farref.examples", "farref.tracetest", "farref.__main__")
NEEDS = {"farref.ray": "ray", "farref.serialization.tensors": "torch"}
METHODS = (FunctionType, property, cached_property, classmethod, staticmethod)


def test_every_public_method_has_a_docstring() -> None:
    found = 0
    for module in pkgutil.walk_packages(farref.__path__, "farref."):
        if module.name.startswith(ELSEWHERE):
            continue
        needs = NEEDS.get(module.name)
        if needs is not None and importlib.util.find_spec(needs) is None:
            continue
        for cls in vars(importlib.import_module(module.name)).values():
            if not isinstance(cls, type) or cls.__module__ != module.name or cls.__name__[0] == "_":
                continue
            for name, method in vars(cls).items():
                if not name.startswith("_") and isinstance(method, METHODS):
                    found += 1
                    said = [getattr(vars(base).get(name), "__doc__", None) for base in cls.__mro__]
                    assert any(said), f"{module.name}.{cls.__name__}.{name}"
    assert found > 1000
