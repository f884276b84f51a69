"""One peer under measurement, in a process of its own that obeys commands.

``python -m bench.peer NAME WORKERS`` starts the peer with that many worker processes. It reads one
JSON object a line from its standard input, ``{"work": ..., "amount": ..., "point": ...}``, and
answers each with one on its standard output: ``{"ready": ...}`` first, then ``{"figure": ...}``,
``{"no": why}`` for work that the peer does not offer, or ``{"error": ...}``. At the end of the
input it ends every process that it started. Output of libraries goes to standard error.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

import psutil

from .peers import PEERS

if TYPE_CHECKING:
    from collections.abc import Callable


class NotOffered(Exception):
    """The peer has no equivalent of the work; the message says why."""


class Peer:
    """One way to do the work of the catalogue, with a method for each work that it offers.

    The catalogue describes each work (`Benchmark.what`).

    Every such method takes *amount*, the number of repetitions, and *point*, the benchmark's size.
    It returns the seconds of all repetitions by its own clock, without the preparation. (For memory
    it returns bytes.) It leaves nothing behind, except where the work is to hold something.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def close(self) -> None:
        """End every process that the peer started."""

    def do(self, work: str, amount: int, point: int) -> float:
        """Do *work*. Raises `NotOffered` if there is no such method."""
        method: Callable[[int, int], float] | None = getattr(self, work, None)
        if method is None:
            raise NotOffered("it has no such operation")
        return method(amount, point)


class Clock:
    """``with Clock() as clock: ...``, then ``clock.seconds``."""

    seconds = 0.0

    def __enter__(self) -> Clock:
        self._started = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._started


def timed(amount: int, once: Callable[[int], object]) -> float:
    """The seconds of *amount* repetitions of *once*, each with its number."""
    with Clock() as clock:
        for number in range(amount):
            once(number)
    return clock.seconds


def echo_of_main(number: int) -> int:
    """`things.echo`, as a function of ``__main__`` where this file runs as the program."""
    return number


PATIENCE = 240.0
"""The longest wait in seconds."""


def until(condition: Callable[[], bool]) -> None:
    """Wait until *condition* holds; checks it often, because the clock runs."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"no answer in {PATIENCE:g} s")
        time.sleep(0.0005)


def resident(_: object = None) -> int:
    """This process's memory in bytes."""
    return int(psutil.Process().memory_info().rss)


def _peer(name: str, workers: int) -> Peer:
    """The peer *name*; without workers it starts programs of its own."""
    if not workers:
        from .programs import Programs  # noqa: PLC0415 (it imports this module)

        return Programs(name)
    spec = PEERS[name]
    kind = getattr(importlib.import_module(f".peers.{spec.module}", __package__), spec.kind)
    made: Peer = kind(workers, **spec.options)
    return made


def _serve(name: str, workers: int) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(**said: Any) -> None:
        print(json.dumps(said), file=answers, flush=True)

    peer = _peer(name, workers)
    try:
        answer(ready=os.getpid())
        for line in sys.stdin:
            asked = json.loads(line)
            try:
                answer(figure=peer.do(asked["work"], asked["amount"], asked["point"]))
            except NotOffered as why:
                answer(no=str(why))
            except Exception as error:
                traceback.print_exc()
                answer(error=f"{type(error).__name__}: {error}")
    finally:
        peer.close()


if __name__ == "__main__":
    # Not as `__main__`: workers must find the functions sent to them under their own module.
    from bench.peer import _serve as serve

    serve(sys.argv[1], int(sys.argv[2]))
