"""One peer under measurement, in a process of its own that obeys commands.

``python -m bench.peer NAME WORKERS PIPE`` starts the peer with that many worker processes. It takes
``(work, amount, point)`` from the pipe with this descriptor, and answers with the figure, or with
the exception `NotOffered` or `PeerFailed`. Its first answer, 0, means that it is ready. At the end
of the pipe it ends every process that it started.
"""

from __future__ import annotations

import importlib
import sys
import time
import traceback
from contextlib import closing
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import psutil

from .peers import PEERS, NotOffered, PeerFailed

if TYPE_CHECKING:
    from collections.abc import Callable


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


def until(condition: Callable[[], bool], patience: float = PATIENCE, look: float = 0.0005) -> None:
    """Wait until *condition* holds, and *look* often, because the clock runs."""
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"no answer in {patience:g} s")
        time.sleep(look)


def resident(_: object = None) -> int:
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


def serve(name: str, workers: int, pipe: int) -> None:
    """Do what the command asks for, until it closes the other end of the *pipe*."""
    command: Connection[Any, Any] = Connection(pipe)
    with closing(_peer(name, workers)) as peer:
        command.send(0.0)
        while True:
            try:
                work, amount, point = command.recv()
            except (EOFError, OSError):
                return
            answer: float | Exception
            try:
                answer = peer.do(work, amount, point)
            except NotOffered as why:
                answer = why
            except Exception as error:
                traceback.print_exc()
                answer = PeerFailed(f"{type(error).__name__}: {error}")
            command.send(answer)


if __name__ == "__main__":
    # Not as `__main__`: workers must find the functions sent to them under their own module.
    importlib.import_module("bench.peer").serve(sys.argv[1], *map(int, sys.argv[2:]))
