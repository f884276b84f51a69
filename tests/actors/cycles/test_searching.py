"""When endpoints search: by themselves, beside many live objects, where counts are inexact."""

from __future__ import annotations

import itertools
import json
import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from farref import RRef, System, remote, rpc_sync
from farref.testing import Faults, delay, set_faults, until

from ...commands.kit import farref as command
from ...waiting import eventually
from ..helpers import PATIENCE, come_to_rest
from .rings import (
    HELD,
    NAMES,
    Node,
    assert_goes,
    assert_stays,
    ids,
    objects_of,
    release,
    ring_here,
    ring_of,
    row_of,
    search_until,
    there,
)

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.processes


# ---- many live objects


def make_many(number: int) -> None:
    """Live objects with references to each other, beside a ring."""
    refs = [RRef(Node()) for _ in range(number)]
    for one, other in itertools.pairwise(refs):
        one.local_value().link(other)
    HELD["many"] = refs


def use_many() -> int:
    return sum(ref.local_value() is not None for ref in HELD["many"])


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
    assert counters.pause > 0
    assert counters.searches - searches < 20  # one for all that is alive, each time
    assert rpc_sync("B", use_many, timeout=60) == number
    rpc_sync("B", release, args=("many",))


def test_a_live_list_over_workers_takes_a_few_messages(system: System) -> None:
    """One question asks for many objects, and one that lives answers for all that it leads to."""
    nodes = row_of(200)
    names = ids(nodes)
    nodes[:] = nodes[100:101]
    come_to_rest(system)
    before = looks(system)
    assert not system.collect(timeout=PATIENCE)
    assert looks(system) - before < 40
    assert_stays(system, names)
    nodes.clear()
    assert_goes(system, names)


def looks(system: System) -> int:
    return sum(each.control.get("WhoHolds", 0) for each in system.counters().values())


# ---- limits


@pytest.mark.parametrize("limit", ["PARTS", "OBJECTS", "MAX_SET"])
def test_what_is_too_large_for_a_search_counts_as_live(
    constants: Callable[..., None], limit: str
) -> None:
    with System(timeout=20) as system:
        names = ids(ring_here(5))
        constants(**{limit: 3})
        assert_stays(system, names)
        constants(**{limit: 100})
        assert_goes(system, names)


@pytest.mark.parametrize(("limit", "goes"), [(100, True), (4, False)])
def test_a_ring_too_large_over_two_endpoints_counts_as_live(
    constants: Callable[..., None], limit: int, goes: bool
) -> None:
    constants(MAX_SET=limit)
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


def test_a_search_waits_for_the_values_here(system: System, constants: Callable[..., None]) -> None:
    """However long it takes to look through them: only other endpoints may be given up."""
    constants(PATIENCE=0.001)
    ring_here(2_000)
    found = system.collect(timeout=PATIENCE)
    assert [len(each.objects) for each in found] == [2_000]


def test_each_look_has_its_own_time(constants: Callable[..., None]) -> None:
    """A search of many looks goes on: only an endpoint that does not answer one is given up."""
    constants(PATIENCE=1.0)
    with System(timeout=20) as system:
        for name in NAMES:
            system.worker(name)
        names = ids(ring_of(*NAMES))
        # The search from a member asks each of the other two twice, one after the other.
        set_faults(system, Faults(delay(kinds="Holders", seconds=0.5)))
        assert_goes(system, names)


# ---- the modes


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("mode", ["collect", "report"])
def test_endpoints_search_by_themselves(mode: Any) -> None:
    with System(timeout=20, cycles=mode) as system:
        for name in NAMES:
            system.worker(name)
        nodes = ring_of(*NAMES)
        names = ids(nodes)
        eventually(lambda: all(system.counters()[name].searches > 3 for name in NAMES))
        assert there(system, names) == names
        nodes.clear()
        eventually(lambda: sum(each.collected for each in system.counters().values()) >= len(NAMES))
        if mode == "report":
            assert there(system, names) == names
            return
        eventually(lambda: not there(system, names))


@pytest.mark.usefixtures("hasty")
def test_nobody_searches_where_it_is_off() -> None:
    """While another system of this process does."""
    with System(timeout=20, cycles="off") as system:
        names = ids(ring_here(2))
        with System(timeout=20, cycles="report") as other:
            ring_here(2)
            assert until(other, lambda: other.counters()["program"].searches > 3)
        assert system.counters()["program"].searches == 0
        assert there(system, names) == names


def spin() -> None:
    """Until `release`, have threads of this process work: all others wait long for their turn."""
    HELD["spin"] = ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            sum(range(1_000))

    for _ in range(16):
        threading.Thread(target=work, daemon=True).start()


@pytest.mark.long
@pytest.mark.usefixtures("hasty")
def test_a_look_that_only_waits_puts_off_nothing() -> None:
    """As on a busy machine: the time until the next one follows from its processor time."""
    with System(timeout=60) as system:
        system.worker("B")
        parts = [[number] for number in range(5_000)]
        kept = remote("B", list, args=(parts,))
        rpc_sync("B", spin)
        names = ids(ring_of("B"))
        eventually(lambda: not there(system, names), patience=60)
        rpc_sync("B", release, args=("spin",))
        assert len(kept.to_here()) == len(parts)


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


@pytest.mark.parametrize(("dry_run", "said"), [(False, "collects"), (True, "found")])
def test_one_line_of_info_for_each_find(
    system: System, dry_run: bool, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    names = [str(each.id) for each in ring_here(30)]

    def lines() -> list[str]:
        found = "30 objects that only held each other"  # the last test's find may be said late
        return [each for each in caplog.messages if found in each]

    with caplog.at_level(logging.INFO, "farref.actors.cycles"):
        eventually(
            lambda: {*names} <= objects_of(system.collect(dry_run=dry_run, timeout=PATIENCE))
        )
        eventually(lines)
        system.collect(timeout=PATIENCE)
        eventually(lambda: len(lines()) > dry_run)  # after a dry run it is found again
    told = f"program {said} 30 objects that only held each other: {names[0]} -> {names[1]} -> "
    line, *further = lines()
    assert len(further) == dry_run
    assert line.replace("@1", "").startswith(told.replace("@1", "")), line
    assert line.endswith(f"-> {names[19]} -> ... -> {names[0]}")  # a long ring is cut short


@pytest.mark.usefixtures("hasty")
def test_findings_that_nobody_asks_for_take_no_more_and_more_memory(
    constants: Callable[..., None],
) -> None:
    constants(KEPT=4)
    with System(timeout=20) as system:
        names = rings_of_one(20)
        assert until(system, lambda: not there(system, names))
        kept = objects_of(system.collect(timeout=PATIENCE))
        assert len(kept) == 4
        assert kept < names
        assert not system.collect(timeout=PATIENCE)
    with System(timeout=20, cycles="off") as system:
        names, found = rings_of_one(20), set[str]()
        search_until(system, lambda: not there(system, names), found=found)
        assert found == names  # all that it finds itself


def test_an_endpoint_that_beats_does_not_wake_up_to_search(system: System) -> None:
    assert system.endpoint.collector.deadline() is None
    with System("farrefBase", silence=None) as other:
        assert other.endpoint.collector.deadline() is not None
    with System("farrefBase", silence=None, cycles="off") as other:
        assert other.endpoint.collector.deadline() is None


# ---- without exact counts

INEXACT = """
import logging, sys
import farref
from tests.actors.cycles.rings import *

def asked():
    asked.times += 1
    return False

asked.times = 0
sys._is_gil_enabled = asked  # as on a free-threaded build
logging.basicConfig(format="%(message)s", level="WARNING")
for mode in ("collect", "report"):
    with farref.System(timeout=20, cycles=mode) as system:
        for name in NAMES:
            system.worker(name)
        nodes = closed([farref.RRef(Node()), *(farref.remote(name, Node) for name in NAMES)])
        names = ids(nodes)
        nodes.clear()
        (found,) = found_in(system)
        assert objects_of([found]) == names, found
        assert found.cut == 0
        system.collect()
        assert there(system, names) == names
assert asked.times == 1, "the trial is made once"
"""


def test_where_counts_are_not_exact_a_search_reports() -> None:
    run = subprocess.run(
        [sys.executable, "-c", INEXACT],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert run.returncode == 0, run.stderr
    warnings = [each for each in run.stderr.splitlines() if "cannot tell exactly" in each]
    assert len([each for each in warnings if each.startswith("program")]) == 2  # one a system


# ---- the command


def test_the_command_lists_and_frees(system: System) -> None:
    names = ids(ring_of("B", "C"))
    listed: list[str] = []

    def lists() -> bool:
        listed.append(command("gc", system.name, "--dry-run").stdout)
        return "found 2: " in listed[-1]

    eventually(lists, lambda: listed[-1])
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
