"""Three stages on three workers: each is a generator over the one before, and none runs far ahead.

A makes numbers without end, B squares them, and C uses five of them. Each stage has a reference to
the one before, and iterates over it.

Look for
  - the start: making a generator runs none of its code. A makes its first number when B asks, and B
    asks when C does;
  - the pulls: the calls of __items__() are requests for more items, each with a credit. B asks for
    two ahead, so A never has more than a few numbers that nobody has used;
  - the end: C has enough and drops its reference. So B's generator is closed, which drops its
    reference to A's, and that one is closed, too.
"""

import itertools
from collections.abc import Iterator

from farref import RRef, System, remote, rpc_sync
from farref.examples.harness import run_alone

SHARING = "lend"
AHEAD = 2
made: list[int] = []


def numbers() -> Iterator[int]:
    for number in itertools.count():
        made.append(number)
        yield number


def squares(source: RRef[Iterator[int]]) -> Iterator[int]:
    for number in source.stream(ahead=AHEAD):
        yield number * number


def first(source: RRef[Iterator[int]], number: int) -> list[int]:
    return list(itertools.islice(source.stream(ahead=AHEAD), number))


def how_many() -> int:
    return len(made)


def play(system: System) -> None:
    for name in "ABC":
        system.worker(name)
    source = remote("A", numbers)
    stage = remote("B", squares, (source,))
    del source
    assert rpc_sync("C", first, (stage, 5)) == [0, 1, 4, 9, 16]
    assert rpc_sync("A", how_many) <= 5 + 3 * (AHEAD + 1)
    del stage


if __name__ == "__main__":
    run_alone(__doc__, play)
