"""Two objects hold each other, one on B and one on C, and the program drops both.

Each is counted by the owner of the other, so reference counts never free them.

Look for
  - the first deletes: the program drops both objects. Neither is freed, as each owner still counts
    the other endpoint;
  - the looks: an owner asks how the other endpoint holds its object. Only the value of the other
    object does, so the set is closed. It asks again: nothing has changed;
  - the end: the value of one object is dropped. Ordinary deletes free both (G5).
"""

import time

from farref import System, remote
from farref.examples.harness import run_alone

SHARING = "lend"


class Node:
    def __init__(self) -> None:
        self.links: list[object] = []

    def link(self, other: object) -> None:
        self.links.append(other)


def make_ring() -> None:
    one, other = remote("B", Node), remote("C", Node)
    one.rpc_sync().link(other)
    other.rpc_sync().link(one)


def play(system: System) -> None:
    for name in "BC":
        system.worker(name)
    make_ring()
    while not system.collect():
        time.sleep(0.05)


if __name__ == "__main__":
    run_alone(__doc__, play)
