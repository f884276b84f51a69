"""The programs of PyTorch's tutorials, by `farref.rpc`: each checks its own result."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SAID = {
    "agent": "the agent has learned which action each light wants",
    "batch": "all have the model [2.0, 6.0]",
    "server": "200 updates: 2.0",
    "pipeline": "24 numbers went through both shards in 4 micro-batches",
}


@pytest.mark.parametrize("name", SAID)
def test_a_tutorial_runs(name: str) -> None:
    file = EXAMPLES / f"ranks_{name}.py"
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, check=False, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert SAID[name] in done.stdout


@pytest.mark.parametrize("name", SAID)
def test_a_tutorial_says_what_differs(name: str) -> None:
    text = (EXAMPLES / f"ranks_{name}.py").read_text("utf-8")
    assert re.search(r"(One|Two)\s+lines?\s+differs?", text.split('"""')[1])
    assert text.count("import farref.rpc as rpc") == 1


def test_a_wrong_result_is_an_error(tmp_path: Path) -> None:
    text = (EXAMPLES / "ranks_pipeline.py").read_text("utf-8")
    assert text.count("values = batch.to_here()") == 1
    wrong = tmp_path / "wrong.py"
    wrong.write_text(text.replace("values = batch.to_here()", "values = [0]"), "utf-8")
    done = subprocess.run(
        [sys.executable, str(wrong)], capture_output=True, check=False, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "AssertionError" in done.stderr
