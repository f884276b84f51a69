"""A signal handler that makes a call of its own, at any moment of a wait of the main thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ..scripts import run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.processes
PROGRAM = """
    import random, signal, sys, time
    import farref

    TIMEOUT = 20
    came, longest = 0, 0.0

    def handler(*_):
        global came
        try:
            assert farref.rpc_sync("A", abs, (-1,)) == 1
        except farref.WouldBlockError:  # it has interrupted a step
            return
        came += 1

    with farref.System(timeout=TIMEOUT) as system:
        system.worker("A")
        system.worker("B")
        boxes = [farref.remote("AB"[i % 2], list, ("abc",)) for i in range(10)]
        signal.signal(signal.SIGALRM, handler)
        some = random.Random(5)
        for _ in range(int(sys.argv[1])):
            began = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, 0.004 * some.random() + 1e-5)
            if some.random() < 0.5:
                assert boxes[some.randrange(10)].rpc_sync().copy() == ["a", "b", "c"]
            else:
                assert farref.get(some.sample(boxes, 5)) == 5 * [["a", "b", "c"]]
            signal.setitimer(signal.ITIMER_REAL, 0)
            longest = max(longest, time.monotonic() - began)
    print(came > 0, longest < TIMEOUT / 2)
"""
OPENING = """
    import signal
    import farref

    class Opened:
        def __setstate__(self, state):
            if farref.get_worker_info().name != "A":
                signal.raise_signal(signal.SIGUSR1)

        def __getstate__(self):
            return 1

    def handler(*_):
        try:
            future.result()
        except farref.WouldBlockError as error:
            print(error)

    with farref.System(timeout=20) as system:
        system.worker("A")
        signal.signal(signal.SIGUSR1, handler)
        future = farref.rpc_async("A", Opened)
        print(type(future.result()).__name__)
"""


@pytest.mark.parametrize("waits", [1500, pytest.param(5000, marks=pytest.mark.deep)])
def test_no_wait_sits_out_its_timeout(tmp_path: Path, waits: int) -> None:
    assert run(tmp_path, PROGRAM, str(waits), seconds=100) == "True True\n"


def test_a_result_that_is_being_opened(tmp_path: Path) -> None:
    said = "this code has interrupted the thread that unpickles the reply of A to Opened()"
    assert run(tmp_path, OPENING, seconds=60) == f"{said}: ask again later\nOpened\n"
