"""Finds this node's number, and the number of nodes, in the variables that launchers set.

`farref run` is started once on each node, so a launcher's *task* is a node here. If a launcher
starts several tasks on a node, that is an error, which names the launcher's option.

One launcher may start another: `sbatch` starts `mpirun`, which starts its helpers by `srun`. All of
them leave their variables. So the innermost is looked for first.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace

from .errors import LaunchError

PORT = 1901
"""The port of the first agent, if the launcher names none: one above that of a system."""
SLURM_PORTS = range(20000, 30000)
"""The first agents of SLURM's jobs, of which several may run on one node, choose by job."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One node of a run, as its launcher tells it."""

    by: str
    """The launcher, in words."""
    nnodes: int | None = None
    node_rank: int | None = None
    first: str = ""
    """A name or an address of the first node; empty if the launcher does not tell."""
    port: int = PORT
    """The first agent's port."""
    run: str = ""
    """The same text on all nodes of this run, and another one in each other run."""
    shares: bool = False
    """The nodes usually see the same working folder."""

    def with_options(self, nnodes: int | None, node_rank: int | None, first: str | None) -> Launch:
        """The same, with the user's own choices.

        Raises `LaunchError` if something is missing or out of range.
        """
        nnodes = self.nnodes if nnodes is None else nnodes
        rank = self.node_rank if node_rank is None else node_rank
        if nnodes is None:
            raise LaunchError(
                f"{self.by} does not tell the number of nodes; give --nnodes, or set FARREF_NNODES"
            )
        if rank is None:
            raise LaunchError(
                "each node needs its number: give --node-rank (0 on the first node), or start"
                " farref run by srun, mpirun, torchrun or an indexed Job"
            )
        if nnodes < 1 or not 0 <= rank < nnodes:
            raise LaunchError(f"--node-rank {rank} is not from 0 to {nnodes - 1} (--nnodes less 1)")
        known = replace(self, nnodes=nnodes, node_rank=rank)
        if not first:
            return known
        name, _, port = first.partition(":")
        if not name or (port and not (port.isdigit() and 0 < int(port) < 65536)):
            raise LaunchError(f"--first must be ADDRESS or ADDRESS:PORT, not {first!r}")
        return replace(known, first=name, port=int(port) if port else self.port)


ALONE = Launch("the command line", 1, 0)
BY_HAND = Launch("the command line")


def find(env: Mapping[str, str]) -> Launch:
    """This node, by the launcher whose variables are in *env*; `ALONE` if there is none.

    Raises `LaunchError` for several tasks on a node, or for variables that are not numbers.
    """
    if "TORCHELASTIC_RUN_ID" in env:
        return _torchrun(env)
    if "OMPI_COMM_WORLD_RANK" in env:
        local = "OMPI_COMM_WORLD_LOCAL_SIZE"
        return _mpi(env, "mpirun", "OMPI_COMM_WORLD", local, "--map-by ppr:1:node")
    if "PMI_RANK" in env and "MPI_LOCALNRANKS" in env:  # before srun, which started its proxies
        return _mpi(env, "mpiexec", "PMI", "MPI_LOCALNRANKS", "-ppn 1")
    if "SLURM_STEP_ID" in env and "SLURM_PROCID" in env:
        return _srun(env)
    if "PMI_RANK" in env:
        by = "the launcher that set PMI_RANK"
        return _mpi(env, by, "PMI", "MPI_LOCALNRANKS", "one process each")
    if "SLURM_JOB_ID" in env and _number(env, "SLURM_JOB_NUM_NODES", 1) > 1:
        raise LaunchError(
            "this is a job of SLURM on several nodes, and farref run was not started by srun:"
            " write `srun --ntasks-per-node=1 farref run ...`"
        )
    if "JOB_COMPLETION_INDEX" in env:
        return _kubernetes(env)
    return ALONE


def _torchrun(env: Mapping[str, str]) -> Launch:
    _one_each(_number(env, "LOCAL_WORLD_SIZE", 1), "torchrun", "--nproc-per-node=1")
    taken = env.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # the agent's store is at the port
    return Launch(
        "torchrun",
        _number(env, "GROUP_WORLD_SIZE"),
        _number(env, "GROUP_RANK"),
        env.get("MASTER_ADDR", ""),
        _number(env, "MASTER_PORT", PORT) + taken,
        f"torchrun {env['TORCHELASTIC_RUN_ID']} {env.get('TORCHELASTIC_RESTART_COUNT', '')}",
    )


def _mpi(env: Mapping[str, str], by: str, prefix: str, local: str, option: str) -> Launch:
    _one_each(_number(env, local, 1), by, option)
    size, rank = _number(env, f"{prefix}_SIZE"), _number(env, f"{prefix}_RANK")
    run = env.get("PMIX_NAMESPACE", env.get("OMPI_MCA_ess_base_jobid", ""))
    return Launch(by, size, rank, run=f"mpi {run}", shares=True)


def _srun(env: Mapping[str, str]) -> Launch:
    size = _number(env, "SLURM_STEP_NUM_TASKS", _number(env, "SLURM_NTASKS", 1))
    nodes = _number(env, "SLURM_STEP_NUM_NODES", _number(env, "SLURM_NNODES", size))
    _one_each(-(-size // max(1, nodes)), "srun", "--ntasks-per-node=1")
    job, step = _number(env, "SLURM_JOB_ID"), _number(env, "SLURM_STEP_ID")
    return Launch(
        "srun",
        size,
        _number(env, "SLURM_PROCID"),
        first_of(env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST", "")),
        SLURM_PORTS[(7 * job + step) % len(SLURM_PORTS)],
        f"slurm {job}.{step} {env.get('SLURM_RESTART_COUNT', '')}",
        shares=True,
    )


def _kubernetes(env: Mapping[str, str]) -> Launch:
    """A pod of an indexed Job: its name ends with its number, and the first one's with 0."""
    rank = _number(env, "JOB_COMPLETION_INDEX")
    name, _, domain = socket.getfqdn().partition(".")
    job, _, index = name.rpartition("-")
    first = f"{job}-0.{domain}" if domain and index == str(rank) else ""
    return Launch("the Job", None, rank, first, run=f"job {job}")


def _one_each(here: int, by: str, option: str) -> None:
    if here > 1:
        raise LaunchError(
            f"{by} started {here} of these on one node; farref run is started once on each node:"
            f" use {option}"
        )


def _number(env: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = env.get(name, "")
    if not text and default is not None:
        return default
    if not text.isdigit():
        raise LaunchError(f"{name} must be a number, not {text!r}")
    return int(text)


def first_of(nodelist: str) -> str:
    """The first name in SLURM's list: ``n007`` of ``n[007-009,12],gpu1``."""
    match = re.match(r"(?:[^,\[]|\[[^\]]*\])*", nodelist)
    name = match[0] if match else ""
    return re.sub(r"\[([^\],-]*)[^\]]*\]", r"\1", name)
