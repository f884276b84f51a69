"""The logs of farref and their way: nothing appears anywhere, unless the program wants it.

Each event is one line from the process that decides it, with the names of `farref refs`.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

import farref
from farref import System, SystemDownError
from farref.actors.wire.messages import EndpointJoin, Envelope
from farref.testing import until

from ...bases import PROCESSES, about
from ...marks import NAMES
from ...ports import free_port
from ...stopping import stopped
from ...waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from farref import RRef

    Events = Callable[..., list[Any]]

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[3]

SAYING = """
import logging, sys
import farref
def say():
    for name in ("app", "Thespian.Admin", "farref.actors.x"):
        for level in ("info", "warning", "error"):
            getattr(logging.getLogger(name), level)(f"{level} of {name}")
    if sys.argv[1] == "farrefBase":  # or else a module's logger is that of the forked program
        from farref.actors.serving.server import log
        assert logging.getLogger(log.name) is log
        log.warning(f"warning of {log.name}")
        log.info(f"info of {log.name}")
with farref.System(sys.argv[1]) as system:
    system.worker("B")
    farref.rpc_sync("B", say)
    sys.stdin.read()
logging.getLogger("farref.actors.x").error("of the program's own")
"""


def ran(folder: Path, program: str, *arguments: str, **env: str) -> tuple[str, str]:
    """The output of *program*, and its log. The name of the log's file is its last argument."""
    file, log = folder / "program.py", folder / "log"
    file.write_text(program)
    with log.open("w") as errors:
        run = subprocess.run(
            [sys.executable, str(file), *arguments, str(log)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            check=False,
            timeout=100,
            env={**os.environ, **env},
        )
    assert run.returncode == 0, log.read_text()
    return run.stdout, log.read_text()


def said(tmp_path: Path, base: str, number: int, **env: str) -> list[str]:
    """The *number* lines that a program without any configuration of logging has on stderr."""
    program, errors = tmp_path / "program.py", tmp_path / "errors"
    program.write_text(SAYING)

    def lines() -> list[str]:
        return re.findall(r"^\w+ B [\w.]+: (\w+ of [\w.]+)$", errors.read_text(), re.MULTILINE)

    with (
        errors.open("w") as file,
        subprocess.Popen(
            [sys.executable, str(program), base],
            stdin=subprocess.PIPE,
            stderr=file,
            env={**os.environ, "TMPDIR": str(tmp_path), **env},
        ) as run,
    ):
        eventually(lambda: len(lines()) >= number or run.poll() is not None, errors.read_text)
        run.communicate(timeout=60)
    assert run.returncode == 0, errors.read_text()
    return lines()


@pytest.mark.parametrize("base", PROCESSES)
def test_actors_are_heard_from_warning_on_and_thespian_from_error_on(
    tmp_path: Path, base: str
) -> None:
    modules = ["warning of farref.actors.serving.server"]
    expected = [
        "error of Thespian.Admin",
        "error of app",
        "error of farref.actors.x",
        "warning of app",
        "warning of farref.actors.x",
        *(modules if about(base).own else ()),
    ]
    assert sorted(said(tmp_path, base, len(expected))) == sorted(expected)
    assert not list(tmp_path.glob("thespian.log*"))


def test_thespian_writes_no_file_about_an_actor_that_is_told_to_end(own_folder: Path) -> None:
    with System() as system:
        system.worker("B")
        os.kill(farref.rpc_sync("B", os.getpid), signal.SIGTERM)
        assert until(system, lambda: "B" not in {info.name for info in system.workers()})
    assert not list(own_folder.glob("thespian.log*"))


def test_another_level_by_the_environment(tmp_path: Path) -> None:
    heard = said(tmp_path, "farrefBase", 11, FARREF_LOG="info")
    assert len(heard) == 11
    assert "info of Thespian.Admin" in heard


def test_an_unknown_level_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARREF_LOG", "loud")
    with pytest.raises(SystemDownError, match="FARREF_LOG=LOUD is no logging level"):
        System()


KILLING = """
import logging, os, sys
import psutil
import farref
from farref.testing import until
def say(text):
    logging.getLogger("app").warning(text)
def logger():
    admin = psutil.Process(farref.rpc_sync("B", os.getppid)).parent()
    return next((each for each in admin.children() if each.name() == "farref: logger"), None)
def seen_again(name):  # the kill may take some with it
    farref.rpc_sync(name, say, (f"again, of {name}",))
    return f"again, of {name}" in open(sys.argv[1]).read()
with farref.System() as system:
    for name in "BC":
        system.worker(name)
    farref.rpc_sync("B", say, ("first",))
    farref.rpc_sync("C", say, ("first",))
    assert until(system, logger)
    killed = logger()
    killed.kill()
    for name in "BCD":
        if name == "D":
            system.worker(name)
        assert until(system, lambda: seen_again(name))
        farref.rpc_sync(name, say, (f"last, of {name}",))
    print(logger().pid != killed.pid)
"""


@NAMES
def test_a_killed_logger_has_a_successor(tmp_path: Path) -> None:
    """At the same address: actors that run by then log on."""
    out, log = ran(tmp_path, KILLING)
    assert out == "True\n"
    said = re.findall(r"^WARNING \w app: (last, of \w)$", log, re.MULTILINE)
    assert sorted(said) == [f"last, of {name}" for name in "BCD"]


def test_every_logger_is_below_farref() -> None:
    named = re.compile(r"^_?log = (?:logging\.getLogger|logger)\((.*?)\)", re.MULTILINE)
    found = [
        (path.relative_to(ROOT), name)
        for folder in ("actors", "protocol", "serialization", "src/farref/elastic")
        for path in (ROOT / folder).rglob("*.py")
        for name in named.findall(path.read_text(encoding="utf-8"))
    ]
    assert len(found) > 10
    shared = 'f"{__package__}.registrar"'  # what a registrar logs has one name, elected or not
    assert {name for _, name in found} == {"__name__", shared}


def test_a_program_without_logging_hears_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("farref")
    assert any(isinstance(handler, logging.NullHandler) for handler in log.handlers)
    assert log.level == logging.NOTSET
    logging.getLogger("farref.nobody").error("nobody asked")
    assert "nobody asked" not in capfd.readouterr().err


def boom() -> RRef[int]:
    raise ValueError("on purpose")


def free_badly(_value: object) -> None:
    raise ValueError("on purpose")


def test_what_cannot_be_told_to_anybody_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """An exception that reaches its caller is not logged; an exception without a caller is."""
    with System("simpleSystemBase") as system:
        system.worker("B")
        with pytest.raises(ValueError, match="on purpose"):
            farref.rpc_sync("B", boom)
        assert not caplog.records
        farref.RRef([], on_delete=free_badly)
        assert until(system, lambda: caplog.records)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("farref.actors.values.objects", "ERROR")
    assert "on_delete of program/1 raised" in record.getMessage()


DEATHS = """
import os, signal
import farref
from farref import System
from farref.testing import until
from thespian.actors import ActorExitRequest
with System() as system:
    print(system.name)
    system.worker("watches")
    c = system.worker("told to exit")
    system.worker("killed")
    [full] = [full for short, full in system.references().in_full.items() if short == "killed"]
    print(full)
    try:
        farref.rpc_sync("killed", os.kill, (farref.rpc_sync("killed", os.getpid), signal.SIGKILL))
    except farref.WorkerDiedError:
        pass
    system.tell(c, ActorExitRequest())
    assert until(system, lambda: len(system.workers()) == 2)
"""

LEAVER = """
import os, signal, sys
from farref import System
from farref.actors.api import stay
from farref.actors.wire.messages import Lookup
stay.DRAIN = 60.0
with System.attach(sys.argv[1], program="leaver") as system:
    os.kill(int(sys.argv[2]), signal.SIGSTOP)
    for token in range(2000):
        system._port.post(system.endpoint.registrar_client.registrar, Lookup(-token))
    print("I leave", flush=True)
"""

JOINER = """
import sys, farref
with farref.System.join(sys.argv[1], host=sys.argv[2]) as system:
    print(system._stay.session, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def events(caplog: pytest.LogCaptureFixture) -> Events:
    """The records of events so far, with some of their attributes."""
    caplog.set_level(logging.INFO, "farref")  # the processes of a system begin with it

    def of(**wanted: str) -> list[Any]:
        told = {f"farref_{key}": each for key, each in wanted.items()}.items()
        return [r for r in caplog.records if hasattr(r, "farref_event") and told <= vars(r).items()]

    return of


def test_each_death_is_told_once_by_the_registrar(tmp_path: Path) -> None:
    """As JSON, which a program's standard error has if the environment says so."""
    out, log = ran(tmp_path, DEATHS, FARREF_LOG="info", FARREF_LOG_FORMAT="json")
    system, full = out.splitlines()
    told = [each for line in log.splitlines() if "farref_event" in (each := json.loads(line))]
    (killed,) = [each for each in told if each["farref_endpoint"] == "killed"]
    assert killed["farref_event"] == "endpoint.died"
    assert killed["farref_endpoint_id"] == full
    assert killed["farref_system"] == system
    assert killed["level"] == "WARNING"
    assert killed["logger"] == "farref.actors.cluster.registrar"
    assert killed["farref_cause"].startswith("killed by SIGKILL")
    assert killed["message"] == f"killed is gone: {killed['farref_cause']}"
    (exited,) = [each for each in told if each["farref_endpoint"] == "told to exit"]
    assert (exited["farref_event"], exited["level"]) == ("endpoint.died", "INFO")
    # The end of the whole system raises no alarm.
    assert [event["farref_endpoint"] for event in told if event["level"] != "INFO"] == ["killed"]


def test_a_program_that_has_left_is_not_reported_as_dead(events: Events) -> None:
    """Its process has ended before the registrar reads the end of its messages."""
    with System() as system:
        system.worker("watches")
        registrar = farref.rpc_sync("watches", os.getppid)
        words = [sys.executable, "-c", LEAVER, system.name, str(registrar)]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as leaver:
            assert leaver.stdout is not None
            assert leaver.stdout.readline()
            time.sleep(0.6)  # its next look at the processes is due
            os.kill(registrar, signal.SIGCONT)
        assert leaver.returncode == 0
        assert until(system, lambda: len(system.workers()) == 2)
    (left,) = events(endpoint="leaver")
    assert (left.farref_cause, left.levelname) == ("it left", "INFO")


def test_a_silent_endpoint_is_given_up_and_ends(events: Events) -> None:
    with System(silence=3) as system:
        system.worker("watches"), system.worker("stopped")
        pid = farref.rpc_sync("stopped", os.getpid)
        with stopped(pid):
            assert until(system, lambda: len(system.workers()) == 2)
        assert until(system, lambda: not psutil.pid_exists(pid))
    given_up, ended = events(endpoint="stopped")
    assert given_up.farref_event == "endpoint.given_up"
    why = "it was silent for 3 s, as its process is stopped (SIGSTOP)"
    assert given_up.getMessage() == f"stopped is given up for dead: {why}"
    assert (given_up.levelname, given_up.name) == ("WARNING", "farref.actors.cluster.registrar")
    assert (ended.farref_event, ended.levelname) == ("endpoint.ended", "ERROR")
    assert ended.name == "farref.actors.cluster.deaths"  # it decides about its own death
    assert given_up.farref_endpoint_id == ended.farref_endpoint_id


def test_refusals(events: Events) -> None:
    with System("farrefBase") as system:
        b = system.worker("B")
        registrar = system.endpoint.registrar_client.registrar
        system._port.post(b.address, Envelope(b.address, b"no packet"))
        system._port.post(registrar, EndpointJoin(b.id, 1, "there"))
        assert until(system, lambda: system.counters()["B"].refused == 1)
        assert until(system, lambda: len(events(event="message.refused")) == 2)
    refused = events(event="message.refused", system=system.name)
    assert {event.levelname for event in refused} == {"WARNING"}
    (by_b,) = events(event="message.refused", endpoint="B")
    assert by_b.getMessage().startswith("B refused Envelope: it is no packet: ")
    (by_registrar,) = [event for event in refused if event is not by_b]
    text = "the registrar refused a message: an EndpointJoin of B"
    assert by_registrar.getMessage().startswith(text)


def test_strangers_at_the_port_of_a_host(events: Events) -> None:
    """The admin serves that port. A crowd fills no disk."""
    port, key, strangers = free_port("127.0.0.1"), secrets.token_bytes(32), 0
    first = f"127.0.0.1:{port}"

    def refused() -> list[Any]:
        return events(event="connection.refused")

    with System(host="127.0.0.1", port=port, key=key) as system:
        with System.join(first, host="127.0.0.12", key=key):
            pass  # one of ours: nothing to be told
        with pytest.raises(SystemDownError):
            System.join(first, host="127.0.0.12", key=key[::-1])
        assert until(system, refused)
        while len(refused()) < 2:
            with socket.create_connection(("127.0.0.1", port)) as stranger:
                stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
                with suppress(ConnectionResetError):
                    stranger.recv(1)
            strangers += 1
            until(system, lambda: len(refused()) == 2, 0.2)
    one, two = refused()
    for record in one, two:
        assert record.levelname == "WARNING"
        assert record.farref_peer == "127.0.0.1"
        text = f"{first} refused a connection from 127.0.0.1: {record.farref_cause}"
        assert record.getMessage().startswith(text)
    assert one.getMessage().endswith(one.farref_cause)
    assert "it has another key" in one.farref_cause
    assert "does not speak this protocol" in two.farref_cause
    more = re.search(r", and (\d+) more before$", two.getMessage())
    assert more is not None
    assert 0 < int(more[1]) < strangers


def test_hosts_that_join_leave_and_are_killed(events: Events) -> None:
    # At addresses of their own: the pages' hosts listen at port 1900, too, of 127.0.0.2 and so on.
    port = free_port("127.0.0.1")

    def join(here: str) -> tuple[subprocess.Popen[str], int]:
        other = subprocess.Popen(
            [sys.executable, "-c", JOINER, f"127.0.0.1:{port}", here],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        assert other.stdout is not None
        return other, int(other.stdout.readline())

    with System(host="127.0.0.1", port=port, silence=2) as system:
        (leaves, _), (killed, session) = join("127.0.0.12"), join("127.0.0.13")
        system.worker("there", on="127.0.0.13")
        leaves.communicate()
        assert until(system, lambda: len(system.hosts()) == 2)
        # As if the machine lost its power: none sees another one end, and says that it leaves.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in psutil.pids():
                with suppress(ProcessLookupError):  # some end while we look
                    if os.getsid(pid) in (killed.pid, session):
                        os.kill(pid, number)
        killed.communicate()
        assert until(system, lambda: len(system.hosts()) == 1)
    for host in ("127.0.0.12", "127.0.0.13"):
        (joined,) = events(event="host.joined", host=host)
        assert (joined.getMessage(), joined.levelname) == (f"host {host} has joined", "INFO")
    (left,) = events(event="host.left", host="127.0.0.12")
    assert (left.getMessage(), left.levelname) == ("host 127.0.0.12 is gone: it left", "INFO")
    (gone,) = [
        event
        for event in events(host="127.0.0.13")
        if event.farref_event in ("host.left", "host.given_up")
    ]
    assert gone.levelname == "WARNING"
    (there,) = events(endpoint="there")
    assert there.farref_event == "endpoint.died"
    assert (there.farref_host, there.levelname) == ("127.0.0.13", "WARNING")
