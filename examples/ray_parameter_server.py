"""A parameter server, first with its workers in step and then without, as in Ray's example.

In step, the server waits for the gradients of all workers and makes the next weights of them.
Without, it takes each gradient as it comes, and gives new weights to the worker that sent it.
Twenty lines differ from the structure of Ray's program: the import, the two decorators, which are
left out, the two starts and the end of Ray, which are one `with` here, and the 14 that make actors,
call a method or get a result. (The two parts are functions here. The model is a line between points
that are invented, so it needs no PyTorch and no download. The checks are new.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import farref
from farref import RRef, System, remote

ITERATIONS = 50
WORKERS = 2
RATE = 0.5
BATCH = 64
ENOUGH = 95.0
"""Percent of the test points."""


def get_data_loader(seed: int) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Batches of points, with True for each point above the line."""
    draw = np.random.default_rng(seed)
    while True:
        points = draw.uniform(-1, 1, (BATCH, 2))
        yield points, points @ [1.0, -2.0] + 0.3 > 0


def evaluate(model: Model, batches: int = 16) -> float:
    """The percentage of test points on the right side of the line."""
    loader = get_data_loader(seed=1000)
    right = [
        np.mean((model.forward(x) > 0.5) == y) for x, y in (next(loader) for _ in range(batches))
    ]
    return 100 * float(np.mean(right))


class Model:
    """The line, and the gradient of its loss."""

    def __init__(self) -> None:
        self.weights = np.zeros(3)

    def forward(self, points: NDArray[Any]) -> NDArray[Any]:
        """For each point, the probability that it is above the line."""
        scores = points @ self.weights[:2] + self.weights[2]
        likely: NDArray[Any] = 1 / (1 + np.exp(-scores))
        return likely

    def gradients(self, points: NDArray[Any], above: NDArray[Any]) -> NDArray[Any]:
        """The mean over the points."""
        error = self.forward(points) - above
        return np.append(error @ points, error.sum()) / len(points)


class ParameterServer:
    """Has the weights that count."""

    def __init__(self, rate: float) -> None:
        self.model = Model()
        self.rate = rate
        self.updates = 0

    def apply_gradients(self, *gradients: NDArray[Any]) -> NDArray[Any]:
        """Take a step. Returns the new weights."""
        self.model.weights = self.model.weights - self.rate * np.stack(gradients).sum(axis=0)
        self.updates += len(gradients)
        return self.model.weights

    def get_weights(self) -> NDArray[Any]:
        return self.model.weights


class DataWorker:
    """Has data, and a copy of the model."""

    def __init__(self, seed: int) -> None:
        self.model = Model()
        self.data_iterator = get_data_loader(seed)

    def compute_gradients(self, weights: NDArray[Any]) -> NDArray[Any]:
        self.model.weights = weights
        return self.model.gradients(*next(self.data_iterator))


def make_actors() -> tuple[RRef[ParameterServer], list[RRef[DataWorker]]]:
    ps = remote("server", ParameterServer, args=(RATE,))
    return ps, [remote(f"worker-{i}", DataWorker, args=(i,)) for i in range(WORKERS)]


def train_in_step() -> RRef[ParameterServer]:
    """All workers use the same weights. Returns the server."""
    ps, workers = make_actors()
    model = Model()
    print("Synchronous training")
    current_weights = ps.remote().get_weights()
    for i in range(ITERATIONS):
        gradients = [
            worker.remote(resolve=True).compute_gradients(current_weights) for worker in workers
        ]
        current_weights = ps.remote(resolve=True).apply_gradients(*gradients)
        if i % 10 == 9:
            model.weights = farref.get(current_weights)
            print(f"  after {i + 1:3} steps {evaluate(model):.1f} % are right")
    return ps


def train_at_will() -> RRef[ParameterServer]:
    """Each worker goes on when its gradient is applied. Returns the server."""
    ps, workers = make_actors()
    model = Model()
    print("Asynchronous training")
    current_weights = ps.remote().get_weights()
    gradients = {}
    for worker in workers:
        gradients[worker.remote(resolve=True).compute_gradients(current_weights)] = worker
    for i in range(ITERATIONS * WORKERS):
        ready, _ = farref.wait(list(gradients))
        worker = gradients.pop(ready[0])
        current_weights = ps.remote(resolve=True).apply_gradients(ready[0])
        gradients[worker.remote(resolve=True).compute_gradients(current_weights)] = worker
        if i % 20 == 19:
            model.weights = farref.get(current_weights)
            print(f"  after {i + 1:3} updates {evaluate(model):.1f} % are right")
    return ps


def main() -> None:
    with System() as system:
        for name in ("server", *(f"worker-{i}" for i in range(WORKERS))):
            system.worker(name)
        for train in (train_in_step, train_at_will):
            ps = train()
            model = Model()
            model.weights = ps.rpc_sync().get_weights()
            assert ps.remote().updates.get().to_here() == ITERATIONS * WORKERS
            assert evaluate(model) > ENOUGH, model.weights
            print(f"  in the end {evaluate(model):.1f} %")


if __name__ == "__main__":
    main()
