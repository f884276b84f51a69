#!/usr/bin/env python3
"""The system base beside Thespian's stock TCP base, in one run, doing the same work.

    python bench/base.py            # a table
    python bench/base.py --json figures.json --rounds 7 --quick

Contenders take turns, so that a noisy machine disturbs all of them alike; figures are medians over
the rounds, and only ratios within one run mean anything.
"""

# ruff: noqa: D102, N802 (Thespian's method names; the classes say what they do)

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.table import Table
from thespian.actors import Actor, ActorAddress, ActorExitRequest, ActorSystem

from farref.actors.base import system_base

PATIENCE = 300.0
MIB = 1 << 20


class Peer(Actor):
    """Answers pings, counts a flood, and tells the size of what it gets."""

    def __init__(self) -> None:
        self.left = 0

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case bytes():
                self.send(sender, len(message))
            case ("count", number):
                self.left = number
                self.send(sender, "counting")
            case ("flood", _):
                self.left -= 1
                if not self.left:
                    self.send(sender, "complete")
            case "ping":
                self.send(sender, "pong")


class Driver(Actor):
    """Measures from within an actor: ``(kind, peer, amount)``, answers seconds."""

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case ("round trips", peer, amount):
                self.begin(sender)
                self.left = amount
                self.send(peer, "ping")
            case ("flood", peer, amount):
                self.begin(sender)
                self.amount = amount
                self.send(peer, ("count", amount))
            case ("message", peer, amount):
                payload = bytes(amount)
                self.begin(sender)
                self.send(peer, payload)
            case ("creation", _, amount):
                self.begin(sender)
                self.left = amount
                self.children = [self.createActor(Peer) for _ in range(amount)]
                for child in self.children:
                    self.send(child, b"")
            case "counting":
                for number in range(self.amount):
                    self.send(sender, ("flood", number))
            case "pong":
                self.left -= 1
                if self.left:
                    self.send(sender, "ping")
                else:
                    self.finish()
            case 0:
                self.left -= 1
                if not self.left:
                    self.finish()
                    for child in self.children:
                        self.send(child, ActorExitRequest())
            case "complete" | int():
                self.finish()

    def begin(self, asker: ActorAddress) -> None:
        self.asker = asker
        self.started = perf_counter()

    def finish(self) -> None:
        self.send(self.asker, perf_counter() - self.started)


class Contender:
    """One base, with a driver and its peer."""

    def __init__(self, name: str, system: ActorSystem) -> None:
        self.name = name
        self.system = system
        self.driver = system.createActor(Driver)
        self.peer = system.createActor(Peer)

    def measure(self, kind: str, amount: int) -> float:
        """Seconds that *amount* of *kind* took."""
        seconds = self.system.ask(self.driver, (kind, self.peer, amount), PATIENCE)
        if not isinstance(seconds, float):
            raise SystemExit(f"{self.name}: {kind} x {amount} answered {seconds!r}")
        return seconds


def contenders() -> list[Contender]:
    """Ours with and without spinning, and the stock base."""
    port = 20_000 + os.getpid() % 10_000
    stock = ActorSystem("multiprocTCPBase", {"Admin Port": port}, transientUnique=True)
    spinning = ActorSystem(systemBase=system_base(), transientUnique=True)
    sleeping = ActorSystem(systemBase=system_base(spin=0.0), transientUnique=True)
    return [
        Contender("ours", spinning),
        Contender("ours, no spin", sleeping),
        Contender("multiprocTCPBase", stock),
    ]


# What is measured: title, kind, amount for ours, amount for stock (0: hopeless), and how to
# turn seconds and amount into the figure in the table.
Row = tuple[str, str, int, int, Callable[[float, int], float]]
ROWS: list[Row] = [
    ("round trip, us", "round trips", 3_000, 300, lambda s, n: s / n * 1e6),
    ("one-way flood, messages/s", "flood", 30_000, 300, lambda s, n: n / s),
    ("100 MB message, s", "message", 100 * MIB, 100 * MIB, lambda s, _: s),
    ("1 GB message, s", "message", 1024 * MIB, 0, lambda s, _: s),
    ("creation of an actor, ms", "creation", 20, 10, lambda s, n: s / n * 1e3),
]
QUICK = {"100 MB message, s", "1 GB message, s"}  # left out


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="without large messages")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = [row for row in ROWS if not (arguments.quick and row[0] in QUICK)]
    everybody = contenders()
    figures: dict[str, dict[str, list[float]]] = {row[0]: {} for row in rows}
    try:
        for contender in everybody:
            contender.measure("round trips", 200)  # warm up
        for turn in range(arguments.rounds):
            first = turn % len(everybody)  # the first to touch a gigabyte pays for its pages
            for title, kind, ours, stock, convert in rows:
                for contender in everybody[first:] + everybody[:first]:
                    amount = stock if contender.name == "multiprocTCPBase" else ours
                    if amount:
                        figure = convert(contender.measure(kind, amount), amount)
                        figures[title].setdefault(contender.name, []).append(figure)
    finally:
        for contender in everybody:
            contender.system.shutdown()
    medians = {
        title: {name: statistics.median(values) for name, values in by_name.items()}
        for title, by_name in figures.items()
    }
    show(medians, [contender.name for contender in everybody], arguments.rounds)
    if arguments.json:
        arguments.json.write_text(json.dumps({"medians": medians, "all": figures}, indent=2) + "\n")


def show(medians: dict[str, dict[str, float]], names: list[str], rounds: int) -> None:
    """Print the table, with the ratio of ours to stock."""
    table = Table(
        title=f"median of {rounds} interleaved rounds, Python {platform.python_version()},"
        f" {os.cpu_count()} cores"
    )
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right")
    table.add_column("ours : stock", justify="right")
    for title, by_name in medians.items():
        ours, stock = by_name["ours"], by_name.get("multiprocTCPBase")
        table.add_row(
            title,
            *[f"{by_name[name]:,.3g}" if name in by_name else "-" for name in names],
            f"{ours / stock:.3g}" if stock else "-",
        )
    Console(width=110 if not sys.stdout.isatty() else None).print(table)


if __name__ == "__main__":
    main()
