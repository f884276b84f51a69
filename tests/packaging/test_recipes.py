"""CONTRIBUTING's recipes: the files that one change opens, and no others."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from farref.testing import KINDS

from ..bases import BASES
from .imports import FACADE, LAYERS, ROOT, files

PRODUCT = files(FACADE, *(ROOT / layer for layer in LAYERS))
CONTROL = KINDS - {"Call", "Create", "Fetch", "Invoke", "Reply", "Tell"}
NAMES = {each.values[0] for each in BASES}
NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight"]


def recipe(title: str) -> str:
    """The text below a heading."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text.split(f"## {title}\n")[1].split("\n## ")[0]


def parsed(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("title", ["Add a message", "Add a system base"])
def test_a_recipe_counts_the_files_that_it_names(title: str) -> None:
    said = re.search(
        r"^These are (\w+) files: (.+?)\.(?:\s|$)", recipe(title), re.MULTILINE | re.DOTALL
    )
    assert said is not None
    named = said[2].replace("\n", " ").split(", ")
    assert NUMBERS[len(named)] == said[1]
    for path in re.findall(r"`([\w/.]+)`", said[2]):
        assert (ROOT / path).exists(), path


def lists_of_bases(path: Path) -> Iterator[str]:
    """The places where *path* lists several bases by their names."""
    for node in parsed(path):
        parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else []
        words = {each.value for each in parts if isinstance(each, ast.Constant)}
        if len(words & NAMES) > 1:
            yield f"{path.relative_to(ROOT)}:{node.lineno}"  # type: ignore[attr-defined]  # an expression


def test_one_file_lists_the_bases() -> None:
    """All others choose them by ability, so a new base opens none of them."""
    others = files(ROOT / "tests", ROOT / "bench")
    assert [place for path in (*PRODUCT, *others) for place in lists_of_bases(path)] == []


def exhaustive(path: Path) -> Iterator[str]:
    """The places where *path* has to handle each control message."""
    for node in parsed(path):
        if isinstance(node, ast.Match) and "assert_never" in ast.unparse(node.cases[-1]):
            matched = {
                part.cls.id
                for case in node.cases
                for part in ast.walk(case.pattern)
                if isinstance(part, ast.MatchClass) and isinstance(part.cls, ast.Name)
            }
            if matched & CONTROL:
                yield path.relative_to(ROOT).as_posix()


def test_two_files_have_a_table_of_messages() -> None:
    """A dict by message, or by its name, has to be opened for a new one; so has a `match`.

    One table is the machines', the other one has the words of traces. "Add a message" names both.
    """
    assert [place for path in PRODUCT for place in exhaustive(path)] == []
    found = []
    for path in PRODUCT:
        for node in parsed(path):
            if isinstance(node, ast.Dict):
                keys = {key.id for key in node.keys if isinstance(key, ast.Name)}
                keys |= {str(key.value) for key in node.keys if isinstance(key, ast.Constant)}
                if len(keys & CONTROL) > len(CONTROL) / 2:
                    found.append(path.relative_to(ROOT).as_posix())
    assert sorted(found) == ["protocol/context.py", "src/farref/trace/kinds.py"]
