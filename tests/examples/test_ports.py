"""Programs of PyTorch's, Ray's and Thespian's documentation: each checks its own result."""

from pathlib import Path

import pytest

from .test_examples import EXAMPLES, python

SAID = {
    "ranks_agent": ("the agent has learned which action each light wants",),
    "ranks_batch": ("all have the model [2.0, 6.0]",),
    "ranks_server": ("200 updates: 2.0",),
    "ranks_pipeline": ("24 numbers went through both shards in 4 micro-batches",),
    "ray_actor_tree": ("models: [1, 2, 3] and [2, 4, 6]", "0 actors are left"),
    "ray_parameter_server": ("Synchronous training", "Asynchronous training"),
    "ray_signal": ("set...\nworker-", "go!"),
    "thespian_director": ("Good day, Ada! You are number 1.", "Hello, Bob! You are number 2."),
}
WRONG = {
    "ranks_pipeline": ("values = batch.to_here()", "values = [0]"),
    "ray_actor_tree": ("self.data * self.hyperparameter", "self.data"),
    "ray_parameter_server": ("self.model.weights - self.rate", "self.model.weights + self.rate"),
    "ray_signal": ("await self.ready_event.wait()", "pass"),
    "thespian_director": ("if hmac.compare_digest(signed, signature(source)):", "if True:"),
}
"""For some of the programs, a line and a mistake in it."""


@pytest.mark.parametrize("name", SAID)
def test_a_program_runs(name: str) -> None:
    done = python(str(EXAMPLES / f"{name}.py"))
    assert (done.returncode, done.stderr) == (0, "")
    assert [each for each in SAID[name] if each not in done.stdout] == []


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_result_is_an_error(name: str, tmp_path: Path) -> None:
    text, (right, wrong) = (EXAMPLES / f"{name}.py").read_text("utf-8"), WRONG[name]
    assert text.count(right) == 1
    file = tmp_path / "wrong.py"
    file.write_text(text.replace(right, wrong), "utf-8")
    done = python(str(file))
    assert done.returncode == 1
    assert "AssertionError" in done.stderr
