"""References as arguments of a call: lent for it, alone or in lists, by name or by value."""

from __future__ import annotations

import gc
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import farref
from farref import RRef, System
from farref.testing import assert_nothing_held, until

from .test_functions import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System(timeout=20) as system:
        for name in "BCD":
            system.worker(name)
        yield system


@pytest.fixture(autouse=True)
def checked(system: System) -> Iterator[None]:
    yield
    gc.collect()
    assert_nothing_held(system)


def theirs() -> RRef[Any]:
    """A reference to an object of B's."""
    made = farref.remote("B", int, (7,))
    assert made.to_here() == 7
    return made


def number(*args: Any) -> int:
    return len(args)


def kinds(*args: Any) -> list[str]:
    return [type(each).__name__ for each in args]


def values(refs: list[RRef[Any]]) -> list[Any]:
    return [each.to_here() for each in refs]


_kept: list[Any] = []


def keep(ref: RRef[Any]) -> None:
    _kept.append(ref)


def let_go() -> None:
    _kept.clear()


def fail(ref: RRef[Any]) -> None:
    raise ValueError(str(ref))


@pytest.mark.parametrize("by", ["name", "value"])
def test_a_call_that_lends_a_few_has_a_part_of_its_own(sent: Counter[str], by: str) -> None:
    ref = theirs()
    function = number if by == "name" else main("def f(*args): return len(args)").f
    mine = RRef([1])
    for _ in range(3):
        assert farref.rpc_sync("C", function, (ref, 1, [mine], "x")) == 4
    sent.clear()
    for _ in range(20):
        assert farref.rpc_sync("C", function, (ref, 1, [mine], "x")) == 4
    assert sent["Call"] > 15
    assert sent["other"] < 5


def test_the_first_call_after_a_rest_has_one(system: System, sent: Counter[str]) -> None:
    """The first message after a rest sets the clock of its channel, and goes as the others."""
    mine, links = RRef([1]), system.endpoint.delivery.links
    for _ in range(3):
        assert farref.rpc_sync("C", number, (mine, 1)) == 2
    for _ in range(5):
        assert until(system, lambda: not links.timed)
        sent.clear()
        assert farref.rpc_sync("C", number, (mine, 1)) == 2
        assert sent == Counter({"Call": 1})


def test_arguments_arrive_as_they_were() -> None:
    ref = theirs()
    mine = RRef([1])
    for _ in range(3):
        assert farref.rpc_sync("C", kinds, (1, ref, [mine], (mine,), None)) == [
            *("int", "RRef", "list", "tuple", "NoneType")
        ]
        assert farref.rpc_sync("C", kinds, (1, ref, [mine], None)) == [
            *("int", "RRef", "list", "NoneType")
        ]
        assert farref.rpc_sync("C", values, ([mine, ref],)) == [[1], 7]


def test_the_callee_can_find_an_owner_that_it_has_not_heard_of(system: System) -> None:
    """The first message that mentions the owner introduces it."""
    mine = RRef([1])
    for _ in range(3):
        assert farref.rpc_sync("D", values, ([mine],)) == [[1]]
    system.worker("E")
    made = farref.remote("E", int, (8,))
    assert made.to_here() == 8
    for _ in range(3):
        assert farref.rpc_sync("D", values, ([made],)) == [8]


def test_what_is_kept_is_counted() -> None:
    ref = theirs()
    for _ in range(3):
        farref.rpc_sync("C", keep, (ref,))
        farref.rpc_sync("C", keep, (ref,))
    assert farref.rpc_sync("B", number) == 0
    farref.rpc_sync("C", let_go)


def test_an_error_keeps_nothing() -> None:
    ref = theirs()
    for _ in range(3):
        with pytest.raises(ValueError, match="RRef"):
            farref.rpc_sync("C", fail, (ref,))


def test_an_alias_is_lent() -> None:
    ref = theirs()
    alias = farref.remote("C", _same, (ref,))
    for _ in range(3):
        assert alias.to_here() == 7
        assert farref.rpc_sync("D", values, ([alias],)) == [7]
        assert farref.rpc_sync("D", values, ([alias, ref],)) == [7, 7]


def _same(ref: RRef[Any]) -> RRef[Any]:
    return ref


def test_a_reference_of_another_system_is_refused() -> None:
    ref = theirs()
    assert farref.rpc_sync("C", number, (ref,)) == 1
    with System("simpleSystemBase"):
        foreign = RRef(1)
    with pytest.raises(farref.ForeignReferenceError):
        farref.rpc_sync("C", number, (ref, foreign))


def test_a_handle_is_one_handle_there() -> None:
    ref = theirs()
    for _ in range(3):
        assert farref.rpc_sync("C", _are_one, (ref, ref)) is True


def _are_one(one: RRef[Any], other: RRef[Any]) -> bool:
    return one is other
