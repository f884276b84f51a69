"""B's list contains a reference to an object of C's: the list keeps the object alive.

Look for
  - the way to B: the reference goes to B inside an argument, and stays there. It is a fork of
    A/1, or of a loan, and lives as long as the list, not as long as A's handle;
  - the fetch: A fetches the list, and the copy brings a reference of A's own. B shares it with
    the reply;
  - the end: when A drops the list, the list is freed, and its reference with it. When A's own
    reference is gone too, C's object is freed.
"""

from farref import System, remote, rpc_sync
from farref.examples.harness import run_alone

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
