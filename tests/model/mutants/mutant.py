"""Removing one rule from a shipped method, for a while."""

from __future__ import annotations
import __future__

import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from farref.protocol.aliases import Aliases
from farref.protocol.context import Context
from farref.protocol.cycles import Cycles
from farref.protocol.death import Death
from farref.protocol.entries import Entries
from farref.protocol.hosting import Hosting
from farref.protocol.loans import Loans
from farref.protocol.names import Names
from farref.protocol.references import References
from farref.protocol.requests import Requests
from farref.protocol.rings import Rings

PARTS = (
    *(Context, Entries, Loans, Names, References, Requests, Aliases, Hosting, Death, Rings),
    Cycles,
)


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


@cache
def source(machine: type | ModuleType, method: str) -> str:
    """The source of a *method* as shipped."""
    original: Any = vars(machine)[method]
    function: Any = original.fget if isinstance(original, property) else original
    return textwrap.dedent(inspect.getsource(function))


def in_context(name: str, method: str, old: str, new: str = "pass") -> Mutant:
    """A mutant of the part of `Context`, or of itself, with a *method* that contains *old*."""
    parts = [part for part in PARTS if method in vars(part)]
    machine = next((part for part in parts if old in source(part, method)), parts[0])
    return Mutant(name, machine, method, old, new)


@contextmanager
def mutated(mutant: Mutant) -> Iterator[None]:
    """The machine is *mutant* inside this block."""
    original: Any = mutant.machine.__dict__[mutant.method]
    flags = __future__.annotations.compiler_flag
    module = mutant.machine.__dict__.get("__module__", mutant.machine.__name__)
    shipped = source(mutant.machine, mutant.method)
    changed = textwrap.indent(shipped.replace(mutant.old, mutant.new), "    ")
    # `super()` looks for the class in a variable of the enclosing scope.
    nested = f"def within(__class__):\n{changed}\n    return {mutant.method}"
    code = compile(nested, f"<{mutant}>", "exec", flags)
    names: dict[str, Any] = {}
    exec(code, vars(sys.modules[module]), names)
    setattr(mutant.machine, mutant.method, names["within"](mutant.machine))
    try:
        yield
    finally:
        setattr(mutant.machine, mutant.method, original)
