"""Mutants of the shipped machines, made from their syntax trees.

`mutants` takes each function of a module apart: a statement is left out, a condition is always or
never true, an operand, an element or a keyword is missing, a comparison includes its limit, or
nothing is returned. `edit` makes a mutant by hand, for a fault that no such change makes.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import msgspec

from .source import PROTOCOL, Function, are_cut, behind, functions, swapped


def record(name: str) -> dict[str, str]:
    """The file *name*: a mutant in each line, and what is said of it."""
    text = (Path(__file__).parent / name).read_text("utf-8")
    return dict(line.split("  <-  ") for line in text.splitlines())


CAUGHT = record("caught.txt")
"""Mutants, and for each a judge that notices it."""
SURVIVORS = record("survivors.txt")
"""Mutants that no judge notices, and for each the reason."""


class Slot(NamedTuple):
    parent: Any
    field: str
    at: int | None = None

    @property
    def node(self) -> Any:
        found = getattr(self.parent, self.field)
        return found if self.at is None else found[self.at]

    @contextmanager
    def replaced(self, new: ast.AST | None) -> Iterator[None]:
        """*new* is there inside this block; None takes what is there out of its list."""
        before = getattr(self.parent, self.field)
        after: Any = new
        if self.at is not None:
            after = before[: self.at] + ([new] if new else []) + before[self.at + 1 :]
        setattr(self.parent, self.field, after)
        try:
            yield
        finally:
            setattr(self.parent, self.field, before)


@dataclass(frozen=True, eq=False)
class Mutant:
    """One change of one function."""

    function: Function
    text: str
    """The operator, and the part that it changes: ``without self.created = True``."""
    slot: Slot
    new: ast.AST | None
    line: int
    in_exit: bool = False

    def __str__(self) -> str:
        return f"{self.function.name}: {self.text}"

    @property
    def with_exits(self) -> bool:
        """Whether it shows while the machines have their exits.

        An exit may follow the same rule as the rest. So a mutant of the rest shows without exits.
        """
        return self.in_exit or self.function.tree.name in only_exits_call()

    def code(self) -> CodeType:
        """The mutated function, with its exits or without."""
        with self.slot.replaced(self.new):
            return self.function.code_without_exits() if are_cut() else self.function.code()

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The machine is this mutant inside this block."""
        with swapped(self.function.live, self.code()):
            yield


@cache
def mutants(module: str) -> dict[str, Mutant]:
    """All mutants of the functions of *module*, such as ``protocol.owner``, by their names."""
    return {str(each): each for each in _mutants(module)}


def module_of(mutant: str) -> str:
    parts = mutant.partition(":")[0].split(".")[:-1]
    module = ".".join(takewhile(str.islower, parts))
    return module if module.startswith(("actors.", "tests.")) else f"protocol.{module}"


def _mutants(module: str) -> Iterator[Mutant]:
    for function in functions(module).values():
        seen = Counter[str]()
        for line, in_exit, (text, slot, new) in _Changes(function).all():
            words = " ".join(text.split())
            seen[words] += 1
            again = f" (#{seen[words]})" if seen[words] > 1 else ""
            yield Mutant(function, words + again, slot, new, line, in_exit)


@cache
def edits() -> dict[str, Mutant]:
    """The mutants by hand of ``edits.txt``, by their names."""
    found = read_edits(Path(__file__).parent / "edits.txt")
    return {str(mutant): mutant for mutant, _ in found}


def read_edits(path: Path) -> Iterator[tuple[Mutant, str]]:
    """The mutants by hand of a file, each with the note behind ``@``, if there is one."""
    text = path.read_text("utf-8")
    for function, name, old, new, note in re.findall(
        r"(?m)^(\S+): (.*)\n  - (.*)\n  \+ (.*)\n(?:  @ (.*)\n)?", text
    ):
        yield _edited(functions(module_of(function))[function], name, old, new), note


def named(mutant: str) -> Mutant | None:
    """The mutant with this name, if the machines still have what it changes."""
    return edits().get(mutant) or mutants(module_of(mutant)).get(mutant)


def edit(name: str, function: Any, old: str, new: str = "pass") -> Mutant:
    """A mutant of *function* by hand: the expression or statement *old* became *new*."""
    live = behind(function)
    module = live.__module__.removeprefix("farref.")
    shipped = functions(module)[f"{module.removeprefix('protocol.')}.{live.__qualname__}"]
    return _edited(shipped, name, old, new)


def _edited(shipped: Function, name: str, old: str, new: str) -> Mutant:
    became = _parsed(new)
    was = _parsed(old, whole=isinstance(became, ast.stmt))
    words = ast.unparse(was)
    slots = [
        slot
        for slot in _slots(shipped.tree)
        if type(slot.node) is type(was) and ast.unparse(slot.node) == words
    ]
    if len(slots) != 1:
        raise AssertionError(
            f"{shipped.name}: {name}: {old!r} is {len(slots)} times in the function; "
            "the rule was rewritten, so rewrite its mutant"
        )
    if hasattr(was, "ctx"):
        became.ctx = slots[0].node.ctx  # type: ignore[attr-defined]  # it may be assigned to
    line = max(
        each.lineno
        for each in ast.walk(shipped.tree)
        if isinstance(each, ast.stmt) and each.lineno <= slots[0].node.lineno
    )
    return Mutant(shipped, name, slots[0], became, line)


def _parsed(text: str, *, whole: bool = False) -> ast.AST:
    """The expression or statement *text*. Several statements are one that holds them."""
    first, *more = ast.parse(text).body
    if more:
        return ast.If(ast.Constant(value=True), [first, *more], [])
    return first.value if isinstance(first, ast.Expr) and not whole else first


def _slots(tree: ast.AST) -> Iterator[Slot]:
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.AST):
                yield Slot(node, field)
            elif isinstance(value, list):
                for index, each in enumerate(value):
                    if isinstance(each, ast.AST):
                        yield Slot(node, field, index)


# ---- the operators

Change = tuple[str, Slot, ast.AST | None]
OTHER_LIMIT = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}


def _told(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0]


def _constant(value: object) -> ast.Constant:
    return ast.Constant(value)  # type: ignore[arg-type]  # any constant


def _names(targets: list[ast.expr]) -> list[str | None]:
    """The names that are bound; None for anything else that is assigned to."""
    parts = [part for each in targets for part in getattr(each, "elts", [each])]
    return [getattr(each, "id", None) for each in parts]


@cache
def only_exits_call() -> set[str]:
    """The functions of `protocol` that nothing but exits calls."""
    called = [set[str](), set[str]()]
    for path in PROTOCOL.glob("*.py"):
        for function in functions(f"protocol.{path.stem}").values():
            within = {
                part
                for each in function.exits
                for top in (each.test, *each.body)
                for part in ast.walk(top)
            }
            for each in ast.walk(function.tree):
                if isinstance(each, ast.Attribute):
                    called[each in within].add(each.attr)
    outside, inside = called
    return inside - outside


@cache
def _signatures() -> tuple[set[str], set[str]]:
    """The functions of `protocol` that return a list, and those that return what they are given."""
    lists, same = set(), set()
    for path in PROTOCOL.rglob("*.py"):
        for each in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(each, ast.FunctionDef) and each.returns is not None:
                returns = _told(each.returns)
                taken = [it for it in each.args.args if it.annotation is not None][:1]
                if returns.startswith("list["):
                    lists.add(each.name)
                if taken and _told(taken[0].annotation or each) == returns:
                    same.add(each.name)
    return lists, same


class _Changes:
    def __init__(self, function: Function) -> None:
        self.function = function
        tree = function.tree
        self.returns = ast.unparse(tree.returns) if tree.returns else ""
        self.bound = Counter(each.arg for each in ast.walk(tree.args) if isinstance(each, ast.arg))
        for each in ast.walk(tree):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                self.bound[each.id] += 1

    def all(self) -> Iterator[tuple[int, bool, Change]]:
        """Each change, with the line of its statement, and whether that is in an exit."""
        for index, each in enumerate(self.function.tree.body):
            yield from self._of(Slot(self.function.tree, "body", index), each.lineno, False)

    def _of(self, slot: Slot, line: int, in_exit: bool) -> Iterator[tuple[int, bool, Change]]:
        node = slot.node
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            return
        line = node.lineno if isinstance(node, ast.stmt) else line
        is_exit = node in self.function.exits
        changes = self._widened(Slot(node, "test"), wide=True) if is_exit else self._here(slot)
        for change in changes:
            yield line, in_exit or is_exit, change
        if isinstance(node, ast.Raise | ast.JoinedStr):
            return  # its words
        for field, value in ast.iter_fields(node):
            if field in {"annotation", "ctx", "pattern"} or (is_exit and field == "test"):
                continue
            within = in_exit or (is_exit and field == "body")
            if isinstance(value, ast.AST):
                yield from self._of(Slot(node, field), line, within)
            elif isinstance(value, list):
                for index, each in enumerate(value):
                    if isinstance(each, ast.AST):
                        yield from self._of(Slot(node, field, index), line, within)

    def _widened(self, slot: Slot, *, wide: bool) -> Iterator[Change]:
        """The condition of an exit without one of its parts. A narrower exit is only slower."""
        node = slot.node
        if isinstance(node, ast.UnaryOp):
            yield from self._widened(Slot(node, "operand"), wide=not wide)
        elif isinstance(node, ast.BoolOp):
            for index, each in enumerate(node.values):
                place = Slot(node, "values", index)
                if isinstance(node.op, ast.And) == wide:
                    yield f"without {_told(each)}", place, _constant(wide)
                yield from self._widened(place, wide=wide)

    def _here(self, slot: Slot) -> Iterator[Change]:
        node = slot.node
        match node:
            case ast.Expr(value=ast.Constant()):  # a docstring
                pass
            case ast.Assign(targets=targets, value=value):
                if not (self._must_be(targets) or _only_shares(targets[0], value)):
                    yield f"without {_told(node)}", slot, ast.Pass()
                if isinstance(value, ast.Tuple) and isinstance(targets[0], ast.Tuple):
                    yield from self._fewer(slot, targets[0], value)
            case ast.AnnAssign(target=target, value=ast.expr()):
                if not self._must_be([target]):
                    yield f"without {_told(node)}", slot, ast.Pass()
            case ast.Expr() | ast.AugAssign() | ast.Delete() | ast.Raise() | ast.For():
                yield f"without {_told(node)}", slot, ast.Pass()
            case ast.Continue() | ast.Break():
                yield f"without {_told(node)}", slot, ast.Pass()
            case ast.If(test=test, body=[ast.Raise(), *_]):  # never: as without the `raise`
                yield f"always {_told(test)}", Slot(node, "test"), _constant(True)
            case ast.If() | ast.While() | ast.IfExp():
                yield from self._condition(Slot(node, "test"), loop=isinstance(node, ast.While))
            case ast.comprehension(ifs=[]):
                empty = ast.Tuple([], ast.Load())
                yield f"nothing of {_told(node.iter)}", Slot(node, "iter"), empty
            case ast.comprehension():
                for index, _ in enumerate(node.ifs):
                    yield from self._condition(Slot(node, "ifs", index))
            case ast.Return(value=ast.expr()):
                yield from self._returned(Slot(node, "value"))
            case ast.BoolOp(op=op, values=values):
                for each in values:
                    rest = [it for it in values if it is not each]
                    new = rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
                    if not _is_empty(each):
                        yield f"without {_told(each)}", slot, new
            case ast.Compare(left=left, ops=[op], comparators=right) if type(op) in OTHER_LIMIT:
                new = ast.Compare(left, [OTHER_LIMIT[type(op)]()], right)
                yield _told(new), slot, new
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() as op, left=left, right=right):
                for each in (left,) if isinstance(op, ast.Sub) else (left, right):
                    yield f"only {_told(each)} of {_told(node)}", slot, each
            case ast.List(ctx=ast.Load()) | ast.Tuple(ctx=ast.Load()):
                for index, each in enumerate(node.elts):
                    if isinstance(node, ast.List) or isinstance(each, ast.Starred):
                        yield f"without {_told(each)}", Slot(node, "elts", index), None
            case ast.Call(func=ast.Name(id="min" | "max"), args=[_, _]):
                for each in node.args:
                    yield f"only {_told(each)} of {_told(node)}", slot, each
            case ast.Call():
                yield from self._called(slot)
                yield from self._keywords(node)

    def _fewer(self, slot: Slot, target: ast.Tuple, value: ast.Tuple) -> Iterator[Change]:
        """An assignment to several things, without one of them."""
        for index, (to, what) in enumerate(zip(target.elts, value.elts, strict=False)):
            if not self._must_be([to]) and len(target.elts) == len(value.elts) == 2:
                rest = ast.Assign([target.elts[1 - index]], value.elts[1 - index])
                yield f"without {_told(to)} = {_told(what)}", slot, rest

    def _called(self, slot: Slot) -> Iterator[Change]:
        """What a call gives is left out, not removed, or what went in."""
        call, named = slot.node, _told(slot.node.func).rpartition(".")[2]
        if isinstance(slot.parent, ast.Expr | ast.Return | ast.AugAssign):
            return  # the statement is left out as a whole
        lists, same = _signatures()
        if named in lists:
            yield f"[], not {_told(call)}", slot, ast.List([], ast.Load())
        if named in same and call.args:
            yield f"only {_told(call.args[0])} of {_told(call)}", slot, call.args[0]
        match call:
            case ast.Call(func=ast.Attribute(value=value, attr="pop"), args=[key]):
                yield f"keeps {_told(call)}", slot, ast.Subscript(value, key, ast.Load())
            case ast.Call(func=ast.Attribute(value=value, attr="pop"), args=[_, _]):
                get = ast.Attribute(value, "get", ast.Load())
                yield f"keeps {_told(call)}", slot, ast.Call(get, call.args, [])

    def _keywords(self, call: ast.Call) -> Iterator[Change]:
        named = call.func.id if isinstance(call.func, ast.Name) else ""
        kind = self.function.live.__globals__.get(named)
        needs = set[str]()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            fields, defaults = kind.__struct_fields__, kind.__struct_defaults__
            has = dict(zip(reversed(fields), reversed(defaults), strict=False))
            needs = {
                each for each in fields if has.get(each, msgspec.NODEFAULT) is msgspec.NODEFAULT
            }
        for index, each in enumerate(call.keywords):
            match each.value:
                case ast.Constant(value=bool() as value) if each.arg != "strict":
                    yield f"{each.arg}={not value}", Slot(each, "value"), _constant(not value)
                case _ if each.arg is not None and each.arg not in {*needs, "strict"}:
                    yield f"without {_told(each)}", Slot(call, "keywords", index), None

    def _must_be(self, targets: list[ast.expr]) -> bool:
        """Whether nothing else gives these variables a value."""
        return all(name is not None and self.bound[name] == 1 for name in _names(targets))

    def _condition(self, slot: Slot, *, loop: bool = False) -> Iterator[Change]:
        test = slot.node
        operator = getattr(test, "op", None)  # its parts are left out, one by one
        if not isinstance(operator, ast.And) and not loop:
            yield f"always {_told(test)}", slot, _constant(True)
        if not isinstance(operator, ast.Or):
            yield f"never {_told(test)}", slot, _constant(False)

    def _returned(self, slot: Slot) -> Iterator[Change]:
        value = slot.node
        kind = self.returns.partition("[")[0]
        if kind == "bool" and isinstance(value, ast.Constant):
            yield f"returns {not value.value}", slot, _constant(not value.value)
        elif kind == "bool":
            yield from self._condition(slot)
        elif kind == "list" and not (isinstance(value, ast.List) and len(value.elts) < 2):
            yield f"returns [], not {_told(value)}", slot, ast.List([], ast.Load())
        elif kind == "tuple" and isinstance(value, ast.Tuple):
            for index, each in enumerate(value.elts):
                place = Slot(value, "elts", index)
                if isinstance(each, ast.Constant) and isinstance(each.value, bool):
                    yield f"returns {not each.value}", place, _constant(not each.value)
                elif not isinstance(each, ast.Constant | ast.List | ast.Tuple):
                    empty = ast.List([], ast.Load()) if index else ast.Tuple([], ast.Load())
                    yield f"returns no {_told(each)}", place, empty
        elif self.returns.endswith("| None") and not isinstance(value, ast.Constant):
            yield f"returns None, not {_told(value)}", slot, _constant(None)


def _is_empty(node: ast.expr) -> bool:
    """Whether *node* makes an empty table, or is one of those that all entries share."""
    match node:
        case ast.Name(id="EMPTY" | "EMPTY_SET") | ast.Dict(keys=[]):
            return True
        case ast.Call(func=ast.Name(id="set" | "OrderedDict"), args=[]):
            return True
    return False


def _only_shares(target: ast.expr, value: ast.expr) -> bool:
    """Whether an empty table only becomes the one that all entries share: that saves memory."""
    match value:
        case ast.BoolOp(values=[first, last]):
            return _is_empty(last) and isinstance(last, ast.Name) and _told(first) == _told(target)
    return False
