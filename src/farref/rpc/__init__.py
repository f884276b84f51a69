"""`torch.distributed.rpc` by farref, for programs whose processes are started by rank.

    import farref.rpc as rpc

    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    if rank == 0:
        print(rpc.rpc_sync("worker1", pow, args=(2, 10)))
    rpc.shutdown()

Names, arguments and behaviour are PyTorch's: ``torchrun``, ``mp.spawn`` or anything else starts the
processes, and each of them is an endpoint. What differs from the functions in `farref` itself:

* timeouts: 0 means no limit, and -1 the default (also in `RRef.to_here` and other methods);
* methods of one object may run in several threads at once (``serial=False``);
* ``rref.remote().method()`` waits for the object once, and raises `AttributeError` itself;
* functions and classes of ``__main__`` go by their names if all ranks run the same file;
* `WorkerInfo.id` is the rank, and *to* may be a rank.
"""

from typing import NoReturn

from ..actors.calls.futures import Future
from . import functions
from .beginning import init_rpc
from .calls import collect_all, remote, rpc_async, rpc_sync, wait_all
from .ending import shutdown
from .handles import RRef
from .missing import refuse
from .modules import RemoteModule
from .options import (
    DEFAULT_RPC_TIMEOUT_SEC,
    UNSET_RPC_TIMEOUT,
    BackendType,
    RpcBackendOptions,
    TensorPipeRpcBackendOptions,
)
from .world import RankInfo, get_rpc_timeout, get_worker_info

WorkerInfo = RankInfo
PyRRef = RRef


def is_available() -> bool:
    """True: farref needs no build of its own."""
    return True


def __getattr__(name: str) -> NoReturn:
    refuse(name)


__all__ = [
    "DEFAULT_RPC_TIMEOUT_SEC",
    "UNSET_RPC_TIMEOUT",
    "BackendType",
    "Future",
    "PyRRef",
    "RRef",
    "RemoteModule",
    "RpcBackendOptions",
    "TensorPipeRpcBackendOptions",
    "WorkerInfo",
    "collect_all",
    "functions",
    "get_rpc_timeout",
    "get_worker_info",
    "init_rpc",
    "is_available",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
    "wait_all",
]
