"""B is killed while C waits for an object of B's and A holds it: both get an error, and go on.

The value never moves. When its owner dies, it is gone for all endpoints, and nothing hangs.

Look for
  - C: it waits, and gets OwnerDiedError as soon as the death is known, not after a timeout;
  - A: it gets the same error at its next use. An alias does not help: C returned A's reference,
    so C's result stands for the lost object;
  - the end: the object is lost, and so is the request that B had not answered. Nothing else is
    left.

On simpleSystemBase actors are not processes and cannot be killed; there nothing is lost.
"""

import os
import signal
import time

from farref import OwnerDiedError, RRef, System, remote, rpc_async, rpc_sync
from farref.examples.harness import run_alone

SHARING = "lend"
GRACE = 2.0


def same(ref: RRef[None]) -> RRef[None]:
    return ref


def lost(ref: RRef[None]) -> bool:
    try:
        ref.to_here()
    except OwnerDiedError:
        return True
    return False


def on_a() -> None:
    victim: int = rpc_sync("B", os.getpid)
    kill = victim != os.getpid()
    ref = remote("B", time.sleep, args=(60 if kill else 0,))
    alias = remote("C", same, args=(ref,))
    waits = rpc_async("C", lost, args=(ref,))
    if kill:
        time.sleep(0.2)  # so that C waits
        os.kill(victim, signal.SIGKILL)
    assert [waits.result(), lost(alias), lost(ref)] == [kill] * 3


def play(system: System) -> None:
    for name in "ABC":
        system.worker(name)
    rpc_sync("A", on_a)


if __name__ == "__main__":
    run_alone(__doc__, play)
