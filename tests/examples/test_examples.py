"""The files in examples/: short, each runs alone, and wordcount counts right."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from farref.commands.demo import NAMES
from farref.examples import wordcount
from farref.examples.harness import InputError

from ..bases import those

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def python(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        capture_output=True,
        check=False,
        text=True,
        timeout=110,
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_demo_is_short_and_says_what_to_look_for(name: str) -> None:
    text = (EXAMPLES / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")
    assert text.count("\n") < (150 if name == "elastic" else 80)  # elastic is a program
    assert "\nLook for\n" in text
    assert text.endswith('if __name__ == "__main__":\n    run_alone(__doc__, play)\n')


@pytest.mark.processes
@pytest.mark.parametrize("name", ["user_to_user", "tell_user_to_user"])
@pytest.mark.parametrize("how", ["file", "module"])
def test_a_demo_runs_alone(tmp_path: Path, name: str, how: str) -> None:
    what = [str(EXAMPLES / f"{name}.py")] if how == "file" else ["-m", f"farref.examples.{name}"]
    run = python(*what, "--save", "t.jsonl", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (0, "saved t.jsonl\n")
    assert "nothing left" in run.stdout
    assert (tmp_path / "t.jsonl").is_file()


@pytest.mark.parametrize("base", those(lambda base: not base.own))
def test_wordcount_counts_real_text(base: str) -> None:
    source = EXAMPLES.parent / "protocol"
    what = ["-m", "farref.examples.wordcount", str(source), "--json", "--workers", "3"]
    run = python(*what, "--base", base, "--top", "5")
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    words: Counter[str] = Counter()
    for file in source.rglob("*.py"):
        words.update(re.findall(r"[^\W\d_]+", file.read_text(encoding="utf-8").lower()))
    assert result["same"] is True
    assert result["workers"] == 3
    assert (result["words"], result["distinct"]) == (words.total(), len(words))
    assert sorted(n for _, n in result["top"]) == sorted(n for _, n in words.most_common(5))


@pytest.mark.processes
def test_wordcount_fails_if_the_results_differ(tmp_path: Path) -> None:
    text = (EXAMPLES / "wordcount.py").read_text(encoding="utf-8")
    right, wrong = "return sum(farref.get(parts), Counter())", "return Counter(wrong=1)"
    assert text.count(right) == 1
    file = tmp_path / "wordcount.py"
    file.write_text(text.replace(right, wrong), encoding="utf-8")
    run = python(str(file), str(file), "--json", "--workers", "2", "--base", "simpleSystemBase")
    assert run.returncode == 1
    assert json.loads(run.stdout)["same"] is False


def test_wordcount_finds_the_standard_library() -> None:
    files = wordcount.select([])
    assert len(files) > 100
    assert any(file.name == "argparse.py" for file, _ in files)
    assert not any("site-packages" in file.parts for file, _ in files)


def test_chunks_hold_every_file_once() -> None:
    files = [(Path(f"{number}.py"), number * 1000) for number in range(100)]
    chunks = wordcount.cut(files, 4)
    assert [path for chunk in chunks for path in chunk] == [str(path) for path, _ in files]
    assert len(chunks) >= 4


def test_wordcount_refuses_what_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere")
    for path in (tmp_path, tmp_path / "gone.txt", tmp_path / "missing"):
        with pytest.raises(InputError, match="cannot be read: No such file"):
            wordcount.select([path])
    (pictures := tmp_path / "pictures").mkdir()
    (pictures / "picture.png").touch()
    for arguments, says in (
        ([str(tmp_path)], "wordcount: "),
        ([str(pictures)], f"wordcount: no text files in {pictures}"),
        (["--workers", "0"], "--workers"),
    ):
        run = python("-m", "farref.examples.wordcount", *arguments)
        assert run.returncode == 2
        assert says in run.stderr
        assert "Traceback" not in run.stderr
