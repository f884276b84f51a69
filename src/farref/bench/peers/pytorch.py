"""PyTorch's RPC: this process is rank 0, its workers are the other ranks."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from typing import Any

import torch
from torch.distributed import rpc

from ..peer import PATIENCE, Clock, NotOffered, Peer, resident, until
from ..things import Thing, added_up, array, checked, echo, live

B, C = "W0", "W1"
PICKLED_BYTES = 100_000_000
"""An array of more takes it a minute; once is enough."""
_kept: list[Any] = []


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


class PyTorch(Peer):
    """See the module."""

    def __init__(self, workers: int, *, tensors: bool = False) -> None:
        """With *tensors* in place of arrays: it sends them without pickling."""
        super().__init__(workers)
        self.tensors = tensors
        self.names = [f"W{number}" for number in range(workers)]
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
        self.held: list[Any] = []

    def close(self) -> None:
        """See `Peer.close`."""
        self.held.clear()
        rpc.shutdown(timeout=10)
        for process in self.processes:
            process.join(10)
        self.folder.cleanup()

    # ---- calls

    def call(self, amount: int, _: int) -> float:
        """Round trips."""
        with Clock() as clock:
            for number in range(amount):
                rpc.rpc_sync(B, echo, (number,))
        return clock.seconds

    def in_flight(self, amount: int, _: int) -> float:
        """All of them at once."""
        with Clock() as clock:
            futures = [rpc.rpc_async(B, echo, (number,)) for number in range(amount)]
            for future in futures:
                future.wait()
        return clock.seconds

    def everybody(self, amount: int, _: int) -> float:
        """A call to each worker at once."""
        with Clock() as clock:
            for number in range(amount):
                for future in [rpc.rpc_async(name, echo, (number,)) for name in self.names]:
                    future.wait()
        return clock.seconds

    # ---- references

    def remote_fetch(self, amount: int, _: int) -> float:
        """Make an object at a worker, and fetch it."""
        with Clock() as clock:
            for number in range(amount):
                rpc.remote(B, echo, (number,)).to_here()
        return clock.seconds

    def share(self, amount: int, _: int) -> float:
        """A reference of the program's to B's object, in a call to C."""
        return self._share(touch, amount)

    def share_fetch(self, amount: int, _: int) -> float:
        """The same, and C fetches the object."""
        return self._share(fetch, amount)

    def _share(self, work: Any, amount: int) -> float:
        ref = rpc.remote(B, echo, (1,))
        ref.to_here()
        with Clock() as clock:
            for _ in range(amount):
                rpc.rpc_sync(C, work, (ref,))
        return clock.seconds

    def references(self, amount: int, point: int) -> float:
        """*point* references of the program's to B's objects, in one call to C."""
        refs = rpc.rpc_sync(B, make, (point,))
        with Clock() as clock:
            for _ in range(amount):
                if rpc.rpc_sync(C, count, (refs,)) != point:
                    raise AssertionError("some are missing")
        del refs
        self._wait_until_freed()
        return clock.seconds

    def create_drop(self, amount: int, _: int) -> float:
        """Objects made at B and let go of, until the last is freed."""
        with Clock() as clock:
            for _ in range(amount):
                rpc.remote(B, Thing)
            self._wait_until_freed()
        return clock.seconds

    def _wait_until_freed(self) -> None:
        until(lambda: rpc.rpc_sync(B, live) == len(self.held))

    def alias_chain(self, amount: int, point: int) -> float:
        """A task that returns a reference, *point* times over; it takes a fetch for each link."""
        with Clock() as clock:
            for _ in range(amount):
                value = rpc.remote(B, link, (point, self.names[:2])).to_here()
                while not isinstance(value, int):
                    value = value.to_here()
        return clock.seconds

    def value(self, amount: int, point: int) -> float:
        """Fetch the same array of *point* bytes, which it keeps nothing of."""
        ref = self._array(point)
        with Clock() as clock:
            for _ in range(amount):
                checked(ref.to_here(), point)
        return clock.seconds

    def value_read(self, amount: int, point: int) -> float:
        """The same, and add up every byte."""
        ref = self._array(point)
        with Clock() as clock:
            for _ in range(amount):
                added_up(ref.to_here(), point)
        return clock.seconds

    def frozen(self, amount: int, point: int) -> float:
        """As `value`: it knows nothing frozen, and copies."""
        if point > PICKLED_BYTES and not self.tensors:
            raise NotOffered("it copies, as what is not frozen, which took it long enough")
        return self.value(amount, point)

    frozen_again = frozen
    frozen_read = value_read

    def _array(self, size: int) -> Any:
        ref = rpc.remote(B, tensor if self.tensors else array, (size,))
        rpc.rpc_sync(B, wait_for, (ref,))
        return ref

    # ---- scaling

    def share_holding(self, amount: int, point: int) -> float:
        """`share`, while the program holds *point* other references to B's objects."""
        if len(self.held) != point:
            self.held.clear()
            self._wait_until_freed()
            self.held += rpc.rpc_sync(B, make, (point,))
        return self.share(amount, point)

    def holders(self, amount: int, _: int) -> float:
        """One object that every worker is given, and keeps, and drops, until it is freed."""
        with Clock() as clock:
            for _ in range(amount):
                ref = rpc.remote(B, Thing)
                for future in [rpc.rpc_async(name, keep, (ref,)) for name in self.names[1:]]:
                    future.wait()
                del ref
                for future in [rpc.rpc_async(name, let_go) for name in self.names[1:]]:
                    future.wait()
                self._wait_until_freed()
        return clock.seconds

    def memory_holder(self, amount: int, _: int) -> float:
        """Bytes by which the program grows."""
        return self._memory(amount)[0]

    def memory_owner(self, amount: int, _: int) -> float:
        """Bytes by which B grows."""
        return self._memory(amount)[1]

    def _memory(self, amount: int) -> tuple[int, int]:
        warm = rpc.rpc_sync(B, make, (100,))
        before = resident(), rpc.rpc_sync(B, resident)
        refs = rpc.rpc_sync(B, make, (amount,))
        after = resident(), rpc.rpc_sync(B, resident)
        del warm, refs
        return after[0] - before[0], after[1] - before[1]


# ---- what runs at the workers


def tensor(size: int) -> Any:
    """A tensor of *size* bytes, each of which has been written."""
    return torch.ones(size, dtype=torch.uint8)


def wait_for(ref: Any) -> None:
    """At its owner: until the value is there."""
    ref.local_value()


def touch(_ref: Any) -> int:
    """Be given a reference."""
    return 1


def fetch(ref: Any) -> Any:
    """Be given a reference, and fetch."""
    return ref.to_here()


def make(number: int) -> list[Any]:
    """References to as many new objects."""
    return [rpc.RRef(Thing()) for _ in range(number)]


def count(refs: list[Any]) -> int:
    """How many there are."""
    return len(refs)


def keep(ref: Any) -> None:
    """Hold it beyond the call."""
    _kept.append(ref)


def let_go() -> None:
    """Hold nothing any more."""
    _kept.clear()


def link(left: int, names: list[str]) -> Any:
    """A reference to what the other worker makes of the rest; at last a value."""
    return rpc.remote(names[left % 2], link, (left - 1, names)) if left else 1
