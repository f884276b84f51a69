"""F lends x to G, who lends it on to H and returns while H still runs.

This is the first example of Ray's note on borrowing: an owner forwards its object. The note's y is
an object that contains x; here y is the pickled arguments of the call.

Look for
  - no message about x while the calls run: F pins it for G, and G for H;
  - G's reply: it reports that x is still in use at G, though g has ended;
  - "borrow": F asks G to report the end, and G does: two messages;
  - "lend": F has counted G since it lent x, and G knows that: its delete is the only message.
"""

import time

from farref import RRef, System, rpc_async, rpc_sync
from farref.examples.harness import run_alone

SHARING = "borrow"
STEPS = """
1  F submits g(y)                          <= F calls g on G
1a F: x.contained_in.append(y)             <= F lends F/1 to G
1b F: y.contains.append(x)                 <= F lends F/1 to G
1c F: y.task_refs.append(g)                <= F calls g on G
2  G submits h(x)                          <= G calls h on H
2a G: x.task_refs.append(h)                <= G lends F/1 to H
3  G returns to F, and H still runs        <= G replies to F
3a G tells F that its count of x is > 0    <= G tells F that it holds F/1
3b F: x.borrowers.append(g)                <= F learns that G holds F/1
3c F: y.task_refs.remove(g)                <= F has the reply of G
3d F: delete y, x.contained_in.remove(y)   <= F has the reply of G
[borrow] 4  F asks G to notify F           <= F asks G for word of the end of F/1
[borrow] 4a G: x.on_delete = notify F      <= G is asked by F for word of the end of F/1
5  H returns to G                          <= G has the reply of H
5a G: x.task_refs.remove(h)                <= G has F/1 back from H
5b G: delete x, call on_delete             <= G tells F that it let go of F/1
6  G replies to F                          <= G tells F that it let go of F/1
6a F: x.borrowers.remove(g)                <= F learns that G let go of F/1
6b F: delete x                             <= F frees F/1
"""


def h(_x: RRef[str]) -> None:
    time.sleep(0.25)


def g(xs: list[RRef[str]]) -> None:
    rpc_async("H", h, args=(xs[0],))


def f() -> None:
    rpc_sync("G", g, args=([RRef("data")],))


def play(system: System) -> None:
    for name in "FGH":
        system.worker(name)
    rpc_sync("F", f)


if __name__ == "__main__":
    run_alone(__doc__, play)
