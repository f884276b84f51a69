"""PyTorch's RPC: this process is rank 0, its workers are the other ranks."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from typing import Any

import torch
from torch.distributed import rpc

from ..peer import PATIENCE
from ..things import Thing, array
from . import NotOffered
from .references import B, Kind
from .rpc import RpcPeer

PICKLED_BYTES = 100_000_000
"""PyTorch takes a minute for a larger array; once is enough."""


def _options(folder: str) -> Any:
    return rpc.TensorPipeRpcBackendOptions(
        num_worker_threads=16,
        rpc_timeout=PATIENCE,
        init_method=f"file://{folder}/meet",
    )


def _serve(rank: int, size: int, folder: str) -> None:
    os.dup2(2, 1)
    rpc.init_rpc(f"W{rank - 1}", rank=rank, world_size=size, rpc_backend_options=_options(folder))
    rpc.shutdown()


class PyTorch(RpcPeer):
    def __init__(self, workers: int, *, tensors: bool = False) -> None:
        """With *tensors* in place of arrays: PyTorch sends them without pickling."""
        super().__init__(workers)
        self.api, self.make, self.link = rpc, make, link
        self.tensors = tensors
        self.folder = tempfile.TemporaryDirectory(prefix="farref-bench-")
        context = multiprocessing.get_context("spawn")
        self.processes = [
            context.Process(target=_serve, args=(rank, workers + 1, self.folder.name), daemon=True)
            for rank in range(1, workers + 1)
        ]
        for process in self.processes:
            process.start()
        rpc.init_rpc(
            "program",
            rank=0,
            world_size=workers + 1,
            rpc_backend_options=_options(self.folder.name),
        )

    def close(self) -> None:
        self.held.clear()
        rpc.shutdown(timeout=10)
        for process in self.processes:
            process.join(10)
        self.folder.cleanup()

    def values(
        self, number: int, size: int, kind: Kind = array, *, frozen: bool = False
    ) -> list[Any]:
        """New ones, so that each is fetched for the first time. PyTorch has no frozen values."""
        if frozen and size > PICKLED_BYTES and not self.tensors:
            raise NotOffered("it copies, as without freezing, and that took too long")
        refs = [self.remote(B, tensor if self.tensors else kind, size) for _ in range(number)]
        for ref in refs:
            self.ask(B, wait_for, ref)
        return refs


# ---- functions for the workers


def tensor(size: int) -> Any:
    """A tensor of *size* bytes, each of which has been written."""
    return torch.ones(size, dtype=torch.uint8)


def wait_for(ref: Any) -> None:
    """At the owner: wait until the value is there."""
    ref.local_value()


def make(number: int) -> list[Any]:
    """References to *number* new objects."""
    return [rpc.RRef(Thing()) for _ in range(number)]


def link(left: int, names: list[str]) -> Any:
    """See `RpcPeer.link`."""
    return rpc.remote(names[left % 2], link, (left - 1, names)) if left else 1
