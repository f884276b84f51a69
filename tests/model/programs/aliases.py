"""Results that stand for other objects: chains, trees, cycles, and requests passed on."""

from ..script import (
    Ask,
    Drop,
    Get,
    Keep,
    Method,
    Need,
    Own,
    Remote,
    Revoke,
    Say,
    Script,
    Take,
    Wait,
)
from ..world import Program

ON_C: Script = (Remote("g", "C"),)
"""The function of an alias of an object on C."""
KEEP_H: Script = (Keep("h"),)
H_OF_G = Remote("h", "B", (), ON_C, alias="g")
"""h, on B, stands for g, on C."""
BACK = Say("C", ("h",), (Say("A", ("h",), (Keep("h", "k"),)),))
"""C, which does not know that h is an alias, sends h back to A."""
H_OF_G_OF_F = Remote(
    "h", "B", (), (Remote("g", "C", (), (Remote("f", "A"),), alias="f"),), alias="g"
)
"""h, on B, stands for g, on C, which stands for f, on A."""

ALIASES = (
    Program("an alias that nobody uses", {"A": (H_OF_G, Drop("h")), "B": (), "C": ()}),
    Program(
        "an alias of an object of its own owner's",
        {"A": (Remote("h", "B", (), (Own("g"),), alias="g"), Get("q", "h"), Drop("h")), "B": ()},
    ),
    Program(
        "an alias, lent to its owner",
        {"A": (H_OF_G, Ask("c", "B", ("h",)), Drop("h")), "B": (), "C": ()},
    ),
    Program(
        "an alias, lent to one who learns what it stands for",
        {
            "A": (H_OF_G, Ask("c", "C", ("h",), (Get("q", "h"), Wait("q"))), Drop("h")),
            "B": (),
            "C": (),
        },
    ),
    Program("an alias, fetched", {"A": (H_OF_G, Get("q", "h"), Drop("h")), "B": (), "C": ()}),
    Program(
        "an alias, fetched directly",
        {"A": (H_OF_G, Get("q", "h", direct=True), Drop("h")), "B": (), "C": ()},
    ),
    Program(
        "an alias, waited for and then fetched",
        {
            "A": (H_OF_G, Get("w", "h", copy=False), Wait("w"), Get("q", "h"), Drop("h")),
            "B": (),
            "C": (),
        },
    ),
    Program(
        "an alias of the caller's own object",
        {
            "A": (
                Own("g"),
                Remote("h", "B", ("g",), alias="g"),
                Drop("g"),
                Get("q", "h"),
                Drop("h"),
            ),
            "B": (),
        },
    ),
    Program("a chain of two aliases, dropped", {"A": (H_OF_G_OF_F, Drop("h")), "B": (), "C": ()}),
    Program(
        "a chain of two aliases, fetched",
        {"A": (H_OF_G_OF_F, Get("q", "h"), Drop("h")), "B": (), "C": ()},
    ),
    Program(
        "two aliases of one object",
        {
            "A": (
                Own("f"),
                Remote("g", "B", ("f",), alias="f"),
                Remote("h", "B", ("f",), alias="f"),
                Drop("f"),
                Drop("g"),
                Drop("h"),
            ),
            "B": (),
        },
    ),
    Program(
        "an alias of itself",
        {
            "A": (
                Remote("h", "B", (), (Take("h"),), alias="h"),
                Say("B", ("h",), KEEP_H),
                Get("q", "h"),
                Drop("h"),
            ),
            "B": (),
        },
        losing=("q",),
    ),
    Program(
        "two aliases of each other",
        {
            "A": (
                Remote(
                    "g", "A", (), (Take("h"), Get("q", "h"), Get("r", "h", direct=True)), alias="h"
                ),
                Remote("h", "B", ("g",), alias="g"),
                Drop("g"),
            ),
            "B": (),
        },
        losing=("q", "r"),
    ),
    Program(
        "two aliases of each other, and a third endpoint",
        {
            "A": (
                Remote("g", "C", (), (Take("h"),), alias="h"),
                Remote("h", "B", ("g",), alias="g"),
                Say("C", ("h",), KEEP_H),
                Drop("g"),
                Drop("h"),
            ),
            "B": (),
            "C": (),
        },
        slow_in=("fork", "lend"),
    ),
    Program(
        "requests on an alias, in order",
        {"A": (H_OF_G, *(Method(name, "h") for name in "mnop"), Drop("h")), "B": (), "C": ()},
        ordered=True,
    ),
    Program(
        "a creation, and a wait, in order",
        {
            "A": (
                H_OF_G,
                Remote("x", "B", method_of="h"),
                Get("w", "h", copy=False),
                Wait("w"),
                Method("n", "h"),
                Drop("h"),
                Drop("x"),
            ),
            "B": (),
            "C": (),
        },
        ordered=True,
    ),
    Program(
        "a creation on an alias, in order",
        {
            "A": (
                H_OF_G,
                Remote("x", "B", method_of="h"),
                Method("m", "h"),
                Get("q", "h"),
                Method("n", "h"),
                Drop("h"),
                Drop("x"),
            ),
            "B": (),
            "C": (),
        },
        ordered=True,
    ),
    Program(
        "a creation on an alias that comes back under its name, in order",
        {
            "A": (
                H_OF_G,
                Remote("x", "B", method_of="h"),
                Say("B", ("h",), KEEP_H),
                Need("k"),
                Method("m", "h"),
                Drop("h"),
                Drop("x"),
                Drop("k"),
            ),
            "B": (Need("h"), Say("A", ("h",), (Keep("h", "k"),)), Drop("h")),
            "C": (),
        },
        ordered=True,
    ),
    Program(
        "a direct fetch and more, in order",
        {
            "A": (
                H_OF_G,
                Method("m", "h"),
                Get("q", "h", direct=True),
                Method("n", "h"),
                Drop("h"),
            ),
            "B": (),
            "C": (),
        },
        ordered=True,
    ),
    Program(
        "a creation on an alias",
        {
            "A": (H_OF_G, Remote("x", "B", method_of="h"), Get("q", "x"), Drop("h"), Drop("x")),
            "B": (),
            "C": (),
        },
    ),
    Program(
        "an argument of a call on an alias",
        {
            "A": (
                H_OF_G,
                Own("y"),
                Method("m", "h", ("y",), (), ("y",), (Keep("y", "z"),)),
                Drop("y"),
                Drop("h"),
            ),
            "B": (),
            "C": (),
        },
    ),
    Program(
        "an argument of a call on an alias, kept",
        {
            "A": (H_OF_G, Own("y"), Method("m", "h", ("y",), (Keep("y"),)), Drop("y"), Drop("h")),
            "B": (),
            "C": (Drop("y"),),
        },
    ),
    Program(
        "an argument of a creation on an alias",
        {
            "A": (
                H_OF_G,
                Own("y"),
                Remote("x", "B", ("y",), (), ("y",), method_of="h"),
                Drop("y"),
                Drop("h"),
                Drop("x"),
            ),
            "B": (),
            "C": (),
        },
    ),
    Program(
        "a call on an alias, cancelled",
        {
            "A": (H_OF_G, Method("m", "h"), Method("n", "h"), Revoke("n"), Drop("h")),
            "B": (),
            "C": (),
        },
    ),
    Program(
        "a call on an alias, cancelled while it is held back",
        {
            "A": (H_OF_G, Get("q", "h", direct=True), Method("n", "h"), Revoke("n"), Drop("h")),
            "B": (),
            "C": (),
        },
        reaches=("no call comes cancelled",),
    ),
    Program(
        "an alias of a borrowed object",
        {
            "A": (
                Remote("g", "C"),
                Ask("c", "B", ("g",), (Remote("h", "B", ("g",), alias="g"), Keep("h"))),
                Drop("g"),
            ),
            "B": (Get("q", "h"), Drop("h")),
            "C": (),
        },
    ),
    Program(
        "an alias that comes back, called what it stands for",
        {
            "A": (
                H_OF_G,
                Say("B", ("h",), (Say("A", ("h",), (Keep("h", "k"),)),)),
                Get("p", "h"),
                Get("q", "h"),
                Drop("h"),
                Drop("k"),
            ),
            "B": (),
            "C": (),
        },
        slow=True,
    ),
    Program(
        "a creation on an alias of which there is another alias, in order",
        {
            "A": (
                H_OF_G,
                Remote("x", "B", method_of="h"),
                Remote("y", "A", ("h",), alias="h"),
                Method("m", "h"),
                Drop("h"),
                Drop("x"),
                Drop("y"),
            ),
            "B": (),
            "C": (),
        },
        ordered=True,
        slow=True,
    ),
    Program(
        "an owner calls its own alias, in order",
        {
            "B": (
                Remote("h", "B", (), ON_C, alias="g"),
                Remote("x", "B", method_of="h"),
                Method("m", "h"),
                Method("n", "h"),
                Drop("h"),
                Drop("x"),
            ),
            "C": (),
        },
        ordered=True,
        slow=True,
    ),
    Program(
        "two callers on an alias, in order",
        {
            "A": (H_OF_G, Say("D", ("h",), (Method("m", "h"),)), Method("n", "h"), Drop("h")),
            "B": (),
            "C": (),
            "D": (),
        },
        ordered=True,
    ),
    Program(
        "three aliases in a circle",
        {
            "A": (
                Remote("f", "A", (), (Take("h"), Get("q", "h")), alias="h"),
                Remote("g", "A", ("f",), alias="f"),
                Remote("h", "B", ("g",), alias="g"),
                Drop("f"),
                Drop("g"),
            ),
            "B": (),
        },
        ordered=True,
        losing=("q",),
        slow=True,
    ),
    Program(
        "an alias of one that stands for itself",
        {
            "A": (
                Remote("f", "B", (), (Take("f"),), alias="f"),
                Say("B", ("f",), (Keep("f"),)),
                Remote("h", "A", ("f",), alias="f"),
                Get("q", "h"),
                Drop("f"),
                Drop("h"),
            ),
            "B": (),
        },
        losing=("q",),
        slow_in=("lend", "borrow"),
    ),
    Program(
        "an alias that comes home, called what it stands for",
        {
            "A": (
                H_OF_G,
                Say("B", ("h",), (Say("A", ("h",), (Keep("h", "k"),)),)),
                Get("p", "h"),
                Drop("h"),
                Drop("k"),
            ),
            "B": (),
            "C": (),
        },
        ordered=True,
    ),
    Program(
        "a call on an alias, which comes back without its name, in order",
        {
            "A": (
                *(H_OF_G, BACK, Get("p", "h"), Wait("p"), Method("m", "h"), Drop("h")),
                *(Need("k"), Method("n", "k"), Drop("k")),
            ),
            "B": (),
            "C": (),
        },
        ordered=True,
    ),
    Program(
        "a creation on an alias, which comes back without its name, in order",
        {
            "A": (
                *(H_OF_G, BACK, Get("p", "h"), Wait("p"), Remote("x", "C", method_of="h")),
                *(Drop("h"), Need("k"), Method("n", "k"), Drop("k"), Drop("x")),
            ),
            "B": (),
            "C": (),
        },
        ordered=True,
    ),
    Program(
        "a direct fetch on an alias, which comes back without its name, in order",
        {
            "A": (
                *(H_OF_G, BACK, Get("q", "h", direct=True), Drop("h")),
                *(Need("k"), Method("n", "k"), Drop("k")),
            ),
            "B": (),
            "C": (),
        },
        ordered=True,
    ),
    Program(
        "a tail into a circle",
        {
            "A": (
                Remote("f", "A", (), (Need("g"),), alias="g"),
                Remote("g", "B", ("f",), alias="f"),
                Drop("f"),
                Remote("h", "A", ("g",), alias="g"),
                Get("q", "h"),
                Drop("h"),
            ),
            "B": (),
        },
        ordered=True,
        losing=("q",),
        slow=True,
    ),
)
