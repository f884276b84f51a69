"""A passes B's own object to B, and keeps its reference until B has said so.

The note's "user shares with the owner as argument". B needs no fork of its own: the reference
comes home, and B's function gets the very object, not a copy.

Look for
  - the fork that A makes for B never becomes known: it ends at home, where B takes its own
    entry instead, and B answers with a child ACK, not with an ACK;
  - B's function starts at once; A's delete waits for the child ACK (G2), not for the reply;
  - if the call overtook the creation, B would hold it until the value is there: the function
    asks for the value by to_here(), which waits; local_value() is then the object itself.
"""

import operator

from farref import RRef, System, remote, rpc_async, rpc_sync
from farref.commands.stage import run_alone

SHARING = "fork"


def func(rref: RRef[int]) -> bool:
    copy = rref.to_here()  # waits until it has been computed
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
