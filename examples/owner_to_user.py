"""B shares an object of its own with C: one message, and a delete when C is done.

The note's "owner shares with user", the simplest case: the owner counts the fork itself, as
it makes it, so nobody has to be told.

Look for
  - C's fork is known before C has it: no fork request, no ACK of any kind;
  - B's own reference ends with its function, yet the object lives on: the known fork of C
    holds it, and C can still fetch the value.
"""

from farref import RRef, System, rpc_async, rpc_sync
from farref.commands.stage import run_alone

SHARING = "fork"


def func(rref: RRef[str]) -> str:
    return rref.to_here()


def on_b() -> str:
    rref = RRef("data")
    future = rpc_async("C", func, args=(rref,))
    del rref  # C's fork is enough
    return str(future.result())


def play(system: System) -> None:
    for name in "BC":
        system.worker(name)
    assert rpc_sync("B", on_b) == "data"


if __name__ == "__main__":
    run_alone(__doc__, play)
