"""Endpoints that die at any moment: in the middle of a chain, while creating, while owning."""

from ..script import Abandon, Ask, Drop, Get, Keep, Method, Own, Pickle, Remote, Say, Script, Wait
from ..world import Program

KEEP: Script = (Keep("x"),)
BOX: Script = (Keep("box"),)
MAKE: Script = (Remote("x", "B"), Ask("b", "B"), Wait("b", patient=True))
TO_Y_TO_Z = Say("Y", ("x",), (Say("Z", ("x",), KEEP),))

DEATHS = (
    Program(
        "too late: a living creator's object",
        {
            "A": (
                Remote("x", "B"),
                Say("Y", ("x",), (Say("A", ("x",), (Keep("x", "y"),)),)),
                Drop("x"),
                Get("g", "y"),
                Wait("g"),
                Drop("y"),
            ),
            "B": (),
            "Y": (),
        },
        mortal=("Y",),
        late=True,
    ),
    Program(
        "a user dies",
        {"B": (Own("x"), Say("C", ("x",), KEEP), Drop("x")), "C": (Get("g", "x"), Drop("x"))},
        mortal=("C",),
        reaches=("the dead held nothing", "the dead do not speak"),
    ),
    Program(
        "the creator dies",
        {
            "A": (Remote("x", "B"), Say("C", ("x",), KEEP), Drop("x")),
            "B": (),
            "C": (Get("g", "x"), Drop("x")),
        },
        mortal=("A",),
        reaches=("nobody dies before his creation arrives",),
    ),
    Program(
        "a stranger dies",
        {
            "A": (Remote("x", "B"), Say("C", ("x",), KEEP), Drop("x")),
            "B": (),
            "C": (Drop("x"),),
            "D": (),
        },
        mortal=("D",),
    ),
    Program(
        "plain messages and calls to one who dies",
        {"A": (Say("C"), Ask("c", "C"), Say("C"), Ask("d", "C")), "C": ()},
        mortal=("C",),
    ),
    Program(
        "a message is abandoned after its receiver was buried",
        {"A": (Own("x"), Pickle("x", "C"), Abandon(), Drop("x")), "C": ()},
        mortal=("C",),
    ),
    Program(
        "a message is abandoned after its owner died",
        {"A": (Remote("x", "B"), Pickle("x", "C"), Drop("x"), Abandon()), "B": (), "C": ()},
        mortal=("B",),
    ),
    Program(
        "the owner dies and its users keep what they have",
        {"A": (Remote("x", "B"), Say("C", ("x",), KEEP)), "B": (), "C": ()},
        mortal=("B",),
    ),
    Program(
        "the child dies",
        {"A": (Remote("x", "B"), Say("C", ("x",), KEEP), Drop("x")), "B": (), "C": (Drop("x"),)},
        mortal=("C",),
        reaches=("nobody is pinned for the dead",),
    ),
    Program(
        "the middle of a chain dies",
        {"B": (Own("x"), TO_Y_TO_Z, Drop("x")), "Y": (), "Z": (Drop("x"),)},
        mortal=("Y",),
    ),
    Program(
        "the end of a chain keeps its object",
        {"B": (Own("x"), TO_Y_TO_Z, Drop("x")), "Y": (), "Z": ()},
        mortal=("Y",),
    ),
    Program(
        "the middle dies, created on a user",
        {"A": (Remote("x", "B"), TO_Y_TO_Z, Drop("x")), "B": (), "Y": (), "Z": (Drop("x"),)},
        mortal=("Y",),
    ),
    Program(
        "two of a chain may die",
        {"B": (Own("x"), TO_Y_TO_Z, Drop("x")), "Y": (), "Z": (Say("C", ("x",)),), "C": ()},
        mortal=("Y", "Z"),
    ),
    Program(
        "the creator and the middle may die",
        {"A": (Remote("x", "B"), TO_Y_TO_Z), "B": (), "Y": (), "Z": ()},
        mortal=("A", "Y"),
    ),
    Program(
        "anybody may die",
        {
            "A": (Remote("x", "B"), Say("C", ("x",), KEEP), Get("g", "x"), Drop("x")),
            "B": (),
            "C": (Drop("x"),),
        },
        mortal=("A", "B", "C"),
    ),
    Program(
        "the caller dies and the lent reference lives on",
        {
            "B": (Own("x"), Say("A", ("x",), (Ask("c", "C", ("x",), KEEP),)), Drop("x")),
            "A": (),
            "C": (Get("g", "x"), Drop("x")),
        },
        mortal=("A",),
    ),
    Program(
        "the owner dies with requests in its queues",
        {
            "A": (
                Remote("x", "B"),
                Method("m", "x", ("x",)),
                Get("g", "x"),
                Say("C", ("x",)),
                Drop("x"),
            ),
            "B": (),
            "C": (),
        },
        mortal=("B",),
    ),
    Program(
        "the owner dies",
        {
            "A": (Remote("x", "B"), Say("C", ("x",), KEEP), Get("g", "x"), Drop("x")),
            "B": (),
            "C": (Drop("x"),),
        },
        mortal=("B",),
        reaches=(
            "nobody waits for the dead",
            "an owner's death leaves no fork outstanding",
            "nobody is sent a reference whose owner he knows to be dead",
        ),
    ),
    Program(
        "a value comes although the owner of a reference in it dies",
        {
            "A": (Remote("x", "B"), Own("box", ("x",)), Drop("x"), Say("C", ("box",), BOX)),
            "B": (),
            "C": (Get("g", "box"), Drop("inside0"), Drop("box")),
        },
        mortal=("B",),
        reaches=("nobody answers with a reference that is lost",),
    ),
    Program(
        "a result comes although the owner of a reference in it dies",
        {"A": (Ask("c", "C", returns=("x",), body=MAKE, then=KEEP), Drop("x")), "B": (), "C": ()},
        mortal=("B",),
        reaches=("nobody answers with a reference that is lost",),
    ),
    Program(
        "the owner dies, and its reference goes round",
        {
            "A": (Remote("x", "B"), Say("C", ("x",), (Say("A", ("x",)),)), Drop("x")),
            "B": (),
            "C": (),
        },
        mortal=("B",),
    ),
    Program(
        "the callee dies with what it was lent",
        {"A": (Own("x"), Ask("c", "C", ("x",), KEEP, ("x",), KEEP), Drop("x")), "C": (Drop("x"),)},
        mortal=("C",),
    ),
    Program(
        "the caller dies",
        {
            "A": (Own("y"), Ask("c", "B", ("y",), (Own("x"), *KEEP), ("x",), KEEP)),
            "B": (Drop("x"),),
        },
        mortal=("A",),
        reaches_in={
            "lend": ("no loan outlives its lender", "nobody has a reply for a dead lender")
        },
    ),
    Program(
        "the owner dies while a method makes an object",
        {
            "A": (Remote("x", "B"), Remote("y", "B", method_of="x"), Method("m", "y"), Drop("x")),
            "B": (),
        },
        mortal=("B",),
    ),
    Program(
        "the creator dies while a method makes an object",
        {
            "A": (Remote("x", "B"), Remote("y", "B", method_of="x"), Say("C", ("y",))),
            "B": (),
            "C": (),
        },
        mortal=("A",),
    ),
)
