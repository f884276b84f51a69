"""Starts one process for each rank, as `torch.multiprocessing.spawn` does."""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
from collections.abc import Callable

import farref.rpc as rpc  # noqa: PLR0402 - the one line that differs from PyTorch


def spawn(main: Callable[[], None], name: str, size: int) -> None:
    """Run *main* as rank 0 of *size* ranks, *name* and a number; exit with 1 if a rank fails."""
    with tempfile.TemporaryDirectory() as folder:
        method = f"file://{folder}/meeting"
        ranks = [
            multiprocessing.Process(target=_run, args=(main, name, rank, size, method))
            for rank in range(size)
        ]
        for each in ranks:
            each.start()
        for each in ranks:
            each.join()
    sys.exit(any(each.exitcode for each in ranks))


def _run(main: Callable[[], None], name: str, rank: int, size: int, method: str) -> None:
    options = rpc.TensorPipeRpcBackendOptions(init_method=method)
    rpc.init_rpc(f"{name}{rank}", rank=rank, world_size=size, rpc_backend_options=options)
    if rank == 0:
        main()
    rpc.shutdown()
