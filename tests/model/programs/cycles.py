"""Objects that only hold each other, over one or more endpoints: found, and freed.

Every endpoint may search from any of its objects at any time, once, and again when nothing else
happens.
"""

from farref.protocol.sharing import Sharing

from ..script import (
    Ask,
    Drop,
    Keep,
    Method,
    Need,
    Open,
    Own,
    Pull,
    Put,
    Remote,
    Rest,
    Say,
    Script,
    Shut,
)
from ..world import Program


def _cycle(
    name: str,
    mortal: tuple[str, ...] = (),
    reaches: tuple[str, ...] = (),
    *,
    searches: str = "A",
    slow: bool = False,
    slow_in: tuple[Sharing, ...] = (),
    lingers: bool = False,
    **scripts: Script,
) -> Program:
    return Program(
        name,
        dict(scripts),
        mortal=mortal,
        searches=searches,
        reaches=reaches,
        slow=slow,
        slow_in=slow_in,
        lingers=lingers,
    )


RING: Script = (Own("x"), Remote("y", "B", ("x",), returns=("x",)), Put("y", "x"))
"""x, on A, holds y, on B, which holds x; A still has a handle of x."""

CLOSE: Script = (*RING, Drop("x"))

OPEN_RING: Script = (
    Own("x"),
    Remote("y", "B", ("x",), returns=("x",)),
    Put("y", "x", copy=True),
    Drop("x"),
)
"""The same ring; A has a handle of y."""
KEEP_V: Script = (Keep("x", "v"),)

CYCLES = (
    _cycle("an object that holds itself", A=(Own("x"), Put("x", "x"))),
    _cycle(
        "an object that holds itself and another one",
        A=(Own("t"), Own("x", ("t",)), Put("x", "x", copy=True), Drop("t"), Drop("x")),
        searches="",
    ),
    _cycle(
        "two objects of one endpoint that hold each other",
        A=(Own("y"), Own("x", ("y",)), Put("x", "y"), Drop("y")),
    ),
    _cycle(
        "three objects in a row that hold their neighbours",
        A=(
            *(Own("x"), Own("y", ("x",)), Own("z", ("y",))),
            *(Put("y", "x", copy=True), Put("z", "y"), Drop("y"), Drop("x")),
        ),
        searches="",
    ),
    _cycle(
        "a ring of two",
        A=CLOSE,
        B=(),
        searches="AB",
        reaches=("no look finds anything alive", "a closed set is garbage"),
    ),
    _cycle(
        "a ring of three",
        A=(
            Own("x"),
            Remote("y", "B", ("x",), returns=("x",)),
            Remote("z", "C", ("y",), returns=("y",)),
            Drop("y"),
            Put("z", "x"),
            Drop("x"),
        ),
        B=(),
        C=(),
    ),
    _cycle(
        "a ring whose reference goes from one member to the other, and home",
        A=(*RING, Say("B", ("x",), (Say("A", ("x",)),)), Drop("x")),
        B=(),
        searches="AB",
    ),
    _cycle(
        "a ring, and a method that takes a reference out of it",
        A=(
            *RING,
            Method("m", "x", (), (Pull("y", "self"), Say("B", ("y",), (Keep("y"),)))),
            Drop("x"),
        ),
        B=(Drop("y"),),
        searches="AB",
    ),
    _cycle(
        "a ring, and a method that sends a reference out of it",
        A=(
            *OPEN_RING,
            Method("m", "y", (), (Pull("x", "self"), Say("A", ("x",), KEEP_V), Put("x", "self"))),
            Drop("y"),
            Drop("v"),
        ),
        B=(),
    ),
    _cycle(
        "a ring that leads to another object, and a method that sends a reference out of it",
        A=(
            Remote("y", "B"),
            *(Own("s"), Own("x", ("y", "s")), Drop("s")),
            *(Method("k", "y", ("x",), (Put("x", "self"),)), Drop("x"), Rest()),
            Method("m", "y", (), (Pull("x", "self"), Say("A", ("x",), KEEP_V), Put("x", "self"))),
            *(Drop("y"), Drop("v")),
        ),
        B=(),
        reaches=("no two searches find one ring",),
    ),
    _cycle(
        "a ring, and a reference that comes home while it is looked at",
        A=(
            *OPEN_RING,
            Say("B", ("y",), (Say("C", ("y",), (Say("A", ("y",), (Keep("y", "v"),)),)),)),
            Drop("y"),
            Drop("v"),
        ),
        B=(),
        C=(),
    ),
    _cycle(
        "a ring, and a reference that goes to and fro between two members",
        slow_in=("fork", "lend"),
        A=(
            Own("s"),
            Remote("x", "B", ("s",), returns=("s",)),
            Remote("y", "C", ("x",), returns=("x",)),
            Put("x", "s", copy=True),
            Put("y", "s"),
            Drop("s"),
            Rest(),
            Say("C", ("x",), (Say("A", ("x",), (Say("C", ("x",), (Say("A", ("x",), KEEP_V),)),)),)),
            Drop("x"),
            Drop("v"),
        ),
        B=(),
        C=(),
    ),
    _cycle(
        "a ring, and a reference that leaves between two looks",
        A=(*OPEN_RING, Say("B", ("y",), (Keep("y", "v"),)), Drop("y")),
        B=(Drop("v"),),
        searches="B",
    ),
    _cycle(
        "a ring, and a loan between two looks",
        A=(*OPEN_RING, Ask("k", "B", ("y",), (Keep("y", "v"),)), Drop("y")),
        B=(Drop("v"),),
        searches="B",
    ),
    _cycle(
        "a ring, and a request between two looks",
        A=(*OPEN_RING, Method("m", "y", (), (Pull("x", "self"), Keep("x", "v"))), Drop("y")),
        B=(Drop("v"),),
        searches="B",
    ),
    _cycle(
        "a ring, and a reference that goes through a stranger",
        A=(*RING, Say("B", ("x",), (Say("C", ("x",), (Say("B", ("x",), KEEP_V),)),)), Drop("x")),
        B=(Drop("v"),),
        C=(),
        searches="B",
    ),
    _cycle(
        "a ring, and a value that is taken apart and put together again",
        A=(*RING, Open("x"), Drop("x"), Pull("y", "x"), Put("y", "x"), Shut("x")),
        B=(),
        searches="AB",
    ),
    _cycle(
        "an object that holds itself, and a value that outlives the last variable with a handle",
        A=(Own("x"), Put("x", "x", copy=True), Open("x"), Drop("x"), Pull("x", "x"), Drop("x")),
        lingers=True,
    ),
    _cycle(
        "a ring, and a value that is taken apart during an answer",
        A=(*RING, Open("x"), Drop("x"), Pull("y", "x"), Drop("y"), Shut("x")),
        B=(),
        searches="B",
        lingers=True,
    ),
    _cycle(
        "a ring, and a reference that leaves during an answer",
        A=(*OPEN_RING, Say("B", ("y",), (Keep("y", "v"),)), Drop("y")),
        B=(Drop("v"),),
        searches="B",
        lingers=True,
    ),
    _cycle(
        "a ring of two, and one owner dies before all cuts are made",
        ("B",),
        A=CLOSE,
        B=(),
        lingers=True,
    ),
    _cycle(
        "a ring through an alias, which goes during an answer",
        A=(
            Own("x"),
            Remote("h", "B", ("x",), alias="x"),
            Put("h", "x"),
            Open("x"),
            Drop("x"),
            Pull("h", "x"),
            Drop("h"),
        ),
        B=(),
        lingers=True,
    ),
    _cycle(
        "a ring through an alias",
        A=(Own("x"), Remote("h", "B", ("x",), alias="x"), Put("h", "x"), Drop("x")),
        B=(),
    ),
    _cycle(
        "a ring that is lent to another endpoint",
        A=(*RING, Ask("k", "C", ("x",)), Drop("x")),
        B=(),
        C=(),
    ),
    _cycle(
        "a ring that another endpoint keeps from a loan",
        A=(*RING, Ask("k", "C", ("x",), (Keep("x"),)), Drop("x")),
        B=(),
        C=(Drop("x"),),
    ),
    _cycle(
        "a ring that another endpoint keeps from a borrower of it",
        A=(
            *OPEN_RING,
            Method(
                "m", "y", (), (Pull("x", "self"), Ask("k", "C", ("x",), KEEP_V), Put("x", "self"))
            ),
            *(Drop("y"), Rest(), Own("z")),
        ),
        B=(),
        C=(),
    ),
    _cycle(
        "a ring that comes back from a loan while another endpoint keeps it",
        A=(
            *(Own("x"), Need("y"), Put("y", "x")),
            Ask("k", "C", ("x",), (Put("x", "y", copy=True), Drop("y")), returns=("x",)),
            Drop("x"),
        ),
        C=(Own("y"), Say("A", ("y",), (Keep("y"),))),
        searches="AC",
    ),
    _cycle(
        "a ring through an alias, which leads to another object",
        A=(
            Remote("h", "B", (), (Own("g"), Keep("g")), alias="g"),
            *(Own("t"), Own("s", ("h", "t")), Drop("h"), Drop("t")),
            *(Say("B", ("s",), (Put("s", "g"), Drop("g"))), Drop("s")),
        ),
        B=(),
    ),
    _cycle(
        "an object that holds itself, and its other holder, which is known to live",
        A=(
            *(Own("q"), Say("C", ("q",), (Keep("q"),)), Rest()),
            *(Remote("h", "B", ("q",), returns=("q",)), Need("r"), Rest()),
            *(Method("k", "h", ("r",), (Put("r", "self"),)), Drop("r"), Drop("q"), Rest()),
            Drop("h"),
        ),
        B=(),
        C=(
            *(Need("q"), Own("r", ("q",)), Put("r", "r", copy=True)),
            *(Say("A", ("r",), (Keep("r"),)), Drop("r"), Drop("q")),
        ),
    ),
    _cycle(
        "a ring of two, and one owner dies",
        ("B",),
        A=CLOSE,
        B=(),
        reaches=("no death ends a search",),
    ),
    _cycle(
        "a ring of two, and another endpoint that held it dies",
        ("C",),
        A=(*RING, Say("C", ("x",), (Say("B", ("x",)),)), Drop("x")),
        B=(),
        C=(),
        reaches=("no answer comes after the end of its search",),
    ),
)
