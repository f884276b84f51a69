"""Tasks that return the reference that they were given: many aliases of one object.

Ray's note on aliases expects this in its last section: object ids are passed by value. Then an
object can be the target of several aliases, these can be targets of others, and the chains become a
tree.

Look for
  - the tree: B owns A/1. A/2, also B's, and A/3, C's, are aliases of A/1, and A/4 is an alias of
    A/2. Each of these facts becomes known on its own;
  - C's loans: C is lent a reference for each of its tasks, and keeps it, since an alias holds its
    target: a fork request instead of "returned";
  - get: it asks for the places of the three values, and fetches the one object once: one to_here
    A/1;
  - the end: A dropped root before that, and A/1 lives until the last alias is gone.
"""

from farref import RRef, System, get, remote, rpc_sync
from farref.examples.harness import run_alone

SHARING = "lend"


def same(ref: RRef[list[str]]) -> RRef[list[str]]:
    return ref


def on_a() -> None:
    root = remote("B", str.split, args=("a tree of aliases",))
    one, other = remote("B", same, args=(root,)), remote("C", same, args=(root,))
    leaf = remote("C", same, args=(one,))
    del root
    values = get([one, other, leaf])
    assert values[0] == ["a", "tree", "of", "aliases"]
    assert values[0] is values[1] is values[2]


def play(system: System) -> None:
    for name in "ABC":
        system.worker(name)
    rpc_sync("A", on_a)


if __name__ == "__main__":
    run_alone(__doc__, play)
