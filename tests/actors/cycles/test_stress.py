"""Random graphs over workers: linked, held by threads, and dropped, while searches run."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from farref import FarrefError, RRef, System, remote, rpc_sync

from ...waiting import eventually
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
        if self.links:
            number, ref = random.choice(list(self.links.items()))
            thread = threading.Thread(target=follow, args=(number, [ref], seconds), daemon=True)
            THREADS.append(thread)
            thread.start()


def follow(number: int, refs: list[Any], seconds: float) -> None:
    """Follow a reference for some steps, slowly, and note if any object on the way is gone."""
    ref = refs.pop()
    try:
        for _ in range(4):
            time.sleep(seconds)
            found, links = ref.rpc_sync(timeout=PATIENCE).look()
            if found != number:
                BROKEN.append(f"{number} is {found}")
            if not links:
                break
            number, ref = random.choice(list(links.items()))
    except FarrefError as error:
        if "died" not in str(error):
            BROKEN.append(f"{number}: {type(error).__name__}: {error}")


def broken() -> list[str]:
    """The errors, when all threads have ended."""
    while THREADS:
        THREADS.pop().join(PATIENCE)
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
                self.roots[one].rpc_sync().lend_to_thread(rng.random() * 0.15)
            case _:  # a node that is reached through others becomes a root again
                for number, ref in self.look(one, self.roots[one]).items():
                    self.roots.setdefault(number, ref)

    def look(self, number: int, ref: Any) -> dict[int, Any]:
        found, links = ref.rpc_sync().look()
        assert found == number
        alive = {each: link for each, link in links.items() if each not in self.lost}
        assert alive.keys() == self.edges[number]
        return alive

    def check(self) -> set[str]:
        """Every node that the roots lead to answers, and has its links. Returns their names."""
        known, ahead = dict(self.roots), list(self.roots)
        for number in ahead:
            new = {k: ref for k, ref in self.look(number, known[number]).items() if k not in known}
            ahead += new
            known |= new
        return {self.names[number] for number in known}

    def bury(self, owner: str) -> None:
        """An endpoint died: its nodes are gone, and so are the ways through them."""
        self.lost |= {number for number, home in self.home.items() if home == owner}
        self.owners = tuple(each for each in self.owners if each != owner)
        for number in self.lost:
            self.roots.pop(number, None)
            self.edges[number].clear()
        for edges in self.edges.values():
            edges.difference_update(self.lost)


@contextmanager
def collecting(system: System) -> Iterator[None]:
    """The program collects all the time."""
    end = threading.Event()

    def collect() -> None:
        while not end.is_set():
            system.collect(timeout=5)

    thread = threading.Thread(target=collect)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join(60)


def run(system: System, seed: int, steps: int, mortal: str | None) -> None:
    """A random run; at its end nothing is left. In its middle the endpoint *mortal* is killed."""
    owners = (*NAMES, mortal) if mortal else NAMES
    for name in owners:
        system.worker(name)
    graph = Graph(random.Random(seed), owners)
    for step in range(steps):
        if mortal and step == steps // 2:
            os.kill(rpc_sync(mortal, os.getpid), signal.SIGKILL)
            eventually(lambda: mortal not in {each.name for each in system.workers()})
            graph.bury(mortal)
        graph.act()
        if step % 25 == 24:
            graph.check()
    for name in NAMES:
        assert rpc_sync(name, broken, timeout=60) == []
    assert_left(system, graph.check(), set(graph.names.values()))
    graph.roots.clear()
    assert_left(system, set(), set(graph.names.values()))


def assert_left(system: System, expected: set[str], names: set[str]) -> None:
    """Of *names*, exactly the *expected* objects are left, soon."""

    def further() -> set[str]:
        rows = system.references(timeout=PATIENCE)
        left = {row.rref for row in rows if row.role == "owner"} & names
        assert expected <= left
        return left - expected

    eventually(lambda: not further(), further)


SOAK = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    ("mode", "seed", "steps", "mortal"),
    [
        ("off", 1, 150, None),
        ("collect", 1001, 120, "mortal"),
        *(pytest.param("off", seed, 300, None, marks=SOAK) for seed in range(2, 102)),
        *(pytest.param("off", seed, 240, "mortal", marks=SOAK) for seed in range(1002, 1042)),
        *(
            pytest.param("collect", seed, 240, "mortal" if seed % 2 else None, marks=SOAK)
            for seed in range(2002, 2042)
        ),
    ],
)
def test_random_graphs(mode: Any, seed: int, steps: int, mortal: str | None) -> None:
    """The endpoints search by themselves, all the time; or the program collects all the time."""
    with (
        System(timeout=30, orphan_grace=GRACE, cycles=mode) as system,
        collecting(system) if mode == "off" else nullcontext(),
    ):
        run(system, seed, steps, mortal)
