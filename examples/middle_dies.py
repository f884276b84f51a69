"""A lends its object to B, B lends it on to C, and C keeps it. B is killed before it replies.

This is the corner case of Ray's note on borrowing: A, the owner, has not heard of C. In the note C
gets an error at its next request to A; here C goes on.

Look for
  - the death: C is told of it, like all endpoints, and makes itself known to A at once, by a
    request for a fork of its own;
  - B's loan: it is released when the grace for orphans is over, and A's object lives on;
  - the end: C uses the object after that, and drops it. Only then is it freed.

On simpleSystemBase actors are not processes and cannot be killed; there B just returns.
"""

import os
import signal
import time

from farref import RRef, System, WorkerDiedError, rpc_async, rpc_sync
from farref.examples.harness import run_alone

SHARING = "borrow"
GRACE = 2.0
kept: list[RRef[str]] = []


def on_a() -> bool:
    """Whether B died of it."""
    call = rpc_async("B", on_b, args=([RRef("kept")], os.getpid()))
    return isinstance(call.exception(), WorkerDiedError)


def on_b(lent: list[RRef[str]], caller: int) -> None:
    rpc_sync("C", keep, args=(lent,))
    if os.getpid() != caller:
        time.sleep(0.1)  # until its trace so far is written
        os.kill(os.getpid(), signal.SIGKILL)


def keep(lent: list[RRef[str]]) -> None:
    kept.extend(lent)


def on_c() -> str:
    return kept.pop().to_here()


def play(system: System) -> None:
    for name in "ABC":
        system.worker(name)
    if rpc_sync("A", on_a):
        time.sleep(GRACE + 0.5)
    assert rpc_sync("C", on_c) == "kept"


if __name__ == "__main__":
    run_alone(__doc__, play)
