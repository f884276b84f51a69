"""Calls sent all at once against calls that wait for each other, and a fetch through aliases.

    python -m bench.pipeline                            # tables
    python -m bench.pipeline --json figures.json --svg pipeline.svg --rounds 31

The first part is a chain of n dependent calls on one worker: sent at once, and with a fetch between
the steps. It runs on this machine, and with every packet delayed on purpose, as on a network. The
second part fetches again the value behind a chain of aliases across workers, and the same value
without aliases. Contenders take turns, so that noise of the machine affects all alike. Figures are
medians over the rounds, and only ratios within one run mean anything. Messages are counted in
traces of the same work, not timed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from farref import RRef, System, remote, rpc_sync
from farref.commands.stage import Demo, perform
from farref.testing import Faults, delay

from .machine import about, machine
from .plots import pyplot

if TYPE_CHECKING:
    from collections.abc import Callable

    from farref.trace.story import Summary

STEPS = (1, 2, 5, 10, 50)
LATE = 0.002
"""The delay in seconds of every packet in the second table."""
LINKS = 10
RING = [f"W{number}" for number in range(4)]
"""The chain of aliases goes round these workers."""
FETCHES = 20
"""Fetches in one round: a single one is shorter than the machine's noise."""


@dataclass
class Contest:
    """Two ways to do the same: seconds of each round, and messages."""

    title: str
    one: list[float] = field(default_factory=list)
    other: list[float] = field(default_factory=list)
    messages: tuple[int, int] = (0, 0)

    def round(self, at: str, one: Callable[[], object], other: Callable[[], object]) -> None:
        """Run each once, in turns; freeing the leftovers of the previous one does not count."""
        contenders = [(one, self.one), (other, self.other)]
        for work, seconds in contenders if len(self.one) % 2 else reversed(contenders):
            rpc_sync(at, int)
            started = perf_counter()
            work()
            seconds.append(perf_counter() - started)

    def figures(self) -> dict[str, Any]:
        """The medians, the median of the ratios of the other to the one, and the messages."""
        one, other = statistics.median(self.one), statistics.median(self.other)
        ratio = statistics.median(b / a for a, b in zip(self.one, self.other, strict=True))
        return {"one": one, "other": other, "ratio": ratio, "messages": self.messages}


# ---- a chain of dependent calls


def start() -> RRef[str]:
    """The object of the first call."""
    ref = remote("B", str, args=("farref",))
    ref.to_here()
    return ref


def at_once(ref: RRef[str], steps: int) -> None:
    """Each call is on the previous result, which may not be there yet."""
    for _ in range(steps):
        ref = ref.remote().swapcase()
    check(ref.to_here(), steps)


def step_by_step(ref: RRef[str], steps: int) -> None:
    """The same, but each result is fetched before the call on it."""
    value = ""
    for _ in range(steps):
        ref = ref.remote().swapcase()
        value = ref.to_here()
    check(value, steps)


def check(value: str, steps: int) -> None:
    """Check that *value* is the result of *steps* calls."""
    if value != ("farref", "FARREF")[steps % 2]:
        raise SystemExit(f"{steps} calls came to {value!r}")


def chains(rounds: int, late: float) -> list[Contest]:
    """Both kinds of chains, of each length."""
    contests = [Contest(str(steps)) for steps in STEPS]
    with System(faults=Faults(delay(seconds=late)) if late else None) as system:
        system.worker("B")
        ref = start()
        at_once(ref, 10)  # warm up
        step_by_step(ref, 10)
        for _ in range(rounds):
            for steps, contest in zip(STEPS, contests, strict=True):
                contest.round("B", partial(at_once, ref, steps), partial(step_by_step, ref, steps))
    for steps, contest in zip(STEPS, contests, strict=True):
        contest.messages = (
            messages(at_once, steps),
            messages(step_by_step, steps),
        )
    return contests


# ---- a chain of aliases


def link(left: int) -> object:
    """The reference to the next link, on the next worker; the last one is a value."""
    return remote(RING[left % len(RING)], link, args=(left - 1,)) if left else "farref"


def aliased() -> RRef[str]:
    """A value behind `LINKS` aliases."""
    return remote(RING[(LINKS + 1) % len(RING)], link, args=(LINKS,))


def plain() -> RRef[str]:
    """The same value at the same worker, without them."""
    return remote(RING[1], link, args=(0,))


def fetch(ref: RRef[str], times: int) -> None:
    """Fetch the value *times* times."""
    for _ in range(times):
        check(ref.to_here(), 0)


def fetches(rounds: int) -> Contest:
    """Fetches through aliases, and of the same without them, when both are known."""
    contest = Contest(f"{LINKS} aliases")
    with System() as system:
        for name in RING:
            system.worker(name)
        direct, behind = plain(), aliased()
        fetch(direct, FETCHES)
        fetch(behind, FETCHES)
        for _ in range(rounds):
            contest.round(RING[1], lambda: fetch(direct, FETCHES), lambda: fetch(behind, FETCHES))
    contest.messages = second_fetch(plain), second_fetch(aliased)
    return contest


def second_fetch(make: Callable[[], RRef[str]]) -> int:
    """The number of requests and replies of one more fetch."""
    twice, once = (played(RING, make, fetch, times).user.total() for times in (2, 1))
    return twice - once


# ---- counting


def messages(work: Callable[[RRef[str], int], None], steps: int) -> int:
    """The number of B's messages, of either family, for *work*, until everything is freed."""
    summary = played(["B"], start, work, steps)
    return (summary.user + summary.control).total()


def played(
    workers: list[str],
    make: Callable[[], RRef[str]],
    work: Callable[[RRef[str], int], None],
    steps: int,
) -> Summary:
    """The summary of *work* on a new object, done in a system of its own."""

    def play(system: System) -> None:
        for name in workers:
            system.worker(name)
        work(make(), steps)

    summary = perform(Demo("", "", "", play, "lend")).summary
    if summary.left:
        raise SystemExit(f"left: {summary.left}")
    return summary


# ---- showing


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path, help="draw the ratios (needs matplotlib)")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds must be 1 or more")
    if arguments.svg:
        pyplot()  # a missing matplotlib fails now, not at the end
    near, far = chains(arguments.rounds, 0), chains(arguments.rounds, LATE)
    behind = fetches(arguments.rounds)
    console = Console(width=100 if not sys.stdout.isatty() else None)
    how = f"median of {arguments.rounds} interleaved rounds; {about(machine())}"
    for contests, where in ((near, "this machine"), (far, f"packets {LATE * 1e3:g} ms late")):
        title = f"dependent calls on one worker, {where}\n{how}"
        show(console, title, ("calls", "at once", "step by step"), contests)
    show(console, f"a second fetch\n{how}", ("", "no alias", "behind them"), [behind], FETCHES)
    if arguments.json:
        tables = {"near": near, "far": far, "aliases": [behind]}
        figures = {k: {c.title: c.figures() for c in v} for k, v in tables.items()}
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    if arguments.svg:
        plot(arguments.svg, near, far)


def show(
    console: Console,
    title: str,
    heads: tuple[str, str, str],
    contests: list[Contest],
    times: int = 1,
) -> None:
    """Print one table; a round did its work *times* times."""
    table = Table(title=title)
    for head in (heads[0], f"{heads[1]}, ms", f"{heads[2]}, ms", "ratio", "messages"):
        table.add_column(head, justify="right")
    for contest in contests:
        said = contest.figures()
        one, other = (f"{said[each] / times * 1e3:.2f}" for each in ("one", "other"))
        sent = " : ".join(map(str, contest.messages))
        table.add_row(contest.title, one, other, f"{said['ratio']:.2f}", sent)
    console.print(table)


def plot(path: Path, near: list[Contest], far: list[Contest]) -> None:
    """Draw the ratio: waiting in between to sending at once."""
    figure, axes = pyplot().subplots(figsize=(5.5, 3.2), layout="constrained")
    for contests, where in ((far, f"packets {LATE * 1e3:g} ms late"), (near, "this machine")):
        axes.plot(STEPS, [contest.figures()["ratio"] for contest in contests], "o-", label=where)
    axes.plot(STEPS, STEPS, ":", color="grey", label="n round trips to one")
    axes.set(xscale="log", yscale="log", xlabel="dependent calls, n")
    axes.set(ylabel="step by step : at once")
    axes.set_xticks(STEPS, list(map(str, STEPS)))
    axes.set_yticks(STEPS, list(map(str, STEPS)))
    axes.minorticks_off()
    axes.legend(frameon=False)
    figure.savefig(path, format="svg")


if __name__ == "__main__":
    main()
