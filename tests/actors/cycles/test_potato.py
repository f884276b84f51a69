"""Rings that one variable somewhere reaches, always another one, while every endpoint searches.

Each ring is passed from hand to hand: by calls, by calls that nobody waits for, through variables
of threads, through values of other objects, through its own values. Each hand uses the ring. A
search that missed a hand would free it.
"""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pytest

from farref import RRef, System, remote, rpc_async, rpc_sync

from ..helpers import PATIENCE
from .rings import NAMES, Node, closed, there

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
DONE: list[int] = []
SHELF: list[RRef[Any]] = []
"""Objects of a worker that stay; a ring is put into the value of one, and taken out again."""


def make_shelf() -> None:
    SHELF.append(RRef(Node()))


def toss(ref: Any, hops: int, seed: int) -> None:
    """Use the ring of *ref*, and pass it on in one of many ways; *hops* times in all."""
    draw = random.Random(seed)
    assert ref.rpc_sync(timeout=60).count() >= 1
    if not hops:
        DONE.append(seed)
        return
    to, next_seed = draw.choice(NAMES), draw.randrange(10**9)
    match draw.randrange(5):
        case 0:
            rpc_sync(to, toss, args=(ref, hops - 1, next_seed), timeout=120)
        case 1:
            go_on(to, [ref], hops, next_seed)
        case 2:
            held = [ref]
            threading.Thread(
                target=pause_and_go_on, args=(to, held, hops, next_seed), daemon=True
            ).start()
        case 3:
            links = SHELF[0].local_value().links
            links.append(ref)
            del ref
            pause_and_go_on(to, links, hops, next_seed)
        case _:
            # The neighbour's reference is taken out of the ring; the ring is closed again.
            held = [ref.rpc_sync(timeout=60).first()]
            del ref
            pause_and_go_on(to, held, hops, next_seed)


def go_on(to: str, held: list[Any], hops: int, seed: int) -> None:
    rpc_async(to, toss, args=(held.pop(), hops - 1, seed), timeout=120)


def pause_and_go_on(to: str, held: list[Any], hops: int, seed: int) -> None:
    time.sleep(random.Random(seed).random() / 50)
    go_on(to, held, hops, seed)


class Linked(Node):
    """A node that gives out its neighbour."""

    def first(self) -> Any:
        return self.links[0]


def done() -> int:
    return len(DONE)


def make_ring(draw: random.Random) -> list[Any]:
    return closed([remote(draw.choice(NAMES), Linked) for _ in range(draw.randrange(1, 5))])


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("sharing", ["lend", "fork", "borrow"])
@pytest.mark.parametrize(
    ("seed", "rings", "hops"),
    [(1, 4, 25), *(pytest.param(seed, 8, 40, marks=pytest.mark.slow) for seed in range(2, 52))],
)
def test_no_ring_in_somebody_s_hand_is_freed(
    sharing: Any, seed: int, rings: int, hops: int
) -> None:
    draw = random.Random(seed)
    with System(timeout=60, sharing=sharing, cycles="collect") as system:
        for name in NAMES:
            system.worker(name)
            rpc_sync(name, make_shelf)
        names: set[str] = set()
        for _ in range(rings):
            nodes = make_ring(draw)
            names |= {str(node.id) for node in nodes}
            rpc_async(draw.choice(NAMES), toss, args=(nodes[0], hops, draw.randrange(10**9)))
            del nodes
        end = time.monotonic() + PATIENCE + rings * hops
        while sum(rpc_sync(name, done) for name in NAMES) < rings:
            assert time.monotonic() < end, "a ring is lost"
            system.collect(timeout=PATIENCE)
        while there(system, names):  # by themselves, or now
            assert time.monotonic() < end, there(system, names)
            system.collect(timeout=PATIENCE)
