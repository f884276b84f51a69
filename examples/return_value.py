"""A has B make an object, fetches a copy of its value, and lets go.

The note's "user shares with the owner as return value": remote() returns at once, so A uses
the reference before B has heard of it.

Look for
  - remote and to_here leave A before B's ACK has come: nobody waits for a confirmation;
  - the ACK comes when the call is accepted, before the function has run (the note has the
    owner acknowledge the creation; an hour's computation does not hold it up);
  - the delete is A's last word: it needs the ACK (G2), and the reply to to_here.
"""

import operator

from farref import System, remote, rpc_sync
from farref.commands.stage import run_alone

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
