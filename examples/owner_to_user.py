"""B shares an object of its own with C: one message, and a delete when C is done.

This is the simplest case, "owner shares with user" in PyTorch's note on RRefs. The owner counts the
fork when it makes it, so no message is needed.

Look for
  - C's fork: it is known before C has it. There is no fork request, and no ACK of any kind;
  - B's own reference: it ends with B's function, yet the object lives on. C's known fork
    holds it, and C can still fetch the value.
"""

from farref import RRef, System, rpc_async, rpc_sync
from farref.examples.harness import run_alone

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
