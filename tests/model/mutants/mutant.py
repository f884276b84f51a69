"""Removing one rule from a shipped method, for a while."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ..source import PARTS, compiled, cut, source, without_exits


@dataclass(frozen=True, slots=True)
class Mutant:
    """*name* describes the fault: in ``machine.method``, *old* became *new*."""

    name: str
    machine: type | ModuleType
    """A class, or a module of functions."""
    method: str
    old: str
    new: str = "pass"

    def __post_init__(self) -> None:
        """Check that the rule is there, as soon as a module with the mutant is imported."""
        times = source(self.machine, self.method).count(self.old)
        if times != 1:
            raise AssertionError(
                f"{self}: {self.old!r} is {times} times in the source; "
                "the rule was rewritten, so rewrite its mutant"
            )

    def __str__(self) -> str:
        return f"{self.machine.__name__.rpartition('.')[2]}.{self.method}: {self.name}"


def in_context(name: str, method: str, old: str, new: str = "pass") -> Mutant:
    """A mutant of the part of `Context`, or of itself, with a *method* that contains *old*."""
    parts = [part for part in PARTS if method in vars(part)]
    machine = next((part for part in parts if old in source(part, method)), parts[0])
    return Mutant(name, machine, method, old, new)


@contextmanager
def mutated(mutant: Mutant, *, exits: bool = True) -> Iterator[None]:
    """The machine is *mutant* inside this block; all machines may be without exits."""
    changed = source(mutant.machine, mutant.method).replace(mutant.old, mutant.new)
    tree = ast.parse(changed) if exits else without_exits(changed)
    with nullcontext() if exits else cut():
        before: Any = mutant.machine.__dict__[mutant.method]
        setattr(mutant.machine, mutant.method, compiled(mutant.machine, tree))
        try:
            yield
        finally:
            setattr(mutant.machine, mutant.method, before)
