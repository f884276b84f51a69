"""Two machines of a page: their lines, their folders, and `scp` between them: they share a disk."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..docs.pages import blocks, typed

SCP = """\
#!/bin/sh
# scp FILE 10.0.0.2:
test "$2" = "10.0.0.2:" && cp -p "$1" "$SECOND/"
"""


def two_homes(folder: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """The folder of each machine, in *folder*, and the environment of commands there."""
    homes = {name: folder / name for name in ("first", "second")}
    tools = folder / "tools"
    for each in (*homes.values(), tools):
        each.mkdir()
    (tools / "scp").write_text(SCP, encoding="utf-8")
    (tools / "scp").chmod(0o755)
    path = os.pathsep.join((str(tools), str(Path(sys.executable).parent), os.environ["PATH"]))
    return homes, {**os.environ, "PATH": path, "SECOND": str(homes["second"])}


def lines_of(page: str, section: str) -> tuple[list[tuple[str, str]], str]:
    """The lines to type in a section, each with the machine before it, and the program there."""
    here = [each for each in blocks(page) if each.section == section]
    found = [line for block in here if block.language == "console" for line in typed(block)]
    assert not any(line.output for line in found)
    (program,) = (block.body for block in here if block.language == "python")
    return [(line.terminal, line.command) for line in found], program
