"""Calls on results that do not exist yet: all are sent at once, and nothing waits in between.

A slow function makes a sum. There are calls on it, and calls on their results; then the same with a
sum behind an alias. Each call goes to the future place of its object, and waits there.

Look for
  - the start: the program sends four dependent steps before A has made anything. It is one round
    trip in all;
  - the alias: the second sum, program/4, is an alias of A/1, which B owns. A passes the calls on
    as soon as it knows that, in the order sent, so the sums are 1, 3 and 6;
  - the last call: the first answer tells the program the place of the sum. So the last call goes
    to B directly, after the calls through A have been answered. No call overtakes another.
"""

import time

from farref import RRef, System, remote
from farref.examples.harness import run_alone

SHARING = "lend"


class Sum:
    def __init__(self, total: int = 0) -> None:
        self.total = total

    def plus(self, number: int) -> "Sum":
        return Sum(self.total + number)

    def add(self, number: int) -> int:
        self.total += number
        return self.total


def slow() -> Sum:
    time.sleep(0.1)
    return Sum()


def elsewhere() -> RRef[Sum]:
    return remote("B", slow)


def play(system: System) -> None:
    for name in "AB":
        system.worker(name)
    total = remote("A", slow)
    for number in (1, 2):
        total = total.remote().plus(number)
    assert total.rpc_sync().add(3) == 6
    total = remote("A", elsewhere)
    sums = [total.rpc_async().add(number) for number in (1, 2, 3)]
    assert sums[0].result() == 1
    sums.append(total.rpc_async().add(4))
    assert [each.result() for each in sums] == [1, 3, 6, 10]


if __name__ == "__main__":
    run_alone(__doc__, play)
