#!/usr/bin/env python3
"""Fetching arrays from another process of this machine: 1 KB to 1 GB, frozen or not, and the peers.

    python bench/values.py                                   # tables
    python bench/values.py --sizes 1e3 1e6 1e9 --rounds 11 --json figures.json

A worker process holds the array, and this program fetches it, again and again: once only until it
has the value, and once until it has read all of it, since a mapped one is read from memory when
it is first looked at. What is frozen, and fetched again through the same handle, takes no message,
so it is fetched by a new handle each time, too. Beside farref, in turns, each in a process of its
own that is warm: PyTorch RPC, with the same NumPy array and with a tensor (which it ships without
pickling), and Ray, whose values are all immutable, where they are installed. Figures are medians
over the rounds; only ratios within one run mean anything.
"""

# ruff: noqa: PLC0415, S101, S603, T201 (peers are optional; it checks, prints, and runs itself)

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

SIZES = (1_000, 32_000, 1_000_000, 32_000_000, 1_000_000_000)
Fetch = Callable[[], Any]
"""Fetches one value, anew."""


def made(size: int) -> Any:
    """The array that is fetched."""
    return np.arange(size // 8, dtype=np.int64)


# ---- the contenders: each makes a value of a size in another process, and can fetch it


@contextmanager
def farref_values(frozen: bool, anew: bool = False) -> Iterator[Callable[[int], Fetch]]:
    """Ours; *anew*: each time through a handle that has fetched nothing."""
    import farref

    with farref.System() as system:
        system.worker("B")

        def fetch_of(size: int) -> Fetch:
            ref = farref.remote("B", made, (size,), frozen=frozen)

            def fetch() -> Any:
                if anew:
                    ref._frozen = None
                return ref.to_here()

            return fetch

        yield fetch_of


@contextmanager
def torch_values(tensor: bool) -> Iterator[Callable[[int], Fetch]]:
    """PyTorch RPC's, between two processes, by `to_here`."""
    import torch
    from torch.distributed import rpc

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(_free_port()))
    # A gigabyte takes it longer than its default of a minute where others compute, too.
    join = (
        "from torch.distributed import rpc; rpc.init_rpc({!r}, rank={}, world_size=2,"
        "rpc_backend_options=rpc.TensorPipeRpcBackendOptions(rpc_timeout=600))"
    )
    worker = subprocess.Popen(
        [sys.executable, "-c", f"{join.format('B', 1)}; rpc.shutdown()"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=600)
    rpc.init_rpc("A", rank=0, world_size=2, rpc_backend_options=options)
    sys.path.insert(0, str(Path(__file__).parent))
    import values  # under the name that B imports it by

    def fetch_of(size: int) -> Fetch:
        if tensor:
            ref = rpc.remote("B", torch.arange, args=(size // 8,))
        else:
            ref = rpc.remote("B", values.made, args=(size,))
        return lambda: ref.to_here(timeout=600)

    try:
        yield fetch_of
    finally:
        rpc.shutdown()
        worker.wait()


@contextmanager
def ray_values() -> Iterator[Callable[[int], Fetch]]:
    """Ray's: an actor makes the value, this program gets it."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, logging_level="error")
    task = ray.remote(made)
    yield lambda size: partial(ray.get, task.remote(size))
    ray.shutdown()


CONTENDERS: dict[str, tuple[str, Callable[[], Any]]] = {
    "frozen": ("farref", lambda: farref_values(frozen=True)),
    "frozen, anew": ("farref", lambda: farref_values(frozen=True, anew=True)),
    "not frozen": ("farref", lambda: farref_values(frozen=False)),
    "torch, array": ("torch", lambda: torch_values(tensor=False)),
    "torch, tensor": ("torch", lambda: torch_values(tensor=True)),
    "Ray": ("ray", ray_values),
}
"""The module that each needs, and how it starts."""
OURS = ("frozen", "frozen, anew", "not frozen")
"""Those that the others are compared with."""


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def contend(name: str) -> None:
    """Be *name*: for each line ``size read times`` say how many seconds one fetch took."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else prints
    known: dict[int, Fetch] = {}
    with CONTENDERS[name][1]() as fetch_of:
        print("ready", file=answers)
        for line in sys.stdin:
            size, read, times = map(int, line.split())
            if size not in known:
                known.clear()  # a value of this size at a time
                known[size] = fetch_of(size)
                known[size]()
            print(seconds_of(known[size], read=bool(read), times=times), file=answers)
        known.clear()


def seconds_of(fetch: Fetch, *, read: bool, times: int) -> float:
    """Seconds of one of *times* fetches; what frees a value counts, as it does in a program."""
    started = perf_counter()
    for _ in range(times):
        value = fetch()
        if read:
            assert int(value.sum()) >= 0
        del value
    return (perf_counter() - started) / times


# ---- the contest


class Contender:
    """A process of its own that fetches when it is told to."""

    def __init__(self, name: str) -> None:
        command = [sys.executable, __file__, "--contender", name]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answer()

    def fetch(self, size: int, *, read: bool, times: int) -> float:
        """Seconds of one fetch."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{size} {int(read)} {times}\n")
        self._process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a contender ended: {self._process.args}")
        return line

    def end(self) -> None:
        """It is done."""
        self._process.communicate()


def contest(sizes: list[int], rounds: int, names: list[str]) -> dict[str, dict[str, Any]]:
    """Medians of each contender by what was done, and the names of those who were there."""
    seconds: dict[tuple[str, int, bool], list[float]] = {}
    with ExitStack() as stack:
        contenders = {name: Contender(name) for name in names}
        for contender in contenders.values():
            stack.callback(contender.end)
        for size in sizes:
            times = max(1, min(50, 2_000_000 // size))
            for contender in contenders.values():  # warm
                contender.fetch(size, read=True, times=times)
            for number in range(rounds):
                for read in (False, True):
                    order = list(contenders) if number % 2 else list(reversed(contenders))
                    for name in order:
                        took = contenders[name].fetch(size, read=read, times=times)
                        seconds.setdefault((name, size, read), []).append(took)
    return {
        kind: {
            str(size): {name: statistics.median(seconds[name, size, read]) for name in names}
            for size in sizes
        }
        for kind, read in (("fetched", False), ("fetched and read", True))
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=lambda text: int(float(text)), nargs="+", default=SIZES)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contender:
        contend(arguments.contender)
        return
    if arguments.rounds < 1 or min(arguments.sizes) < 8:
        parser.error("--rounds must be 1 or more, and --sizes 8 or more")
    there = [name for name, (module, _) in CONTENDERS.items() if importlib.util.find_spec(module)]
    for name in CONTENDERS.keys() - set(there):
        print(f"{name}: not installed, and left out", file=sys.stderr)
    figures = contest(list(arguments.sizes), arguments.rounds, there)
    console = Console(width=140 if not sys.stdout.isatty() else None)
    for kind, table in figures.items():
        show(console, f"{kind}, ms{about(arguments.rounds)}", table, there)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def about(rounds: int) -> str:
    """On what it was measured."""
    return (
        f"\nmedian of {rounds} interleaved rounds, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores\nin brackets: times as long as each of ours, from left to right"
    )


def show(console: Console, title: str, rows: dict[str, dict[str, float]], names: list[str]) -> None:
    """Print one table."""
    table = Table(title=title)
    for head in ("bytes", *names):
        table.add_column(head, justify="right")
    for size, medians in rows.items():
        cells = []
        for name in names:
            ratios = ", ".join(f"{medians[name] / medians[ours]:.2g}" for ours in OURS)
            beside = "" if name in OURS else f" ({ratios})"
            cells.append(f"{medians[name] * 1e3:.3g}{beside}")
        table.add_row(f"{int(size):,}", *cells)
    console.print(table)


if __name__ == "__main__":
    main()
