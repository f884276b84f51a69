"""Random graphs over workers: linked, held by threads, and dropped, while searches run."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from farref import (
    FarrefError,
    RRef,
    System,
    WorkerDiedError,
    WorkerNotFoundError,
    remote,
    rpc_sync,
)
from farref.actors.cycles import collector, scan

from ..conftest import GRACE
from ..helpers import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.processes
NAMES = tuple("BCDEFG")
BROKEN: list[str] = []
"""Errors that the threads of a worker got from objects that they held."""
THREADS: list[threading.Thread] = []


class Node:
    """A node of the graph: it knows its number, and holds others."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.links: dict[int, Any] = {}

    def link(self, number: int, ref: Any) -> None:
        self.links[number] = ref

    def unlink(self, number: int) -> None:
        self.links.pop(number, None)

    def look(self) -> tuple[int, dict[int, Any]]:
        return self.number, dict(self.links)

    def lend_to_thread(self, seconds: float) -> None:
        """A thread holds one of the links in a local variable for a while, then uses it."""
        links = list(self.links.items())
        if links:
            number, ref = random.choice(links)
            thread = threading.Thread(target=hold_for, args=(number, [ref], seconds), daemon=True)
            THREADS.append(thread)
            thread.start()


def hold_for(number: int, refs: list[Any], seconds: float) -> None:
    """Hold a reference, follow it for some steps, and say if any object on the way is gone."""
    ref = refs.pop()
    time.sleep(seconds)
    try:
        for _ in range(4):
            found, links = ref.rpc_sync(timeout=PATIENCE).look()
            if found != number:
                BROKEN.append(f"{number} is {found}")
            if not links:
                break
            number, ref = random.choice(list(links.items()))
            time.sleep(seconds / 4)
    except FarrefError as error:
        if "died" not in str(error):
            BROKEN.append(f"{number}: {type(error).__name__}: {error}")


def broken() -> list[str]:
    """The errors, when all threads have ended."""
    for thread in THREADS:
        thread.join(PATIENCE)
    THREADS.clear()
    return BROKEN


class Graph:
    """The graph as the program knows it, and its references to some of the nodes."""

    def __init__(self, rng: random.Random, owners: tuple[str, ...]) -> None:
        self.rng = rng
        self.owners = owners
        self.roots: dict[int, RRef[Node]] = {}
        self.edges: dict[int, set[int]] = {}
        self.home: dict[int, str] = {}
        self.lost: set[int] = set()
        self.names: dict[int, str] = {}

    def make(self) -> None:
        number = len(self.edges)
        owner = self.rng.choice(self.owners)
        self.roots[number] = remote(owner, Node, args=(number,))
        self.edges[number] = set()
        self.home[number] = owner
        self.names[number] = str(self.roots[number].id)

    def act(self) -> None:
        """One random step."""
        rng, roots = self.rng, sorted(self.roots)
        if len(roots) < 3:
            self.make()
            return
        one, other = rng.choice(roots), rng.choice(roots)
        match rng.choice(
            ["make", "link", "link", "link", "unlink", "drop", "drop", "lend", "find"]
        ):
            case "make":
                self.make()
            case "link":
                self.roots[one].rpc_sync().link(other, self.roots[other])
                self.edges[one].add(other)
            case "unlink":
                if self.edges[one]:
                    gone = rng.choice(sorted(self.edges[one]))
                    self.roots[one].rpc_sync().unlink(gone)
                    self.edges[one].discard(gone)
            case "drop":
                del self.roots[one]
            case "lend":
                self.roots[one].rpc_sync().lend_to_thread(rng.random() * 0.3)
            case _:  # a node that is reached through others becomes a root again
                for number, ref in self.look(one).items():
                    self.roots.setdefault(number, ref)

    def look(self, number: int) -> dict[int, Any]:
        return self.seen(number, self.roots[number])

    def seen(self, number: int, ref: Any) -> dict[int, Any]:
        found, links = ref.rpc_sync().look()
        assert found == number
        alive = {each: link for each, link in links.items() if each not in self.lost}
        assert alive.keys() == self.edges[number]
        return alive

    def reached(self) -> set[int]:
        """The nodes that the roots lead to."""
        found, ahead = set[int](), list(self.roots)
        while ahead:
            number = ahead.pop()
            if number not in found:
                found.add(number)
                ahead += self.edges[number]
        return found

    def check(self) -> None:
        """Every node that is reached answers, and has its links."""
        known, ahead = dict(self.roots), list(self.roots)
        for number in ahead:
            links = self.seen(number, known[number])
            ahead += [each for each in links if each not in known]
            known |= {each: ref for each, ref in links.items() if each not in known}
        assert known.keys() == self.reached()

    def bury(self, owner: str) -> None:
        """An endpoint died: its nodes are gone, and so are the ways through them."""
        self.lost |= {number for number, home in self.home.items() if home == owner}
        self.owners = tuple(each for each in self.owners if each != owner)
        for number in self.lost:
            self.roots.pop(number, None)
            self.edges[number].clear()
        for edges in self.edges.values():
            edges.difference_update(self.lost)


@pytest.fixture(scope="module")
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    """The endpoints search by themselves, all the time, or not; the workers inherit the times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collector, "IDLE", 0.05)
        patch.setattr(collector, "LONGEST", 0.05)
        patch.setattr(scan, "AGE", 0.02)
        with System(timeout=30, orphan_grace=GRACE, cycles=request.param) as made:
            for name in NAMES:
                made.worker(name)
            yield made


ASKED = pytest.mark.parametrize("system", ["off"], indirect=True)
BY_THEMSELVES = pytest.mark.parametrize("system", ["collect"], indirect=True)


def collecting(system: System, end: threading.Event) -> None:
    while not end.is_set():
        system.collect(timeout=5)


def run(
    system: System, seed: int, steps: int, mortal: str = "", *, by_themselves: bool = False
) -> None:
    """A random run; at its end nothing is left. In its middle the endpoint *mortal* is killed.

    Unless the endpoints search *by themselves*, the program collects all the time.
    """
    if mortal:
        system.worker(mortal)
    owners = (*NAMES, mortal) if mortal else NAMES
    graph = Graph(random.Random(seed), owners)
    end = threading.Event()
    asking = threading.Thread(target=collecting, args=(system, end))
    if not by_themselves:
        asking.start()
    try:
        for step in range(steps):
            if mortal and step == steps // 2:
                kill(mortal)
                graph.bury(mortal)
            graph.act()
            if step % 25 == 24:
                graph.check()
        for name in NAMES:
            assert rpc_sync(name, broken, timeout=60) == []
        graph.check()
        left = {graph.names[number] for number in graph.reached()}
        assert_left(system, left, set(graph.names.values()))
        graph.roots.clear()
        assert_left(system, set(), set(graph.names.values()))
    finally:
        end.set()
        if not by_themselves:
            asking.join(60)


def kill(name: str) -> None:
    """Kill the worker *name*, and wait until this is known."""
    os.kill(rpc_sync(name, os.getpid), signal.SIGKILL)
    end = time.monotonic() + PATIENCE
    with suppress(WorkerDiedError, WorkerNotFoundError):
        while time.monotonic() < end:
            rpc_sync(name, pow, args=(2, 3))
    time.sleep(2 * GRACE)


def assert_left(system: System, expected: set[str], names: set[str]) -> None:
    """Of *names*, exactly the *expected* objects are left, soon."""
    end = time.monotonic() + PATIENCE
    while True:
        rows = system.references(timeout=PATIENCE)
        left = {row.rref for row in rows if row.role == "owner"} & names
        assert expected <= left
        if left == expected:
            return
        assert time.monotonic() < end, [row for row in rows if row.rref in left - expected]
        time.sleep(0.1)


@ASKED
def test_random_graphs(system: System) -> None:
    run(system, seed=1, steps=150)


@BY_THEMSELVES
def test_random_graphs_with_a_death(system: System) -> None:
    run(system, seed=1001, steps=120, mortal="mortal", by_themselves=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(1002, 1042))
@ASKED
def test_more_random_graphs_with_a_death(system: System, seed: int) -> None:
    run(system, seed, steps=240, mortal=f"mortal {seed}")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(2, 102))
@ASKED
def test_more_random_graphs(system: System, seed: int) -> None:
    run(system, seed, steps=300)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(2002, 2042))
@BY_THEMSELVES
def test_more_random_graphs_that_endpoints_search_by_themselves(system: System, seed: int) -> None:
    mortal = f"mortal {seed}" if seed % 2 else ""
    run(system, seed, steps=240, mortal=mortal, by_themselves=True)
