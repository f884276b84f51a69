"""Values nested very deep, and values that refer to themselves."""

from __future__ import annotations

import gc
import queue
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RefActor, RRef, System

from ...bases import BASES
from ...waiting import eventually
from ..helpers import Box, come_to_rest, make_box, until

if TYPE_CHECKING:
    from collections.abc import Iterator

TOO_DEEP = 200_000  # from Python 3.14 on, the stack limits it: 43,000 in 8 MiB
"""Deeper than any Python's pickler goes."""


def nest(inside: Any, depth: int) -> Any:
    for _ in range(depth):
        inside = [inside]
    return inside


def same(value: Any) -> Any:
    return value


def a_message(system: System, ref: RRef[Any]) -> None:
    system.tell(system.create(RefActor), nest(ref, TOO_DEEP))


SENDS: dict[str, Any] = {
    "argument": lambda _, ref: farref.rpc_sync("B", same, (nest(ref, TOO_DEEP),)),
    "reply": lambda _, ref: farref.rpc_sync("B", nest, (ref, TOO_DEEP)),
    "fetch": lambda _, ref: farref.remote("B", nest, (ref, TOO_DEEP)).to_here(),
    "fetch from the program": lambda _, ref: farref.rpc_sync(
        "B", RRef.to_here, (RRef(nest(ref, TOO_DEEP)),)
    ),
    "message": a_message,
}


@pytest.mark.parametrize("way", SENDS)
def test_a_value_that_is_nested_too_deep_is_an_error(system: System, way: str) -> None:
    freed: list[object] = []
    ref = RRef(7, on_delete=freed.append)
    with pytest.raises(farref.SerializationError, match=r"nested deeper than .*RRef"):
        SENDS[way](system, ref)
    assert farref.rpc_sync("B", same, (ref,)) == ref
    del ref
    assert until(system, lambda: freed)


def fail_deeply() -> None:
    error = KeyError("deep down")
    error.value = nest(7, TOO_DEEP)  # type: ignore[attr-defined]
    raise error  # its text is short: from Python 3.14 on, that of the value takes 10 s


def test_an_exception_that_is_nested_too_deep_is_a_remote_error(system: System) -> None:
    with pytest.raises(farref.RemoteError, match="KeyError"):
        farref.rpc_sync("B", fail_deeply)
    assert farref.rpc_sync("B", pow, (2, 3)) == 8


def test_a_value_may_refer_to_one_created_by_its_own_method(system: System) -> None:
    outer = farref.remote("B", make_box, (3,))
    inner = outer.remote().get()
    outer.rpc_sync().put([inner])
    fetched = outer.rpc_sync().get()
    assert fetched == [inner]
    assert inner.to_here() == 3


def test_what_a_value_contains_is_found(system: System) -> None:
    """Also beside a future, which refers to the endpoint and so to all other references."""
    inner, other, unrelated = RRef(1), farref.remote("B", make_box), RRef(2)
    future = farref.rpc_async("B", same, ([other],))
    future.result()
    outer = RRef(Box([Box(inner), future, lambda: other]))
    (row,) = (row for row in farref.references() if row.rref == str(outer.id))
    assert set(row.contains) == {str(inner.id), str(other.id)}
    assert row.complete
    assert unrelated.to_here() == 2


# ---- a value that refers to itself: counted, so never freed, but nothing crashes or hangs (G6)


@pytest.fixture(params=BASES)
def ending(request: pytest.FixtureRequest) -> Iterator[System]:
    """A system whose end would hang for longer than a test may, if it waited for references."""
    with System(request.param, timeout=600) as system:
        for name in "BC":
            system.worker(name)
        yield system


_given: dict[str, queue.Queue[Any]] = {}


def given() -> queue.Queue[Any]:
    return _given.setdefault(farref.get_worker_info().name, queue.Queue())


def give(value: Any) -> None:
    given().put(value)


def wait_for_it(fail: bool = False) -> Any:
    refs = given().get(timeout=60)
    if fail:
        raise ValueError(refs)
    return {"me": refs[0]}


async def wait_and_return() -> Any:
    return await farref.rpc_async(farref.get_worker_info(), wait_for_it)


def fetch_twice(ref: RRef[Any]) -> Any:
    return ref.to_here()["me"].to_here()["me"]


@pytest.mark.parametrize("task", [wait_for_it, wait_and_return])
def test_a_task_that_returns_its_own_reference_in_a_container(ending: System, task: Any) -> None:
    ref = farref.remote("B", task)
    farref.rpc_sync("B", give, ([ref],))
    value = ref.to_here()
    assert value["me"] == ref
    assert value["me"].to_here()["me"].to_here() == value
    assert farref.rpc_sync("C", fetch_twice, (ref,)) == ref
    assert farref.get([ref, value["me"]]) == [value, value]
    assert farref.wait([ref]) == ([ref], [])
    del ref, value
    come_to_rest(ending)
    assert farref.rpc_sync("B", pow, (2, 3)) == 8


def test_two_tasks_that_return_each_other(ending: System) -> None:
    first, second = (farref.remote(name, wait_for_it) for name in "BC")
    farref.rpc_sync("B", give, ([second],))
    farref.rpc_sync("C", give, ([first],))
    assert first.to_here() == {"me": second}
    assert second.to_here()["me"].to_here() == {"me": second}
    del first, second
    come_to_rest(ending)


def test_a_task_that_fails_with_its_own_reference(own_system: System) -> None:
    own_system.worker("B")
    ref = farref.remote("B", wait_for_it, (True,))
    farref.rpc_sync("B", give, ([ref],))
    with pytest.raises(ValueError, match="RRef") as caught:
        ref.to_here()
    assert caught.value.args == ([ref],)
    name = str(ref.id)
    del ref, caught

    def collected() -> bool:
        gc.collect()
        own_system.collect()
        return name not in {row.rref for row in own_system.references()}

    eventually(collected)
