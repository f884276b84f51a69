"""Each launcher's variables, as it sets them; none of the launchers is here."""

from __future__ import annotations

import socket

import pytest

from farref.launch.errors import LaunchError
from farref.launch.launchers import ALONE, BY_HAND, PORT, SLURM_PORTS, Launch, find, first_of

SRUN = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "2",
    "SLURM_NTASKS": "3",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_STEP_NUM_NODES": "3",
    "SLURM_JOB_NUM_NODES": "4",
    "SLURM_STEP_NODELIST": "n[007-009]",
    "SLURM_JOB_NODELIST": "n[006-009]",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
    "PMIX_NAMESPACE": "1401290753",
}
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "1", "MPI_LOCALRANKID": "0"}
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "job-1",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29500",
}


def who(launch: Launch) -> tuple[int | None, int | None, str]:
    return launch.nnodes, launch.node_rank, launch.first


def test_without_a_launcher_there_is_one_node() -> None:
    assert find({}) == ALONE
    assert who(ALONE.with_options(None, None, None)) == (1, 0, "")


def test_srun() -> None:
    launch = find(SRUN)
    assert who(launch) == (3, 2, "n007")
    assert launch.shares
    assert launch.port in SLURM_PORTS
    assert launch.port != find({**SRUN, "SLURM_STEP_ID": "1"}).port
    assert launch.run != find({**SRUN, "SLURM_RESTART_COUNT": "1"}).run


def test_a_job_of_slurm_without_srun_is_refused() -> None:
    batch = {"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_JOB_NUM_NODES": "2"}
    with pytest.raises(LaunchError, match="was not started by srun"):
        find(batch)
    assert find({**batch, "SLURM_JOB_NUM_NODES": "1"}) == ALONE


@pytest.mark.parametrize(
    ("nodelist", "first"),
    [
        ("n007", "n007"),
        ("n[007-009,12],gpu1", "n007"),
        ("gpu-[3,1]-ib[0-1],n1", "gpu-3-ib0"),
        ("a,b", "a"),
        ("127.0.0.[2-3]", "127.0.0.2"),
        ("", ""),
    ],
)
def test_the_first_name_of_a_list_of_nodes(nodelist: str, first: str) -> None:
    assert first_of(nodelist) == first


def test_open_mpi_hydra_and_others_by_pmi() -> None:
    launch = find(OPEN_MPI)
    assert (who(launch), launch.run, launch.shares) == ((2, 1, ""), "mpi 1401290753", True)
    assert who(find(HYDRA)) == (4, 1, "")
    assert who(find({"PMI_RANK": "0", "PMI_SIZE": "2"})) == (2, 0, "")


def test_torchruns_agents_keep_the_port_for_themselves() -> None:
    launch = find(TORCHRUN)
    assert (who(launch), launch.port) == ((2, 1, "10.0.0.1"), 29501)
    assert find({**TORCHRUN, "TORCHELASTIC_USE_AGENT_STORE": "False"}).port == 29500
    assert find({**TORCHRUN, "TORCHELASTIC_RESTART_COUNT": "1"}).run != launch.run


@pytest.mark.parametrize("other", [OPEN_MPI, HYDRA, TORCHRUN])
def test_the_innermost_launcher_counts(other: dict[str, str]) -> None:
    """mpirun starts its helpers by srun, once on each node."""
    assert find({**SRUN, **other}) == find(other)


@pytest.mark.parametrize(
    ("env", "option"),
    [
        ({**SRUN, "SLURM_STEP_NUM_TASKS": "6"}, "--ntasks-per-node=1"),
        ({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, "--map-by ppr:1:node"),
        ({**HYDRA, "MPI_LOCALNRANKS": "2"}, "-ppn 1"),
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "2"}, "--nproc-per-node=1"),
    ],
)
def test_several_tasks_on_a_node_are_refused(env: dict[str, str], option: str) -> None:
    with pytest.raises(LaunchError, match=f"once on each node: use {option}"):
        find(env)


@pytest.mark.parametrize("name", ["run-nodes-0-1", "job-1"])
def test_the_pods_of_a_job(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JobSet's, and an indexed Job's own. Its headless service gives them a domain."""
    names = iter([f"{name}.run.default.svc.cluster.local", name])
    monkeypatch.setattr(socket, "getfqdn", lambda: next(names))
    launch = find({"JOB_COMPLETION_INDEX": "1"}).with_options(4, None, None)
    assert who(launch) == (4, 1, f"{name[:-1]}0.run.default.svc.cluster.local")
    assert launch.port == PORT
    assert find({"JOB_COMPLETION_INDEX": "1"}).first == "", "without the service"


def test_by_hand_and_beside_a_launcher() -> None:
    launch = BY_HAND.with_options(3, 1, "10.0.0.1:7000")
    assert (who(launch), launch.port) == ((3, 1, "10.0.0.1"), 7000)
    assert who(find(OPEN_MPI).with_options(None, None, "10.0.0.1")) == (2, 1, "10.0.0.1")


@pytest.mark.parametrize(
    ("launch", "options", "text"),
    [
        (BY_HAND, (None, 1, None), "does not tell the number of nodes; give --nnodes"),
        (BY_HAND, (2, None, None), "each node needs its number: give --node-rank"),
        (BY_HAND, (2, 2, None), "--node-rank 2 is not from 0 to 1"),
        (BY_HAND, (2, 1, ":7"), "--first must be ADDRESS or ADDRESS:PORT, not ':7'"),
        (BY_HAND, (2, 1, "a:x"), "--first must be ADDRESS or ADDRESS:PORT, not 'a:x'"),
    ],
)
def test_missing_and_wrong_options(
    launch: Launch, options: tuple[int | None, int | None, str | None], text: str
) -> None:
    with pytest.raises(LaunchError, match=text):
        launch.with_options(*options)


def test_a_variable_that_is_no_number_is_named() -> None:
    with pytest.raises(LaunchError, match="OMPI_COMM_WORLD_RANK must be a number, not 'x'"):
        find({**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "x"})
