"""The reference as stubs, for readers of a checkout: signatures and first sentences.

A line ``::: NAME`` of docs/reference is replaced on the site by everything that NAME's docstrings
say. In a checkout the block below it says the most important part. It is made from the source
alone, so it is the same on every Python and with every set of packages. A test compares it
(``tests/docs/test_pictures.py``), and the site leaves it out (``tools/site/hooks.py``).
"""

from __future__ import annotations

import ast
import re
import textwrap
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from .pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

SHOWN = re.compile(
    r"^(::: (\S+)\n(?:    options:\n      members: ([^\n]*)\n)?)(?:\n```pyi\n.*?^```\n)?",
    re.DOTALL | re.MULTILINE,
)
WIDTH = 100
DECORATORS = ("property", "classmethod", "staticmethod", "contextmanager")
"""Those that a caller has to know."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
_heads: dict[Function, list[str]] = {}
"""The lines of each function before its body, formatted as they are in the source."""


def with_stubs(text: str) -> str:
    """*text*, a page, with the block below each ``:::`` made anew."""
    return SHOWN.sub(
        lambda match: f"{match[1]}\n```pyi\n{stub(match[2], match[3] or '')}\n```\n", text
    )


def without_stubs(text: str) -> str:
    """*text*, a page, without these blocks."""
    return SHOWN.sub(lambda match: match[1], text)


def stub(name: str, members: str) -> str:
    """The stub of *name*; *members* is the page's option."""
    chosen = None if not members else set(re.findall(r"\w+", members))
    if _file(name) is None:
        return "\n".join(_lines(_located(name), chosen))
    lines = [*_sentence(_tree(name))]
    for each in () if chosen == {"false"} else _public(name):
        if chosen is None or each in chosen:
            lines += ["", *_lines(_located(f"{name}.{each}"), None)]
    return "\n".join(lines)


def _file(module: str) -> Path | None:
    path = (ROOT / "src").joinpath(*module.split("."))
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next((each for each in files if each.is_file()), None)


@cache
def _tree(module: str) -> ast.Module:
    file = _file(module)
    assert file is not None, f"there is no module {module}"
    text = file.read_text(encoding="utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    for each in ast.walk(tree):
        if isinstance(each, Function):
            head = "\n".join(lines[each.lineno - 1 : max(each.lineno, each.body[0].lineno - 1)])
            _heads[each] = textwrap.dedent(re.sub(r"  # .*", "", head)).splitlines()
    return tree


def _public(module: str) -> list[str]:
    """The names in a module's ``__all__``, or those that it defines."""
    body = _tree(module).body
    for each in body:
        if isinstance(each, ast.Assign | ast.AnnAssign) and "__all__" in _names(each):
            assert each.value is not None
            return sorted(ast.literal_eval(each.value), key=str.lower)
    defined = (each for each in body if isinstance(each, ast.ClassDef | Function))
    return list(dict.fromkeys(each.name for each in defined if each.name[0] != "_"))


def _names(node: ast.stmt) -> list[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [each.id for each in targets if isinstance(each, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def _located(name: str) -> list[ast.stmt]:
    """The definitions of *name* where it is defined, and the docstrings below assignments."""
    module, _, leaf = name.rpartition(".")
    tree = _tree(module)
    for at, each in enumerate(tree.body):
        if leaf in _names(each) and not _is_overload(each):
            return (
                tree.body[at : at + 2] if isinstance(each, ast.Assign | ast.AnnAssign) else [each]
            )
    package = module.split(".")
    if not str(_file(module)).endswith("__init__.py"):
        package.pop()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == leaf:
                    base = package[: len(package) + 1 - node.level] if node.level else []
                    return _located(".".join([*base, node.module or "", alias.name]))
    raise AssertionError(f"{name} is defined nowhere")


def _lines(body: Iterable[ast.stmt], chosen: set[str] | None) -> Iterator[str]:
    """Definitions and fields, each with the first sentence about it."""
    nodes = [*body, ast.Pass()]
    for node, after in pairwise(nodes):
        match node:
            case ast.ClassDef():
                bases = ", ".join(map(ast.unparse, node.bases))
                yield f"class {node.name}({bases}):".replace("()", "")
                inside = [
                    each
                    for each in node.body
                    if isinstance(each, ast.Expr)
                    or any(
                        name == "__init__" or (name[0] != "_" if chosen is None else name in chosen)
                        for name in _names(each)
                    )
                ]
                yield from _indented(_sentence(node), _lines(inside, None))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _function(node)
            case ast.AnnAssign():
                yield f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}"
                yield from _said(after)
            case ast.Assign():
                yield f"{ast.unparse(node.targets[0])} = ..."
                yield from _said(after)


def _function(node: Function) -> Iterator[str]:
    decorators = list(map(ast.unparse, node.decorator_list))
    if _is_overload(node) or any(each.endswith(".setter") for each in decorators):
        return
    yield from (f"@{each}" for each in decorators if each.endswith(DECORATORS))
    yield from _heads[node]
    yield from _indented(_sentence(node) or ["..."])


def _is_overload(node: ast.stmt) -> bool:
    return isinstance(node, Function) and "overload" in map(ast.unparse, node.decorator_list)


def _indented(*parts: Iterable[str]) -> Iterator[str]:
    for part in parts:
        yield from (f"    {each}" for each in part)


def _said(node: ast.stmt) -> Iterator[str]:
    """The first sentence below an assignment."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield from _quoted(str(node.value.value))


def _sentence(node: ast.Module | ast.ClassDef | Function) -> list[str]:
    text = ast.get_docstring(node)
    return list(_quoted(text)) if text else []


def _quoted(text: str) -> Iterator[str]:
    paragraph = " ".join(text.split("\n\n", 1)[0].split())
    first = re.match(r".+?[.](?= |$)", paragraph)
    sentence = first[0] if first else paragraph
    yield from textwrap.wrap(f'"""{sentence}"""', WIDTH - 8)
