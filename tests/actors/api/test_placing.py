"""`farref.ANY`: calls go to the least loaded worker."""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import ANY, RefActor, RRef, WorkerNotFoundError
from farref.actors.core.current import frame

from ...waiting import eventually
from ..helpers import hold, until

if TYPE_CHECKING:
    from pathlib import Path

    from farref import System


def who() -> str:
    return farref.get_worker_info().name


def loads() -> dict[str, int]:
    """The unfinished requests of this endpoint, by worker."""
    placing: Any = frame().core.front.placing
    return {worker.name: load.requests for worker, load in placing._loads.items()}


def nothing_under_way() -> bool:
    return not any(loads().values())


def one_by_one(count: int, busy: int = 0) -> list[str]:
    """Where *count* calls run. Each begins when only *busy* requests are under way.

    The result of a call comes a moment before the call is a load no more.
    """
    places = []
    for _ in range(count):
        eventually(lambda: sum(loads().values()) <= busy, "a request is still under way")
        places.append(farref.rpc_sync(ANY, who))
    return places


def test_requests_are_spread(system: System) -> None:
    assert until(system, nothing_under_way)
    futures = [farref.rpc_async(ANY, who) for _ in range(4)]
    assert {future.result() for future in futures} == {"B", "C"}
    assert until(system, nothing_under_way)
    refs = [farref.remote(None, who) for _ in range(4)]
    assert Counter(farref.get(refs)) == Counter(ref.owner_name() for ref in refs)
    assert {ref.owner_name() for ref in refs} == {"B", "C"}
    assert farref.rpc_sync(ANY, who) in {"B", "C"}
    assert until(system, nothing_under_way)


@pytest.mark.parametrize("call", [farref.remote, farref.rpc_async])
def test_a_worker_that_is_busy_gets_no_more(system: System, gate: Path, call: Any) -> None:
    assert until(system, nothing_under_way)
    busy = call(ANY, _hold_and_tell, (gate,))
    (there,) = [worker for worker, load in loads().items() if load]
    others = set(one_by_one(4, busy=1))
    ref = farref.remote(ANY, who)
    assert others == {"B", "C"} - {there}
    gate.touch()
    assert (busy.to_here() if isinstance(busy, RRef) else busy.result()) == there
    assert ref.to_here() in {"B", "C"}


def _hold_and_tell(gate: Path) -> str:
    hold(gate)
    return who()


def test_several_results_are_on_one_worker(system: System) -> None:
    one, two = farref.remote(ANY, divmod, (7, 2), num_returns=2)
    assert farref.get([one, two]) == [3, 1]
    assert one.owner_name() == two.owner_name()


def test_a_request_that_cannot_be_sent_is_no_load(system: System) -> None:
    assert until(system, nothing_under_way)
    for call in (farref.remote, farref.rpc_async):
        with pytest.raises(farref.SerializationError):
            call(ANY, who, (frame(),))
    assert nothing_under_way()


def test_without_a_worker_it_is_an_error(own_system: System) -> None:
    own_system.create(RefActor)  # it is no worker
    for call in (farref.remote, farref.rpc_async, farref.rpc_sync):
        with pytest.raises(WorkerNotFoundError, match=r"create one with system\.worker\(name\)"):
            call(ANY, who)
    own_system.worker("B")
    assert farref.rpc_sync(ANY, who) == "B"
    own_system.worker("C")  # this endpoint's own creations count at once
    assert set(one_by_one(2)) == {"B", "C"}


def test_a_worker_places_its_calls_on_others_first(system: System) -> None:
    assert farref.rpc_sync("B", one_by_one, (2,)) == ["C", "C"]


def test_a_dead_worker_gets_nothing(process_system: System) -> None:
    for name in ("B", "C"):
        process_system.worker(name)
    assert {farref.rpc_sync(ANY, who) for _ in range(2)} == {"B", "C"}
    os.kill(farref.rpc_sync("B", os.getpid), signal.SIGKILL)
    assert until(process_system, lambda: "B" not in {w.name for w in process_system.workers()})
    assert until(process_system, lambda: _is_dead("B"))
    assert {farref.rpc_sync(ANY, who) for _ in range(3)} == {"C"}


def _is_dead(name: str) -> bool:
    try:
        farref.rpc_sync(name, who)
    except farref.WorkerDiedError:
        return True
    return False
