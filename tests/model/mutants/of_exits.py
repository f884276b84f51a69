"""Each condition and each change of each exit, removed in turn.

These mutants are made from the source: a new exit has its mutants at once, and each of them needs a
line in ``of_exits.txt``, with the name of a program or trace that catches it. The rules of the
methods that only exits call are written out below.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farref.protocol.requests import Requests

from ..source import compiled, exits_in, source, with_exits
from .mutant import Mutant, mutated

CAUGHT_BY = dict(
    line.split("  <-  ")
    for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines()
)
"""Each of these mutants, and the program or trace that catches it."""


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


def _in_a_line(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


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


def _requests(name: str, method: str, old: str, new: str = "pass") -> Mutant:
    return Mutant(name, Requests, method, old, new)


HELPERS = (
    _requests("asks what is lost", "_direct", "user.lost or ", ""),
    _requests("asks what it does not use", "_direct", "user is None or ", ""),
    _requests("passes a fetch", "_direct", " or rref in state.fetching", ""),
    _requests("asks an alias", "_direct", " or (state.names and rref in state.names)", ""),
    _requests("asks what is held back", "_direct", "state.held or ", ""),
    _requests("asks a stranger", "_direct", "to is not None and user.owner != to", "False"),
    _requests("does not note that it has left", "_direct", "user.stamp += 1"),
    _requests("pins nothing", "_direct", "user.pending.add(call)"),
    _requests("gives a number twice", "_direct", "state.calls += 1"),
    _requests("keeps what nobody holds", "is_answered", " or not user.handles", ""),
    _requests("settles what it does not use", "is_answered", "user is None or ", ""),
    _requests("frees nothing that is held", "is_answered", "state.held or ", ""),
    _requests("keeps the name", "is_answered", " or (state.named and call in state.named)", ""),
    _requests(
        "fetches for ever", "is_answered", "if state.fetching.get(rref) == call:", "if False:"
    ),
    _requests("does not learn", "is_answered", "user.canonical = True"),
    _requests("pins for ever", "is_answered", "user.pending.discard(call)"),
)
"""Rules of the methods that only exits call."""


def applied(mutant: ExitMutant | Mutant) -> AbstractContextManager[None]:
    """The machine is *mutant* inside this block."""
    return mutated(mutant) if isinstance(mutant, Mutant) else mutant.applied()


def exit_mutants() -> list[ExitMutant | Mutant]:
    """All of them."""
    made: list[ExitMutant | Mutant] = [*HELPERS]
    for machine, method in with_exits():
        text = source(machine, method)
        for place, node in enumerate(exits_in(ast.parse(text), text)):
            for number, (part, _, _) in enumerate(_conditions(node)):
                words = _in_a_line(part)
                made.append(ExitMutant(machine, method, place, number, False, words))
            for number, statement in enumerate(node.body):
                if not isinstance(statement, ast.Return | ast.Continue):
                    words = _in_a_line(statement)
                    made.append(ExitMutant(machine, method, place, number, True, words))
    return made
