"""Futures that the program sets, as in torch: ``farref.Future()``."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import subprocess
import sys
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import FetchTimeoutError, Future, SystemDownError

from ..helpers import hold, until

if TYPE_CHECKING:
    from pathlib import Path

    from farref import System

InvalidStateError = concurrent.futures.InvalidStateError


def test_it_is_set_once(system: System) -> None:
    future: Future[int] = Future()
    assert not future.done()
    with pytest.raises(InvalidStateError, match="not done"):
        future.value()
    future.set_result(1)
    assert (future.done(), future.value(), future.wait(), future.result()) == (True, 1, 1, 1)
    for again in (partial(future.set_result, 2), partial(future.set_exception, KeyError())):
        with pytest.raises(InvalidStateError, match="is set already"):
            again()
    assert future.result() == 1


def test_its_error_is_raised(system: System) -> None:
    future: Future[int] = Future()
    with pytest.raises(TypeError, match="an exception is needed, not 'no'"):
        future.set_exception("no")  # type: ignore[arg-type]  # a mistake of the caller's
    future.set_exception(KeyError("it"))
    for look in (future.wait, future.value, future.result):
        with pytest.raises(KeyError, match="it"):
            look()
    assert type(future.exception()) is KeyError


def test_threads_and_tasks_wait_for_it(system: System) -> None:
    future: Future[str] = Future()
    seen: list[Any] = []

    async def wait() -> None:
        seen.append(await future)

    threads = [threading.Thread(target=lambda: asyncio.run(wait()))]
    threads += [threading.Thread(target=lambda: seen.append(future.wait())) for _ in range(2)]
    for thread in threads:
        thread.start()
    future.set_result("set")
    for thread in threads:
        thread.join()
    assert seen == ["set"] * 3


def test_callbacks_and_chains(system: System) -> None:
    future: Future[int] = Future()
    called: list[int] = []
    future.add_done_callback(lambda done: called.append(done.value()))
    chained = future.then(lambda done: done.value() + 1).then(lambda done: done.value() * 10)
    future.set_result(4)
    assert chained.wait() == 50
    assert until(system, lambda: called == [4])
    with pytest.raises(InvalidStateError):
        chained.set_result(1)


def test_only_the_reply_sets_the_future_of_a_call(system: System, gate: Path) -> None:
    future = farref.rpc_async("B", hold, (gate, "reply"))
    with pytest.raises(InvalidStateError, match="nobody but its reply sets the reply of B to hold"):
        future.set_result("mine")
    with pytest.raises(InvalidStateError, match=r"make a `farref.Future\(\)`"):
        future.set_exception(KeyError())
    gate.touch()
    assert future.wait() == "reply"


def test_a_cancelled_one_cannot_be_set(system: System) -> None:
    future: Future[int] = Future()
    assert future.cancel()
    with pytest.raises(InvalidStateError, match="was cancelled"):
        future.set_result(1)
    with pytest.raises(concurrent.futures.CancelledError):
        future.result()


def test_a_wait_for_it_begins_its_time_anew(system: System) -> None:
    future: Future[int] = Future()
    for _ in range(2):
        with pytest.raises(FetchTimeoutError):
            future.wait(0.01)
    future.set_result(3)
    assert future.wait(0.01) == 3


def test_the_end_of_the_system_ends_its_waits() -> None:
    with farref.System("simpleSystemBase"):
        future: Future[int] = Future()
        chained = future.then(lambda done: done.value())
    for each in (future, chained):
        with pytest.raises(SystemDownError):
            each.wait()


def test_outside_any_system_there_are_none() -> None:
    program = [sys.executable, "-c", "import farref; farref.Future()"]
    run = subprocess.run(program, capture_output=True, text=True, check=False)
    assert "SystemDownError: this code runs in no farref system; start one with" in run.stderr
    assert "createActor" not in run.stderr  # that is for an actor


def test_nothing_keeps_one_that_is_forgotten(system: System) -> None:
    future: Future[int] = Future()
    future.then(lambda done: done.value())
    gone = weakref.ref(future)
    del future
    gc.collect()
    assert gone() is None
