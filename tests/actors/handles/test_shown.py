"""The `repr`s of a system, a reference and a future say what a reader wants to know."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RRef, System

from ..helpers import hold, kill, until

if TYPE_CHECKING:
    from pathlib import Path


def fail() -> None:
    raise KeyError("no such page")


def shown(value: Any) -> str:
    return repr(value)


def test_a_reference_names_its_owner_everywhere(system: System) -> None:
    ref = farref.remote("B", dict)
    assert repr(ref) == f"RRef({ref.id} at B)"
    assert farref.rpc_sync("C", shown, (ref,)) == f"RRef({ref.id} at B)"
    mine = RRef(1)
    assert repr(mine) == f"RRef({mine.id} at program)"
    assert farref.rpc_sync("C", shown, (mine,)) == f"RRef({mine.id} at program)"


def test_a_reference_that_could_not_be_made_has_a_repr() -> None:
    assert repr(RRef.__new__(RRef)) == "RRef(not made)"


@pytest.mark.processes
def test_a_reference_of_a_dead_owner_says_so(process_system: System) -> None:
    process_system.worker("B")
    ref = farref.remote("B", dict)
    kill("B")
    assert until(process_system, lambda: "whose owner is dead" in repr(ref)), repr(ref)
    assert str(ref.id) in repr(ref)


def test_a_future_says_what_it_waits_for_and_its_state(gate: Path, system: System) -> None:
    held = farref.rpc_async("B", hold, args=(gate,))
    assert repr(held) == "<Future of the reply of B to hold(): pending>"
    gate.touch()
    held.result()
    assert repr(held) == "<Future of the reply of B to hold(): done>"
    failed = farref.rpc_async("B", fail)
    failed.exception()
    assert repr(failed) == "<Future of the reply of B to fail(): failed with KeyError>"
    ref = farref.remote("B", dict)
    fetch = ref.future()
    assert str(ref.id) in repr(fetch)
    fetch.result()


@pytest.mark.usefixtures("system")
def test_a_cancelled_future_says_so() -> None:
    held = farref.rpc_async("B", asyncio.sleep, args=(1000,))
    assert held.cancel()
    assert repr(held).endswith(": cancelled>")


def test_a_system_says_where_it_runs_and_whom_this_program_uses(system: System) -> None:
    farref.rpc_sync("B", abs, (1,))
    said = repr(system)
    assert said.startswith(f"<System {system.name!r} on {system._base}: running, with B")


def test_a_system_that_was_shut_down_says_so() -> None:
    with System("simpleSystemBase", name="short") as system:
        assert repr(system) == "<System 'short' on simpleSystemBase: running>"
    assert repr(system) == "<System 'short' on simpleSystemBase: shut down>"


def test_a_snapshot_counts(system: System) -> None:
    ref = farref.remote("B", dict)
    ref.to_here()
    said = repr(system.references())
    assert said == (
        f"Snapshot(system={system.name!r}, references=1, rows=2, endpoints=3, silent=0, cycles=0, "
        "leaks=0)"
    )
