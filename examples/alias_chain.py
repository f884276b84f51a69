"""h returns g's result, and g returns f's: three references, and one object behind them.

This is the example of Ray's note on aliases, with each function on its own worker. ref_h is
program/1, an alias of ref_g, A/1. ref_g is an alias of ref_f, B/1. ref_f is canonical: it has the
value.

Look for
  - no waits: h and g end at once, before f has run;
  - the note's three facts (*): each becomes known at its own endpoint, in any order. Answers go
    back along the chain, each with a fork of B/1 for its receiver;
  - the first to_here: it goes to A, waits there, and is answered by C. The value itself is sent
    once, from C to the program, and A/1 is freed, as nobody needs it;
  - the second to_here: it goes to C directly, one round trip, as if there were no aliases.
"""

import time

from farref import System, remote
from farref.examples.harness import run_alone

SHARING = "lend"
STEPS = """
1  task_h is scheduled: ref_h          <= program calls h on A
2  task_g is scheduled: ref_g          <= A calls g on B
*  AliasObjectIDs(ref_h, ref_g)        <= A says that program/1 is an alias of A/1
3  task_f is scheduled: ref_f          <= B calls f on C
*  AliasObjectIDs(ref_g, ref_f)        <= B says that A/1 is an alias of B/1
*  AddCanonicalObjectID(ref_f)         <= C says that B/1 is canonical
4  "ref_g is an alias for ref_f"       <= A learns that A/1 is B/1
5  "ref_h is an alias for ref_f"       <= program learns that program/1 is B/1
6  the last of them is gone            <= C frees B/1
"""


def f() -> list[float]:
    time.sleep(0.1)
    return [0.0] * 5


def g() -> object:
    return remote("C", f)


def h() -> object:
    return remote("B", g)


def play(system: System) -> None:
    for name in "ABC":
        system.worker(name)
    ref_h = remote("A", h)
    assert ref_h.to_here() == [0.0] * 5
    assert ref_h.canonical() != ref_h.id
    assert ref_h.to_here() == [0.0] * 5


if __name__ == "__main__":
    run_alone(__doc__, play)
