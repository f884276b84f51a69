"""`remote`, `rpc_sync` and `rpc_async`: run a function elsewhere, get its result or a reference."""

from __future__ import annotations

import asyncio
import math
import threading
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import Future, RRef, System

from ...bases import BASES
from ..helpers import hold

if TYPE_CHECKING:
    from pathlib import Path


def who() -> str:
    return farref.get_worker_info().name


async def who_later() -> tuple[str, bool]:
    return farref.get_worker_info().name, asyncio.get_running_loop().is_running()


async def call_back_later(name: str) -> tuple[str, bool]:
    found: tuple[str, bool] = await farref.rpc_async(name, who_later)
    return found


def nested(names: list[str]) -> list[str]:
    me = who()
    return [me, *farref.rpc_sync(names[0], nested, (names[1:],))] if names else [me]


_met: dict[str, tuple[list[int], asyncio.Event]] = {}


async def meet(where: str, number: int, count: int) -> int:
    """*number*, as soon as *count* of these calls run at once."""
    here, all_here = _met.setdefault(where, ([], asyncio.Event()))
    here.append(number)
    if len(here) == count:
        all_here.set()
    await all_here.wait()
    return number


def test_each_way_to_call(system: System, gate: Path) -> None:
    assert farref.rpc_sync("B", pow, (2,), {"exp": 3}) == 8
    future = farref.rpc_async("B", pow, args=(2, 3))
    assert isinstance(future, Future)
    assert future.wait() == future.result() == 8
    ref = farref.remote("B", hold, (gate, 7))  # returns at once
    assert isinstance(ref, RRef)
    assert ref.owner_name() == "B"
    gate.touch()
    assert ref.to_here() == 7


def test_to_is_a_name_an_info_or_an_address(system: System) -> None:
    info = farref.get_worker_info("B")
    assert [farref.rpc_sync(to, who) for to in ("B", info, info.address)] == ["B"] * 3


def test_a_program_can_call_itself(system: System) -> None:
    me = farref.get_worker_info()
    assert farref.rpc_sync(me, who) == me.name
    ref = farref.remote(me, list, ((1,),))
    assert ref.to_here() == [1]
    assert ref.is_owner()


def test_calls_nest_through_several_workers_and_back(system: System) -> None:
    names = ["C", "B", "C", "program", "B"]
    assert farref.rpc_sync("B", nested, (names,)) == ["B", *names]
    for name in ("C", "program"):
        assert farref.rpc_sync("B", call_back_later, (name,)) == (name, True)


def test_async_functions_interleave(system: System) -> None:
    futures = [farref.rpc_async("B", meet, (system.name, n, 40)) for n in range(40)]
    assert [future.result() for future in futures] == list(range(40))


def thread_owns() -> Any:
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(RRef("from a thread")))
    thread.start()
    thread.join()
    return made[0].local_value()


def test_threads_of_a_function_belong_to_its_worker(system: System) -> None:
    assert farref.rpc_sync("B", thread_owns) == "from a thread"


def test_the_timeout_of_a_creation_ends_waits_for_the_value(system: System, gate: Path) -> None:
    ref = farref.remote("B", hold, (gate, 1), timeout=0.2)
    with pytest.raises(farref.FetchTimeoutError, match=r"within (0\.\d+|1) s"):
        ref.to_here()  # 1 s if we ask late
    with pytest.raises(farref.FetchTimeoutError, match=r"did not come within 1 s"):
        ref.future().result()  # the creation is late already
    again = "Give it a longer timeout, or "
    with pytest.raises(farref.FetchTimeoutError, match=again):
        farref.rpc_sync("B", hold, (gate, 1), timeout=0.1)
    gate.touch()
    assert ref.to_here(timeout=20) == 1


def test_the_timeout_of_a_creation_does_not_end_later_waits(system: System, gate: Path) -> None:
    ref = farref.remote("B", Holder, timeout=0.2)
    ref.rpc_sync().hold(gate.parent)  # so it has been made
    method = ref.rpc_async().hold(gate)
    opening = threading.Timer(1.3, gate.touch)  # longer than a late wait may take
    opening.start()
    assert isinstance(ref.to_here(), Holder)
    assert method.done()
    opening.join()


class Holder:
    def hold(self, gate: Path) -> None:
        hold(gate)


def test_timeouts_that_are_no_limit(system: System) -> None:
    assert farref.remote("B", abs, (-2,), timeout=math.inf).to_here() == 2
    assert farref.rpc_sync("B", abs, (-2,), timeout=math.inf) == 2
    assert RRef(1).to_here(timeout=1e12) == 1
    for none in (0, -1):
        with pytest.raises(ValueError, match=f"not {none}; None means 20, and math.inf no limit"):
            farref.rpc_sync("B", abs, (-2,), timeout=none)


@pytest.mark.parametrize("base", BASES)
def test_a_system_without_limits(base: str) -> None:
    none = math.inf
    with System(base, timeout=none, orphan_grace=none, silence=none) as endless:
        endless.worker("B")
        assert farref.rpc_sync("B", abs, (-2,)) == 2
        assert farref.remote("B", abs, (-2,)).to_here() == 2
        assert farref.wait([farref.remote("B", abs, (-2,))])[0]
