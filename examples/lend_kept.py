"""A lends C a reference to an object of B's, and C keeps it in a list of its own.

A loan that is not kept costs nothing, in a call to C or to B itself. This is the other case.

Look for
  - until the call has run B hears nothing of C: A's pin keeps the object alive;
  - "lend": C asks B to count it as it replies, and A unpins at C's child ACK (G2): a fork
    whose request was put off until it was known to be needed;
  - "borrow": the reply says that C holds it. A notes that in its table, and hands the table to
    B when it lets go itself; then B asks C for word of the end;
  - either way C's list holds the object when nobody else does.
"""

from farref import System, remote, rpc_sync
from farref.commands.stage import run_alone

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
