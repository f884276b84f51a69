"""After the kill of any process nothing of the system is left: no process, no socket."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from ..waiting import eventually
from .kit import PATIENCE, Echo, Parent, alive, running, serves, sockets, started

pytestmark = [pytest.mark.processes, pytest.mark.usefixtures("own_folder")]


@pytest.mark.parametrize("options", [("fork",), ("spawn",), ("fork", "--exit")])
def test_the_main_program_is_killed_or_exits_without_a_word(options: tuple[str, ...]) -> None:
    with started("killed", *options) as (program, pids):
        assert len(pids) == 3
        assert "--exit" in options or all(map(alive, pids))
        program.kill()
        eventually(lambda: not any(map(alive, pids)) and not sockets())


def test_the_admin_is_killed() -> None:
    with started("beheaded", "fork") as (program, pids):
        os.kill(pids[2], signal.SIGKILL)
        eventually(lambda: not any(map(alive, pids)))
        program.kill()  # the next program that starts a system sweeps its sockets
        program.wait(PATIENCE)
        with running():
            pass
        eventually(lambda: not sockets())


def test_a_system_may_outlive_its_program() -> None:
    with started("orphan", "fork", "--orphan") as (program, pids):
        program.kill()
        program.wait(PATIENCE)
        with running(name="orphan", mode="join", shutdown_timeout=0.3) as system:
            assert serves(system)
            assert all(map(alive, pids))
        eventually(lambda: not any(map(alive, pids)))
        with running():  # sweeps the socket of the killed program
            pass
        eventually(lambda: not sockets())


def reaper_of(admin: int) -> int:
    """The reaper: the admin forked it, and it leads a session of its own."""
    (reaper,) = [p.pid for p in psutil.Process(admin).children() if os.getsid(p.pid) == p.pid]
    return reaper


@pytest.mark.parametrize("victim", ["nobody", "admin", "reaper"])
def test_shutdown_returns_when_nothing_is_left(victim: str) -> None:
    before = sockets()
    with running(name="ending") as system:
        pids = [system.ask(system.createActor(Echo), "pid", PATIENCE) for _ in range(5)]
        admin = psutil.Process(pids[0]).ppid()
        pids.append(admin)
        reaper = reaper_of(admin)
        if victim != "nobody":
            os.kill({"admin": admin, "reaper": reaper}[victim], signal.SIGKILL)
        system.shutdown()
        assert sockets() == before
        assert not any(map(alive, pids))
        eventually(lambda: not alive(reaper))


def test_a_killed_actor_leaves_no_socket() -> None:
    with running() as system:
        before = sockets()
        parent = system.createActor(Parent)
        child = system.ask(parent, "create", PATIENCE)
        grandchild_socket = child.addressDetails.path
        assert os.path.exists(grandchild_socket)
        os.kill(system.ask(child, "pid", PATIENCE), signal.SIGKILL)
        eventually(lambda: not os.path.exists(grandchild_socket))
        assert set(before) < set(sockets())


def test_each_of_many_that_are_killed_at_once_is_told_of() -> None:
    with running() as system:
        parent = system.createActor(Parent)
        children = [system.ask(parent, "create", PATIENCE) for _ in range(8)]
        pids = [system.ask(child, "pid", PATIENCE) for child in children]
        system.tell(parent, "watch")
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        told = [system.listen(PATIENCE) for _ in children]
        assert all(("exited", child) in told for child in children)
        assert system.listen(0.2) is None  # once each


def test_spawned_systems_are_joined_like_forked_ones() -> None:
    options = {"name": "spawned", "mode": "join", "shutdown_timeout": 0.3}
    with started("spawned", "spawn"), running(**options) as system:
        child = system.ask(system.createActor(Parent), "create", PATIENCE)
        assert system.ask(child, "hello", PATIENCE) == "hello"
    with running():  # sweeps the socket of the killed program
        pass
    eventually(lambda: not sockets())
