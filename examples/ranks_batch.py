"""A parameter server that applies the updates of all trainers at once, as in PyTorch's tutorial.

`update_and_fetch` is marked with `async_execution`: it returns a future that is set when the last
trainer of the step has called. So the trainers wait, and no thread of the server does. Two lines
differ from the structure of PyTorch's program: the import of `rpc`, and `rpc.Future` in the place
of `torch.futures.Future`. The model is a list of numbers here, which shall become the mean of all
data.
"""

from __future__ import annotations

import threading

import farref.rpc as rpc  # noqa: PLR0402 - the one line that differs from PyTorch
from farref.examples.by_rank import spawn

TRAINERS = 3
STEPS = 30
RATE = 0.5
DATA = {1: [1.0, 4.0], 2: [2.0, 5.0], 3: [3.0, 9.0]}
"""The data of each rank."""


class BatchUpdateServer:
    """Has the model."""

    def __init__(self, trainers: int) -> None:
        self.model = [0.0, 0.0]
        self.lock = threading.Lock()
        self.future: rpc.Future[list[float]] = rpc.Future()
        self.trainers = trainers
        self.gradients: list[list[float]] = []

    def get_model(self) -> list[float]:
        return self.model

    @staticmethod
    @rpc.functions.async_execution
    def update_and_fetch(
        server: rpc.RRef[BatchUpdateServer], gradient: list[float]
    ) -> rpc.Future[list[float]]:
        """Add a gradient; the reply is the model after the gradients of all trainers."""
        self = server.local_value()
        with self.lock:
            self.gradients.append(gradient)
            future = self.future
            if len(self.gradients) == self.trainers:
                for place, parts in enumerate(zip(*self.gradients, strict=True)):
                    self.model[place] -= RATE * sum(parts) / self.trainers
                self.gradients.clear()
                self.future = rpc.Future()
                future.set_result(list(self.model))
        return future


class Trainer:
    """Computes gradients of its own data."""

    def __init__(self, server: rpc.RRef[BatchUpdateServer]) -> None:
        self.server = server
        self.data = DATA[rpc.get_worker_info().id]

    def train(self) -> list[float]:
        """Take all steps, and return the last model."""
        model = self.server.rpc_sync().get_model()
        for _ in range(STEPS):
            gradient = [have - want for have, want in zip(model, self.data, strict=True)]
            model = rpc.rpc_sync(
                self.server.owner(),
                BatchUpdateServer.update_and_fetch,
                args=(self.server, gradient),
            )
        return list(model)


def run_trainer(server: rpc.RRef[BatchUpdateServer]) -> list[float]:
    """What each trainer's rank does."""
    return Trainer(server).train()


def main() -> None:
    """What rank 0 does."""
    server = rpc.RRef(BatchUpdateServer(TRAINERS))
    futures = [
        rpc.rpc_async(f"trainer{rank}", run_trainer, args=(server,))
        for rank in range(1, TRAINERS + 1)
    ]
    models = rpc.wait_all(futures)
    assert models[0] == models[1] == models[2], models
    wanted = [sum(column) / TRAINERS for column in zip(*DATA.values(), strict=True)]
    assert all(abs(a - b) < 1e-6 for a, b in zip(models[0], wanted, strict=True)), models[0]
    print(f"{STEPS} steps of {TRAINERS} trainers: all have the model {wanted}")


if __name__ == "__main__":
    spawn(main, "trainer", TRAINERS + 1)
