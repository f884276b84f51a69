"""What happens to messages changes between any two: none is lost, repeated or overtaken.

Faults, a stopped process, slow functions and a viewer begin and end here at random moments. The
viewer gets a trace of all of it. At a worker with one thread, the functions of one sender begin in
the order sent.
"""

from __future__ import annotations

import os
import random
import time
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farref
from farref import RRef, System
from farref.actors.api.viewing import Watching
from farref.actors.core.current import enter_program, frame
from farref.testing import Faults, set_faults
from farref.trace.merge import merge
from farref.trace.records import load
from farref.trace.replay import Player

from ..stopping import stopped
from .conftest import PLANS, faulty

pytestmark = pytest.mark.processes
MESSAGES = 200
SIZES = 1 << 13, 1 << 16
"""The numbers of an array that crosses in a slot, and of one in a segment of its own."""


_noted: list[int] = []
"""At B: the numbers of its calls, in the order in which they began."""


def note(number: int) -> int:
    """Some take too long for the thread that receives."""
    _noted.append(number)
    if number % 50 < 3:
        time.sleep(0.001)
    return number


def noted() -> list[int]:
    return _noted


class Log:
    """Notes the numbers that it gets, some of them slowly, some by way of another worker."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def note(self, number: int, pause: float, by: str | None) -> int:
        time.sleep(pause)
        self.numbers.append(number if by is None else farref.rpc_sync(by, int, (number,)))
        return number


def is_recorded() -> bool:
    core: Any = frame().core
    return core.tracer is not None


@pytest.mark.parametrize(
    ("seed", "threads", "traced"), [(0, 1, False), (1, 16, True), (2, 1, True), (3, 16, False)]
)
def test_no_message_is_lost_or_overtaken(
    seed: int, threads: int, traced: bool, tmp_path: Path
) -> None:
    draw = random.Random(seed)
    trace = str(tmp_path) if traced else None
    with faulty("farrefBase", names="C", trace=trace) as system, ExitStack() as viewers:
        system.worker("B", threads=threads)
        log: RRef[Log] = farref.remote("B", Log)
        pid = farref.rpc_sync("B", os.getpid)
        sent: list[Future[int]] = []
        flying: list[Future[int]] = []
        plain = 0
        recorded = 0
        seen = set()
        text: RRef[str] = farref.remote("B", str, ("a text",))
        arrays = {size: farref.remote("B", np.arange, (size,)) for size in SIZES}
        while len(sent) < MESSAGES:
            change = draw.choice(["", "", "", "faults", "none", "a viewer", "none left", "a stop"])
            seen.add(change)
            match change:
                case "faults":
                    set_faults(system, Faults(*PLANS["all at once"], seed=len(sent)))
                case "none":
                    set_faults(system, Faults())
                case "a viewer":
                    viewer = viewers.enter_context(System.attach(system.name))
                    watching = viewers.enter_context(Watching(viewer))
                    watching.lines(0)
                    enter_program(system.endpoint.core)  # so our calls keep one sender
                    recorded += farref.rpc_sync("B", is_recorded)
                case "none left":
                    viewers.close()
                case "a stop":
                    with stopped(pid):
                        sent += [
                            log.rpc_async().note(len(sent) + each, 0.0, None) for each in range(20)
                        ]
            pause = 0.003 if draw.random() < 0.05 else 0.0
            by = "C" if draw.random() < 0.1 else None
            for _ in range(draw.randrange(8)):
                assert farref.rpc_sync("B", note, (plain,)) == plain
                plain += 1
                assert draw.random() < 0.5 or text.to_here() == "a text"
                size = draw.choice(SIZES)
                expected = size * (size - 1) // 2
                assert draw.random() < 0.8 or arrays[size].to_here().sum() == expected
                assert draw.random() < 0.8 or farref.rpc_sync("B", len, ([farref.RRef(1)],)) == 1
            if draw.random() < 0.5:
                farref.remote("B", note, (plain,))  # its reference ends at once
                plain += 1
            for _ in range(draw.choice((0, 1, 40))):
                flying.append(farref.rpc_async("B", note, (plain,)))
                plain += 1
            sent.append(log.rpc_async().note(len(sent), pause, by))
            if draw.random() < 0.5:
                assert sent[-1].result() == len(sent) - 1
        assert [future.result() for future in sent] == list(range(len(sent)))
        numbers = [future.result() for future in flying]
        assert numbers == sorted(set(numbers))
        assert log.to_here().numbers == list(range(len(sent)))
        began = farref.rpc_sync("B", noted)
        assert sorted(began) == list(range(plain)), "each ran once"
        assert threads > 1 or began == sorted(began), "one thread begins them in order"
        assert len(seen) == 6
        assert recorded, "a viewer watches B"
        del log, sent, text, arrays
    player = Player()
    for record in merge(load(tmp_path)) if trace else ():
        player.take(record)
    assert player.broken == {}, "the trace has each step"
    names = {lane.partition("@")[0] for lane in player.contexts}
    assert names >= ({"B", "C", "program"} if trace else set())
