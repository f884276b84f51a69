"""The cost of a round: nodes of one process that meet by our service, and by torch's handler.

    python -m bench.rendezvous --nodes 10 100 1000
    python -m bench.rendezvous --json figures.json --plot docs/rendezvous.svg

Each node joins on a task of its own, and has the list of all members when the clock stops. The
service runs with and without a standby. If torch is installed, its `DynamicRendezvousHandler` takes
turns with the service, over a `TCPStore` in one process, with a thread for each node. That handler
asks the store again and again until it succeeds. It is given up after `--patience` seconds, and
larger groups are not tried.
"""

# ruff: noqa: PLC0415, S101, S603, T201 (torch is optional; it checks, prints, and runs itself)

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import farref
from farref import RendezvousTimeouts, System
from farref.actors.core.current import frame
from farref.actors.rendezvous.client import client_of

from .machine import machine
from .plots import pyplot

TIMES = RendezvousTimeouts(join=550, last_call=1, keep_alive=60)


def by_service(nodes: int, standby: bool) -> float:
    """Seconds until all of *nodes* have met by the service."""
    with System("farrefBase", timeout=600):
        farref.rendezvous("warm", min_nodes=1, timeouts=TIMES, standby=standby).next_rendezvous()
        meetings = [
            farref.rendezvous(
                "run", min_nodes=nodes, name=f"node{n}", timeouts=TIMES, standby=standby
            )
            for n in range(nodes)
        ]

        async def meet() -> list[farref.Group]:
            return list(await asyncio.gather(*(meeting.awaitable._next() for meeting in meetings)))

        client = client_of(frame().core.front)
        begin = time.perf_counter()
        groups = client.block(meet(), "the benchmark", "it")
        took = time.perf_counter() - begin
        assert [group.rank for group in groups] == list(range(nodes))
        assert all(group.world_size == nodes for group in groups)
        return took


def by_torch(nodes: int, patience: float) -> float | None:
    """The same by torch's handler; None if it took longer than *patience* seconds."""
    from datetime import timedelta

    from torch.distributed import TCPStore
    from torch.distributed.elastic.rendezvous import c10d_rendezvous_backend as c10d
    from torch.distributed.elastic.rendezvous.dynamic_rendezvous import (
        DynamicRendezvousHandler,
        RendezvousTimeout,
    )

    store = TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=60))
    limit = timedelta(seconds=patience)
    done: list[int] = []
    failed: list[str] = []

    def meet() -> None:
        own = TCPStore("127.0.0.1", store.port, is_master=False, timeout=timedelta(seconds=60))
        handler = DynamicRendezvousHandler.from_backend(
            run_id="run",
            store=own,
            backend=c10d.C10dRendezvousBackend(own, "run"),
            min_nodes=nodes,
            max_nodes=nodes,
            local_addr="127.0.0.1",
            timeout=RendezvousTimeout(
                join=limit, last_call=timedelta(seconds=1), close=limit, heartbeat=limit
            ),
            keep_alive_interval=60,
        )
        try:
            done.append(handler.next_rendezvous().rank)
        except Exception as error:
            failed.append(repr(error))

    threads = [threading.Thread(target=meet, daemon=True) for _ in range(nodes)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    end = begin + patience
    while len(done) + len(failed) < nodes and time.perf_counter() < end:
        time.sleep(0.005)
    took = time.perf_counter() - begin
    if len(done) < nodes:
        why = failed[0] if failed else "the others still try"
        print(f"torch: {len(done)} of {nodes} after {took:.0f} s; {why}", file=sys.stderr)
    return took if len(done) == nodes else None


CONTENDERS: dict[str, Callable[[int, float], float | None]] = {
    "service": lambda nodes, _: by_service(nodes, standby=False),
    "service with standby": lambda nodes, _: by_service(nodes, standby=True),
    "torch": by_torch,
}


def alone(name: str, nodes: int, patience: float) -> float | None:
    """One measurement in a process of its own, so that running leftovers do not disturb it."""
    command = [sys.executable, "-m", "bench.rendezvous", "--one", name, "--nodes", str(nodes)]
    run = subprocess.run(
        [*command, "--patience", str(patience)],
        stdout=subprocess.PIPE,
        env={**os.environ, "TORCH_CPP_LOG_LEVEL": "ERROR"},  # else a line for each connection
        check=True,
        text=True,
    )
    seconds: float | None = json.loads(run.stdout.splitlines()[-1])
    return seconds


def measure(sizes: list[int], rounds: int, patience: float) -> dict[str, dict[int, float | None]]:
    """Seconds of each contender for each size: the median of *rounds*, taken in turns."""
    names = list(CONTENDERS)
    if importlib.util.find_spec("torch") is None:
        print("torch is not installed, so it is not measured")
        names.remove("torch")
    figures: dict[str, dict[int, float | None]] = {name: {} for name in names}
    given_up: set[str] = set()
    for nodes in sizes:
        took: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(rounds):
            for name in names:
                seconds = None if name in given_up else alone(name, nodes, patience)
                if seconds is None:
                    given_up.add(name)
                else:
                    took[name].append(seconds)
        for name in names:
            value = statistics.median(took[name]) if name not in given_up else None
            figures[name][nodes] = value
            shown = f"more than {patience:g}" if value is None else f"{value:.3f}"
            print(f"{nodes:5} nodes  {name:22} {shown} s", flush=True)
    return figures


def plot(figures: dict[str, dict[int, float | None]], patience: float, path: Path) -> None:
    """Draw the figures as an SVG, both axes logarithmic."""
    figure, axes = pyplot().subplots(figsize=(7, 3.2), layout="constrained")
    sizes = sorted({nodes for each in figures.values() for nodes in each})
    for name, each in figures.items():
        done = {nodes: value for nodes, value in each.items() if value}
        (line,) = axes.plot(list(done), list(done.values()), "o-", label=name)
        late = [nodes for nodes, value in each.items() if not value]
        if late:
            last = max(done, default=sizes[0])
            ends = [last, late[0]], [done.get(last, patience), patience]
            axes.plot(*ends, "--", color=line.get_color())
            said = f"more than {patience:g} s"
            axes.annotate(said, (late[0], patience), ha="center", va="bottom")
    axes.set(xscale="log", yscale="log", xlabel="nodes in one round", ylabel="seconds")
    axes.set_xticks(sizes, list(map(str, sizes)))
    axes.minorticks_off()
    axes.grid(visible=True, alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, format="svg")


def main() -> None:
    """Measure, print, and write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 30, 100, 300, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--patience", type=float, default=120.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--one", choices=CONTENDERS, help="do one measurement, in this process")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(CONTENDERS[options.one](options.nodes[0], options.patience)), flush=True)
        os._exit(0)  # torch's threads may go on for long
    if options.plot:
        pyplot()  # a missing matplotlib fails now, not at the end
    figures = measure(options.nodes, options.rounds, options.patience)
    if options.json:
        said: dict[str, Any] = {
            "machine": machine(),
            "seconds": figures,
            "patience": options.patience,
        }
        options.json.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
    if options.plot:
        plot(figures, options.patience, options.plot)


if __name__ == "__main__":
    main()
