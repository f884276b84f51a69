"""Methods that wait for each other along different chains: one of the ring is refused.

Unlike in the machines' assumptions, messages of a pair arrive in order here. Other programs explore
the other orders of messages that have nothing to do with rings.
"""

from ..script import Drop, Get, Method, Own, Remote, Script, Wait
from ..world import Program

BROKEN = "no ring is broken"
LEFT = "each second lap begins in a ring that is there"
CALLS_BACK = Method("k", "y", ("x",), (Method("j", "x"), Wait("j")))
"""A method of y that calls x, and waits."""


def _ring(
    name: str,
    *scripts: Script,
    mortal: tuple[str, ...] = (),
    reaches: tuple[str, ...] = (),
    slow: bool = False,
) -> Program:
    return Program(
        name,
        dict(zip("AB", scripts, strict=False)),
        mortal=mortal,
        victims=1,
        ordered=True,
        reaches=(BROKEN, *reaches),
        slow=slow,
    )


def _meeting(second: Script, *waits: Wait | Own | Drop) -> Script:
    """A method of x that calls y and *waits* as it does, while one of y calls x."""
    return (
        Own("x"),
        *second,
        Method("m", "x", ("y",), (Method("n", "y"), *waits)),
        CALLS_BACK,
        Wait("m"),
        Wait("k"),
        Drop("x"),
        Drop("y"),
    )


RINGS = (
    _ring("two methods that call each other", _meeting((Own("y"),), Wait("n"))),
    _ring(
        "two methods that call each other's objects",
        _meeting((Remote("y", "B"),), Wait("n")),
        (),
        reaches=("no probe begins anew", "no probe ends where nobody waits"),
    ),
    _ring(
        "two methods that call each other's objects, and one owner dies",
        _meeting((Remote("y", "B"),), Wait("n")),
        (),
        mortal=("B",),
    ),
    _ring(
        "two methods that call each other, and one gives up",
        _meeting((Own("y"),), Wait("n", patient=False)),
        reaches=(LEFT,),
    ),
    _ring(
        "two methods that call each other, and one gives up and waits again",
        _meeting((Own("y"),), Wait("n", patient=False), Own("z"), Drop("z"), Wait("n")),
        reaches=(LEFT, "no second lap meets other waits"),
    ),
    _ring(
        "three methods that call each other",
        (
            *(Own("x"), Own("y"), Own("z")),
            Method("m", "x", ("y",), (Method("n", "y"), Wait("n"))),
            Method("k", "y", ("z",), (Method("j", "z"), Wait("j"))),
            Method("l", "z", ("x",), (Method("i", "x"), Wait("i"))),
            *(Wait("m"), Wait("k"), Wait("l"), Drop("x"), Drop("y"), Drop("z")),
        ),
        slow=True,
    ),
    _ring(
        "a method that waits for what is made by a method of what it makes",
        (
            Own("x"),
            Method(
                "m",
                "x",
                ("x",),
                (
                    Remote("y", "A", method_of="x"),
                    Remote("z", "A", method_of="y"),
                    Get("g", "z"),
                    Wait("g"),
                ),
            ),
            Wait("m"),
            Drop("x"),
        ),
    ),
    _ring(
        "a function that waits for a method that waits for what the function makes",
        (
            Own("x"),
            Remote("y", "A", ("x",), (Method("n", "x"), Wait("n"))),
            Method("m", "x", ("y",), (Get("g", "y"), Wait("g"))),
            *(Wait("m"), Drop("x"), Drop("y")),
        ),
    ),
    _ring(
        "the same, by way of an alias",
        (
            Own("x"),
            Remote("y", "A", ("x",), (Method("n", "x"), Wait("n"))),
            Remote("h", "A", ("y",), alias="y"),
            Method("m", "x", ("h",), (Get("g", "h"), Wait("g"))),
            *(Wait("m"), Drop("x"), Drop("y"), Drop("h")),
        ),
    ),
    _ring(
        "two methods that call each other, one by way of an alias",
        (
            *(Own("x"), Own("y")),
            Remote("h", "A", ("y",), alias="y"),
            Method("m", "x", ("h",), (Method("n", "h"), Wait("n"))),
            CALLS_BACK,
            *(Wait("m"), Wait("k"), Drop("x"), Drop("y"), Drop("h")),
        ),
    ),
)
