"""G returns a list with a reference of its own; F keeps it, and lends the reference to H.

This is the second example of Ray's note on borrowing: a task returns a reference. In the note F
owns the result of G's task. Here F makes an object of its own from it: outer, an RRef([x]).

Look for
  - G's reply: G counts F from then on. No message asks for the end (step 3), since the owner
    itself makes the fork of a returned reference;
  - the loan to H: it costs nothing, since H's reply gives it back;
  - the end: freeing outer drops x, and one message tells G so, in either discipline.
"""

from farref import RRef, System, rpc_sync
from farref.examples.harness import run_alone

SHARING = "borrow"
STEPS = """
1  F submits g()                            <= F calls g on G
2  G returns [x] to F                       <= G replies to F
2a G: x.borrowers.append(f)                 <= G shares G/1 with F
3  G asks F to notify G                     <= left out: G, the owner, made the fork of F itself
3a F: x = Reference(contained_in=[outer])   <= F gets G/1 from G
3a F: outer.contains = [x]                  <= F gets G/1 from G
3b F: x.on_delete = notify G                <= F is counted for G/1
4  F submits h(outer)                       <= F calls h on H
4a F: outer.task_refs.append(h)             <= F lends G/1 to H
5  H returns to F                           <= F has the reply of H
5a F: outer.task_refs.remove(h)             <= F has G/1 back from H
5b F: delete outer                          <= F frees F/1
5b F: delete x, call x.on_delete            <= F tells G that it let go of G/1
6  F replies to G                           <= F tells G that it let go of G/1
6a G: x.borrowers.remove(f)                 <= G learns that F let go of G/1
6b G: delete x                              <= G frees G/1
"""


def g() -> list[RRef[str]]:
    return [RRef("data")]


def h(xs: list[RRef[str]]) -> str:
    return xs[0].to_here()


def f() -> str:
    outer = RRef(rpc_sync("G", g))
    return str(rpc_sync("H", h, args=(outer.local_value(),)))


def play(system: System) -> None:
    for name in "FGH":
        system.worker(name)
    assert rpc_sync("F", f) == "data"


if __name__ == "__main__":
    run_alone(__doc__, play)
