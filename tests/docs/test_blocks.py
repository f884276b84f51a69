"""Every block of code in the README and in docs/ runs, and does the things beside it.

The rules for writers are in `pages`. The blocks of a page run in its order, in one folder of their
own. The blocks before a block run first, if they have not run yet.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .pages import LANGUAGES, PROSE, ROOT, Block, Typed, blocks, pages, text_of, typed

if TYPE_CHECKING:
    from collections.abc import Iterator

NOT_RUN = {
    "CONTRIBUTING.md": 2,
    "README.md": 1,
    "docs/demos.md": 1,
    "docs/hosts.md": 6,
    "docs/howto/several-hosts.md": 1,
    "docs/launch.md": 2,
    "docs/observability.md": 2,
    "docs/torchrun.md": 1,
    "docs/trace.md": 1,
    "docs/tutorial/index.md": 1,
    "docs/verification.md": 1,
}
"""The number of blocks of each page that say that they are not run."""

ELSEWHERE = {
    ("docs/howto/find-a-leak.md", "From another terminal"): "tests/commands/test_refs.py",
    ("docs/launch.md", "ssh"): "tests/launch/test_recipes.py",
    ("docs/launch.md", "SLURM"): "tests/launch/test_recipes.py",
    ("docs/launch.md", "MPI"): "tests/launch/test_mpirun.py",
    ("docs/launch.md", "torchrun"): "tests/launch/test_torchrun.py",
    ("docs/howto/several-hosts.md", "The lines to copy"): "tests/hosts/test_two_machines.py",
    ("docs/torchrun.md", "Two machines"): "tests/hosts/test_torchrun.py",
}
"""Sections whose blocks another test runs, because they need more than a folder."""

OPTIONAL = ("hypothesis", "networkx", "numpy", "opentelemetry", "ray", "torch")
"""Optional packages: if a program imports a missing one, its block is skipped."""

FIRST = ("", "first")
"""The terminals in which the tests wait for a command's end."""

TUTORIAL = "docs/tutorial/"
"""Its pages continue each other: each has the files of all earlier ones."""

PATIENCE = 90
"""The most seconds for one block."""

ALL = [block for page in pages() for block in blocks(page)]
RUN = [
    block
    for block in ALL
    if block.language in LANGUAGES
    and not block.not_run
    and (block.page, block.section) not in ELSEWHERE
]


class Runner:
    """The blocks of one page, in a folder of their own."""

    def __init__(self, page: str, folder: Path) -> None:
        self.folder = folder
        self._blocks = [block for block in RUN if block.page == page]
        self._next = 0
        self._files: dict[str, str] = {}
        self._others: list[tuple[Typed, subprocess.Popen[str]]] = []
        if page.startswith(TUTORIAL):
            for block in RUN:
                if block.title and block.page.startswith(TUTORIAL):
                    self._write(block)
        if any("examples/" in block.body for block in self._blocks):
            for name in ("examples", "docs", "README.md"):
                (folder / name).symlink_to(ROOT / name)

    def run(self, block: Block) -> None:
        """Run everything up to *block*, and *block*.

        The first block that skips or fails decides.
        """
        while self._next <= self._blocks.index(block):
            each, self._next = self._blocks[self._next], self._next + 1
            if each.title:
                self._write(each)
            elif each.language == "python":
                self._program(each)
            elif each.language == "sh":
                self._need(each.body)
                self._type(Typed("", f"set -e\n{each.body}", []))
            else:
                for line in typed(each):
                    self._need(line.command)
                    self._type(line)
            if self._next == len(self._blocks):
                self._others_end()

    def close(self) -> None:
        """End every program that still runs."""
        for _, process in self._others:
            process.kill()
            process.communicate()

    def _write(self, block: Block) -> None:
        path = self.folder / block.title
        path.write_text(block.body, encoding="utf-8")
        self._files[path.stem] = block.body

    def _program(self, block: Block) -> None:
        self._need(block.body)
        path = self.folder / f"line_{block.line}.py"
        path.write_text(block.body, encoding="utf-8")
        done = self._start(Typed("", f"python {path.name}", []), apart=True)
        out, err = done.communicate(timeout=PATIENCE)
        assert (done.returncode, err) == (0, "")
        said = re.findall(r"^\s*print\(.*\)  # (.*)$", block.body, re.MULTILINE)
        assert len(said) == len(re.findall(r"^\s*print\(", block.body, re.MULTILINE)), (
            "each print has a comment that says what it prints"
        )
        lines = out.splitlines()
        for comment, line in zip(said, lines, strict=False):
            assert comment == line or comment.startswith(f"{line}: "), f"{comment!r}: {line!r}"
        assert len(lines) == len(said), out

    def _type(self, line: Typed) -> None:
        process = self._start(line)
        if line.terminal not in FIRST:
            self._others.append((line, process))
            return
        try:
            self._end(line, process)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise

    def _others_end(self) -> None:
        while self._others:
            line, process = self._others[0]
            self._end(line, process)
            self._others.pop(0)

    def _start(self, line: Typed, *, apart: bool = False) -> subprocess.Popen[str]:
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        ray = {"RAY_ADDRESS": "local"}  # a Ray of its own, whatever else runs here
        return subprocess.Popen(
            ["bash", "-c", line.command],
            cwd=self.folder,
            env={**os.environ, **ray, "PATH": path, "COLUMNS": "100"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if apart else subprocess.STDOUT,
            text=True,
        )

    def _end(self, line: Typed, process: subprocess.Popen[str]) -> None:
        out, _ = process.communicate(timeout=PATIENCE)
        logs = "\n".join(each.read_text() for each in self.folder.glob("log.txt"))
        assert process.returncode == 0, f"$ {line.command}\n{out}\n{logs}"
        if line.output:
            assert matches(line.output, out), (
                f"$ {line.command}\n{out}\nbut the page says:\n" + "\n".join(line.output)
            )
        else:
            assert "Traceback" not in out, f"$ {line.command}\n{out}"

    def _need(self, text: str) -> None:
        """Skip if *text*, a program or a command, needs a missing package."""
        named = [body for stem, body in self._files.items() if re.search(rf"\b{stem}\b", text)]
        for package in OPTIONAL:
            wanted = re.compile(rf"^\s*(import|from) {package}\b", re.MULTILINE)
            if any(map(wanted.search, (text, *named))) and not importlib.util.find_spec(package):
                pytest.skip(f"{package} is not installed")


def matches(said: list[str], out: str) -> bool:
    """Whether *out* is the page's output; ``...`` stands for anything, alone for any lines."""
    pattern = ""
    for line in said:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += r"[^\n]*".join(map(re.escape, line.rstrip().split("..."))) + "\n"
    lines = [line.rstrip() for line in out.splitlines()]
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in lines)) is not None


@pytest.fixture(scope="module")
def runners() -> Iterator[dict[str, Runner]]:
    found: dict[str, Runner] = {}
    with tempfile.TemporaryDirectory(prefix="farref-docs-") as folder:
        for number, page in enumerate(dict.fromkeys(block.page for block in RUN)):
            path = Path(folder, str(number))
            path.mkdir()
            found[page] = Runner(page, path)
        yield found
        for runner in found.values():
            runner.close()


@pytest.mark.processes
@pytest.mark.parametrize("block", RUN, ids=str)
def test_the_block_does_what_it_says(runners: dict[str, Runner], block: Block) -> None:
    runners[block.page].run(block)


def test_no_block_installs_anything() -> None:
    assert not [str(block) for block in RUN if "pip install" in block.body]


def test_every_block_is_run_or_says_why_not() -> None:
    for block in ALL:
        assert block.language in LANGUAGES | PROSE, (
            f"{block}: nothing runs {block.language!r}; say one of {sorted(LANGUAGES)}, or `text`"
        )
        assert not block.not_run or len(block.not_run) > 10, f"{block}: a reason"
    assert Counter(block.page for block in ALL if block.not_run) == NOT_RUN


def test_every_file_of_a_page_is_used() -> None:
    for block in RUN:
        if block.title:
            stem = Path(block.title).stem
            others = [each for each in RUN if each.page == block.page and each is not block]
            used = [each for each in others if re.search(rf"\b{stem}\b", each.body)]
            tested = stem == "conftest" or stem.startswith("test_")
            pytest_runs = any("pytest" in each.body for each in others if not each.title)
            assert used or (tested and pytest_runs), f"{block}: nothing runs {block.title}"


def test_what_runs_elsewhere_does() -> None:
    for (page, section), test in ELSEWHERE.items():
        assert any((block.page, block.section) == (page, section) for block in ALL)
        assert section in (ROOT / test).read_text(encoding="utf-8")


def test_the_first_programs_are_short() -> None:
    for page in ("README.md", "docs/index.md", "docs/aliases.md"):
        program = next(block for block in blocks(page) if block.language == "python")
        code = [line for line in program.body.splitlines() if line.strip()]
        assert len(code) <= (10 if page == "README.md" else 32)
    readme = blocks("README.md")[0]
    assert "rpc_async" in readme.body
    assert "Actor" not in readme.body


def test_the_readme_is_a_page_and_a_half() -> None:
    text = text_of("README.md")
    assert text.count("\n") <= 90
    assert len(re.findall(r"^!\[.+\]\(docs/pictures/.+\)$", text, re.MULTILINE)) == 3
    peers = (
        "`multiprocessing` `Manager`",
        "RPyC",
        "Pyro5",
        "Ray",
        "Dask",
        "Celery",
        "`torch.distributed.rpc`",
    )
    assert [each for each in peers if f"\n| {each} |" not in text] == []
    assert "**Do not use it**" in text


def test_the_second_page_of_the_tutorial_makes_parallel_calls() -> None:
    second = next(block for block in RUN if block.title == "at_once.py")
    assert second.page == f"{TUTORIAL}first-reference.md"
    assert "(first-reference.md)" in text_of(f"{TUTORIAL}index.md").split("\n1. ")[1]
    assert "rpc_async" in second.body


def test_a_block_that_does_something_else_fails(tmp_path: Path) -> None:
    runner = Runner("README.md", tmp_path)

    def block(language: str, body: str) -> Block:
        return Block("README.md", 1, language, "", body, "", "")

    def run(each: Block) -> Any:
        runner._blocks, runner._next = [each], 0
        return runner.run(each)

    run(block("python", "print(1 + 1)  # 2: as ever\n"))
    run(block("console", "$ echo a\na\n$ true\n"))
    for wrong in (
        block("python", "print(1 + 1)  # 3\n"),
        block("python", "print(1 + 1)\n"),
        block("python", "for n in range(2):\n    print(n)  # 0\n"),
        block("python", "import sys; sys.exit(1)\n"),
        block("console", "$ echo a\nb\n"),
        block("console", "$ echo a; echo b\na\n"),
        block("console", "$ echo took; echo 1 s\ntook ... s\n"),
        block("console", "$ false\n"),
        block("sh", "false\ntrue\n"),
        block("console", "second$ false\n"),
    ):
        with pytest.raises(AssertionError):
            run(wrong)
