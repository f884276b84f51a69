"""Endpoints die while results stand for others: owners of aliases, owners of targets, callers."""

from ..script import Drop, Get, Keep, Method, Own, Remote, Say, Script, Take, Wait
from ..world import Program
from .aliases import H_OF_G, H_OF_G_OF_F

FETCHED: dict[str, Script] = {"A": (H_OF_G, Get("q", "h"), Drop("h")), "B": (), "C": ()}

ALIAS_DEATHS = (
    Program("the owner of an alias dies", FETCHED, mortal=("B",)),
    Program("the owner of what an alias stands for dies", FETCHED, mortal=("C",)),
    Program("who asked for an alias dies", FETCHED, mortal=("A",)),
    Program(
        "the owner of an alias dies, fetched directly",
        {"A": (H_OF_G, Get("q", "h", direct=True), Drop("h")), "B": (), "C": ()},
        mortal=("B",),
    ),
    Program(
        "the owner of what an alias stands for dies, fetched directly",
        {"A": (H_OF_G, Get("q", "h", direct=True), Drop("h")), "B": (), "C": ()},
        mortal=("C",),
    ),
    Program(
        "the owner of what an alias stands for dies, called under the alias's name",
        {
            "A": (H_OF_G, Get("p", "h"), Wait("p"), Method("m", "h"), Drop("h")),
            "B": (),
            "C": (),
        },
        mortal=("C",),
    ),
    Program(
        "the middle of two aliases dies",
        {"A": (H_OF_G_OF_F, Drop("h")), "B": (), "C": ()},
        mortal=("C",),
    ),
    Program(
        "the first of two aliases dies",
        {"A": (H_OF_G_OF_F, Drop("h")), "B": (), "C": ()},
        mortal=("B",),
    ),
    Program(
        "the owner of what an alias stands for dies, with a creation on it",
        {"A": (H_OF_G, Remote("x", "B", method_of="h"), Drop("h"), Drop("x")), "B": (), "C": ()},
        mortal=("C",),
    ),
    Program(
        "the owner of what an alias stands for dies, and a fetch has told what that is",
        {
            "A": (
                Remote("g", "B", (), (Remote("f", "A"),), alias="f"),
                Get("w", "g", copy=False),
                Remote("h", "A", (), (Take("g"),), alias="g"),
                Wait("w"),
                Get("q", "h"),
                Drop("h"),
            ),
            "B": (),
        },
        mortal=("B",),
        ordered=True,
    ),
    Program(
        "who passes an argument on dies",
        {
            "A": (H_OF_G, Own("y"), Method("m", "h", ("y",), (Keep("y"),)), Drop("y"), Drop("h")),
            "B": (),
            "C": (Drop("y"),),
        },
        mortal=("B",),
    ),
    Program(
        "who called an alias dies",
        {"A": (H_OF_G, Own("y"), Method("m", "h", ("y",)), Drop("y"), Drop("h")), "B": (), "C": ()},
        mortal=("A",),
    ),
    Program(
        "one who is told what an alias stands for goes on without it",
        {
            "A": (H_OF_G, Get("q", "h"), Say("C", ("h",), (Keep("h"),)), Drop("h")),
            "B": (),
            "C": (Drop("h"),),
        },
        mortal=("B",),
    ),
    Program(
        "a fetch by way of an alias, and the owner of a reference in the value dies",
        {
            "A": (
                Remote("x", "B"),
                Own("box", ("x",)),
                Drop("x"),
                Remote("h", "C", ("box",), alias="box"),
                Drop("box"),
                Get("g", "h"),
                Drop("h"),
                Drop("inside0"),
            ),
            "B": (),
            "C": (),
        },
        mortal=("B",),
        slow_in=("lend", "borrow"),
        reaches=("nobody answers with a reference that is lost",),
    ),
)
