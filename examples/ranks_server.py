"""A parameter server that is made when the first trainer asks, as in PyTorch's tutorial.

The server is a global of its rank's process, made under a lock, and each trainer gets a reference
to it. Trainers update it when they like. One line differs from the structure of PyTorch's program:
the import of `rpc`. (PyTorch's program computes the gradients by distributed autograd; here each
trainer computes them itself, and sends them.)
"""

from __future__ import annotations

import random
import threading

import farref.rpc as rpc  # noqa: PLR0402 - the one line that differs from PyTorch
from farref.examples.by_rank import spawn

TRAINERS = 2
STEPS = 100
RATE = 0.2
TRUE = [2.0, -1.0]
"""The line that the data are on."""

param_server = None
global_lock = threading.Lock()


class ParameterServer:
    def __init__(self) -> None:
        self.weights = [0.0, 0.0]
        self.updates = 0
        self.lock = threading.Lock()

    def get(self) -> list[float]:
        return self.weights

    def apply(self, gradient: list[float]) -> None:
        with self.lock:
            self.updates += 1
            for place, slope in enumerate(gradient):
                self.weights[place] -= RATE * slope


def get_parameter_server() -> rpc.RRef[ParameterServer]:
    """The one server of this process."""
    global param_server  # noqa: PLW0603 - as in PyTorch's program
    with global_lock:
        if param_server is None:
            param_server = rpc.RRef(ParameterServer())
        return param_server


def count_updates() -> int:
    """The updates of the server of this process."""
    return get_parameter_server().local_value().updates


def run_trainer() -> None:
    """What each trainer's rank does."""
    server = rpc.rpc_sync("rank0", get_parameter_server)
    draw = random.Random(rpc.get_worker_info().id)  # noqa: S311 - invented data
    for _ in range(STEPS):
        x = draw.uniform(-1, 1)
        slope, height = server.rpc_sync().get()
        error = slope * x + height - (TRUE[0] * x + TRUE[1])
        server.rpc_sync().apply([error * x, error])


def main() -> None:
    """What rank 0 does."""
    futures = [rpc.rpc_async(f"rank{rank}", run_trainer) for rank in range(1, TRAINERS + 1)]
    rpc.wait_all(futures)
    assert count_updates() == TRAINERS * STEPS
    weights = get_parameter_server().local_value().weights
    assert all(abs(a - b) < 0.1 for a, b in zip(weights, TRUE, strict=True)), weights
    print(f"{TRAINERS * STEPS} updates: {weights[0]:.2f} * x + {weights[1]:.2f}")


if __name__ == "__main__":
    spawn(main, "rank", TRAINERS + 1)
