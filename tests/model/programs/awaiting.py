"""Methods that await: they give their object's turn away, and take another one to go on."""

from ..script import Ask, Await, Drop, Get, Keep, Method, Own, Remote, Revoke, Wait
from ..world import Program

ASIDE = "no request begins while another awaits"
IN_LINE = "no request has to wait before it goes on"
FAIR = "no request that can go on lines up behind a new one"
ALONE = "no request awaits on an object that nobody else holds"
BESIDE = "no two requests run beside each other"

ASKS = (Ask("q", "B"), Await("q"))
"""An `async` method that awaits the answer of B."""
PAUSES = (Await("no call", patient=False),)
"""An `async` method that awaits a while."""
SIGNALS = (Own("sign"), Keep("sign"))
"""The method shows that it has run: the script of its endpoint can drop this handle."""

AWAITING = (
    Program(
        "others run while a method awaits",
        {
            "A": (
                Own("x"),
                Method("m", "x", (), ASKS),
                Method("n", "x"),
                Method("k", "x", (), ASKS),
                Drop("x"),
            ),
            "B": (),
        },
        ordered=True,
        reaches=(ASIDE, IN_LINE),
    ),
    Program(
        "a method that can go on lines up behind new ones",
        {
            "A": (
                Own("x"),
                Method("m", "x", (), (*ASKS, *SIGNALS)),
                *(Method("n", "x"), Get("g", "x"), Drop("x"), Drop("sign")),
            ),
            "B": (),
        },
        reaches=(FAIR,),
    ),
    Program(
        "a method that awaits a call of its own object",
        {
            "A": (
                Remote("x", "B"),
                Method("m", "x", ("x",), (Method("n", "x", (), SIGNALS), Await("n"))),
                Drop("x"),
            ),
            "B": (Drop("sign"),),
        },
    ),
    Program(
        "a method that awaits its own object by way of another endpoint",
        {
            "A": (
                Own("x"),
                Method(
                    *("m", "x", ("x",)),
                    body=(
                        Ask("c", "B", ("x",), (Method("n", "x", (), SIGNALS), Wait("n"))),
                        Await("c"),
                    ),
                ),
                *(Drop("x"), Drop("sign")),
            ),
            "B": (),
        },
    ),
    Program(
        "a method that waits for one that awaits",
        {
            "A": (
                Own("x"),
                Method(
                    *("m", "x", ("x",)),
                    body=(Ask("c", "B", ("x",), (Method("n", "x"), Wait("n"))), Wait("c")),
                ),
                *(Drop("x"),),
            ),
            "B": (),
        },
    ),
    Program(
        "a method awaits what its own object's method makes",
        {
            "A": (
                Remote("x", "B"),
                Method(
                    *("m", "x", ("x",)),
                    body=(Remote("y", "B", method_of="x"), Get("g", "y"), Await("g")),
                ),
                Drop("x"),
            ),
            "B": (),
        },
        reaches=(ASIDE,),
    ),
    Program(
        "a method that awaits makes an object",
        {
            "A": (
                Remote("x", "B"),
                Remote("y", "B", (), (Ask("q", "B"), Await("q")), method_of="x"),
                *(Method("n", "x"), Get("g", "y"), Drop("x"), Drop("y")),
            ),
            "B": (),
        },
    ),
    Program(
        "a method that awaits returns a reference, which stands for its result",
        {
            "A": (
                *(Own("x"), Own("z")),
                Remote("y", "A", ("z",), ASKS, method_of="x", alias="z"),
                *(Method("n", "y"), Drop("x"), Drop("y"), Drop("z")),
            ),
            "B": (),
        },
    ),
    Program(
        "a method that awaits is not cancelled",
        {
            "A": (
                Own("x"),
                Method("m", "x", (), (*ASKS, *SIGNALS)),
                *(Method("n", "x"), Revoke("n"), Revoke("m"), Drop("x")),
            ),
            "B": (),
        },
    ),
    Program(
        "an argument is used after an await, and kept",
        {
            "A": (
                *(Remote("x", "B"), Own("y")),
                Method("m", "x", ("y",), (Ask("q", "A"), Await("q"), Keep("y")), ("y",)),
                *(Drop("y"), Drop("x")),
            ),
            "B": (Drop("y"),),
        },
    ),
    Program(
        "an await that ends too early",
        {
            "A": (
                Own("x"),
                Method("m", "x", (), (Ask("q", "B"), Await("q", patient=False))),
                *(Method("n", "x"), Drop("x")),
            ),
            "B": (),
        },
    ),
    Program(
        "the caller dies while its method awaits",
        {
            "A": (Remote("x", "B"), Method("m", "x", (), (Ask("q", "C"), Await("q"))), Drop("x")),
            "B": (),
            "C": (),
        },
        mortal=("A",),
        reaches=(ALONE,),
    ),
    Program(
        "the asked one dies while a method awaits it",
        {"A": (Own("x"), Method("m", "x", (), ASKS), Method("n", "x"), Drop("x")), "B": ()},
        mortal=("B",),
    ),
    Program(
        "the owner dies while a method awaits",
        {
            "A": (
                Remote("x", "B"),
                *(Method("m", "x", ("x",), (Ask("q", "A"), Await("q"))), Get("g", "x"), Drop("x")),
            ),
            "B": (),
        },
        mortal=("B",),
    ),
    Program(
        "an object that is not serial",
        {
            "A": (
                Own("x", serial=False),
                Method("m", "x", ("x",), (Method("n", "x", (), SIGNALS), Wait("n"))),
                *(Get("g", "x"), Drop("x"), Drop("sign")),
            ),
            "B": (),
        },
        reaches=(BESIDE,),
    ),
)

RINGS_AND_AWAITS = (
    Program(
        "a ring through a method that awaits goes on",
        {
            "A": (
                *(Own("x"), Own("y")),
                Method("m", "x", ("y",), (Method("n", "y"), Await("n"))),
                Method("k", "y", ("x",), (Method("j", "x"), Wait("j"))),
                *(Wait("m"), Wait("k"), Drop("x"), Drop("y")),
            )
        },
        victims=0,
        ordered=True,
    ),
    Program(
        "a ring through a method that can go on, and gets no turn",
        {
            "A": (
                *(Own("w"), Own("x")),
                Method(*("f", "w", ("x",)), body=(Method("a", "x", (), PAUSES), Wait("a"))),
                Method("c", "x", ("w",), (Method("g", "w"), Wait("g"))),
                *(Wait("f"), Wait("c"), Drop("x"), Drop("w")),
            )
        },
        victims=1,
        ordered=True,
        reaches=("no ring is broken",),
    ),
    Program(
        "a ring through what a method makes that can go on, and gets no turn",
        {
            "A": (
                *(Own("w"), Own("x")),
                Remote("y", "A", (), PAUSES, method_of="x"),
                Method("f", "w", ("y",), (Get("h", "y"), Wait("h"))),
                Method("c", "x", ("w",), (Method("g", "w"), Wait("g"))),
                *(Wait("f"), Wait("c"), Drop("x"), Drop("w"), Drop("y")),
            )
        },
        victims=1,
        ordered=True,
        reaches=("no ring is broken",),
    ),
)
