"""The recipes of docs/launch.md for launchers that are not here: stand-ins run their very lines."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..ports import free_port
from . import recipes
from .kit import FIRST, PATIENCE, running

SRUN = """
import os, subprocess, sys

step = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}
step |= {"SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "127.0.0.[2-3]"}
env = os.environ | step
tasks = [subprocess.Popen(sys.argv[1:], env=env | {"SLURM_PROCID": str(n)}) for n in range(2)]
sys.exit(max(task.wait() for task in tasks))
"""
SSH = """
import subprocess, sys
sys.exit(subprocess.call(["sh", "-c", sys.argv[2]]))
"""


def run_script(folder: Path, text: str, **tools: str) -> str:
    """Run a script of the page with these *tools* on the path; returns the output."""
    (folder / "train.py").write_text(recipes.TRAIN, encoding="utf-8")
    for name, program in tools.items():
        (folder / name).write_text(f"#!{sys.executable}\n{program}", encoding="utf-8")
        (folder / name).chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        env={**os.environ, **recipes.path(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(300)
def test_the_script_for_sbatch(tmp_path: Path) -> None:
    (block,) = recipes.of("SLURM", "sh")
    assert run_script(tmp_path, block.body, srun=SRUN) == recipes.ANSWER


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(300)
def test_the_script_for_ssh(tmp_path: Path) -> None:
    (block,) = recipes.of("ssh", "sh")
    text = block.body.replace("10.0.0.1", FIRST).replace("10.0.0.2", "127.0.0.3")
    assert run_script(tmp_path, text, ssh=SSH, scp="").endswith(recipes.ANSWER)


# --- Kubernetes ---------------------------------------------------------------------------


def manifests() -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed here")
    texts = recipes.of("Kubernetes", "yaml")
    return [each for block in texts for each in yaml.safe_load_all(block.body)]


def test_the_manifests_fit_the_schemas_of_kubernetes_and_jobset() -> None:
    """A field that the schema does not have is dropped, so the manifest would come back shorter."""
    schemas = pytest.importorskip(
        "kubeflow_trainer_api.models", reason="kubeflow-trainer-api is not installed here"
    )
    kinds = {
        "JobSet": schemas.JobsetV1alpha2JobSet,
        "Job": schemas.IoK8sApiBatchV1Job,
        "Service": schemas.IoK8sApiCoreV1Service,
    }
    found = manifests()
    assert [each["kind"] for each in found] == ["JobSet", "Service", "Job"]
    for each in found:
        assert kinds[each["kind"]].from_dict(each).to_dict() == each


def pods() -> list[dict[str, Any]]:
    """The specifications of the Jobs: the JobSet's, and the Job's own."""
    jobset, service, job = manifests()
    (replicated,) = jobset["spec"]["replicatedJobs"]
    assert job["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    return [replicated["template"]["spec"], job["spec"]]


def test_the_manifests_start_as_many_pods_as_nodes() -> None:
    for spec in pods():
        (container,) = spec["template"]["spec"]["containers"]
        assert spec["completionMode"] == "Indexed"
        assert spec["completions"] == spec["parallelism"]
        assert f"--nnodes={spec['parallelism']}" in container["command"]


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("number", [0, 1])
def test_the_command_of_the_pods(number: int, tmp_path: Path) -> None:
    """In the environment of two pods. Their names are no names here, so the first one is given."""
    (container,) = pods()[number]["template"]["spec"]["containers"]
    words = [word.replace("=4", "=2") for word in container["command"]]
    assert words[0] == "farref"
    (tmp_path / "train.py").write_text(recipes.TRAIN, encoding="utf-8")
    env = {
        # A Secret made from a key's file has the end of its line, too.
        container["env"][0]["name"]: secrets.token_hex(32) + "\n",
        "FARREF_FIRST": f"{FIRST}:{free_port(FIRST)}",
        **recipes.path(),
    }
    command = [sys.executable, "-m", *words]
    commands = (["env", f"JOB_COMPLETION_INDEX={n}", *command] for n in range(2))
    with running(tmp_path, commands, env) as nodes:
        assert [node.end() for node in nodes] == [0, 0], nodes[0].err + nodes[1].err
        assert [node.out for node in nodes] == [recipes.ANSWER, ""]
