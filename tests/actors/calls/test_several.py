"""``remote(..., num_returns=n)``: several results of one call, each an object of its own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import farref
from farref import OwnerDiedError, RRef

from ..helpers import Box, hold, kill, make_box, references_everywhere, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from farref import System


def several(*values: Any) -> tuple[Any, ...]:
    return values


async def several_later(*values: Any) -> list[Any]:
    return list(values)


def yielded(number: int) -> Iterator[int]:
    yield from range(number)


def divided(by: int) -> tuple[int, int]:
    return divmod(1, by)


class Splitter:
    """It counts the runs of its method."""

    def __init__(self) -> None:
        self.runs = 0

    def split(self, *values: Any) -> tuple[Any, ...]:
        self.runs += 1
        return (self.runs, *values)


@pytest.mark.parametrize("function", [several, several_later])
def test_each_result_is_an_object_of_the_callee(system: System, function: Any) -> None:
    one, two, three = farref.remote("B", function, (1, "two", [3]), num_returns=3)
    assert farref.get([three, two, one]) == [[3], "two", 1]
    assert {ref.owner_name() for ref in (one, two, three)} == {"B"}
    three.rpc_sync().append(4)
    assert three.to_here() == [3, 4]


def test_the_values_of_a_generator(system: System) -> None:
    refs = farref.remote("B", yielded, (2,), num_returns=2)
    assert farref.get(refs) == [0, 1]


def test_one_result_is_a_reference_as_always(system: System) -> None:
    ref = farref.remote("B", several, (1, 2), num_returns=1)
    assert ref.to_here() == (1, 2)


def test_the_function_runs_once(system: System) -> None:
    splitter = farref.remote("B", Splitter)
    runs, value = splitter.remote(num_returns=2).split("value")
    assert farref.get([runs, value]) == [1, "value"]
    assert splitter.rpc_async().runs.get().result() == 1


def test_other_options_go_with_it(system: System) -> None:
    five = farref.remote("C", int, ("5",))
    a, b = farref.remote("B", several, (five, 6), resolve=True, num_returns=2)
    assert farref.get([a, b]) == [5, 6]
    array = farref.remote("B", np.arange, (10,))
    a, b = RRef(Splitter()).remote(resolve=True, frozen=True, num_returns=2).split(array)
    value = b.to_here()
    assert value.sum() == 45
    assert not value.flags.writeable


def test_each_result_is_freed_by_itself(system: System) -> None:
    kept, dropped = farref.remote("B", several, (1, 2), num_returns=2)
    assert farref.get([kept, dropped]) == [1, 2]
    del dropped
    # Neither does the run stay, which had both values.
    assert until(system, lambda: _owned_by("B", system) == {str(kept.id)})
    assert kept.to_here() == 1


def _owned_by(name: str, system: System) -> set[Any]:
    rows = references_everywhere(system).get(name, [])
    return {str(each.rref) for each in rows if each.role == "owner"}


def test_results_may_hold_references_and_be_references(system: System) -> None:
    box = farref.remote("C", make_box, (7,))
    alias, holder = farref.remote("B", several, (box, Box(box)), num_returns=2)
    assert alias.to_here().content == 7
    assert alias.canonical() == box.id
    assert holder.rpc_sync().get() == box


def test_a_reference_to_several_values_is_divided_at_its_owner(system: System) -> None:
    pair = farref.remote("C", several, (1, 2))
    refs = farref.remote("B", _same, (pair,), num_returns=2)
    assert farref.get(refs) == [1, 2]
    del pair


def _same(value: Any) -> Any:
    return value


def test_an_exception_is_raised_by_every_reference(system: System) -> None:
    for ref in farref.remote("B", divided, (0,), num_returns=2):
        with pytest.raises(ZeroDivisionError) as caught:
            ref.to_here()
        (note,) = caught.value.__notes__
        assert note.startswith("raised on worker B by divided()")
        assert str(caught.value.__cause__).count("ZeroDivisionError") == 1, "it is the run's own"


@pytest.mark.parametrize(
    ("function", "args", "words"),
    [
        (several, (1, 2, 3), r"several\(\) returned 3 values, and num_returns=2"),
        (several, (1,), "returned 1 values"),
        (yielded, (10**9,), "num_returns=2"),  # it is not run to its end
    ],
)
def test_another_number_of_values(
    system: System, function: Any, args: tuple[int, ...], words: str
) -> None:
    for ref in farref.remote("B", function, args, num_returns=2):
        with pytest.raises(ValueError, match=words):
            ref.to_here()


@pytest.mark.parametrize("value", ["ab", b"ab", {1: 2, 3: 4}, {1, 2}, 5, None])
def test_a_result_that_is_no_sequence(system: System, value: Any) -> None:
    for ref in farref.remote("B", _same, (value,), num_returns=2):
        with pytest.raises(TypeError, match=rf"one {type(value).__name__}.*in a tuple"):
            ref.to_here()


@pytest.mark.parametrize("number", [0, -1, 1.0, True, None, "dynamic"])
def test_a_bad_number_of_results(system: System, number: Any) -> None:
    with pytest.raises(ValueError, match=r"num_returns must be an int of 1 or more"):
        farref.remote("B", several, num_returns=number)
    with pytest.raises(ValueError, match=r"num_returns must be an int of 1 or more"):
        RRef(1).remote(num_returns=number)


def test_the_references_come_before_the_values(system: System, gate: Path) -> None:
    first, second = farref.remote("B", _hold_two, (gate,), num_returns=2)
    ready, _ = farref.wait([first, second], timeout=0)
    assert not ready
    del first  # before it has a value
    gate.touch()
    assert second.to_here() == 2


def _hold_two(gate: Path) -> Any:
    return hold(gate, (1, 2))


def test_the_cost_is_one_creation_more_than_results(system: System) -> None:
    before = farref.counters()
    refs = farref.remote("B", several, (1, 2, 3), num_returns=3)
    farref.wait(refs, num_returns=3)
    after = farref.counters()
    assert after.user["Create"] - before.user.get("Create", 0) == 4


def test_the_death_of_the_callee_is_the_death_of_all(process_system: System) -> None:
    process_system.worker("B")
    refs = farref.remote("B", several, (1, 2), num_returns=2)
    assert farref.get(refs) == [1, 2]
    kill("B")
    for ref in refs:
        with pytest.raises(OwnerDiedError):
            until(process_system, partial(_gone, ref))


def _gone(ref: RRef[Any]) -> bool:
    """False while its owner counts as alive."""
    ref.to_here()
    return False
