"""The programs of Ray's and Thespian's documentation, by farref: each checks its own result."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SAID = {
    "ray_actor_tree": ("models: [1, 2, 3] and [2, 4, 6]", "0 actors are left"),
    "ray_parameter_server": ("Synchronous training", "Asynchronous training"),
    "ray_signal": ("set...\nworker-", "go!"),
    "thespian_director": ("Good day, Ada! You are number 1.", "Hello, Bob! You are number 2."),
}
WRONG = {
    "ray_actor_tree": ("self.data * self.hyperparameter", "self.data"),
    "ray_parameter_server": ("self.model.weights - self.rate", "self.model.weights + self.rate"),
    "ray_signal": ("await self.ready_event.wait()", "pass"),
    "thespian_director": ("if hmac.compare_digest(signed, signature(source)):", "if True:"),
}
"""For each program, a line and a mistake in it."""


def run(file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(file)], capture_output=True, check=False, text=True, timeout=60
    )


@pytest.mark.parametrize("name", SAID)
def test_a_program_runs(name: str) -> None:
    done = run(EXAMPLES / f"{name}.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert [each for each in SAID[name] if each not in done.stdout] == []


@pytest.mark.parametrize("name", SAID)
def test_a_program_says_what_differs(name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text("utf-8")
    said = " ".join(text.split('"""')[1].split())
    assert re.search(r"(Five|Nine|Eleven|Twenty) lines differ from the structure of [^:]+: ", said)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_result_is_an_error(name: str, tmp_path: Path) -> None:
    text, (right, wrong) = (EXAMPLES / f"{name}.py").read_text("utf-8"), WRONG[name]
    assert text.count(right) == 1
    file = tmp_path / "wrong.py"
    file.write_text(text.replace(right, wrong), "utf-8")
    done = run(file)
    assert done.returncode == 1
    assert "AssertionError" in done.stderr
