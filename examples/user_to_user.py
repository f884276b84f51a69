"""A passes a reference to an object of B's on to C: C makes itself known to B.

PyTorch's note on RRefs calls this "user shares with user". All three take part: A is the parent,
and C is the child.

Look for
  - C's fork: it is unknown to B until C's fork request comes. A's reference is pinned meanwhile,
    and A's delete comes only after C's child ACK (G2);
  - C's function: unlike in the note, it starts at once, while the fork request is under way, and
    not after the ACK. A's pin keeps the object alive, so there is nothing to wait for.
"""

import operator

from farref import RRef, System, remote, rpc_async, rpc_sync
from farref.examples.harness import run_alone

SHARING = "fork"


def func(rref: RRef[int]) -> int:
    return rref.to_here()


def on_a() -> int:
    rref = remote("B", operator.add, args=(2, 1))
    return int(rpc_async("C", func, args=(rref,)).result())


def play(system: System) -> None:
    for name in "ABC":
        system.worker(name)
    assert rpc_sync("A", on_a) == 3


if __name__ == "__main__":
    run_alone(__doc__, play)
