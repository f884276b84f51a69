"""When endpoints search: by themselves, beside many live objects, where counts are inexact."""

from __future__ import annotations

import itertools
import json
import logging
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from farref import RRef, System, remote, rpc_sync
from farref.actors.cycles import collector, exact, scan
from farref.protocol import search, survey
from farref.protocol.effects import Weigh
from farref.protocol.ids import RRefId, WorkerId
from farref.testing import until

from ...commands.kit import farref as command
from ...waiting import eventually
from ..helpers import PATIENCE, come_to_rest
from .test_collecting import (
    HELD,
    NAMES,
    Node,
    assert_goes,
    assert_stays,
    closed,
    found_in,
    ids,
    objects_of,
    release,
    ring_here,
    ring_of,
    row_of,
    there,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System(timeout=60, name=f"rings-{uuid.uuid4().hex[:8]}") as made:
        for name in NAMES:
            made.worker(name)
        yield made


# ---- many live objects


def make_many(number: int) -> None:
    """Live objects with references to each other, beside a ring."""
    refs = [RRef(Node()) for _ in range(number)]
    for one, other in itertools.pairwise(refs):
        one.local_value().link(other)
    HELD["many"] = refs


@pytest.mark.parametrize(
    "number", [5_000, pytest.param(100_000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
def test_a_ring_goes_beside_many_live_objects(system: System, number: int) -> None:
    rpc_sync("B", make_many, args=(number,), timeout=60)
    names = ids(ring_of("B", "C"))
    searches = system.counters(timeout=60)["B"].searches
    while there(system, names):
        system.collect(timeout=200)
    counters = system.counters(timeout=60)["B"]
    assert 0 < counters.pause < 60  # reported; it is some milliseconds
    assert counters.searches - searches < 20  # one for all that is alive, each time
    assert rpc_sync("B", use_many, timeout=60) == number
    rpc_sync("B", release, args=("many",))


def test_a_live_list_over_two_workers_takes_a_few_messages(system: System) -> None:
    """One question asks for many objects, and one that lives answers for all that it leads to."""
    nodes = row_of(200)[:1]
    come_to_rest(system)
    before = looks(system)
    assert not system.collect(timeout=PATIENCE)
    assert looks(system) - before < 40
    everything = {row.rref for row in system.references() if row.role == "owner"}
    nodes.clear()
    assert_goes(system, everything)


def test_a_search_waits_for_the_values_here(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it takes to look through them: only other endpoints may be given up."""
    monkeypatch.setattr(collector, "PATIENCE", 0.001)
    ring_here(2_000)
    found = system.collect(timeout=PATIENCE)
    assert [len(each.objects) for each in found] == [2_000]


@pytest.mark.parametrize(("mode", "said"), [(False, "collects"), (True, "found")])
def test_one_line_of_info_for_each_find(
    system: System, mode: bool, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    names = [str(each.id) for each in ring_here(30)]

    def lines() -> list[str]:
        found = "30 objects that only held each other"  # the last test's find may be said late
        return [each for each in caplog.messages if found in each]

    with caplog.at_level(logging.INFO, "farref.actors.cycles"):
        assert until(
            system,
            lambda: any(
                len(each.objects) == 30 for each in system.collect(dry_run=mode, timeout=PATIENCE)
            ),
        )
        assert until(system, lines)
        system.collect(timeout=PATIENCE)
        assert until(system, lambda: len(lines()) > mode)
    told = f"program {said} 30 objects that only held each other: {names[0]} -> {names[1]} -> "
    line, *further = lines()
    assert len(further) == mode  # after a dry run it is found again
    assert line.replace("@1", "").startswith(told.replace("@1", "")), line
    assert line.endswith(f"-> {names[19]} -> ... -> {names[0]}")  # a long ring is cut short


def test_each_look_has_its_own_time(system: System) -> None:
    """A search of many looks goes on: only an endpoint that does not answer one is given up."""
    made = system.endpoint.collector
    with system.endpoint.core.lock:
        made._patient_until = 0.0
        made._weigh(Weigh(RRefId(WorkerId("B", 1), 1)), [])
    assert made._patient_until > time.monotonic()


def looks(system: System) -> int:
    return sum(each.control.get("WhoHolds", 0) for each in system.counters().values())


def use_many() -> int:
    return sum(ref.local_value() is not None for ref in HELD["many"])


LIMITS: list[tuple[Any, str]] = [
    *((scan, "PARTS"), (scan, "OBJECTS"), (survey, "MAX_SET")),
]


@pytest.mark.parametrize(("module", "limit"), LIMITS, ids=[name for _, name in LIMITS])
def test_what_is_too_large_for_a_search_counts_as_live(
    module: Any, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with System(timeout=20) as system:
        names = ids(ring_here(5))
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, 3)
            assert_stays(system, names)
        assert_goes(system, names)


@pytest.mark.parametrize(("limit", "goes"), [(100, True), (4, False)])
def test_a_ring_too_large_over_two_endpoints_counts_as_live(
    limit: int, goes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MAX_SET", limit)  # the worker inherits it by the fork
    with System(timeout=20) as system:
        system.worker("B")
        nodes = ring_of("B", "B", "B", "B")
        here = RRef(Node())
        nodes[0].rpc_sync().link(here)
        here.local_value().link(nodes[1])
        names = ids([*nodes, here])
        nodes.clear()
        del here
        (assert_goes if goes else assert_stays)(system, names)


# ---- the modes


@pytest.mark.parametrize("mode", ["collect", "report"])
def test_endpoints_search_by_themselves(mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "IDLE", 0.3)  # actors inherit it by the fork
    monkeypatch.setattr(scan, "AGE", 0.1)
    with System(timeout=20, cycles=mode) as system:
        for name in NAMES:
            system.worker(name)
        nodes = ring_of(*NAMES)
        names = ids(nodes)
        time.sleep(1)
        assert there(system, names) == names
        nodes.clear()
        eventually(lambda: sum(each.collected for each in system.counters().values()) >= len(NAMES))
        if mode == "report":
            assert there(system, names) == names
            return
        eventually(lambda: not there(system, names))


def test_a_look_that_only_waits_puts_off_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a busy machine: by its processor time, it may come again soon."""
    search = scan.Scanner._search

    def wait_and_search(self: scan.Scanner) -> Any:
        time.sleep(0.5)
        return search(self)

    monkeypatch.setattr(scan.Scanner, "_search", wait_and_search)
    monkeypatch.setattr(collector, "IDLE", 0.05)
    monkeypatch.setattr(scan, "AGE", 0.02)
    with System(timeout=20) as system:
        system.worker("B")
        names = ids(ring_of("B"))
        assert until(system, lambda: not there(system, names), PATIENCE)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint searches all the time by itself."""
    monkeypatch.setattr(collector, "IDLE", 0.02)
    monkeypatch.setattr(collector, "LONGEST", 0.02)
    monkeypatch.setattr(scan, "AGE", 0.01)


def rings_of_one(number: int) -> set[str]:
    """Objects that hold themselves."""
    return {name for _ in range(number) for name in ids(ring_here(1))}


@pytest.mark.usefixtures("hasty")
def test_a_report_is_made_once(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.INFO, "farref.actors.cycles"),
        System(timeout=20, cycles="report") as system,
    ):
        names = rings_of_one(2)
        counters = system.counters
        assert until(system, lambda: counters()["program"].collected == len(names))
        searches = counters()["program"].searches
        assert until(system, lambda: counters()["program"].searches > searches + 3)
        assert counters()["program"].collected == len(names)
        assert there(system, names) == names
    assert len([each for each in caplog.messages if " found 1 objects " in each]) == len(names)


@pytest.mark.usefixtures("hasty")
def test_findings_that_nobody_asks_for_take_no_more_and_more_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collector, "KEPT", 4)
    with System(timeout=20) as system:
        names = rings_of_one(20)
        assert until(system, lambda: not there(system, names))
        assert len(system.endpoint.collector._found) == 4
        monkeypatch.setattr(system.endpoint.collector, "_looks_by_itself", False)
        names = rings_of_one(20)
        found = objects_of(system.collect(timeout=PATIENCE))
        assert names <= found  # all that it has found itself
        assert len(found) == len(names) + 4
        assert not system.collect(timeout=PATIENCE)


def test_an_endpoint_that_beats_does_not_wake_up_to_search(system: System) -> None:
    assert system.endpoint.collector.deadline() is None
    with System("farrefBase", silence=None) as other:
        assert other.endpoint.collector.deadline() is not None
    with System("farrefBase", silence=None, cycles="off") as other:
        assert other.endpoint.collector.deadline() is None


def test_nobody_searches_where_it_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "IDLE", 0.1)
    with System(timeout=20, cycles="off") as system:
        system.worker("B")
        names = ids(ring_of("B", "B"))
        time.sleep(1)
        assert sum(each.searches for each in system.counters().values()) == 0
        assert there(system, names) == names


@pytest.mark.parametrize("mode", ["collect", "report"])
def test_where_counts_are_not_exact_a_search_reports(
    mode: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(scan, "is_exact", lambda: False)
    monkeypatch.setattr(collector, "is_exact", lambda: False)
    with System(timeout=20, cycles=mode) as system, caplog.at_level(logging.WARNING):
        for name in NAMES:
            system.worker(name)
        names = ids(closed([RRef(Node()), *(remote(name, Node) for name in NAMES)]))
        found = found_in(system)
        assert {str(each) for each in found[0].objects} == names
        assert found[0].cut == 0
        system.collect(timeout=PATIENCE)
        assert there(system, names) == names
    warnings = [each for each in caplog.messages if "cannot tell exactly" in each]
    assert len([each for each in warnings if each.startswith("program")]) == 1, warnings


def test_the_trial_is_made_once() -> None:
    exact.is_exact()
    before = exact.is_exact.cache_info().misses
    assert exact.is_exact()
    assert exact.is_exact.cache_info().misses == before


def test_the_trial_does_not_hold_the_lock(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    locked: list[bool] = []

    def tried() -> bool:
        locked.append(system.endpoint.core.lock._is_owned())  # type: ignore[attr-defined]  # of any `RLock`
        return exact.is_exact()

    monkeypatch.setattr(collector, "is_exact", tried)
    ring_here(1)
    assert system.collect(timeout=PATIENCE)
    assert len(locked) > 1
    assert not any(locked)


# ---- the command


def test_the_command_lists_and_frees(system: System) -> None:
    names = ids(ring_of("B", "C"))
    listed: list[str] = []

    def lists() -> bool:
        listed.append(command("gc", system.name, "--dry-run").stdout)
        return "found 2: " in listed[-1]

    eventually(lists, lambda: listed[-1], PATIENCE)
    assert there(system, names) == names
    found = json.loads(command("gc", system.name, "--json").stdout)
    assert [set(each["objects"]) for each in found] == [names]
    assert all(each["cut"] == 1 for each in found)
    eventually(lambda: not there(system, names))
    assert command("gc", system.name).stdout == "no objects were found that only hold each other\n"


def test_the_command_needs_a_running_system() -> None:
    result = command("gc", "there-is-none")
    assert result.returncode == 1
    assert result.stderr.startswith("farref gc: ")
