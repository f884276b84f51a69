"""Timeouts of `farref.rpc`, and `wait_all`: in a world of one rank."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import farref
from farref import FetchTimeoutError, rpc

from ..waiting import eventually

pytestmark = pytest.mark.processes
SHORT = 0.2


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """The file for which `hold` waits, in a world of one rank."""
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tmp_path}/meet")
    rpc.init_rpc("me", rank=0, world_size=1, rpc_backend_options=options)
    gate = tmp_path / "gate"
    yield gate
    gate.touch()
    rpc.shutdown()


def hold(gate: Path) -> int:
    eventually(gate.exists)
    return 1


def fail() -> None:
    raise ValueError("the cause")


@rpc.functions.async_execution
def relay(gate: Path) -> Any:
    return rpc.rpc_async("me", hold, args=(gate,), timeout=SHORT)


def test_a_relayed_call_ends_with_its_own_timeout(gate: Path) -> None:
    with pytest.raises(FetchTimeoutError):
        rpc.rpc_sync("me", relay, args=(gate,), timeout=0)


@pytest.mark.parametrize(
    "wait", [lambda ref: ref._get_future().wait(), rpc.RRef._get_type, rpc.RRef.to_here]
)
def test_all_that_wait_for_a_creation_end_with_its_timeout(gate: Path, wait: Any) -> None:
    made = rpc.remote("me", hold, args=(gate,), timeout=SHORT)
    with pytest.raises(FetchTimeoutError):
        wait(made)


def test_wait_all_raises_the_first_error_that_comes(gate: Path) -> None:
    hung = rpc.rpc_async("me", hold, args=(gate,), timeout=0)
    with pytest.raises(ValueError, match="the cause"):
        rpc.wait_all([hung, rpc.rpc_async("me", fail), rpc.rpc_async("me", time.sleep, (0,))])
    assert not hung.done()
    with pytest.raises(FetchTimeoutError):
        rpc.wait_all([hung, rpc.rpc_async("me", hold, (gate,), timeout=SHORT)])
    ours: farref.Future[int] = rpc.Future()
    ours.set_exception(ValueError("the program's"))
    with pytest.raises(ValueError, match="the program's"):
        rpc.wait_all([hung, ours])
    gate.touch()
    assert rpc.wait_all([hung, rpc.rpc_async("me", pow, (2, 3))]) == [1, 8]
    assert rpc.wait_all([]) == []


def test_collect_all_waits_for_the_slowest(gate: Path) -> None:
    failed = rpc.rpc_async("me", fail)
    assert rpc.collect_all([]).wait() == []
    together = rpc.collect_all([failed, rpc.rpc_async("me", hold, args=(gate,), timeout=0)])
    assert isinstance(failed.exception(), ValueError)
    with pytest.raises(FetchTimeoutError):
        together.result(timeout=0.01)
    gate.touch()
    assert [type(each.exception()) for each in together.wait()] == [ValueError, type(None)]
