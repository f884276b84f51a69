"""Trace files: blocks of comments, commands, ``----`` and the full expected output.

::

    # The purpose of this block.
    drop C A/1
    ----
    (nothing leaves C: fork A/2 is not confirmed)

Blank lines separate blocks. A block of comments alone is prose. The output is compared line by
line; ``pytest --rewrite`` writes the actual output instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ..protocol.errors import FarrefError
from .errors import BadCommandError
from .language import run
from .show import summarize
from .world import World

RULE = "----"


class TraceTestError(Exception):
    """A trace file that cannot run. The message begins with file:line."""


@dataclass(slots=True)
class Block:
    """Comments, commands and their expected output."""

    line: int
    comments: list[str] = field(default_factory=list)
    commands: list[tuple[int, str]] = field(default_factory=list)
    expected: list[str] | None = None

    def text(self, output: list[str]) -> str:
        """The block as the file has it, with *output* as its output."""
        commands = [command for _, command in self.commands]
        rule = [RULE, *output] if commands else []
        return "\n".join([*self.comments, *commands, *rule]) + "\n"


def parse(path: Path) -> list[Block]:
    """The blocks of the file at *path*. Raises `TraceTestError` if it is not made of blocks."""
    blocks: list[Block] = []
    block: Block | None = None
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], 1):
        if not line:
            if block is not None and block.commands and block.expected is None:
                raise TraceTestError(f"{path}:{block.line}: this block has no line {RULE!r}")
            block = None
            continue
        if block is None:
            block = Block(number)
            blocks.append(block)
        if block.expected is not None:
            block.expected.append(line)
        elif line == RULE and block.commands:
            block.expected = []
        elif line == RULE:
            raise TraceTestError(f"{path}:{number}: {RULE!r} without a command before it")
        elif not line.startswith("#"):
            block.commands.append((number, line))
        elif block.commands:
            raise TraceTestError(f"{path}:{number}: put the comment before the block's commands")
        else:
            block.comments.append(line)
    if not blocks or not blocks[0].comments or blocks[0].commands:
        raise TraceTestError(f"{path}:1: the first block must be comments, with the topic")
    return blocks


def story(blocks: Iterable[tuple[Block, list[str]]]) -> str:
    """The text of a file with these blocks and their outputs."""
    return "\n".join(block.text(output) for block, output in blocks)


def play(path: Path, record: Path | None = None) -> list[tuple[Block, list[str]]]:
    """Run the file at *path*; returns every block with its actual output.

    With *record*, a folder, every endpoint records its steps there, as actors do.
    """
    world = World(record)
    played = []
    for block in parse(path):
        output: list[str] = []
        for number, command in block.commands:
            world.lines = []
            try:
                run(world, command)
            except (BadCommandError, AssertionError, FarrefError) as error:
                shown = "".join(f"\n    {line}" for line in world.lines)
                raise TraceTestError(f"{path}:{number}: {command}: {error}{shown}") from error
            output += summarize(world.lines)
        played.append((block, output))
    world.close()
    return played


def differences(path: Path) -> str:
    """The expected and the actual output of the first block that differs; empty if none does."""
    for block, output in play(path):
        if block.commands and output != block.expected:
            return (
                f"{path}:{block.line}: the output has changed; `pytest --rewrite` takes it over, "
                "but only commit diffs that you understand\n"
                f"\nexpected:\n{block.text(block.expected or [])}\nbut was:\n{block.text(output)}"
            )
    return ""


def rewrite(path: Path) -> None:
    """Replace every expected output in the file at *path* by the actual one."""
    path.write_text(story(play(path)), encoding="utf-8")
