"""Each condition and each change of each exit, removed in turn.

These mutants are made from the source: a new exit has its mutants at once, and each of them needs
the name of a program here that catches it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..source import compiled, exits_in, source, with_exits


@dataclass(frozen=True, slots=True)
class ExitMutant:
    """Exit *place* of a method without *part* number *number* of its conditions, or changes."""

    machine: type
    method: str
    place: int
    number: int
    change: bool
    text: str

    def __str__(self) -> str:
        what = "does not" if self.change else "does not ask"
        return f"{self.machine.__name__}.{self.method} {self.place}: {what} {self.text}"

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The machine is this mutant inside this block."""
        text = source(self.machine, self.method)
        tree = ast.parse(text)
        node = exits_in(tree, text)[self.place]
        if self.change:
            node.body[self.number] = ast.Pass()
        else:
            _, of, place = _conditions(node)[self.number]
            of.values[place] = ast.Constant(value=isinstance(of.op, ast.And))
        before: Any = vars(self.machine)[self.method]
        setattr(self.machine, self.method, compiled(self.machine, tree))
        try:
            yield
        finally:
            setattr(self.machine, self.method, before)


def _conditions(node: ast.If) -> list[tuple[ast.expr, ast.BoolOp, int]]:
    """The conditions of an exit, each with what it is a part of, and its place there."""
    found: list[tuple[ast.expr, ast.BoolOp, int]] = []

    def look(at: ast.expr) -> bool:
        negated = isinstance(at, ast.UnaryOp)
        inner = at.operand if isinstance(at, ast.UnaryOp) else at
        if not isinstance(inner, ast.BoolOp) or isinstance(inner.op, ast.Or) != negated:
            return False
        for place, each in enumerate(inner.values):
            if not look(each):
                found.append((each, inner, place))
        return True

    look(node.test)
    return found


def exit_mutants() -> list[ExitMutant]:
    """All of them."""
    made: list[ExitMutant] = []
    for machine, method in with_exits():
        text = source(machine, method)
        for place, node in enumerate(exits_in(ast.parse(text), text)):
            for number, (part, _, _) in enumerate(_conditions(node)):
                words = ast.unparse(part)
                made.append(ExitMutant(machine, method, place, number, False, words))
            for number, statement in enumerate(node.body):
                if not isinstance(statement, ast.Return | ast.Continue):
                    words = ast.unparse(statement)
                    made.append(ExitMutant(machine, method, place, number, True, words))
    return made
