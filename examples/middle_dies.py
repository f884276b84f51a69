"""A lends its object to B, B lends it on to C, which keeps it; then B is killed, before it replies.

The borrowing note's corner case: A, the owner, has not heard of C. The note's answer is an error at
C when it turns to A; here C goes on.

Look for
  - C is told of the death, as everybody is, and makes itself known to A at once, by a request
    for a fork of its own;
  - what B was lent is released when the grace for orphans is over, and A's object lives on;
  - C uses it after that, and lets go; only then is it freed.

Where actors are no processes (simpleSystemBase) nobody can be killed; there B just returns.
"""

import os
import signal
import time

from farref import RRef, System, WorkerDiedError, rpc_async, rpc_sync
from farref.commands.stage import run_alone

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
        time.sleep(0.1)  # its trace so far is written by then
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
