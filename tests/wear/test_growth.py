"""Many of everything: 200 endpoints in one process, 200 processes, and the resources of each."""

from __future__ import annotations

import pytest

import farref
from farref import RRef, System
from farref.protocol.empty import EMPTY

from bench import growth
from bench.growth import references, workers
from bench.peers.references import touch
from bench.things import echo


def everybody_answers(system: System, number: int) -> None:
    """Start *number* workers, call each at once, and lend each a reference."""
    names = [system.worker(f"W{n}", threads=1).name for n in range(number)]
    calls = [farref.rpc_async(name, echo, (n,)) for n, name in enumerate(names)]
    assert [call.result() for call in calls] == list(range(number))
    ref = RRef("lent")
    assert [farref.rpc_async(name, touch, ([ref],)).result() for name in names] == [1] * number


def test_two_hundred_endpoints_in_one_process() -> None:
    with System("simpleSystemBase") as system:
        everybody_answers(system, 200)
        # The framework looks at every timer for each message: the registrar may have one.
        assert len(system._asys._systemBase._wakeUps) <= 1


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.timeout(300)
def test_two_hundred_processes() -> None:
    with System() as system:
        everybody_answers(system, 200)


def test_an_object_for_which_nothing_waits_has_no_queue() -> None:
    with System("simpleSystemBase") as system:
        system.worker("B")
        ref = RRef([1])
        assert farref.rpc_sync("B", fetch, (ref,)) == [1]
        assert system.endpoint.core.context.owners[ref.id].queue is EMPTY


def fetch(ref: RRef[list[int]]) -> list[int]:
    return ref.to_here()


@pytest.mark.processes
def test_what_grows_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "TIMES", 10)
    some = references(30)
    assert some.steps == [30]
    assert some.seconds.keys() == {"making and sending one", "a share of another"}
    assert some.dropping is not None
    assert workers(2).bytes["of one"][0] > 100_000
    assert workers(2, "simpleSystemBase").steps == [2]
