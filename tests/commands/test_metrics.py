"""`farref metrics`: the text for Prometheus, once or by HTTP, about a running system."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import ActorExitRequest

import farref
from farref import RefActor, RRef, System, WorkerDiedError
from farref.testing import until

from ..actors.helpers import hold
from ..docs.pages import text_of
from ..stopping import stopped
from .kit import FARREF
from .kit import farref as command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prometheus_client.metrics_core import Metric


def parsed(told: str) -> dict[str, Metric]:
    """Parsed by Prometheus' own library, which refuses wrong text."""
    parser = pytest.importorskip("prometheus_client.parser")
    return {family.name: family for family in parser.text_string_to_metric_families(told)}


def value(told: str, name: str, **labels: str) -> float:
    """The one sample of *name* with these labels."""
    found = [
        sample.value
        for family in parsed(told).values()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    assert len(found) == 1, (name, labels, found)
    return float(found[0])


def asked(*arguments: str) -> str:
    run = command("metrics", *arguments)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.fixture
def system() -> Iterator[System]:
    with System() as started:
        started.worker("B")
        yield started


@pytest.fixture
def unhurried() -> Iterator[System]:
    """A system that declares no endpoint dead, however long a command takes to start."""
    with System(silence=None) as started:
        started.worker("B")
        yield started


# ---- the text


@pytest.mark.processes
def test_the_text_has_the_metrics_of_the_page_in_prometheus_conventions(system: System) -> None:
    names = set()
    for name, family in parsed(asked(system.name)).items():
        assert family.documentation.endswith(".")
        assert family.type in ("counter", "gauge")
        names.add(f"{name}_total" if family.type == "counter" else name)
        assert {sample.name for sample in family.samples} <= names
        assert all(each.labels["system"] == system.name for each in family.samples)
        assert {each.labels["endpoint"] for each in family.samples} <= {"B", "program"}
    table = re.search(r"(?:^\| `farref_.*\n)+", text_of("docs/observability.md"), re.MULTILINE)
    assert table is not None
    assert names == set(re.findall(r"`(farref_[a-z_]+)(?:\{\w+\})?`", table[0]))


@pytest.mark.processes
def test_labels_may_be_any_text(system: System) -> None:
    name = 'quote " back\\name line\nend'
    system.worker(name)
    assert value(asked(system.name), "farref_up", endpoint=name, system=system.name) == 1


# ---- the counts


class Holder(RefActor):
    def receiveMsg_PosixPath(self, message: Path, sender: Any) -> None:
        hold(message)


def boom() -> None:
    raise ValueError("on purpose")


def kept(refs: list[RRef[Any]], gate: Path) -> None:
    hold(gate)


@pytest.mark.processes
def test_counts_of_what_is_there_now_come_and_go(system: System, tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    ref = RRef([1])
    future = farref.rpc_async("B", kept, ([ref, ref], first))
    assert until(system, lambda: system.counters()["B"].borrowed > 0)
    there = system.counters()
    assert there["program"].in_flight == 1
    assert there["program"].lent == there["B"].borrowed
    first.touch()
    future.result()
    assert until(
        system, lambda: system.counters()["program"].lent == system.counters()["B"].borrowed == 0
    )
    assert system.counters()["program"].in_flight == 0

    actor = system.create(Holder, "S")
    for _ in range(5):
        system.tell(actor, second)
    assert until(system, lambda: system.counters()["S"].inbox > 0)
    second.touch()
    assert until(system, lambda: system.counters()["S"].inbox == 0)
    assert system.counters()["S"].messages_received >= 5

    calls = [farref.rpc_async("B", kept, ([], third)) for _ in range(40)]
    assert until(system, lambda: system.counters()["B"].waiting > 0)
    third.touch()
    for call in calls:
        call.result()
    assert system.counters()["B"].waiting == 0


@pytest.mark.processes
def test_counts_that_grow(system: System) -> None:
    system.worker("C")
    before = system.counters()["B"]
    with pytest.raises(ValueError, match="on purpose"):
        farref.rpc_sync("B", boom)
    farref.rpc_sync("B", pow, (2, 3))
    after = system.counters()["B"]
    assert (after.served - before.served, after.errors - before.errors) == (2, 1)
    with pytest.raises(WorkerDiedError):
        farref.rpc_sync("C", os.kill, (farref.rpc_sync("C", os.getpid), signal.SIGKILL))
    assert until(system, lambda: system.counters()["B"].deaths == 1)
    assert system.counters()["program"].deaths == 1
    value(asked(system.name), "farref_up", endpoint="B")  # through a program that comes and leaves
    system.tell(system.worker("D"), ActorExitRequest())
    assert until(system, lambda: len(system.workers()) == 2)
    assert system.counters()["program"].deaths == 1


@pytest.mark.processes
def test_a_process_that_stopped_has_a_backlog(unhurried: System) -> None:
    system = unhurried
    pid = farref.rpc_sync("B", os.getpid)
    with stopped(pid):
        future = farref.rpc_async("B", pow, (2, 3))
        assert system.counters(timeout=0.2)["program"].backlog >= 1
        told = asked(system.name, "--timeout", "0.2")
    assert value(told, "farref_up", endpoint="B") == 0
    families = parsed(told).values()
    of_b = [s.name for each in families for s in each.samples if s.labels["endpoint"] == "B"]
    assert of_b == ["farref_up"]
    assert future.result() == 8
    assert until(system, lambda: system.counters()["program"].backlog == 0)


@pytest.mark.processes
def test_timers_are_counted_on_our_own_base() -> None:
    with System("farrefBase") as system:
        system.worker("B")
        assert until(system, lambda: system.counters()["B"].timers >= 1)  # its next beat


# ---- the command


@pytest.mark.processes
def test_once(system: System) -> None:
    ref = RRef([1])
    farref.rpc_sync("B", pow, (2, 3))
    told = asked()
    assert value(told, "farref_up", endpoint="B", system=system.name) == 1
    assert value(told, "farref_references", endpoint="program", role="owner") == 1
    assert value(told, "farref_references", endpoint="B", role="owner") == 0
    assert value(told, "farref_messages_sent_total", endpoint="program", kind="Call") >= 1
    assert value(told, "farref_requests_served_total", endpoint="B") >= 1
    assert "program-" not in told  # the asker does not belong to the system
    said = json.loads(asked(system.name, "--json"))
    assert said["endpoints"]["program"]["references"] == {"owner": 1}
    del ref


@pytest.mark.processes
def test_by_http_on_loopback_until_the_system_ends(system: System) -> None:
    with subprocess.Popen(
        [*FARREF, "metrics", system.name, "--serve", "0"], stderr=subprocess.PIPE, text=True
    ) as serving:
        try:
            assert serving.stderr is not None
            line = serving.stderr.readline()
            url = re.fullmatch(r"serving (http://127\.0\.0\.1:(\d+)/metrics)\n", line)
            assert url, line
            with urllib.request.urlopen(url[1], timeout=30) as answer:
                assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
                first = answer.read().decode()
            farref.rpc_sync("B", pow, (2, 3))
            # A silent client delays no other.
            with socket.create_connection(("127.0.0.1", int(url[2]))):
                second = urllib.request.urlopen(url[1], timeout=30).read().decode()
            name = "farref_requests_served_total"
            assert value(second, name, endpoint="B") == value(first, name, endpoint="B") + 1
            with pytest.raises(urllib.error.HTTPError, match="404") as refused:
                urllib.request.urlopen(url[1].removesuffix("metrics"), timeout=30)
            refused.value.close()
            ending = threading.Thread(target=system.shutdown)
            ending.start()
            assert serving.wait(60) == 0
            ending.join()
            assert "has ended" in serving.stderr.read()
        finally:
            serving.kill()


@pytest.mark.processes
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nobody"], 1, "farref metrics: no system named 'nobody' runs"),
        (["--json", "--serve", "0"], 2, "--serve only serves Prometheus' text"),
        (["--serve", "70000"], 2, "65535"),
    ],
)
def test_what_is_wrong(arguments: list[str], code: int, message: str) -> None:
    run = command("metrics", *arguments)
    assert run.returncode == code
    assert message in run.stderr


@pytest.mark.processes
def test_a_port_that_is_taken(system: System) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        run = command("metrics", "--serve", port)
    assert run.returncode == 1
    assert "farref metrics: " in run.stderr
    assert f"cannot serve at 127.0.0.1:{port}: Address already in use" in run.stderr
    assert "--serve 0" in run.stderr
