"""Functions that travel once: over bad links, by way of aliases, and when either end dies."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from farref import RRef, System, WorkerDiedError, remote, rpc_async, rpc_sync
from farref.testing import assert_nothing_held

from ..actors.calls.test_functions import CACHE, call, main
from ..actors.helpers import Box, hold
from ..bases import LINKS
from .conftest import GRACE, PLANS, faulty

FUNCTIONS = 300
"""More than an export cache has room for."""


@pytest.mark.parametrize("plan", ["lost", "overtaken", "all at once"])
@pytest.mark.parametrize("base", LINKS)
def test_each_call_runs_its_function_over_bad_links(base: str, plan: str) -> None:
    with faulty(base, *PLANS[plan], names="BC"):
        it = main(CACHE)
        functions = [main(f"def f(x):\n    return {n}, x\n").f for n in range(FUNCTIONS)]
        results: list[Any] = []

        def work(start: int) -> None:
            futures = [
                (n, rpc_async("BC"[n % 2], functions[n * 7 % FUNCTIONS], (n,)))
                for n in range(start, 3 * FUNCTIONS, 3)
            ]
            results.extend((n, future.result()) for n, future in futures)

        threads = [threading.Thread(target=work, args=(start,)) for start in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(results) == [(n, (n * 7 % FUNCTIONS, n)) for n in range(3 * FUNCTIONS)]
        assert [call(it.put, n, 1) for n in range(3)] == [1, 2, 3]


class Taker(Box):
    """An object with a method that takes a function."""

    def apply(self, function: Any, *args: Any) -> Any:
        return function(*args)


def make_taker() -> Taker:
    return Taker()


def an_alias(gate: Path) -> RRef[Taker]:
    hold(gate)
    return remote("C", make_taker)


@pytest.mark.parametrize("base", LINKS)
def test_an_alias_passes_functions_on(base: str, tmp_path: Path) -> None:
    with faulty(base, names="BC"):
        it = main(CACHE)
        assert call(it.put, 0, 0) == 1  # so the alias's owner has it, and its object's owner not
        ref = remote("B", an_alias, (gate := tmp_path / "gate",))
        futures = [ref.rpc_async().apply(it.put, n, 1) for n in range(3)]
        rpc_sync("B", gate.touch)  # it comes after the requests
        assert [future.result() for future in futures] == [1, 2, 3]
        assert ref.rpc_sync().apply(it.put, 3, 1) == 4
        assert call(it.put, 9, 9, to="C") == 5, "it is the program's function there, too"
        del ref, futures


def on(it_put: Any, to: str, key: str) -> Any:
    return rpc_sync(to, it_put, (key, 1))


@pytest.mark.processes
def test_when_either_end_dies() -> None:
    with System(timeout=20, orphan_grace=GRACE) as system:
        for name in "BC":
            system.worker(name)
        it = main(CACHE)
        assert [call(it.put, n, n) for n in range(2)] == [1, 2]
        assert [rpc_sync("B", on, (it.put, "C", key)) for key in "xy"] == [3, 4], (
            "C gets the globals as B has them"
        )
        assert call(it.put, "z", 1, to="C") == 5, "it is one module, whoever sends its functions"
        os.kill(rpc_sync("B", os.getpid), signal.SIGKILL)
        with pytest.raises(WorkerDiedError):
            call(it.put, 2, 2)
        system.worker("B")
        assert call(it.put, 1, 1) == 1, "the new worker gets the function, and begins anew"
        assert [rpc_sync("B", on, (it.put, "C", key)) for key in "xu"] == [5, 6]
        assert_nothing_held(system)
