"""Tasks that return the reference that they were given: many aliases of one object.

What the aliasing note foresees in its last section, passing object ids by value: an object can
then be the target of several aliases, and those of others, and the chains become a tree.

Look for
  - A/1 is B's. A/2, also B's, and A/3, of C's, stand for it, and A/4 for A/2: a tree, of which
    each part becomes known on its own;
  - C is lent a reference for each of its tasks, and keeps it, since an alias holds what it stands
    for: a fork request instead of "returned";
  - get asks where the three values are, and ships the one object once: one to_here A/1;
  - A dropped root before that, and A/1 lives on until the last alias is gone.
"""

from farref import RRef, System, get, remote, rpc_sync
from farref.commands.stage import run_alone

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
