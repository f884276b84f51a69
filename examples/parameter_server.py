"""A parameter server trains a network on handwritten digits, checked against one process.

Each *trainer* owns its share of scikit-learn's digits (1,797 real images of 8 by 8 pixels) and the
gradients that it computes; the *server* owns the weights. The program sends all steps of an epoch
at once. A trainer's gradient needs the weights of the step before, and the server's next weights
need all gradients of the step. Each of these is a reference to a value that does not exist yet.
Weights and gradients go directly between server and trainers, and are freed when no step needs
them any more. The program fetches only the last weights.

The sum of the trainers' gradients is the gradient of the whole batch. So one process that takes
the same steps must reach the same weights, except for rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from rich.progress import Progress

import farref
from farref import RRef, System
from farref.examples.harness import Program, Verdict, needed, run_program

with needed(__name__):
    import numpy as np
    from numpy.typing import NDArray

EPOCHS = 30
BATCHES = 10
"""Steps of an epoch."""
RATE = 1.0
HIDDEN = 32
TESTED = 297
"""The number of images that are kept for the test."""
ENOUGH = 0.9
"""The least accuracy on these images; below it, something must be wrong."""
Array: TypeAlias = "NDArray[np.float64]"
Weights: TypeAlias = list[Array]
"""Matrix and offset of the first layer, matrix and offset of the second."""


@dataclass
class Digits:
    """Images, each a row of 64 grey levels from 0 to 1, and the digit in each."""

    images: Array
    digits: NDArray[np.int64]


# ---- what runs on the workers


class Trainer:
    """Owns the share *number* of *shares* of the training images: some of every batch."""

    def __init__(self, number: int, shares: int) -> None:
        data, _ = load()
        mine = np.arange(len(data.digits)) // BATCHES % shares == number
        self.data = Digits(data.images[mine], data.digits[mine])

    def gradient(self, weights: RRef[Weights], batch: int) -> Weights:
        """The gradient of the loss, summed over this trainer's part of the batch."""
        return gradient(weights.to_here(), part(self.data, batch))


class Server:
    """Owns the weights."""

    def __init__(self, batch: float) -> None:
        self.weights = start()
        self.batch = batch

    def step(self, gradients: list[RRef[Weights]]) -> Weights:
        """Fetch the trainers' gradients, take a step, and return the new weights."""
        self.weights = descend(self.weights, farref.get(gradients), self.batch)
        return self.weights


# ---- the network


def load() -> tuple[Digits, Digits]:
    """The images for training, and those for the test."""
    with needed(__name__):
        from sklearn.datasets import load_digits  # noqa: PLC0415 - only here, and it takes seconds
    data: Any = load_digits()
    images, digits = data.data / 16, data.target
    return Digits(images[:-TESTED], digits[:-TESTED]), Digits(images[-TESTED:], digits[-TESTED:])


def part(data: Digits, batch: int) -> Digits:
    return Digits(data.images[batch::BATCHES], data.digits[batch::BATCHES])


def start() -> Weights:
    dice = np.random.default_rng(1)
    first, second = dice.normal(0, 0.1, (64, HIDDEN)), dice.normal(0, 0.1, (HIDDEN, 10))
    return [first, np.zeros(HIDDEN), second, np.zeros(10)]


def forward(weights: Weights, images: Array) -> tuple[Array, Array]:
    """The hidden layer, and the probability of each digit."""
    hidden = np.tanh(images @ weights[0] + weights[1])
    scores = np.exp(hidden @ weights[2] + weights[3])
    return hidden, scores / scores.sum(axis=1, keepdims=True)


def gradient(weights: Weights, data: Digits) -> Weights:
    hidden, likely = forward(weights, data.images)
    likely[np.arange(len(data.digits)), data.digits] -= 1
    back = likely @ weights[2].T * (1 - hidden**2)
    return [data.images.T @ back, back.sum(axis=0), hidden.T @ likely, likely.sum(axis=0)]


def descend(weights: Weights, gradients: list[Weights], images: float) -> Weights:
    return [
        each - RATE / images * np.sum(slopes, axis=0)
        for each, *slopes in zip(weights, *gradients, strict=True)
    ]


def accuracy(weights: Weights, data: Digits) -> float:
    _, likely = forward(weights, data.images)
    return float(np.mean(likely.argmax(axis=1) == data.digits))


# ---- the program


class ParameterServer(Program[Weights]):
    def __init__(self) -> None:
        self.data, self.unseen = load()
        self.batch = len(self.data.digits) / BATCHES

    def together(self, system: System, workers: int, progress: Progress) -> Weights:
        trainers = []
        for number in range(workers):
            name = system.worker(f"trainer-{number + 1}").name
            trainers.append(farref.remote(name, Trainer, args=(number, workers)))
        system.worker("server")
        server = farref.remote("server", Server, args=(self.batch,))
        weights = server.remote().weights.get()
        for _ in progress.track(range(EPOCHS), description="train"):
            for batch in range(BATCHES):
                gradients = [each.remote().gradient(weights, batch) for each in trainers]
                weights = server.remote().step(gradients)
            farref.wait([weights])  # only for the bar: all epochs could be sent at once
        trained: Weights = weights.to_here()
        return trained

    def alone(self, progress: Progress) -> Weights:
        weights = start()
        for _ in progress.track(range(EPOCHS), description="check"):
            for batch in range(BATCHES):
                slope = gradient(weights, part(self.data, batch))
                weights = descend(weights, [slope], self.batch)
        return weights

    def judge(self, found: Weights, expected: Weights) -> Verdict:
        right = accuracy(found, self.unseen)
        apart = max(float(np.abs(a - b).max()) for a, b in zip(found, expected, strict=True))
        steps = EPOCHS * BATCHES
        figures = {"steps": steps, "accuracy": right, "apart": apart}
        says = f"{right:.1%} of {TESTED} unseen images are right, after {steps} steps"
        check = f"weights at most {apart:.1e} apart"
        return Verdict(apart < 1e-9 and right > ENOUGH, figures, [says], check)


PROGRAM = ParameterServer

if __name__ == "__main__":
    run_program(__doc__, PROGRAM)
