"""The recipes of docs/launch.md."""

import os
import sys
from pathlib import Path

from ..docs.pages import Block, blocks, typed

PAGE = [block for block in blocks("docs/launch.md") if not block.not_run]
TRAIN = PAGE[0].body
ANSWER = "0 1024\n1 1024\n"
"""The output of `TRAIN` on two nodes."""


def path(*folders: Path) -> dict[str, str]:
    """The environment in which the commands of the page are found, after those in *folders*."""
    found = [*map(str, folders), str(Path(sys.executable).parent), os.environ["PATH"]]
    return {"PATH": os.pathsep.join(found)}


def of(section: str, language: str) -> list[Block]:
    """The blocks of *section* in *language*."""
    return [each for each in PAGE if (each.section, each.language) == (section, language)]


def command(section: str) -> str:
    """The command of *section*, which has one."""
    (block,) = of(section, "console")
    (line,) = typed(block)
    return line.command
