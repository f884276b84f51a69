"""The source of the shipped machines, and machines that are made from a changed one."""

from __future__ import annotations
import __future__

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from farref.protocol.aliases import Aliases
from farref.protocol.context import Context
from farref.protocol.cycles import CycleCollector
from farref.protocol.deadlocks import DeadlockDetector
from farref.protocol.death import Death
from farref.protocol.entries import Entries
from farref.protocol.hosting import Hosting
from farref.protocol.loans import Loans
from farref.protocol.names import Names
from farref.protocol.references import References
from farref.protocol.requests import Requests

PARTS = (
    *(
        Context,
        Entries,
        Loans,
        Names,
        References,
        Requests,
        Aliases,
        Hosting,
        Death,
        DeadlockDetector,
    ),
    CycleCollector,
)
MARK = "# exit"
"""In the line that ends the condition of an exit; see `exits`."""
_cut: list[bool] = []


@cache
def source(machine: type | ModuleType, method: str) -> str:
    """The source of a *method* as shipped."""
    original: Any = vars(machine)[method]
    function: Any = original.fget if isinstance(original, property) else original
    return textwrap.dedent(inspect.getsource(function))


def compiled(machine: type | ModuleType, method: ast.Module) -> Any:
    """The method of *machine* with the source *method*."""
    # `super()` looks for the class in a variable of the enclosing scope.
    tree = ast.parse("def within(__class__): pass")
    within: Any = tree.body[0]
    (definition,) = method.body
    name = definition.name  # type: ignore[attr-defined]  # it defines a function
    within.body = [definition, ast.Return(ast.Name(name, ast.Load()))]
    ast.fix_missing_locations(tree)
    module = vars(machine).get("__module__", machine.__name__)
    code = compile(tree, f"<{name}>", "exec", __future__.annotations.compiler_flag)
    names: dict[str, Any] = {}
    exec(code, vars(sys.modules[module]), names)
    return names["within"](machine)


def exits_in(tree: ast.Module, text: str) -> list[ast.If]:
    """The exits in the syntax tree of a method with the source *text*, in their order."""
    lines = text.splitlines()
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If)
        if any(MARK in each for each in lines[node.lineno - 1 : node.body[0].lineno - 1])
    ]


def without_exits(text: str) -> ast.Module:
    """The syntax tree of a method with the source *text*, without its exits."""
    tree = ast.parse(text)
    for node in exits_in(tree, text):
        node.test = ast.Constant(value=False)
    return tree


@cache
def with_exits() -> tuple[tuple[type, str], ...]:
    """The methods that have exits."""
    return tuple(
        (machine, name)
        for machine in PARTS
        for name, shipped in list(vars(machine).items())
        if type(shipped) is FunctionType and shipped.__module__ == machine.__module__
        if MARK in source(machine, name)
    )


@cache
def _rest(machine: type, name: str) -> Any:
    return compiled(machine, without_exits(source(machine, name)))


@contextmanager
def cut() -> Iterator[None]:
    """Within this block a `Context` that is made has no exits."""
    before = [(machine, name, vars(machine)[name]) for machine, name in with_exits()]
    _cut.append(True)
    for machine, name, _ in before:
        setattr(machine, name, _rest(machine, name))
    try:
        yield
    finally:
        for machine, name, method in before:
            setattr(machine, name, method)
        _cut.pop()


def are_cut() -> bool:
    """Whether the machines have no exits now."""
    return bool(_cut)
