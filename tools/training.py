"""The system that `pictures.py` looks at: it trains, searches, fails at times, loses workers."""

# ruff: noqa: S311, T201 (a program without secrets, which says that it works)

import itertools
import os
import random
import signal
import time
from contextlib import suppress

import farref
from farref import RRef


class Model:
    def __init__(self) -> None:
        self.weights = [0.0] * 1000

    def step(self, batch: RRef[range], rate: float) -> float:
        time.sleep(random.expovariate(300))
        if rate > 0.9996:
            raise ValueError(f"diverged after {len(batch.to_here())} rows")
        return rate


class Index:
    def __init__(self, size: int) -> None:
        self.words = [f"word {number}" for number in range(size)]

    def find(self, word: str) -> int:
        return self.words.index(word)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt), farref.System(name="training", sites=True) as system:
        for name in ("indexer", "trainer-1", "trainer-2"):
            system.worker(name)
        index = farref.remote("indexer", Index, (5000,))
        trainers = [farref.remote(f"trainer-{at % 2 + 1}", Model) for at in range(16)]
        batches = [farref.remote("indexer", range, (100,)) for _ in range(60)]
        print("working", flush=True)
        for round_ in itertools.count():
            if round_ % 1000 == 50:
                doomed = system.worker(f"trainer-{3 + round_ // 1000}")
                os.kill(farref.rpc_sync(doomed, os.getpid), signal.SIGKILL)
            calls = [
                each.rpc_async().step(random.choice(batches), random.random()) for each in trainers
            ]
            calls += [index.rpc_async().find(f"word {random.randrange(5000)}") for _ in range(8)]
            for call in calls:
                with suppress(ValueError):
                    call.result()
