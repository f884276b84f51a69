"""Rings that one variable somewhere reaches, always another one, while every endpoint searches.

Each ring is passed from hand to hand: by calls, by calls that nobody waits for, through variables
of threads, through values of other objects, through its own values. Each hand uses the ring. A
search that missed a hand would free it.
"""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from farref import RRef, System, remote, rpc_async, rpc_sync
from farref.actors.cycles import collector, scan

from ..helpers import PATIENCE
from .test_collecting import Node, closed, there

if TYPE_CHECKING:
    from farref.protocol.sharing import Sharing

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
NAMES = ("B", "C", "D")
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
    to, args = draw.choice(NAMES), (ref, hops - 1, draw.randrange(10**9))
    match draw.randrange(5):
        case 0:
            rpc_sync(to, toss, args=args, timeout=120)
        case 1:
            del ref
            rpc_async(to, toss, args=args, timeout=120)
        case 2:
            del ref
            _in_a_thread(to, args)
        case 3:
            links = SHELF[0].local_value().links
            links.append(ref)
            del ref, args
            time.sleep(draw.random() / 50)
            rpc_async(to, toss, args=(links.pop(), hops - 1, draw.randrange(10**9)), timeout=120)
        case _:
            # The neighbour's reference is taken out of the ring; the ring is closed again.
            other = ref.rpc_sync(timeout=60).first()
            del ref, args
            time.sleep(draw.random() / 50)
            rpc_async(to, toss, args=(other, hops - 1, draw.randrange(10**9)), timeout=120)


def _in_a_thread(to: str, args: Any) -> None:
    def later(held: list[Any]) -> None:
        mine = held.pop()
        time.sleep(0.01)
        rpc_async(to, toss, args=mine, timeout=120)

    threading.Thread(target=later, args=([args],), daemon=True).start()


class Linked(Node):
    """A node that gives out its neighbour."""

    def first(self) -> Any:
        return self.links[0]


def done() -> int:
    return len(DONE)


def make_ring(draw: random.Random) -> list[Any]:
    return closed([remote(draw.choice(NAMES), Linked) for _ in range(draw.randrange(1, 5))])


def play(sharing: Sharing, seed: int, *, rings: int, hops: int) -> None:
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


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endpoints search all the time; the workers inherit it by the fork."""
    monkeypatch.setattr(collector, "IDLE", 0.02)
    monkeypatch.setattr(collector, "LONGEST", 0.02)
    monkeypatch.setattr(scan, "AGE", 0.01)


@pytest.mark.parametrize("sharing", ["lend", "fork", "borrow"])
def test_no_ring_in_somebody_s_hand_is_freed(sharing: Sharing) -> None:
    play(sharing, 1, rings=4, hops=25)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 52))
@pytest.mark.parametrize("sharing", ["lend", "fork", "borrow"])
def test_no_ring_is_freed_in_many_games(sharing: Sharing, seed: int) -> None:
    play(sharing, seed, rings=8, hops=40)
