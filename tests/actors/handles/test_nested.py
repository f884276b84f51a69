"""Values that contain references, 1,000 levels deep: kept, handed on, released (G4 and G5)."""

from __future__ import annotations

import gc
import queue
import time
import weakref
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RefActor, RRef
from farref.actors.shells.endpoint import Endpoint
from farref.serialization.contains import references_in

from ...waiting import eventually
from ..helpers import Box, idle, make_box, until

if TYPE_CHECKING:
    from farref import System

LEVELS = 1_000
TOO_DEEP = 200_000  # from Python 3.14 on, the stack limits it: 43,000 in 8 MiB
"""Deeper than any Python's pickler goes."""


def nest(inside: Any, depth: int) -> Any:
    for _ in range(depth):
        inside = [inside]
    return inside


def watched(content: Any = None) -> tuple[RRef[Box], weakref.ref[Box]]:
    box = Box(content)
    return RRef(box), weakref.ref(box)


# ---- one value, nested too deep: an error in every direction, and no reference stays behind


def same(value: Any) -> Any:
    return value


def an_argument(_: System, ref: RRef[Any]) -> None:
    farref.rpc_sync("B", same, (nest(ref, TOO_DEEP),))


def a_reply(_: System, ref: RRef[Any]) -> None:
    farref.rpc_sync("B", nest, (ref, TOO_DEEP))


def a_fetch(_: System, ref: RRef[Any]) -> None:
    farref.remote("B", nest, (ref, TOO_DEEP)).to_here()


def a_fetch_from_the_program(_: System, ref: RRef[Any]) -> None:
    farref.rpc_sync("B", RRef.to_here, (RRef(nest(ref, TOO_DEEP)),))


def a_message(system: System, ref: RRef[Any]) -> None:
    system.tell(system.create(RefActor), nest(ref, TOO_DEEP))


@pytest.mark.parametrize(
    "send", [an_argument, a_reply, a_fetch, a_fetch_from_the_program, a_message]
)
def test_a_value_that_is_nested_too_deep_is_an_error(system: System, send: Any) -> None:
    ref, watch = watched(7)
    with pytest.raises(farref.SerializationError, match=r"nested deeper than .*RRef"):
        send(system, ref)
    assert farref.rpc_sync("B", same, (ref,)) == ref
    del ref
    assert until(system, lambda: watch() is None)


def fail_deeply() -> None:
    error = KeyError("deep down")
    error.value = nest(7, TOO_DEEP)  # type: ignore[attr-defined]
    raise error  # its text is short: from Python 3.14 on, that of the value takes 10 s


def test_an_exception_that_is_nested_too_deep_is_a_remote_error(system: System) -> None:
    with pytest.raises(farref.RemoteError, match="KeyError"):
        farref.rpc_sync("B", fail_deeply)
    assert farref.rpc_sync("B", pow, (2, 3)) == 8


# ---- chains of objects: each value holds a reference to the next


def chain(ref: RRef[Any], levels: int) -> RRef[Any]:
    for _ in range(levels):
        ref = RRef(Box(ref))
    return ref


def walk(ref: RRef[Any], levels: int) -> Any:
    """The value *levels* down; fetches each level's value from its owner."""
    for _ in range(levels):
        ref = ref.to_here().content
    return ref.to_here()


def test_a_chain_within_the_program(system: System) -> None:
    ref, watch = watched()
    outer = chain(ref, LEVELS)
    del ref
    idle(system, 0.05)
    assert watch() is not None
    del outer
    assert until(system, lambda: watch() is None)


def chain_of_calls(ref: RRef[Any], levels: int) -> RRef[Any]:
    for _ in range(levels):
        ref = farref.remote(farref.get_worker_info(), make_box, (ref,))
    return ref


@pytest.mark.parametrize("make", [chain, chain_of_calls])
def test_a_chain_within_a_worker(system: System, make: Any) -> None:
    ref, watch = watched()
    outer = farref.rpc_sync("B", make, (RRef([ref]), LEVELS))
    del ref
    idle(system, 0.05)
    assert watch() is not None
    (end,) = farref.rpc_sync("B", walk, (outer, LEVELS))
    assert end.is_owner()
    del outer, end
    assert until(system, lambda: watch() is None)


def test_a_chain_that_alternates_between_workers(system: System) -> None:
    ref, watch = watched()
    outer: RRef[Any] = RRef([ref])
    del ref
    for level in range(LEVELS):
        outer = farref.remote("BC"[level % 2], make_box, (outer,))
    farref.wait([outer])
    idle(system, 0.05)
    assert watch() is not None
    fetches = 100  # all of them take Thespian's TCP base seven seconds
    next_down = walk(outer, fetches)
    del outer  # the levels down to there are freed, the rest lives on
    idle(system, 0.05)
    assert watch() is not None
    assert isinstance(next_down, Box)
    del next_down
    assert until(system, lambda: watch() is None)


# ---- holders and the references that they keep


def test_the_inner_object_by_two_paths(system: System) -> None:
    ref, watch = watched(7)
    first = farref.remote("B", make_box, (ref,))
    second = farref.remote("C", make_box, ([ref, first],))
    del ref
    farref.wait([first, second], 2)
    inner, again = second.to_here().content
    assert again == first
    assert again.to_here().content == inner
    assert inner.to_here().content == 7
    del inner, again, first
    idle(system, 0.1)
    assert watch() is not None
    assert second.to_here().content[1].to_here().content.to_here().content == 7
    del second
    assert until(system, lambda: watch() is None)


def test_one_of_two_paths_is_enough(system: System) -> None:
    ref, watch = watched(7)
    first = farref.remote("B", make_box, (ref,))
    second = farref.remote("C", make_box, (ref,))
    farref.wait([first, second], 2)
    del ref, first
    idle(system, 0.1)
    assert watch() is not None
    del second
    assert until(system, lambda: watch() is None)


def test_an_inner_reference_outlives_the_outer_it_was_fetched_with(system: System) -> None:
    ref, watch = watched(7)
    outer = farref.remote("B", make_box, ([ref],))
    del ref
    inner = outer.to_here().content[0]
    del outer
    idle(system, 0.1)
    assert watch() is not None
    assert inner.to_here().content == 7
    del inner
    assert until(system, lambda: watch() is None)


def test_a_value_releases_what_it_no_longer_refers_to(system: System) -> None:
    ref, watch = watched()
    outer = farref.remote("B", make_box, (ref,))
    farref.wait([outer])
    del ref
    idle(system, 0.05)
    assert watch() is not None
    outer.rpc_sync().put(None)
    assert until(system, lambda: watch() is None)


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
    contents = references_in(outer.local_value(), opaque=(Endpoint,))
    assert contents.complete
    assert set(contents.references) == {inner, other}
    assert unrelated.to_here() == 2


# ---- a value that refers to itself: counted, so never freed, but nothing crashes or hangs (G6)

_given: dict[str, queue.Queue[Any]] = {}


def given() -> queue.Queue[Any]:
    return _given.setdefault(farref.get_worker_info().name, queue.Queue())


def give(value: Any) -> None:
    given().put(value)


def wait_for_it(fail: bool) -> Any:
    refs = given().get(timeout=10)
    if fail:
        raise ValueError(refs)
    return {"me": refs[0]}


async def wait_and_return() -> Any:
    return await farref.rpc_async(farref.get_worker_info(), wait_for_it, (False,))


@pytest.mark.parametrize("task", [wait_for_it, wait_and_return], ids=["plain", "async"])
def test_a_task_that_returns_its_own_reference_in_a_container(
    own_system: System, task: Any
) -> None:
    for name in "BC":
        own_system.worker(name)
    ref = farref.remote("B", task, (False,) if task is wait_for_it else ())
    farref.rpc_sync("B", give, ([ref],))
    value = ref.to_here()
    assert value["me"] == ref
    assert value["me"].to_here()["me"].to_here() == value
    assert farref.rpc_sync("C", fetch_twice, (ref,)) == ref
    assert farref.get([ref, value["me"]]) == [value, value]
    assert farref.wait([ref]) == ([ref], [])
    del ref, value
    idle(own_system, 0.1)
    assert farref.rpc_sync("B", pow, (2, 3)) == 8
    begin = time.monotonic()
    own_system.shutdown()
    assert time.monotonic() - begin < 15  # the system's timeout is 20


def fetch_twice(ref: RRef[Any]) -> Any:
    return ref.to_here()["me"].to_here()["me"]


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


def returns_the_other() -> Any:
    return [given().get(timeout=10)]


def test_two_tasks_that_return_each_other(own_system: System) -> None:
    for name in "BC":
        own_system.worker(name)
    first = farref.remote("B", returns_the_other)
    second = farref.remote("C", returns_the_other)
    farref.rpc_sync("B", give, (second,))
    farref.rpc_sync("C", give, (first,))
    assert first.to_here() == [second]
    assert second.to_here()[0].to_here() == [second]
    del first, second
    idle(own_system, 0.1)
    begin = time.monotonic()
    own_system.shutdown()
    assert time.monotonic() - begin < 15  # the system's timeout is 20


def test_an_object_that_is_given_a_reference_to_itself(system: System) -> None:
    ref = farref.remote("B", make_box)
    ref.rpc_sync().put([ref])
    assert ref.rpc_sync().get() == [ref]
    fetched = ref.to_here()
    assert fetched.content == [ref]
    ref.rpc_sync().put(None)  # otherwise it would keep itself alive
    del fetched
    gc.collect()
