"""What goes by its name though it is in ``__main__``."""

from __future__ import annotations

import functools
import pickle
import sys
from collections.abc import Iterator

import pytest

from farref.serialization import by_value

CODE = """
class Kind:
    pass

thing = Kind()

def function():
    pass

@functools.cache
def cached():
    pass
"""


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """The globals of a program that all processes run."""
    module = type(sys)("__main__")
    vars(module)["functools"] = functools
    monkeypatch.setitem(sys.modules, "__main__", module)
    exec(CODE, vars(module))
    by_value.share_main(True)
    yield vars(module)
    by_value.share_main(False)


@pytest.mark.parametrize("name", ["Kind", "function", "cached"])
def test_what_all_processes_have(name: str, program: dict[str, object]) -> None:
    data = by_value.dumps(program[name])
    assert data == pickle.dumps(program[name], 5)
    by_value.share_main(False)
    assert by_value.dumps(program[name]) != data


def test_an_object_of_a_class_that_all_processes_have(program: dict[str, object]) -> None:
    assert type(pickle.loads(by_value.dumps(program["thing"]))) is program["Kind"]
