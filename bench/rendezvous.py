#!/usr/bin/env python3
"""What a round costs: nodes of one process that meet by our service, and by torch's handler.

    python bench/rendezvous.py --nodes 10 100 1000
    python bench/rendezvous.py --json figures.json --plot docs/rendezvous.svg

Each node joins on a task of its own, and has the list of all members when the clock stops. Beside
the service, with and without a standby, torch's `DynamicRendezvousHandler` runs in turns over a
`TCPStore` in one process, a thread for each node, if torch is installed. That one asks the
store again and again until it succeeds, so it is given up after `--patience` seconds, and larger
groups are not tried.
"""

# ruff: noqa: PLC0415, S101, S603, T201 (torch is optional; it checks, prints, and runs itself)

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import platform
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
from farref.actors.current import frame
from farref.actors.rendezvous.client import client_of

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
            return list(await asyncio.gather(*(meeting._next() for meeting in meetings)))

        client = client_of(frame().endpoint)
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
    """One measurement, in a process of its own: what others left running must not disturb it."""
    command = [sys.executable, __file__, "--one", name, "--nodes", str(nodes)]
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


def plot(figures: dict[str, dict[int, float | None]], patience: float) -> str:
    """The figures as an SVG, both axes logarithmic."""
    from math import log10

    sizes = sorted({nodes for each in figures.values() for nodes in each})
    values = [v for each in figures.values() for v in each.values() if v]
    low, high = log10(min(values)) // 1, -(-log10(max([*values, patience])) // 1)
    left, right = log10(sizes[0]), log10(sizes[-1])

    def x(nodes: int) -> float:
        return 60 + 420 * (log10(nodes) - left) / max(right - left, 1e-9)

    def y(seconds: float) -> float:
        return 260 - 230 * (log10(seconds) - low) / (high - low)

    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 680 300" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="680" height="300" fill="white"/>',
    ]
    for power in range(int(low), int(high) + 1):
        at = y(10.0**power)
        out.append(f'<path d="M60 {at:.1f}H480" stroke="#ddd"/>')
        out.append(f'<text x="54" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g} s</text>')
    out += [f'<text x="{x(n):.1f}" y="278" text-anchor="middle">{n}</text>' for n in sizes]
    out.append('<text x="270" y="295" text-anchor="middle">nodes in one round</text>')
    labels: list[float] = []
    for colour, (name, each) in zip(
        ("#1f77b4", "#2ca02c", "#d62728"), figures.items(), strict=False
    ):
        points = [(x(n), y(v)) for n, v in each.items() if v]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points]
        late = [n for n, v in each.items() if not v]
        end = points[-1] if points else (x(sizes[0]), y(patience))
        if late:
            up = (x(late[0]), y(patience))
            out.append(
                f'<path d="M{end[0]:.1f} {end[1]:.1f}L{up[0]:.1f} {up[1]:.1f}" stroke="{colour}" '
                'stroke-dasharray="4"/>'
                f'<text x="{up[0]:.1f}" y="{up[1] - 6:.1f}" fill="{colour}" '
                f'text-anchor="middle">more than {patience:g} s</text>'
            )
        label = end[1] + 4
        while any(abs(label - other) < 14 for other in labels):
            label -= 14
        labels.append(label)
        out.append(f'<text x="490" y="{label:.1f}" fill="{colour}">{name}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 30, 100, 300, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--patience", type=float, default=120.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--one", choices=CONTENDERS, help="one measurement, in this process")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(CONTENDERS[options.one](options.nodes[0], options.patience)), flush=True)
        os._exit(0)  # torch's threads may go on for long
    figures = measure(options.nodes, options.rounds, options.patience)
    if options.json:
        where = {"python": platform.python_version(), "cores": os.cpu_count()}
        said: dict[str, Any] = {"where": where, "seconds": figures, "patience": options.patience}
        options.json.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
    if options.plot:
        options.plot.write_text(plot(figures, options.patience), encoding="utf-8")


if __name__ == "__main__":
    main()
