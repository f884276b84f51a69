"""Lenders, borrowers and owners that die while a reference is lent."""

from ..script import Ask, Drop, Get, Keep, Own, Remote, Say, Wait
from ..world import Program
from .lending import DROP, KEEP, lend

BOX = (Keep("box"),)
ON_TO_C = (Own("x"), lend("a", "A", lend("c", "C", *KEEP)), *DROP)
"""B's script: B lends its object to A, and A lends it on to C, which keeps it."""
ON_TO_D = (Own("x"), lend("a", "A", lend("c", "C", lend("d", "D", *KEEP))), *DROP)
"""The same, but C lends it on to D, which keeps it."""

LENDING_DEATHS = (
    Program(
        "a lent reference is kept in a value, and its owner dies before the value is fetched",
        {
            "B": (Own("x"), lend("a", "A", *KEEP)),
            "A": (Own("box", ("x",)), *DROP, Say("C", ("box",), BOX)),
            "C": (Get("g", "box"), Drop("inside0"), Drop("box")),
        },
        mortal=("B",),
        reaches=("nobody answers with a reference that is lost",),
    ),
    Program("the lender dies", {"B": ON_TO_C, "A": (), "C": DROP}, mortal=("A",)),
    Program(
        "note: the middle borrower dies, and the last one goes on",
        {"B": ON_TO_C, "A": (), "C": (Get("g", "x"),)},
        mortal=("A",),
    ),
    Program(
        "a created object's lender dies",
        {"A": (Remote("x", "B"), lend("c", "C", *KEEP), *DROP), "B": (), "C": DROP},
        mortal=("A",),
    ),
    Program(
        "a created object's lender dies, and the borrower keeps",
        {"A": (Remote("x", "B"), lend("c", "C", *KEEP)), "B": (), "C": ()},
        mortal=("A",),
        reaches_in={"borrow": ("no announcement is sent",)},
    ),
    Program(
        "the borrower dies",
        {"B": ON_TO_C, "A": (), "C": DROP},
        mortal=("C",),
        reaches_in={"borrow": ("no table of the dead is passed on",)},
    ),
    Program(
        "the owner dies while its object is lent",
        {"B": ON_TO_C, "A": (), "C": DROP},
        mortal=("B",),
        reaches_in={"borrow": ("no table is taken back",)},
    ),
    Program(
        "a stranger dies while an object is lent",
        {"B": ON_TO_C, "A": (), "C": DROP, "D": ()},
        mortal=("D",),
        slow_in=("borrow",),
    ),
    Program(
        "the lender's lender dies",
        {"B": ON_TO_D, "A": (), "C": (), "D": DROP},
        mortal=("A",),
        slow_in=("fork", "borrow"),
    ),
    Program(
        "the lender's lender dies, and the end keeps",
        {"B": ON_TO_D, "A": (), "C": (), "D": ()},
        mortal=("A",),
        slow_in=("fork", "borrow"),
    ),
    Program(
        "the middle lender dies",
        {"B": ON_TO_D, "A": (), "C": (), "D": ()},
        mortal=("C",),
        slow_in=("fork", "borrow"),
    ),
    Program(
        "two lenders die", {"B": ON_TO_D, "A": (), "C": (), "D": ()}, mortal=("A", "C"), slow=True
    ),
    Program(
        "the lender dies, who had it from a creator",
        {
            "A": (Remote("x", "B"), lend("c", "C", lend("d", "D", *KEEP)), *DROP),
            "B": (),
            "C": (),
            "D": (),
        },
        mortal=("C",),
        slow_in=("fork",),
    ),
    Program(
        "mutual lenders, one of whom dies",
        {
            "B": (Own("x"), lend("a", "A", lend("c", "C", lend("d", "A", *KEEP), *KEEP)), *DROP),
            "A": (),
            "C": (),
        },
        mortal=("A",),
        slow_in=("fork",),
    ),
    Program(
        "mutual lenders, the other of whom dies",
        {
            "B": (Own("x"), lend("a", "A", lend("c", "C", lend("d", "A", *KEEP), *KEEP)), *DROP),
            "A": (),
            "C": (),
        },
        mortal=("C",),
        slow_in=("fork",),
    ),
    Program(
        "a creation is lent to, and the creator dies",
        {"B": (Own("x"), lend("a", "A", Remote("y", "C", ("x",), KEEP)), *DROP), "A": (), "C": ()},
        mortal=("A",),
    ),
    Program(
        "a creation is lent to that lends on, and the creator dies",
        {
            "B": (
                Own("x"),
                lend("a", "A", Remote("y", "C", ("x",), (lend("d", "D", *KEEP),))),
                *DROP,
            ),
            "A": (),
            "C": (),
            "D": (),
        },
        mortal=("A",),
        slow=True,
    ),
    Program(
        "lent by two, one of whom dies",
        {
            "B": (Own("x"), lend("a", "A", lend("d", "D", *KEEP)), lend("d", "D"), *DROP),
            "A": (),
            "D": (),
        },
        mortal=("A",),
        slow_in=("fork",),
        reaches_in={"borrow": ("no loan comes while an announcement is under way",)},
    ),
    Program(
        "lent by two borrowers, one of whom dies",
        {
            "B": (
                Own("x"),
                lend("a", "A", lend("d", "D", *KEEP)),
                lend("c", "C", lend("e", "D")),
                *DROP,
            ),
            "A": (),
            "C": (),
            "D": (),
        },
        mortal=("A",),
        slow=True,
    ),
    Program(
        "the borrower sends on, and the lender dies",
        {
            "B": (Own("x"), lend("a", "A", lend("c", "C", Say("D", ("x",), KEEP))), *DROP),
            "A": (),
            "C": (),
            "D": (),
        },
        mortal=("A",),
        slow_in=("fork",),
    ),
    Program(
        "the borrower gives back, and the lender dies",
        {
            "B": (Own("x"), lend("a", "A", Ask("c", "C", ("x",), KEEP, ("x",), KEEP)), *DROP),
            "A": (),
            "C": (),
        },
        mortal=("A",),
    ),
    Program(
        "the borrower waits for another, and the lender dies",
        {
            "B": (
                Own("x"),
                lend("a", "A", lend("c", "C", lend("d", "D", *KEEP), Wait("d"))),
                *DROP,
            ),
            "A": (),
            "C": (),
            "D": (),
        },
        mortal=("A",),
        slow_in=("fork",),
    ),
    Program(
        "the borrower is sent what it lends on, and the lender dies",
        {
            "B": (
                Own("x"),
                lend("a", "A", lend("c", "C", lend("d", "D", *KEEP), Wait("d"))),
                *DROP,
            ),
            "A": (),
            "C": (),
            "D": (Say("C", ("x",)),),
        },
        mortal=("A",),
        slow_in=("fork", "lend", "borrow"),
    ),
    Program(
        "lent on after the lender died",
        {"B": ON_TO_C, "A": (), "C": (lend("d", "D", *KEEP), *DROP), "D": ()},
        mortal=("A",),
        slow_in=("fork", "borrow"),
    ),
    Program(
        "the owner and the lender die, and the borrower keeps",
        {"B": ON_TO_C, "A": (), "C": ()},
        mortal=("A", "B"),
    ),
    Program(
        "the borrower dies, and the lender keeps",
        {"A": (Remote("x", "B"), lend("c", "C")), "B": (), "C": ()},
        mortal=("C",),
    ),
    Program(
        "lent to one who is counted, and the lender dies",
        {
            "B": (Own("x"), Say("C", ("x",), KEEP), lend("a", "A", lend("c", "C")), *DROP),
            "A": (),
            "C": DROP,
        },
        mortal=("A",),
        slow_in=("fork",),
    ),
    Program(
        "lent, kept and given back, and a stranger dies",
        {
            "A": (Remote("x", "B"), Ask("c", "C", ("x",), KEEP, ("x",), (Keep("x", "y"),)), *DROP),
            "B": (),
            "C": (),
            "D": (),
        },
        mortal=("D",),
        slow_in=("fork",),
    ),
    Program(
        "any of three may die while an object is lent",
        {"B": ON_TO_C, "A": (), "C": DROP},
        mortal=("A", "B", "C"),
    ),
    Program(
        "the owner keeps, and the lender dies",
        {"B": (Own("x"), lend("a", "A", lend("c", "C", *KEEP))), "A": (), "C": DROP},
        mortal=("A",),
        reaches_in={"borrow": ("no notice is denied",)},
    ),
    Program(
        "too late: the end of a loan, when the lender died",
        {"B": ON_TO_C, "A": (), "C": (Get("g", "x"), Wait("g"), *DROP)},
        mortal=("A",),
        late=True,
    ),
    Program(
        "too late: the end of a chain of loans",
        {"B": ON_TO_D, "A": (), "C": (), "D": (Get("g", "x"), Wait("g"), *DROP)},
        mortal=("A",),
        late=True,
        slow=True,
    ),
    Program(
        "too late: a created object",
        {
            "A": (Remote("x", "B"), lend("c", "C", *KEEP)),
            "B": (),
            "C": (Get("g", "x"), Wait("g"), *DROP),
        },
        mortal=("A",),
        late=True,
        reaches_in={"lend": ("nobody comes too late",)},
    ),
    Program(
        "too late: the end of a chain of messages",
        {
            "B": (Own("x"), Say("Y", ("x",), (Say("Z", ("x",), KEEP),)), *DROP),
            "Y": (),
            "Z": (Get("g", "x"), Wait("g"), *DROP),
        },
        mortal=("Y",),
        late=True,
        slow_in=("lend", "borrow"),
    ),
    Program(
        "too late: home again",
        {
            "B": (Own("x"), lend("a", "A", lend("c", "C", *KEEP)), *DROP, Drop("y")),
            "A": (),
            "C": (Say("B", ("x",), (Keep("x", "y"),)), *DROP),
        },
        mortal=("A",),
        late=True,
        slow_in=("fork",),
    ),
)
