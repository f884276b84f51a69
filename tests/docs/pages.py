"""The pages of the documentation, and the blocks of code in them.

The words of a fence decide the use of its block. These are the rules for writers:

- ```` ```python ````: a program of its own. It prints the text of its comments, and nothing else.
- ```` ```python title="a.py" ````: a file of the page, for the programs and commands below it.
- ```` ```console ````: lines after ``$`` are typed, one after the other. The lines below a command
  are its output (``...`` stands for anything). Lines after ``second$`` are typed in another
  terminal, and run until the page ends.
- ```` ```sh ````: a script.
- ```` ```text ````, ``json``, ``toml``, ``ini``, ``yaml``, ``pyi``: only read.
- A block is not run if a comment below it gives the reason: ``<!-- Not run by the tests: ... -->``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

LANGUAGES = frozenset({"python", "console", "sh"})
"""The languages that the tests run."""
PROSE = frozenset({"", "text", "json", "toml", "ini", "yaml", "pyi"})
"""Blocks that are only read."""

_FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>`{3,})(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=indent)(?P=ticks) *\n",
    re.DOTALL | re.MULTILINE,
)
_NOT_RUN = re.compile(r"\s*<!-- Not run by the tests: (.+?) -->\n", re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_PROMPT = re.compile(r"(\w*)\$ (.*)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of the page *page*, a path relative to the repository."""

    page: str
    line: int
    language: str
    title: str
    """The name of the file that the block is; empty if it is none."""
    body: str
    section: str
    """The last heading above the block."""
    not_run: str
    """The reason not to run the block; empty if it runs."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(slots=True)
class Typed:
    """A command of a console block, and the output below it."""

    terminal: str
    command: str
    output: list[str]


def pages() -> list[str]:
    """Every page, the README and its companions first."""
    found = [
        ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
    ]
    return [path.relative_to(ROOT).as_posix() for path in (*found, *sorted(DOCS.rglob("*.md")))]


def text_of(page: str) -> str:
    """The text of the file *page*."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    """The fenced blocks of *page*, in their order."""
    text = text_of(page)
    found = []
    for match in _FENCE.finditer(text):
        before, info = text[: match.start()], match["info"]
        headings = re.findall(r"^#+ (.*)$", _FENCE.sub("\n", before), re.MULTILINE)
        reason = _NOT_RUN.match(text, match.end())
        title = _TITLE.search(info)
        found.append(
            Block(
                page=page,
                line=before.count("\n") + 1,
                language=info.split()[0] if info.strip() else "",
                title=title[1] if title else "",
                body=re.sub(rf"^{match['indent']}", "", match["body"], flags=re.MULTILINE),
                section=headings[-1] if headings else "",
                not_run=" ".join(reason[1].split()) if reason else "",
            )
        )
    return found


def typed(block: Block) -> list[Typed]:
    """The commands of a console block. Raises `ValueError` if it does not begin with one."""
    found: list[Typed] = []
    lines = iter(block.body.splitlines())
    for line in lines:
        match = _PROMPT.fullmatch(line)
        if match is None:
            if not found:
                raise ValueError(f"{block}: a console block begins with a prompt, not {line!r}")
            found[-1].output.append(line)
            continue
        command = match[2]
        while command.endswith("\\"):
            command += "\n" + next(lines)
        found.append(Typed(match[1], command, []))
    return found


def prose(page: str) -> str:
    """The text of *page* without fenced blocks and inline code."""
    return re.sub(r"`[^`\n]+`", "``", _FENCE.sub("\n", text_of(page)))
