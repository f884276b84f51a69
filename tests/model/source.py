"""The syntax trees of the shipped functions, and functions that run changed code for a while.

Only the *code object* of a function is replaced. So the change holds wherever the function is
referred to: as a method, as a bound method in a table, or imported by another module.
"""

from __future__ import annotations
import __future__

import ast
import importlib
import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import farref.protocol

PROTOCOL = Path(next(iter(farref.protocol.__path__)))
MARK = "# exit"
"""In the line that ends the condition of an exit; see `exits`."""
_cut: list[bool] = []


class Function(NamedTuple):
    name: str
    """For example ``owner.Owner.create``; of a module outside `protocol`, all but ``farref``."""
    live: Any
    """The function that runs."""
    tree: ast.FunctionDef
    classes: tuple[str, ...]
    """The classes around it."""
    exits: tuple[ast.If, ...]

    def code(self) -> CodeType:
        """The tree, as it is now, compiled."""
        parts = {**vars(self.tree), "decorator_list": []}
        definition = ast.FunctionDef(**parts)
        if self.live.__code__.co_freevars:  # by `super()`, which the tree may have lost
            uses = ast.Expr(ast.Name("__class__", ast.Load()))
            definition.body = [*definition.body, ast.If(ast.Constant(value=False), [uses], [])]
        body: list[ast.stmt] = [definition]
        for name in reversed(self.classes):
            body = [ast.ClassDef(name, [], [], body, [])]
        module = ast.fix_missing_locations(ast.Module(body, []))
        flags = __future__.annotations.compiler_flag
        file = self.live.__code__.co_filename
        code: CodeType = compile(module, file, "exec", flags, dont_inherit=True)
        for name in (*self.classes, self.tree.name):  # from Python 3.14 on not the only code there
            code = next(each for each in code.co_consts if getattr(each, "co_name", "") == name)
        return code

    def code_without_exits(self) -> CodeType:
        """The same, if no exit is ever taken."""
        tests = [each.test for each in self.exits]
        for each in self.exits:
            each.test = ast.Constant(value=False)
        try:
            return self.code()
        finally:
            for each, test in zip(self.exits, tests, strict=True):
                each.test = test


@cache
def functions(module: str) -> dict[str, Function]:
    """The functions and methods of *module*, such as ``protocol.owner``, in their order.

    A module of `farref` is named without that word, a module of the tests with all of its name.
    """
    package = "" if module.startswith("tests.") else "farref."
    loaded = importlib.import_module(package + module)
    text = Path(str(loaded.__file__)).read_text("utf-8")
    lines = text.splitlines()
    found: dict[str, Function] = {}

    def is_exit(node: ast.If) -> bool:
        return any(MARK in line for line in lines[node.lineno - 1 : node.body[0].lineno - 1])

    def look(body: list[ast.stmt], within: Any, classes: tuple[str, ...]) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                look(node.body, getattr(within, node.name), (*classes, node.name))
            elif isinstance(node, ast.FunctionDef):
                live = behind(inspect.getattr_static(within, node.name))
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                if live.__code__.co_firstlineno == first:  # and no `overload`
                    name = ".".join((module.removeprefix("protocol."), *classes, node.name))
                    ifs = [each for each in ast.walk(node) if isinstance(each, ast.If)]
                    exits = tuple(filter(is_exit, ifs))
                    found[name] = Function(name, live, node, classes, exits)

    look(ast.parse(text).body, loaded, ())
    return found


def behind(thing: Any) -> Any:
    """The function behind a property, a static method, a context manager or a cache."""
    for part in ("fget", "func", "__func__", "__wrapped__"):
        thing = getattr(thing, part, None) or thing
    return thing


@contextmanager
def swapped(live: FunctionType, code: CodeType) -> Iterator[None]:
    """The function *live* has another *code* inside this block."""
    before = live.__code__
    live.__code__ = code
    try:
        yield
    finally:
        live.__code__ = before


@cache
def _without_exits() -> tuple[tuple[FunctionType, CodeType], ...]:
    """The functions that have exits, and the code of each without."""
    return tuple(
        (each.live, each.code_without_exits())
        for path in sorted(PROTOCOL.glob("*.py"))
        if MARK in path.read_text("utf-8")
        for each in functions(f"protocol.{path.stem}").values()
        if each.exits
    )


@contextmanager
def cut() -> Iterator[None]:
    """The machines have no exits inside this block."""
    _cut.append(True)
    with ExitStack() as stack:
        for live, code in _without_exits():
            stack.enter_context(swapped(live, code))
        try:
            yield
        finally:
            _cut.pop()


def are_cut() -> bool:
    """Whether the machines have no exits now."""
    return bool(_cut)
