"""`rref.rpc_sync()`, `rpc_async()` and `remote()`: methods of the object, where it lives."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

import farref
from farref import RRef

from ..helpers import Box, make_box

if TYPE_CHECKING:
    from farref import System


class Counter:
    def __init__(self) -> None:
        self.value = 0
        self.running = 0

    def add(self, amount: int, *, times: int = 1) -> int:
        self.running += 1
        assert self.running == 1, "two methods of one object ran at once"
        before = self.value
        time.sleep(0.001)
        self.value = before + amount * times
        self.running -= 1
        return self.value

    async def add_later(self, amount: int) -> int:
        self.value += amount
        value = self.value
        await asyncio.sleep(0.001)  # others begin meanwhile
        return value

    def me(self) -> Counter:
        return self

    def fail(self) -> None:
        raise KeyError("no such thing")


def test_rpc_sync_runs_the_method_at_the_owner(system: System) -> None:
    ref = farref.remote("B", Counter)
    assert ref.rpc_sync().add(2, times=3) == 6
    assert ref.to_here().value == 6


def test_rpc_async_returns_a_future(system: System) -> None:
    ref = farref.remote("B", Counter)
    assert ref.rpc_async().add(2).result() == 2


def test_remote_leaves_the_result_at_the_owner(system: System) -> None:
    ref = farref.remote("B", Counter)
    result = ref.remote().add(5)
    assert result.owner_name() == "B"
    assert result.to_here() == 5


def test_methods_of_an_object_of_this_endpoint(system: System) -> None:
    counter = Counter()
    ref = RRef(counter)
    assert ref.rpc_sync().add(2) == 2
    assert ref.remote().add(2).to_here() == 4
    assert counter.value == 4


def test_an_async_method_runs_on_the_loop(system: System) -> None:
    ref = farref.remote("B", Counter)
    assert ref.rpc_sync().add_later(2) == 2


def test_methods_begin_in_the_order_sent_and_plain_ones_run_one_at_a_time(system: System) -> None:
    ref = farref.remote("B", Counter)
    futures = [ref.rpc_async().add(1) for _ in range(20)]
    futures += [ref.rpc_async().add_later(1) for _ in range(20)]
    assert [future.result() for future in futures] == list(range(1, 41))


def test_a_method_call_before_the_object_exists_waits_for_it(system: System) -> None:
    ref = farref.remote("B", _slow_counter)
    assert ref.rpc_async().add(1).result() == 1


def _slow_counter() -> Counter:
    time.sleep(0.2)
    return Counter()


def test_a_failing_method_leaves_the_object_usable(system: System) -> None:
    ref = farref.remote("B", Counter)
    with pytest.raises(KeyError, match="no such thing"):
        ref.rpc_sync().fail()
    assert ref.rpc_sync().add(1) == 1


def test_an_attribute_that_does_not_exist_is_named(system: System) -> None:
    ref = farref.remote("B", Counter)
    for call in (ref.rpc_sync().nothing, lambda: ref.remote().nothing().to_here()):
        with pytest.raises(AttributeError, match=r"Counter.*nothing"):
            call()
    assert ref.rpc_sync().add(1) == 1


def test_a_method_of_a_failed_creation_raises_its_error(system: System) -> None:
    ref = farref.remote("B", divmod, (1, 0))
    with pytest.raises(ZeroDivisionError):
        ref.rpc_sync().anything()
    with pytest.raises(ZeroDivisionError):
        ref.remote().anything().to_here()


def test_references_travel_in_arguments_and_results(system: System) -> None:
    box = farref.remote("B", make_box)
    inner = farref.remote("C", Counter)
    box.rpc_sync().put([inner])
    assert box.rpc_sync().get() == [inner]
    box.rpc_sync().put(None)


def test_a_proxy_is_not_the_object(system: System) -> None:
    ref = RRef(Box())
    proxy = ref.rpc_sync()
    assert "RRef(" in repr(proxy)
    with pytest.raises(AttributeError):
        proxy.__len__  # noqa: B018 - the access is the test
