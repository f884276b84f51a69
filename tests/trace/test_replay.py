"""The machines, run again on a trace, reach the tables that the endpoints really had."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from farref.actors.recording.recorded import Recorded
from farref.actors.recording.tables_json import SnapshotError, context_of, tables_of
from farref.actors.recording.tracing import spell, worker_of
from farref.protocol.context import Context
from farref.protocol.sharing import DISCIPLINES
from farref.trace import read
from farref.trace.export.tracetest import trace_test
from farref.trace.merge import merge
from farref.trace.records import load
from farref.trace.replay import Player
from farref.tracetest.files import differences
from farref.tracetest.show import table_lines

from ..simulation.plan import WEATHERS, Plan, draw
from ..simulation.world import SimulatedWorld

PLANS = [
    draw(seed, 80, sharing=sharing, weather=weather)
    for sharing in DISCIPLINES
    for seed, weather in enumerate(WEATHERS, 1)
]


def played(plan: Plan, folder: Path) -> SimulatedWorld:
    """*plan*, up to its last act: there are many holds, and many messages on their way."""
    world = SimulatedWorld(plan, folder)
    for act in plan.acts:
        world.act(act)
    return world


def normal(tables: Any) -> Any:
    return json.loads(json.dumps(tables))


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.sharing}-{plan.weather}")
def test_replayed_tables_are_those_that_were(plan: Plan, tmp_path: Path) -> None:
    world = played(plan, tmp_path)
    player = Player()
    for record in merge(load(tmp_path)):
        player.take(record)
    assert player.broken == {}
    nodes = [node for node in world.nodes if node is not None]
    assert any(node.context.owners for node in nodes)
    for node in nodes:
        mine = player.contexts[spell(node.me)]
        assert table_lines(mine) == table_lines(node.context) == player.tables(spell(node.me))
        assert player.length(spell(node.me)) == len(table_lines(mine))
        assert normal(tables_of(mine)) == normal(tables_of(node.context))
    world.close()


@pytest.mark.parametrize("plan", PLANS[::2], ids=lambda plan: f"{plan.sharing}-{plan.weather}")
def test_tables_are_read_back_as_they_were_written(plan: Plan, tmp_path: Path) -> None:
    world = played(plan, tmp_path)
    for node in world.nodes:
        if node is not None:
            tables = normal(tables_of(node.context))
            again = context_of(node.me, plan.sharing, tables, worker_of)
            assert table_lines(again) == table_lines(node.context)
            assert normal(tables_of(again)) == tables
    world.close()


@pytest.mark.parametrize(
    "change",
    [
        lambda tables: tables.pop("owners"),
        lambda tables: tables.update(owners=["dict", [["Popen", ["args", "sls"]], 1]]),
        lambda tables: tables.update(owners=["dict", ["rA", 1]]),
        lambda tables: tables.update(owners=["list"]),
        lambda tables: tables.update(users=["dict", ["rA@1/1", ["User", ["rref", "rA@1/1"]]]]),
        lambda tables: tables.update(names=["again", 0]),
    ],
    ids=["gone", "foreign", "no-id", "other", "half", "nowhere"],
)
def test_tables_that_nobody_wrote_are_refused(change: Any, tmp_path: Path) -> None:
    world = played(PLANS[0], tmp_path)
    node = next(node for node in world.nodes if node is not None)
    tables = normal(tables_of(node.context))
    change(tables)
    with pytest.raises(SnapshotError):
        context_of(node.me, PLANS[0].sharing, tables, worker_of)
    world.close()


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.sharing}-{plan.weather}")
def test_an_exported_run_is_a_trace_test_that_passes(plan: Plan, tmp_path: Path) -> None:
    played(plan, tmp_path).close()
    test = tmp_path / "incident.txt"
    test.write_text(trace_test(read(tmp_path)), encoding="utf-8")
    assert differences(test) == ""
    commands = test.read_text(encoding="utf-8").splitlines()
    assert any(line.startswith("deliver ") for line in commands)


QUESTIONS = {
    "blocker",
    "borrowed",
    "canonical",
    "how",
    "minted",
    "owner_of",
    "path",
    "served",
    "uncounted",
    "whereabouts",
}
"""Methods of a context that change nothing."""
INSIDE = {"receive", "share_on", "outlive", "take_all"}
"""Methods that only the context itself calls; one that checks a message for another one; one
that comes before all others: a recording begins with its effects (see `Endpoint._joined`); and
one that an endpoint does not use while it records."""


def test_every_input_of_a_context_is_recorded() -> None:
    public = {name for name in dir(Context) if not name.startswith("_")}
    assert public - QUESTIONS - INSIDE == {name for name in vars(Recorded) if name[0] != "_"} - {
        "plain"
    }
