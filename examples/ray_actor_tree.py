"""Supervisors with trainers of their own, as in Ray's pattern of a tree of actors.

The program knows only two supervisors, one for each hyperparameter. Each supervisor makes a trainer
for each shard of the data, and collects the models. Eleven lines differ from the structure of Ray's
program, out of 21: the import, the two decorators, which are left out, and the eight that make
actors, call a method or get a result. (New are the start of the system, with the workers, which Ray
starts by itself, and the end of the tree.)

As in Ray, the trainers go when their supervisor goes, and the supervisor goes with the last
reference to it.
"""

from __future__ import annotations

import time

import farref
from farref import System, remote

WORKERS = 4


class Trainer:
    """Trains a model on one shard of the data."""

    def __init__(self, hyperparameter: int, data: int) -> None:
        self.hyperparameter = hyperparameter
        self.data = data

    def fit(self) -> int:
        return self.data * self.hyperparameter


class Supervisor:
    """Has the trainers of one hyperparameter."""

    def __init__(self, hyperparameter: int, data: list[int]) -> None:
        self.trainers = [remote(farref.ANY, Trainer, args=(hyperparameter, d)) for d in data]

    def fit(self) -> list[int]:
        """The models of all shards, which are trained at the same time."""
        models: list[int] = farref.get([trainer.remote().fit() for trainer in self.trainers])
        return models


def wait_for_actors(system: System, count: int) -> None:
    """Wait until *count* actors are left."""
    end = time.monotonic() + 10
    while (left := len({row.rref for row in system.references()})) != count:
        assert time.monotonic() < end, f"{left} actors are left, not {count}"
        time.sleep(0.02)
    print(f"{count} actors are left")


def main() -> None:
    """Train with two hyperparameters at the same time."""
    with System() as system:
        for number in range(WORKERS):
            system.worker(f"worker-{number + 1}")

        data = [1, 2, 3]
        supervisor1 = remote(farref.ANY, Supervisor, args=(1, data))
        supervisor2 = remote(farref.ANY, Supervisor, args=(2, data))
        model1 = supervisor1.remote().fit()
        model2 = supervisor2.remote().fit()
        assert farref.get(model1) == [1, 2, 3]
        assert farref.get(model2) == [2, 4, 6]
        print(f"models: {model1.to_here()} and {model2.to_here()}")

        del model1, model2
        wait_for_actors(system, 8)
        del supervisor1
        wait_for_actors(system, 4)
        del supervisor2
        wait_for_actors(system, 0)


if __name__ == "__main__":
    main()
