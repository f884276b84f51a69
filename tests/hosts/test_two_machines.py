"""The two machines of a how-to guide: its very lines, on two namespaces with its very addresses."""

from __future__ import annotations

import contextlib
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from .homes import lines_of, two_homes

if TYPE_CHECKING:
    from pathlib import Path

    from .network import Pair


@pytest.mark.processes
def test_the_lines_work_as_they_stand(pair: Pair, tmp_path: Path) -> None:
    homes, env = two_homes(tmp_path)
    commands, program = lines_of("docs/howto/several-hosts.md", "The lines to copy")
    (homes["first"] / "two.py").write_text(program, encoding="utf-8")
    assert [command.split()[0] for _, command in commands[-2:]] == ["farref", "python3"]
    with contextlib.ExitStack() as stack:
        started = []
        for number, (machine, command) in enumerate(commands):
            process = stack.enter_context(
                subprocess.Popen(
                    [*pair.command(machine), "bash", "-c", command],
                    cwd=homes[machine],
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            stack.callback(process.kill)
            started.append(process)
            if number < len(commands) - 2:  # the last two run side by side
                _, err = process.communicate(timeout=60)
                assert process.returncode == 0, err
        second, first = started[-2:]
        out, err = first.communicate(timeout=60)
        assert (out.splitlines(), err) == (re.findall(r"print\(.*\)\s+# (.*)", program), "")
        out, err = second.communicate(timeout=60)
        assert (second.returncode, err) == (0, "")
        assert "10.0.0.2 is a host of" in out
    assert (homes["second"] / "farref.key").stat().st_mode & 0o077 == 0
