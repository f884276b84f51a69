"""`farref ps` and `farref down`: the systems of this machine, listed and ended from outside."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest

import farref
from farref import System, SystemDownError, WorkerDiedError
from farref.actors.api import stay
from farref.actors.base import lives

from ..actors.scripts import started
from ..ports import free_port
from .kit import FARREF, Finished, piped
from .kit import farref as run

pytestmark = pytest.mark.processes

PROGRAM = """
    import sys, time
    import farref

    name, port, *key = sys.argv[1:]
    more = {"key": key[0]} if key else {}
    with farref.System(name=name, host="127.0.0.2", port=int(port), **more) as system:
        system.worker("B")
        print("ready", flush=True)
        try:
            farref.rpc_sync("B", time.sleep, (100,))
        except (farref.SystemDownError, farref.WorkerDiedError) as error:
            print(type(error).__mro__[1].__name__)
"""


def listed() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(run("ps", "--json").stdout)
    return rows


def test_without_a_system_there_is_nothing_to_list_or_end(own_folder: Path) -> None:
    assert run("ps") == Finished(0, "no system of yours runs on this machine\n", "")
    assert listed() == []
    none = "no system of yours runs on this machine; use the first host of the system"
    assert run("down") == Finished(1, "", f"farref down: {none}\n")
    nothing = "farref down: no system named 'x' runs; your running systems: none\n"
    assert run("down", "x") == Finished(1, "", nothing)
    assert run("down", "--all") == Finished(0, "", "")
    assert run("down", "x", "--all").returncode == 2


def test_the_entry_of_a_host_that_has_ended_goes(own_folder: Path) -> None:
    pid = os.getppid()
    runs = {"pid": pid, "started": lives.started(pid)}
    for name, entry in {"runs": runs, "ended": runs | {"started": 1.0}, "damaged": []}.items():
        (own_folder / f"host-{pid}-{name}.host").write_text(json.dumps(entry))
    assert run("refs", "x").returncode == 1
    assert [each.name for each in own_folder.glob("*.host")] == [f"host-{pid}-runs.host"]


def test_a_system_a_host_that_has_joined_and_their_end(own_folder: Path, tmp_path: Path) -> None:
    port, there = str(free_port("127.0.0.2")), str(free_port("127.0.0.3"))
    with started(tmp_path, PROGRAM, "mine", port) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        command = [*FARREF, "join", f"127.0.0.2:{port}", "--host", "127.0.0.3", "--port", there]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as join:
            assert join.stdout is not None
            assert "is a host of mine" in join.stdout.readline()
            first, joined = listed()
            assert (first["system"], first["role"], first["pid"]) == ("mine", "first", program.pid)
            assert first["address"] == f"127.0.0.2:{port}"
            assert (joined["system"], joined["role"], joined["pid"]) == ("mine", "joined", join.pid)
            assert (joined["first"], joined["address"]) == (
                f"127.0.0.2:{port}",
                f"127.0.0.3:{there}",
            )
            for row, names in ((first, {"admin", "B"}), (joined, {"admin", "HostAge"})):
                parts = row["processes"]
                assert parts[0]["pid"] == row["pid"]
                assert names <= {part["name"] for part in parts}
                assert all(part["memory"] > 0 and part["age"] > 0 for part in parts)
                assert all(psutil.pid_exists(part["pid"]) for part in parts)
            table = piped("ps", NO_COLOR="1", FORCE_COLOR="1").stdout
            assert "\x1b[3" not in table
            assert f"127.0.0.3:{there} joined 127.0.0.2:{port}" in table

            assert run("down", "mine") == Finished(0, "mine has ended\n", "")
            out, err = program.communicate(timeout=60)
            assert (program.returncode, err) == (0, "")
            assert out == "FarrefError\n"
            assert join.communicate(timeout=60)[0] == "mine has ended\n"
            assert join.returncode == 0
    assert listed() == []


ALONE = """
    import time
    import farref

    with farref.System(name="alone") as system:
        system.worker("B")
        print("ready", flush=True)
        while True:
            try:
                farref.rpc_sync("B", time.sleep, (100,))
            except farref.WorkerDiedError:
                pass  # B has ended before the rest
            except farref.SystemDownError as error:
                print(error)
                break
"""


def test_the_program_is_told_that_the_system_ended(own_folder: Path, tmp_path: Path) -> None:
    with started(tmp_path, ALONE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        assert run("down") == Finished(0, "alone has ended\n", "")
        out, err = program.communicate(timeout=60)
    assert (program.returncode, err) == (0, "")
    assert re.match(
        r"system 'alone' has ended, or this host is cut off from it: one of its processes here "
        r"\(\d+, \d+\) is gone, as after `farref down` or a kill; ",
        out,
    )


def test_a_system_that_does_not_answer_is_killed(
    own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(tmp_path, PROGRAM, "stuck", str(free_port("127.0.0.2"))) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        (row,) = listed()
        parts = row["processes"]
        for part in parts[1:]:
            os.kill(part["pid"], signal.SIGSTOP)
        monkeypatch.setattr(stay, "START_PATIENCE", 0.5)
        done = run("down", "stuck")
        assert (done.returncode, done.stdout) == (0, "stuck has ended\n")
        assert done.stderr.count("had to be killed") == len(parts) - 1
        program.communicate(timeout=60)
    assert listed() == []


def test_an_in_process_system_is_listed_and_its_program_is_named(own_folder: Path) -> None:
    with System("simpleSystemBase", name="inside"):
        (row,) = listed()
        parts = row["processes"]
        assert [part["pid"] for part in parts] == [os.getpid()]
        refused = run("down")
        assert refused.returncode == 1
        assert f"runs inside one program, process {os.getpid()}; end that" in refused.stderr


def test_a_program_ends_a_system_that_another_has_started(own_folder: Path) -> None:
    with System(name="mine") as system:
        system.worker("B")
        with System.attach("mine") as attached:
            attached.end()
        with pytest.raises((SystemDownError, WorkerDiedError)):
            farref.rpc_sync("B", pow, (2, 2))


def test_a_system_that_this_machine_has_only_joined_is_not_ended_here(
    own_folder: Path, tmp_path: Path
) -> None:
    """The host that joins has a folder of its own, as on a machine of its own."""
    port, there = str(free_port("127.0.0.2")), str(free_port("127.0.0.3"))
    key = str(tmp_path / "key")
    run("key", key)
    with (
        tempfile.TemporaryDirectory(
            prefix="farref-joined-", dir="/tmp", ignore_cleanup_errors=True
        ) as folder,
        started(tmp_path, PROGRAM, "train", port, key) as program,
    ):
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        where = ["--key", key, "--host", "127.0.0.3", "--port", there]
        with subprocess.Popen(
            [*FARREF, "join", f"127.0.0.2:{port}", *where],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "XDG_RUNTIME_DIR": folder},
        ) as join:
            assert join.stdout is not None
            assert "is a host of train" in join.stdout.readline()
            refused = piped("down", "train", XDG_RUNTIME_DIR=folder)
            join.kill()
        assert refused.returncode == 1
        assert f"this machine has joined train at 127.0.0.2:{port}: end it by" in refused.stderr
        assert f"stop process {join.pid}" in refused.stderr
        left = piped("ps", XDG_RUNTIME_DIR=folder)
        assert left.stdout == "no system of yours runs on this machine\n"
        assert list(Path(folder).rglob("*.host")) == []
        assert run("down").stdout == "train has ended\n"
        program.communicate(timeout=60)
