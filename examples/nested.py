"""B's list contains a reference to an object of C's: it keeps the object, and is asked for it.

Look for
  - the reference goes to B in the value of an argument, and stays there: a fork of A/1, or
    of a loan, that lives as long as the list does, and not as long as A's handle;
  - A fetches the list, and the copy brings a reference of A's own: B shares it with the reply;
  - the list is freed when A lets go of it, and takes its reference with it: only then, and when
    A's own is gone, is C's object freed.
"""

from farref import System, remote, rpc_sync
from farref.commands.stage import run_alone

SHARING = "lend"


def on_a() -> None:
    inner = remote("C", pow, args=(2, 10))
    outer = remote("B", list, args=([{"inside": [inner]}],))
    del inner
    (box,) = outer.to_here()
    del outer
    assert box["inside"][0].to_here() == 1024


def play(system: System) -> None:
    for name in "ABC":
        system.worker(name)
    rpc_sync("A", on_a)


if __name__ == "__main__":
    run_alone(__doc__, play)
