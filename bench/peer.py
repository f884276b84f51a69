"""What is measured: one peer, in a process of its own that does as it is told.

``python -m bench.peer NAME WORKERS`` starts the peer with that many worker processes, reads
one JSON object a line from its standard input, ``{"work": ..., "amount": ..., "point": ...}``, and
answers each with one on its standard output: ``{"ready": ...}`` first, then ``{"figure": ...}``,
``{"no": why}`` for work that the peer does not offer, or ``{"error": ...}``. At the end of the
input it ends everything that it started. What libraries print goes to standard error.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import psutil

from .peers import PEERS

if TYPE_CHECKING:
    from collections.abc import Callable


class NotOffered(Exception):
    """The peer has nothing that would be the same work; the message says why."""


class Peer:
    """One way to do the work of the catalogue. A method for each work that it offers.

    Every such method takes *amount*, how often to do it, and *point*, the benchmark's size, and
    returns the seconds that all of it took, by its own clock, without what it had to prepare. (Of
    memory it returns bytes.) Afterwards nothing is left of it, except where the work is to hold.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def close(self) -> None:
        """End every process that was started."""

    def do(self, work: str, amount: int, point: int) -> float:
        """Do *work*. Raises `NotOffered` if there is no such method."""
        method: Callable[[int, int], float] | None = getattr(self, work, None)
        if method is None:
            raise NotOffered("it has nothing like that")
        return method(amount, point)


class WeighedPeer(Peer, ABC):
    """One of which it is known what its processes take."""

    def memory_holder(self, amount: int, _: int) -> float:
        """Bytes by which the program grows, which holds *amount* references."""
        return self.grown(amount)[0]

    def memory_owner(self, amount: int, _: int) -> float:
        """Bytes by which B grows, which has the objects."""
        return self.grown(amount)[1]

    @abstractmethod
    def grown(self, amount: int) -> tuple[int, int]:
        """Both, of the same *amount*."""


class Clock:
    """``with Clock() as clock: ...``, then ``clock.seconds``."""

    seconds = 0.0

    def __enter__(self) -> Clock:
        self._started = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._started


PATIENCE = 240.0
"""Seconds that anything here waits at most."""


def until(condition: Callable[[], bool]) -> None:
    """Wait until *condition* holds; asks often, as the clock runs."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"it did not come in {PATIENCE:g} s")
        time.sleep(0.0005)


def resident(_: object = None) -> int:
    """Bytes of memory that this process occupies."""
    return int(psutil.Process().memory_info().rss)


def _serve(name: str, workers: int) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(**said: Any) -> None:
        print(json.dumps(said), file=answers, flush=True)

    spec = PEERS[name]
    module = importlib.import_module(f".peers.{spec.module}", __package__)
    peer: Peer = getattr(module, spec.kind)(workers, **spec.options)
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
    # Not as `__main__`: what crosses to the workers must be found there under its own name.
    from bench.peer import _serve as serve

    serve(sys.argv[1], int(sys.argv[2]))
