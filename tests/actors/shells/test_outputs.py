"""A worker's `print` goes to its standard output, also if the program's does not."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from ...bases import PROCESSES

PROGRAM = """
    import io, sys, farref

    class Notebook(io.TextIOBase):
        # As in Jupyter: what a forked process writes to it is lost.
        def write(self, text):
            return len(text)

    def say(word):
        print(word)
        print(word, file=sys.stderr)

    if __name__ == "__main__":
        sys.stdout = sys.stderr = Notebook()
        with farref.System(%r) as system:
            system.worker("B")
            farref.rpc_sync("B", say, ("hello",))
        print("lost")
"""


@pytest.mark.parametrize("base", PROCESSES)
def test_a_worker_prints_to_its_standard_output(base: str) -> None:
    code = textwrap.dedent(PROGRAM % base)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "hello\n"
    assert "hello\n" in done.stderr
    assert "lost" not in done.stderr
