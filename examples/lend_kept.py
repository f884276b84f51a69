"""A lends C a reference to an object of B's, and C keeps it in a list of its own.

A loan that is not kept costs nothing, in a call to C or to B itself. Here the loan is kept.

Look for
  - the call: until it has run, B hears nothing of C. A's pin keeps the object alive;
  - "lend": C asks B to count it when it replies, and A unpins at C's child ACK (G2). This is a
    fork with a postponed request;
  - "borrow": the reply says that C holds it. A notes that in its table, and gives the table to
    B when it drops its own reference. Then B asks C to report the end;
  - the end: in both, C's list holds the object when nobody else does.
"""

from farref import System, remote, rpc_sync
from farref.examples.harness import run_alone

SHARING = "lend"


def on_a() -> None:
    shelf = remote("C", list)
    shelf.rpc_sync().append(remote("B", pow, args=(2, 10)))
    shelf.rpc_sync().clear()


def play(system: System) -> None:
    for name in "ABC":
        system.worker(name)
    rpc_sync("A", on_a)


if __name__ == "__main__":
    run_alone(__doc__, play)
