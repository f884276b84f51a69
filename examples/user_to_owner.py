"""A passes B's own object to B, and keeps its reference until B has confirmed it.

PyTorch's note on RRefs calls this "user shares with the owner as argument". B needs no fork of its
own: the reference comes home, and B's function gets the object itself, not a copy.

Look for
  - A's fork for B: it never becomes known. It ends at home, where B takes its own entry instead,
    and B answers with a child ACK, not with an ACK;
  - B's function: it starts at once. A's delete waits for the child ACK (G2), not for the reply;
  - to_here(): the call may overtake the creation. So the function first waits for the value by
    to_here(); local_value() is then the object itself.
"""

import operator

from farref import RRef, System, remote, rpc_async, rpc_sync
from farref.examples.harness import run_alone

SHARING = "fork"


def func(rref: RRef[int]) -> bool:
    copy = rref.to_here()  # waits until the value has been computed
    return rref.is_owner() and rref.local_value() == copy


def on_a() -> bool:
    rref = remote("B", operator.add, args=(2, 1))
    return bool(rpc_async("B", func, args=(rref,)).result())


def play(system: System) -> None:
    for name in "AB":
        system.worker(name)
    assert rpc_sync("A", on_a)


if __name__ == "__main__":
    run_alone(__doc__, play)
