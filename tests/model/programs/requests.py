"""Requests on objects: fetches, method calls, creations by methods, and cancels."""

from ..script import Ask, Drop, Get, Keep, Method, Own, Remote, Revoke, Say, Wait
from ..world import Program

REQUESTS = (
    Program(
        "three requests on one object",
        {
            "A": (Remote("x", "B"), Method("m", "x"), Get("g", "x"), Method("n", "x"), Drop("x")),
            "B": (),
        },
        reaches=(
            "no method call overtakes the creation of its object",
            "no request waits for another",
        ),
    ),
    Program(
        "two users ask one object",
        {
            "A": (
                Remote("x", "B"),
                Say("C", ("x",), (Method("n", "x"),)),
                Get("g", "x"),
                Drop("x"),
            ),
            "B": (),
            "C": (),
        },
    ),
    Program(
        "two users ask one object twice",
        {
            "A": (
                Remote("x", "B"),
                Say("C", ("x",), (Method("n", "x", ("x",)), Get("h", "x"))),
                Get("g", "x"),
                Method("m", "x"),
                Drop("x"),
            ),
            "B": (),
            "C": (),
        },
        slow_in=("fork", "lend"),
    ),
    Program(
        "the owner calls its own object",
        {"B": (Own("x"), Method("m", "x"), Get("g", "x"), Drop("x"))},
    ),
    Program(
        "a method makes an object",
        {
            "A": (
                Remote("x", "B"),
                Remote("y", "B", method_of="x"),
                Get("g", "y"),
                Drop("x"),
                Drop("y"),
            ),
            "B": (),
        },
        reaches=("no creation by a method overtakes the creation of its object",),
    ),
    Program(
        "a method makes an object, and its id is like a call's",
        {
            "A": (
                Remote("x", "B"),
                Method("m", "x"),
                Remote("y", "B", method_of="x"),
                Method("n", "x"),
                Drop("x"),
                Drop("y"),
            ),
            "B": (),
        },
    ),
    Program(
        "a method of the own object makes an object",
        {"B": (Own("x"), Remote("y", "B", method_of="x"), Drop("x"), Drop("y"))},
    ),
    Program(
        "an argument, kept by the object's owner",
        {
            "A": (
                Remote("x", "B"),
                Own("y"),
                Method("m", "x", ("y",), (Keep("y"),), ("x",)),
                Drop("y"),
                Drop("x"),
            ),
            "B": (Drop("y"),),
        },
    ),
    Program(
        "nobody wants the object when its value comes",
        {"A": (Remote("x", "B"), Drop("x")), "B": ()},
        reaches=("every object is still used when its value comes",),
    ),
    Program(
        "cancelled calls",
        {
            "A": (Remote("x", "B"), Method("m", "x"), Method("n", "x"), Revoke("n"), Drop("x")),
            "B": (),
        },
        reaches=("no cancel comes in time", "no cancel overtakes its call"),
    ),
    Program(
        "a cancelled function",
        {"A": (Own("x"), Ask("c", "B", ("x",), (Keep("x"),)), Revoke("c"), Drop("x")), "B": ()},
        reaches=("no cancel stops a call that waits for a thread",),
    ),
    Program(
        "a cancelled call with references",
        {
            "A": (
                Remote("x", "B"),
                Own("y"),
                Method("m", "x", ("x", "y")),
                Revoke("m"),
                Drop("x"),
                Drop("y"),
            ),
            "B": (),
        },
    ),
    Program(
        "a method that calls its own object and waits",
        {
            "A": (
                Remote("x", "B"),
                Method("m", "x", ("x",), (Method("n", "x"), Wait("n"))),
                Drop("x"),
            ),
            "B": (),
        },
        reaches=("no call waits for itself",),
    ),
    Program(
        "a method that waits for itself by way of another endpoint",
        {
            "B": (
                Own("x"),
                Method(
                    "m", "x", ("x",), (Ask("c", "C", ("x",), (Get("g", "x"), Wait("g"))), Wait("c"))
                ),
                Drop("x"),
            ),
            "C": (),
        },
        reaches=("no call waits for itself",),
    ),
    Program(
        "a method that waits for itself, behind a direct fetch",
        {
            "A": (
                Own("x"),
                Say("B", ("x",), (Keep("x"),)),
                Method(
                    "m",
                    "x",
                    ("x",),
                    (Ask("c", "B", ("x",), (Method("n", "x"), Wait("n"))), Wait("c")),
                ),
                Drop("x"),
            ),
            "B": (Get("q", "x", direct=True), Drop("x")),
        },
        reaches=("no call waits for itself",),
    ),
    Program(
        "a creation that waits for itself",
        {
            "B": (Own("x"), Say("A", ("x",), (Keep("x"),)), Drop("x")),
            "A": (
                Remote("y", "B", ("x",), (Get("g", "x"), Wait("g")), method_of="x"),
                Get("h", "y"),
                Wait("h"),
                Drop("y"),
                Drop("x"),
            ),
        },
        reaches=("no call waits for itself",),
    ),
    Program(
        "a creation that waits for its own object",
        {
            "A": (
                Remote("x", "B", (), (Get("g", "x"), Wait("g"))),
                Say("B", ("x",), (Keep("x"),)),
                Drop("x"),
            ),
            "B": (),
        },
        reaches=("no call waits for itself",),
    ),
    Program(
        "a method that waits for what it makes",
        {
            "A": (
                Remote("x", "B"),
                Method(
                    "m", "x", ("x",), (Remote("y", "B", method_of="x"), Get("g", "y"), Wait("g"))
                ),
                Drop("x"),
            ),
            "B": (),
        },
        reaches=("no call waits for itself",),
    ),
)
