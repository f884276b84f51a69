"""The README's two machines: its very lines, on two namespaces with its very addresses."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..test_readme import programs

if TYPE_CHECKING:
    from .network import Pair

README = Path(__file__).parents[2] / "README.md"
SCP = """\
#!/bin/sh
# scp FILE 10.0.0.2:
test "$2" = "10.0.0.2:" && cp -p "$1" "$SECOND/"
"""


def lines() -> list[tuple[str, str]]:
    """The machine and the command of each line that is to be typed."""
    text = README.read_text(encoding="utf-8")
    section = text.partition("## On two machines\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```console\n(.*?)```", section, re.DOTALL)
    found = re.findall(r"^(first|second)\$ (.*)$", "".join(blocks), re.MULTILINE)
    assert len(found) == len("".join(blocks).splitlines())
    return found


@pytest.mark.processes
def test_the_lines_work_as_they_stand(pair: Pair, tmp_path: Path) -> None:
    homes = {name: tmp_path / name for name in ("first", "second")}
    tools = tmp_path / "tools"
    for folder in (*homes.values(), tools):
        folder.mkdir()
    (tools / "scp").write_text(SCP, encoding="utf-8")
    (tools / "scp").chmod(0o755)
    program = programs("README.md")[1]
    (homes["first"] / "two.py").write_text(program, encoding="utf-8")

    commands = lines()
    path = os.pathsep.join((str(tools), str(Path(sys.executable).parent), os.environ["PATH"]))
    assert [command.split()[0] for _, command in commands[-2:]] == ["farref", "python3"]
    with contextlib.ExitStack() as stack:
        started = []
        for number, (machine, command) in enumerate(commands):
            process = stack.enter_context(
                subprocess.Popen(
                    [*pair.command(machine), "bash", "-c", command],
                    cwd=homes[machine],
                    env={**os.environ, "PATH": path, "SECOND": str(homes["second"])},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            stack.callback(process.kill)
            started.append(process)
            if number < len(commands) - 2:  # the last two run side by side
                _, err = process.communicate(timeout=30)
                assert process.returncode == 0, err
        second, first = started[-2:]
        out, err = first.communicate(timeout=60)
        assert (out.splitlines(), err) == (re.findall(r"print\(.*\)\s+# (.*)", program), "")
        out, err = second.communicate(timeout=60)
        assert (second.returncode, err) == (0, "")
        assert "10.0.0.2 is a host of" in out
    assert (homes["second"] / "farref.key").stat().st_mode & 0o077 == 0
