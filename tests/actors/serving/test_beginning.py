"""When functions begin at a worker with one thread, as docs/guarantees.md says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RRef, System

from ...bases import BASES
from ..helpers import hold, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_begun: list[Any] = []
"""At B: the names of the functions that have begun, in this order."""
ROUNDS = 20
"""If a request were to begin before its time, it would have begun after so many answers."""


def note(name: Any) -> Any:
    _begun.append(name)
    return name


def note_and_hold(name: str, gate: Path) -> Any:
    """It keeps its thread until *gate* opens."""
    return hold(gate, note(name))


async def note_later(name: Any) -> Any:
    return note(name)


async def note_and_keep_the_loop(name: str, gate: Path) -> Any:
    return note_and_hold(name, gate)


def forget() -> RRef[list[Any]]:
    _begun.clear()
    return RRef(_begun)


@pytest.fixture(params=BASES)
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    """The worker B has one thread, and C has more."""
    with System(request.param, timeout=20) as system:
        system.worker("B", threads=1)
        system.worker("C")
        yield system


@pytest.fixture
def begun(system: System) -> RRef[list[Any]]:
    """B's list. A fetch of it needs no thread of those that run functions."""
    ref: RRef[list[Any]] = farref.rpc_sync("B", forget)
    return ref


def stays(begun: RRef[list[Any]], *names: Any) -> bool:
    """Whether exactly these have begun, and B has no more to begin."""
    return all(begun.to_here() == [*names] for _ in range(ROUNDS))


def has_begun(system: System, begun: RRef[list[Any]], name: str) -> bool:
    return until(system, lambda: name in begun.to_here())


def ended(futures: list[farref.Future[Any]]) -> None:
    for each in futures:
        each.result()


# ---- `async def` functions


def test_an_async_function_does_not_begin_before_earlier_plain_ones(
    system: System, begun: RRef[list[Any]], gate: Path
) -> None:
    """It waits for a thread as they do, although it runs on the loop."""
    assert farref.rpc_sync("B", note_later, ("the loop runs",)) == "the loop runs"
    futures = [
        farref.rpc_async("B", note_and_hold, ("plain", gate)),
        farref.rpc_async("B", note_later, ("async",)),
    ]
    assert has_begun(system, begun, "plain")
    assert stays(begun, "the loop runs", "plain")
    gate.touch()
    ended(futures)
    assert begun.to_here() == ["the loop runs", "plain", "async"]


def test_async_functions_begin_in_the_order_of_their_calls(begun: RRef[list[Any]]) -> None:
    """The first one begins the loop. Plain functions between them change nothing."""
    names = [("async" if number % 3 else "plain", number) for number in range(60)]
    ended(
        [
            farref.rpc_async("B", note_later if name[0] == "async" else note, (name,))
            for name in names
        ]
    )
    for kind in ("async", "plain"):
        of_kind = [name for name in names if name[0] == kind]
        assert [name for name in begun.to_here() if name[0] == kind] == of_kind


def test_a_later_plain_function_may_begin_before_an_async_one(
    system: System, begun: RRef[list[Any]], gate: Path
) -> None:
    """The loop is busy, and the thread is free."""
    first = farref.rpc_async("B", note_and_keep_the_loop, ("keeps the loop", gate))
    assert has_begun(system, begun, "keeps the loop")
    second = farref.rpc_async("B", note_later, ("async",))
    assert farref.rpc_sync("B", note, ("plain",)) == "plain"
    assert stays(begun, "keeps the loop", "plain")
    gate.touch()
    ended([first, second])
    assert begun.to_here() == ["keeps the loop", "plain", "async"]


# ---- arguments by value


def held_at_c(gate: Path) -> RRef[str]:
    """A value that C makes when *gate* opens."""
    return farref.remote("C", hold, (gate, "value"))


def fetched_from_c(system: System) -> int:
    """The answers that C has sent so far."""
    counters = system.counters()["C"]
    return counters.user.get("Reply", 0) + counters.control.get("Reply", 0)


def test_later_calls_do_not_wait_for_arguments(begun: RRef[list[Any]], gate: Path) -> None:
    future = farref.rpc_async("B", note, (held_at_c(gate),), resolve=True)
    assert farref.rpc_sync("B", note, ("plain",)) == "plain"
    assert farref.rpc_sync("B", note_later, ("async",)) == "async"
    assert stays(begun, "plain", "async")
    gate.touch()
    assert future.result() == "value"
    assert begun.to_here() == ["plain", "async", "value"]


def test_a_call_with_its_arguments_lines_up_behind_those_that_came_meanwhile(
    system: System, begun: RRef[list[Any]], gate: Path
) -> None:
    other = gate.with_name("other")
    resolved = farref.rpc_async("B", note, (held_at_c(gate),), resolve=True)
    assert farref.rpc_sync("B", note, ("before",)) == "before"  # it asks for its argument before
    answers = fetched_from_c(system)
    busy = farref.rpc_async("B", note_and_hold, ("busy", other))
    assert has_begun(system, begun, "busy")
    meanwhile = farref.rpc_async("B", note, ("meanwhile",))
    assert stays(
        begun, "before", "busy"
    )  # B has the call: it answers a later fetch of this process
    gate.touch()
    assert until(system, lambda: fetched_from_c(system) > answers)
    assert stays(begun, "before", "busy")
    other.touch()
    ended([resolved, busy, meanwhile])
    assert begun.to_here() == ["before", "busy", "meanwhile", "value"]


@pytest.mark.parametrize("local", [False, True])
def test_it_does_so_even_if_there_is_nothing_to_wait_for(
    system: System, begun: RRef[list[Any]], gate: Path, *, local: bool
) -> None:
    """No argument is a reference, or its value is at the worker itself."""
    value: Any = "value"
    if local:
        value = farref.remote("B", str, ("value",))
        farref.wait([value])
    busy = farref.rpc_async("B", note_and_hold, ("busy", gate))
    assert has_begun(system, begun, "busy")
    resolved = farref.rpc_async("B", note, (value,), resolve=True)
    later = farref.rpc_async("B", note, ("later",))
    assert stays(begun, "busy")
    gate.touch()
    ended([busy, resolved, later])
    assert begun.to_here() == ["busy", "later", "value"]
