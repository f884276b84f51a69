"""A model in two parts on two workers, fed with micro-batches, as in PyTorch's pipeline tutorial.

The master sends each micro-batch through both shards, and waits for none before all are sent. So
the first shard works on the second micro-batch while the second shard works on the first. Two
lines differ from the structure of PyTorch's program: the import of `rpc`, and `rpc.wait_all` in the
place of `torch.futures.wait_all`. A shard is a list of numbers to multiply and add here.
"""

from __future__ import annotations

import farref.rpc as rpc  # noqa: PLR0402 - the one line that differs from PyTorch
from farref.examples.by_rank import spawn

BATCH = 24
SPLITS = 4


class Shard:
    """One part of the model."""

    def __init__(self, factor: int, summand: int) -> None:
        self.factor = factor
        self.summand = summand
        self.seen = 0

    def forward(self, batch: rpc.RRef[list[int]]) -> list[int]:
        values = batch.to_here()
        self.seen += 1
        return [self.factor * each + self.summand for each in values]

    def batches(self) -> int:
        """The number of micro-batches that it has seen."""
        return self.seen


class Model:
    """Both parts, behind references."""

    def __init__(self, workers: list[str]) -> None:
        self.first = rpc.remote(workers[0], Shard, args=(3, 1))
        self.second = rpc.remote(workers[1], Shard, args=(2, -5))

    def forward(self, batch: list[int]) -> list[int]:
        """The output for *batch*, by `SPLITS` micro-batches."""
        size = len(batch) // SPLITS
        futures = []
        for start in range(0, len(batch), size):
            x = rpc.RRef(batch[start : start + size])
            y = self.first.remote().forward(x)
            futures.append(self.second.rpc_async().forward(y))
        return [each for part in rpc.wait_all(futures) for each in part]


def main() -> None:
    """What rank 0, the master, does."""
    model = Model(["worker1", "worker2"])
    batch = list(range(BATCH))
    assert model.forward(batch) == [2 * (3 * each + 1) - 5 for each in batch]
    seen = [model.first.rpc_sync().batches(), model.second.rpc_sync().batches()]
    assert seen == [SPLITS, SPLITS], seen
    print(f"{BATCH} numbers went through both shards in {SPLITS} micro-batches")


if __name__ == "__main__":
    spawn(main, "worker", 3)
