"""A thermometer of the English: clauses with what, whom, whose or whoever, per 1,000 words.

A noun is plainer than such a clause: "the sender", not "whom it is from". Good libraries have 0.2
to 1.9 of these words in 1,000. A low figure does not make a text plain, but a high one shows that
it is not.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AIM = 5
"""Clauses per 1,000 words, at most, of the pages and of the docstrings in each folder."""
GROUPS = (
    "pages",
    "actors",
    "bench",
    "examples",
    "protocol",
    "serialization",
    "src",
    "tests",
    "tools",
)

_CLAUSE = re.compile(r"\b(what|whom|whose|whoever)\b", re.IGNORECASE)
_CODE = re.compile(r"^ *(`{3,}).*?^ *\1 *$|`[^`\n]+`", re.DOTALL | re.MULTILINE)


def docstrings(source: str) -> str:
    """All strings of *source* that stand alone: docstrings, also those below attributes."""
    return "\n".join(
        node.value.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def texts(group: str) -> list[str]:
    """The texts of a group of `GROUPS`. Links to other groups are not followed."""
    if group == "pages":
        found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
        return [_CODE.sub("", path.read_text(encoding="utf-8")) for path in found]
    return [
        docstrings(Path(folder, name).read_text(encoding="utf-8"))
        for folder, _, names in os.walk(ROOT / group)
        for name in names
        if name.endswith(".py")
    ]


def rate(found: list[str]) -> float:
    """Clauses per 1,000 words."""
    words = sum(len(text.split()) for text in found)
    return 1000 * sum(len(_CLAUSE.findall(text)) for text in found) / words


@pytest.mark.parametrize("group", GROUPS)
def test_the_english_is_plain(group: str) -> None:
    now = rate(texts(group))
    assert now <= AIM, f"{group}: {now:.1f} clauses per 1,000 words: use nouns"


def test_the_thermometer_counts() -> None:
    assert rate([docstrings('"""What it has."""\nx = 1\n"""Whose x it is."""\n')]) == 1000 * 2 / 7
    assert rate([docstrings("def f(): return 'what'\n'''A noun.'''")]) == 0
    assert _CODE.sub("", "a `what` b\n```sh\nwhat\n```\n") == "a  b\n\n"
