"""A has B make an object, fetches a copy of its value, and drops the reference.

PyTorch's note on RRefs calls this "user shares with the owner as return value". remote() returns
at once, so A uses the reference before B has heard of it.

Look for
  - remote and to_here: both leave A before B's ACK has come. A waits for no confirmation;
  - the ACK: it comes when B accepts the call, before the function has run. (In the note the
    owner acknowledges the creation.) So a long computation does not delay it;
  - the delete: it is A's last message, after the ACK (G2) and the reply to to_here.
"""

import operator

from farref import System, remote, rpc_sync
from farref.examples.harness import run_alone

SHARING = "fork"


def on_a() -> int:
    rref = remote("B", operator.add, args=(2, 1))
    return int(rref.to_here())


def play(system: System) -> None:
    for name in "AB":
        system.worker(name)
    assert rpc_sync("A", on_a) == 3


if __name__ == "__main__":
    run_alone(__doc__, play)
