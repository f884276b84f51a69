"""References in the arguments of calls: lent, lent on, lent back, kept, stored, returned.

B owns; A creates or is lent to first; C and D borrow. A reference that a callee keeps outlives the
call; the callee's own script drops it at some time.
"""

from ..script import (
    Abandon,
    Action,
    Ask,
    Drop,
    Get,
    Keep,
    Method,
    Own,
    Pickle,
    Remote,
    Revoke,
    Say,
    Script,
    Wait,
)
from ..world import Program

KEEP: Script = (Keep("x"),)
DROP: Script = (Drop("x"),)


def lend(call: str, to: str, *body: Action) -> Ask:
    """Call *to* with x, and let it do *body*."""
    return Ask(call, to, ("x",), body)


LENDING = (
    Program(
        "lent by a user, and not kept",
        {"A": (Remote("x", "B"), lend("c", "C"), Drop("x")), "B": (), "C": ()},
    ),
    Program(
        "lent to one whose request waits for a direct fetch",
        {
            "A": (Remote("x", "B"), Get("q", "x", direct=True), Method("m", "x"), Drop("x")),
            "B": (Own("f"), Ask("c", "A", ("f",)), Drop("f")),
        },
    ),
    Program("lent by the owner, and not kept", {"B": (Own("x"), lend("c", "C"), *DROP), "C": ()}),
    Program(
        "lent by a user, and kept",
        {"A": (Remote("x", "B"), lend("c", "C", *KEEP), *DROP), "B": (), "C": DROP},
        reaches_in={"borrow": ("nobody waits for a notice of what he does not use",)},
    ),
    Program(
        "lent by the owner, and kept",
        {"B": (Own("x"), lend("c", "C", *KEEP), *DROP), "C": DROP},
        reaches_in={
            "lend": (
                "no delete overtakes the reply of its loan",
                "no reply says that a loan is held",
            )
        },
    ),
    Program(
        "lent by the owner, and lent on by one who returns first",
        {"B": (Own("x"), lend("a", "A", lend("c", "C", *KEEP)), *DROP), "A": (), "C": DROP},
        reaches_in={
            "lend": ("no ChildAck overtakes the reply of its loan",),
            "borrow": ("no reply hands a table over",),
        },
    ),
    Program(
        "lent by a user, and lent on by one who returns first",
        {
            "A": (Remote("x", "B"), lend("c", "C", lend("d", "D", *KEEP)), *DROP),
            "B": (),
            "C": (),
            "D": DROP,
        },
    ),
    Program(
        "three lend on, and the last one keeps",
        {
            "B": (Own("x"), lend("a", "A", lend("c", "C", lend("d", "D", *KEEP))), *DROP),
            "A": (),
            "C": (),
            "D": DROP,
        },
    ),
    Program(
        "all in a chain keep",
        {
            "B": (Own("x"), lend("a", "A", lend("c", "C", *KEEP), *KEEP), *DROP),
            "A": DROP,
            "C": DROP,
        },
    ),
    Program(
        "mutual lending, of a borrowed reference",
        {
            "B": (Own("x"), lend("a", "A", lend("c", "C", lend("d", "A", *KEEP))), *DROP),
            "A": DROP,
            "C": (),
        },
    ),
    Program(
        "mutual lending, and both keep",
        {
            "B": (
                Own("x"),
                lend("a", "A", lend("c", "C", lend("d", "A", Keep("x", "y")), *KEEP)),
                *DROP,
            ),
            "A": (Drop("y"),),
            "C": DROP,
        },
        slow_in=("fork",),
    ),
    Program(
        "mutual lending, between two who are not counted",
        {
            "A": (Remote("x", "B"), lend("c", "C", lend("d", "D", lend("e", "C"))), *DROP),
            "B": (),
            "C": (),
            "D": (),
        },
        slow_in=("fork",),
    ),
    Program(
        "past one endpoint twice, and on",
        {
            "B": (
                Own("x"),
                lend("a", "A", lend("c", "C", lend("d", "A", lend("e", "D", *KEEP)))),
                *DROP,
            ),
            "A": (),
            "C": (),
            "D": DROP,
        },
        slow_in=("fork",),
    ),
    Program(
        "kept, and lent back to the lender, who keeps",
        {
            "B": (Own("x"), lend("a", "A", lend("c", "C", *KEEP)), *DROP),
            "A": (Drop("y"),),
            "C": (lend("d", "A", Keep("x", "y")), Drop("x")),
        },
        slow_in=("fork",),
    ),
    Program(
        "lent home to the owner, who keeps",
        {"A": (Remote("x", "B"), lend("c", "C", lend("b", "B", *KEEP)), *DROP), "B": DROP, "C": ()},
    ),
    Program(
        "lent home and away again",
        {
            "A": (Remote("x", "B"), lend("b", "B", lend("a", "A", *KEEP), lend("c", "C")), *DROP),
            "B": (),
            "C": (),
        },
    ),
    Program(
        "lent by two paths",
        {
            "B": (Own("x"), lend("a", "A", lend("d", "D", *KEEP)), lend("d", "D"), *DROP),
            "A": (),
            "D": DROP,
        },
    ),
    Program(
        "lent by two users",
        {
            "B": (
                Own("x"),
                lend("a", "A", lend("d", "D", *KEEP)),
                lend("c", "C", lend("e", "D")),
                *DROP,
            ),
            "A": (),
            "C": (),
            "D": DROP,
        },
        slow_in=("fork",),
    ),
    Program(
        "sent and lent to one endpoint",
        {
            "A": (Remote("x", "B"), Say("C", ("x",)), lend("c", "C", *KEEP), *DROP),
            "B": (),
            "C": DROP,
        },
    ),
    Program(
        "lent and sent on by the borrower",
        {"B": (Own("x"), lend("a", "A", Say("C", ("x",), KEEP)), *DROP), "A": (), "C": DROP},
    ),
    Program(
        "lent on and sent on by the borrower",
        {
            "A": (Remote("x", "B"), lend("c", "C", Say("D", ("x",), KEEP)), *DROP),
            "B": (),
            "C": (),
            "D": DROP,
        },
    ),
    Program(
        "returned at once, and kept",
        {
            "A": (
                Remote("x", "B"),
                Ask("c", "C", ("x",), KEEP, ("x",), (Keep("x", "y"),)),
                Drop("x"),
                Wait("c"),
                Ask("d", "C", (), DROP),
                Drop("y"),
            ),
            "B": (),
            "C": (),
        },
    ),
    Program(
        "returned by a chain of callees",
        {
            "B": (
                Own("x"),
                Ask(
                    "a",
                    "A",
                    ("x",),
                    (Ask("c", "C", ("x",), (), ("x",), KEEP), Wait("c")),
                    ("x",),
                    (Keep("x", "y"),),
                ),
                *DROP,
                Drop("y"),
            ),
            "A": DROP,
            "C": (),
        },
    ),
    Program(
        "what was kept is returned by a later call",
        {
            "B": (
                Own("x"),
                lend("a", "A", *KEEP),
                *DROP,
                Wait("a"),
                Ask("b", "A", (), (), ("x",), (Keep("x", "y"),)),
                Wait("b"),
                Ask("d", "A", (), DROP),
                Drop("y"),
            ),
            "A": (),
        },
    ),
    Program(
        "stored in a value of the borrower's",
        {
            "A": (Remote("x", "B"), lend("c", "C", Own("v", ("x",)), Keep("v")), *DROP),
            "B": (),
            "C": (Drop("v"),),
        },
    ),
    Program(
        "kept, sent on, and dropped",
        {
            "B": (Own("x"), lend("a", "A", lend("c", "C", *KEEP)), *DROP),
            "A": (),
            "C": (Say("D", ("x",), KEEP), *DROP),
            "D": DROP,
        },
    ),
    Program(
        "kept, lent on, and dropped",
        {
            "B": (Own("x"), lend("a", "A", lend("c", "C", *KEEP)), *DROP),
            "A": (),
            "C": (lend("d", "D", *KEEP), *DROP),
            "D": DROP,
        },
        slow_in=("fork",),
    ),
    Program(
        "lent twice to one callee, and kept once",
        {"B": (Own("x"), lend("c", "C"), lend("d", "C", *KEEP), *DROP), "C": DROP},
        reaches_in={"lend": ("no loan of the owner's is kept while another one is",)},
    ),
    Program(
        "lent again to one who let go",
        {
            "B": (Own("x"), lend("c", "C", *KEEP), lend("d", "C", Keep("x", "y")), *DROP),
            "C": (*DROP, Drop("y")),
        },
    ),
    Program(
        "lent again by a borrower to one who let go",
        {
            "B": (
                Own("x"),
                lend("a", "A", lend("c", "C", *KEEP), lend("d", "C", Keep("x", "y"))),
                *DROP,
            ),
            "A": (),
            "C": (*DROP, Drop("y")),
        },
        slow_in=("fork",),
    ),
    Program(
        "lent twice in one call",
        {"A": (Remote("x", "B"), Ask("c", "C", ("x", "x"), KEEP), *DROP), "B": (), "C": DROP},
    ),
    Program(
        "lent twice in one call by the owner",
        {"B": (Own("x"), Ask("c", "C", ("x", "x")), *DROP), "C": ()},
    ),
    Program(
        "lent twice in one call, and given back once",
        {
            "A": (
                Remote("x", "B"),
                Ask("c", "C", ("x", "x"), (), ("x", "x"), (Keep("x", "y"),)),
                *DROP,
                Drop("y"),
            ),
            "B": (),
            "C": (),
        },
        reaches_in={"borrow": ("no delete hands a table over",)},
    ),
    Program(
        "two objects lent in one call, and kept",
        {
            "B": (
                Own("x"),
                Own("y"),
                Ask("c", "C", ("x", "y"), (*KEEP, Keep("y"))),
                *DROP,
                Drop("y"),
            ),
            "C": (*DROP, Drop("y")),
        },
    ),
    Program(
        "lent twice by its creator, and kept once",
        {"A": (Remote("x", "B"), lend("c", "C"), lend("d", "C", *KEEP), *DROP), "B": (), "C": DROP},
        slow_in=("fork",),
    ),
    Program(
        "lent to itself",
        {"A": (Remote("x", "B"), lend("a", "A", lend("c", "C"), *KEEP), *DROP), "B": (), "C": ()},
    ),
    Program(
        "borrowed, and lent to itself",
        {"B": (Own("x"), lend("a", "A", lend("c", "A", *KEEP)), *DROP), "A": DROP},
        reaches_in={
            "borrow": ("no loan is covered by another loan", "no notice comes during a later loan")
        },
    ),
    Program(
        "the owner lends to itself",
        {"B": (Own("x"), lend("b", "B", Keep("x", "y")), *DROP, Drop("y"))},
        reaches_in={"lend": ("no loan comes home",)},
    ),
    Program(
        "lent, cancelled, and kept if not",
        {"A": (Remote("x", "B"), lend("c", "C", *KEEP), Revoke("c"), *DROP), "B": (), "C": ()},
    ),
    Program(
        "a call that cannot be pickled",
        {
            "A": (
                Remote("x", "B"),
                Pickle("x", "C", for_call=True),
                Pickle("x", "B", for_call=True),
                Drop("x"),
                Abandon(),
            ),
            "B": (Own("y"), Pickle("y", "A", for_call=True), Drop("y"), Abandon()),
            "C": (),
        },
    ),
    Program(
        "a call that cannot be pickled, and its reference is kept",
        {"A": (Remote("x", "B"), Pickle("x", "C", for_call=True), Abandon()), "B": (), "C": ()},
    ),
    Program(
        "a call that cannot be unpickled",
        {
            "B": (Own("x"), lend("a", "A", Ask("c", "C", ("x",), readable=False)), *DROP),
            "A": (),
            "C": (),
        },
    ),
    Program(
        "lent to a method",
        {
            "A": (
                Remote("x", "B"),
                Remote("y", "C"),
                Method("m", "y", ("x",), KEEP),
                *DROP,
                Drop("y"),
            ),
            "B": (),
            "C": DROP,
        },
    ),
    Program(
        "lent to a method of its own",
        {"A": (Remote("x", "B"), Method("m", "x", ("x",), KEEP), *DROP), "B": DROP},
        reaches_in={"lend": ("nobody lends before he is confirmed",)},
    ),
    Program(
        "lent to a creation, and not kept",
        {"A": (Remote("x", "B"), Remote("y", "C", ("x",)), *DROP, Drop("y")), "B": (), "C": ()},
        reaches_in={"lend": ("no creation returns its loans",)},
    ),
    Program(
        "lent to a creation, and kept",
        {
            "A": (Remote("x", "B"), Remote("y", "C", ("x",), KEEP), *DROP, Drop("y")),
            "B": (),
            "C": DROP,
        },
    ),
    Program(
        "lent by the owner to a creation, and kept",
        {"B": (Own("x"), Remote("y", "C", ("x",), KEEP), *DROP, Drop("y")), "C": DROP},
    ),
    Program(
        "lent to a creation that lends it on",
        {
            "B": (Own("x"), Remote("y", "C", ("x",), (lend("d", "D", *KEEP),)), *DROP, Drop("y")),
            "C": (),
            "D": DROP,
        },
    ),
    Program(
        "lent on to a creation, whose value holds it",
        {
            "B": (Own("x"), lend("a", "A", Remote("y", "C", ("x",), (), ("x",)), Keep("y")), *DROP),
            "A": (Drop("y"),),
            "C": (),
        },
    ),
    Program(
        "note: example 1, a nested reference is borrowed and lent on",
        {
            "F": (
                Own("x"),
                Own("y", ("x",)),
                *DROP,
                Ask(
                    "g",
                    "G",
                    ("y",),
                    (Get("i", "y"), Wait("i"), Ask("h", "H", ("inside0",)), Drop("inside0")),
                ),
                Drop("y"),
            ),
            "G": (),
            "H": (),
        },
    ),
    Program(
        "note: example 2, a nested reference is returned",
        {
            "F": (
                Remote("o", "G", (), (Own("x"),), ("x",)),
                Ask("h", "H", ("o",), (Get("i", "o"), Wait("i"), Drop("inside0"))),
                Drop("o"),
            ),
            "G": (),
            "H": (),
        },
    ),
    Program(
        "a nested reference is kept by a borrower",
        {
            "B": (
                Own("x"),
                Own("y", ("x",)),
                *DROP,
                Ask("c", "C", ("y",), (Get("g", "y"),)),
                Drop("y"),
            ),
            "C": (Drop("inside0"),),
        },
    ),
    Program(
        "lent and asked of",
        {"B": (Own("x"), lend("a", "A", Method("m", "x", ("x",)), Get("g", "x")), *DROP), "A": ()},
    ),
    Program(
        "two lend to each other what both borrowed",
        {
            "B": (
                Own("x"),
                lend("a", "A", lend("c", "C", *KEEP)),
                lend("d", "C", lend("e", "A", *KEEP)),
                *DROP,
            ),
            "A": DROP,
            "C": DROP,
        },
        slow=True,
    ),
)
