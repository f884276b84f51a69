"""Travelling references: the scenarios of the RRef note, and every race between forks."""

from ..script import Abandon, Action, Ask, Drop, Get, Keep, Own, Pickle, Remote, Say, Script, Wait
from ..world import Program

KEEP: Script = (Keep("x"),)


def _share(to: str, *body: Action) -> Say:
    return Say(to, ("x",), body)


SHARING = (
    Program(
        "note: return value",
        {"A": (Remote("x", "B"), Get("g", "x"), Drop("x")), "B": ()},
        reaches=(
            "no fetch overtakes the creation of its object",
            "no last handle goes while unconfirmed",
            "no last handle goes while a request is unanswered",
        ),
    ),
    Program(
        "note: user to owner",
        {"A": (Remote("x", "B"), _share("B", *KEEP), Drop("x")), "B": (Drop("x"),)},
        reaches=(
            "no reference comes home before its creation",
            "no last handle goes while a child is unconfirmed",
        ),
    ),
    Program(
        "note: owner to user", {"B": (Own("x"), _share("C", *KEEP), Drop("x")), "C": (Drop("x"),)}
    ),
    Program(
        "note: user to user",
        {
            "A": (Remote("x", "B"), _share("C", *KEEP), Drop("x")),
            "B": (),
            "C": (Get("g", "x"), Drop("x")),
        },
        reaches=(
            "no fork request overtakes the creation of its object",
            "nobody shares what is still being created",
            "the owner knows every fork",
        ),
    ),
    Program(
        "note: A to Y to Z, created on a user",
        {"A": (Remote("x", "B"), _share("Y", _share("Z")), Drop("x")), "B": (), "Y": (), "Z": ()},
        reaches=(
            "nobody deletes before the owner heard of its parent",
            "no delete overtakes the creation of its object",
            "every parent is known when its child is not",
            "nobody shares a reference before it is confirmed",
        ),
    ),
    Program(
        "note: A to Y to Z, the owner forks to A",
        {
            "B": (Own("x"), _share("A", _share("Y", _share("Z"))), Drop("x")),
            "A": (),
            "Y": (),
            "Z": (),
        },
        reaches=("nobody deletes before the owner heard of its parent",),
    ),
    Program(
        "a ring: C sends on to A, who sent it",
        {
            "A": (Remote("x", "B"), _share("C", _share("A", Keep("x", "y"))), Drop("x"), Drop("y")),
            "B": (),
            "C": (),
        },
        reaches=("no second fork arrives from a user while unconfirmed",),
    ),
    Program(
        "the owner shares with itself",
        {"B": (Own("x"), _share("B", Keep("x", "y")), Drop("x"), Drop("y"))},
        reaches=("the owner never shares with itself",),
    ),
    Program(
        "a user shares with itself",
        {"A": (Remote("x", "B"), _share("A"), _share("A"), Drop("x")), "B": ()},
        reaches=("a user never shares with itself",),
    ),
    Program(
        "a user shares with itself, the object is not its own",
        {"B": (Own("x"), _share("C", _share("D", _share("D")))), "C": (), "D": ()},
    ),
    Program(
        "two parents, one of them the owner",
        {"B": (Own("x"), _share("A", _share("C")), _share("C"), Drop("x")), "A": (), "C": ()},
        reaches=(
            "no second fork arrives from the owner while unconfirmed",
            "no second fork arrives from a user while confirmed",
            "the acknowledgement always comes before another confirmation",
            "no last handle goes while the acknowledgement is outstanding",
            "no delete names more than one fork",
            "nobody deletes what is on its way to him again",
        ),
    ),
    Program(
        "two parents, both users",
        {
            "A": (Remote("x", "B"), _share("D", _share("C")), _share("C"), Drop("x")),
            "B": (),
            "C": (),
            "D": (),
        },
        reaches=("no second fork arrives from a user while unconfirmed",),
    ),
    Program(
        "one message forks twice to one endpoint",
        {"A": (Remote("x", "B"), Say("C", ("x", "x")), Drop("x")), "B": (), "C": ()},
    ),
    Program(
        "dropped and received again",
        {"A": (Remote("x", "B"), _share("C"), _share("C"), Drop("x")), "B": (), "C": ()},
    ),
    Program(
        "the owner sends twice, the user drops in between",
        {"B": (Own("x"), _share("C"), _share("C"), Drop("x")), "C": ()},
        reaches=(
            "no second fork arrives from the owner while confirmed",
            "nobody deletes what is on its way to him again",
        ),
    ),
    Program(
        "home and away again",
        {
            "A": (Remote("x", "B"), _share("B", _share("A"), _share("C")), Drop("x")),
            "B": (),
            "C": (),
        },
    ),
    Program(
        "a message that cannot be pickled",
        {
            "A": (Remote("x", "B"), Pickle("x", "C"), Pickle("x", "C"), Drop("x"), Abandon()),
            "B": (Own("y"), Pickle("y", "A"), Drop("y"), Abandon()),
            "C": (),
        },
        reaches=("every fork that is pickled leaves",),
    ),
    Program(
        "a message that cannot be unpickled",
        {
            "A": (
                Remote("x", "B"),
                Say("C", ("x",), readable=False),
                Ask("c", "B", ("x",), readable=False),
                Drop("x"),
            ),
            "B": (),
            "C": (),
        },
        reaches=("every message can be unpickled",),
    ),
    Program(
        "two objects in one message",
        {
            "A": (Remote("x", "B"), Remote("y", "C"), Say("C", ("x", "y")), Drop("y"), Drop("x")),
            "B": (),
            "C": (),
        },
    ),
    Program(
        "a value that refers to another object",
        {
            "A": (Remote("x", "B"), Remote("y", "C", ("x",), returns=("x",)), Drop("x"), Drop("y")),
            "B": (),
            "C": (),
        },
        reaches=("no value holds another object",),
    ),
    Program(
        "fetching a value that refers to another object",
        {
            "B": (Own("x"), Own("y", ("x",)), Drop("x"), Say("C", ("y",), (Keep("y"),)), Drop("y")),
            "C": (Get("g", "y"), Drop("y"), Drop("inside0")),
        },
    ),
    Program(
        "a reference returned in the reply, by the owner",
        {"A": (Ask("c", "B", returns=("x",), body=(Own("x"),), then=KEEP), Drop("x")), "B": ()},
    ),
    Program(
        "a reference returned in the reply, by a user",
        {
            "B": (Own("x"), _share("C", *KEEP), Drop("x")),
            "A": (
                Ask("c", "C", body=KEEP, returns=("x",), then=KEEP),
                Wait("c"),
                Ask("d", "C", body=(Drop("x"),)),
                Drop("x"),
            ),
            "C": (),
        },
    ),
    Program(
        "lent and given back",
        {
            "A": (
                Remote("x", "B"),
                Ask("c", "C", ("x",), returns=("x",), then=(Keep("x", "y"),)),
                Drop("x"),
                Drop("y"),
            ),
            "B": (),
            "C": (),
        },
        reaches_in={"lend": ("nothing is given back",), "borrow": ("nothing is given back",)},
    ),
    Program(
        "forks of forks meet: everybody tells everybody",
        {
            "A": (Remote("x", "B"), _share("C", _share("D")), _share("D", _share("C")), Drop("x")),
            "B": (),
            "C": (),
            "D": (),
        },
        slow=True,
    ),
    Program(
        "a diamond from the owner",
        {
            "B": (Own("x"), _share("A", _share("D")), _share("C", _share("D")), Drop("x")),
            "A": (),
            "C": (),
            "D": (),
        },
    ),
    Program(
        "round to the owner and on",
        {
            "A": (Remote("x", "B"), _share("C", _share("B", _share("D"))), _share("D"), Drop("x")),
            "B": (),
            "C": (),
            "D": (),
        },
    ),
    Program(
        "lent to a callee that lends it on and fetches",
        {
            "A": (
                Remote("x", "B"),
                Ask("c", "C", ("x",), (Ask("d", "D", ("x",), (Get("g", "x"),)), Wait("d"))),
                Drop("x"),
            ),
            "B": (),
            "C": (),
            "D": (),
        },
    ),
    Program(
        "mutual lending",
        {
            "A": (
                Remote("x", "B"),
                Ask("c", "C", ("x",), (Ask("d", "A", ("x",), (Keep("x", "y"),)),)),
                Drop("x"),
                Drop("y"),
            ),
            "B": (),
            "C": (),
        },
        reaches_in={"borrow": ("no loan ends while its entry waits for an acknowledgement",)},
    ),
    Program(
        "two objects cross",
        {
            "A": (Remote("x", "B"), Say("B", ("x",)), Drop("x")),
            "B": (Own("y"), Say("A", ("y",), (Say("C", ("y",)),)), Drop("y")),
            "C": (),
        },
    ),
    Program(
        "five endpoints, five shares",
        {
            "A": (
                Remote("x", "B"),
                _share("C", _share("D", _share("E"))),
                _share("D", _share("C")),
                Drop("x"),
            ),
            "B": (),
            "C": (),
            "D": (),
            "E": (),
        },
        slow=True,
    ),
    Program(
        "everybody tells everybody, and one fetches",
        {
            "A": (
                Remote("x", "B"),
                _share("C", _share("D", Get("d", "x"))),
                _share("D", _share("C")),
                Drop("x"),
            ),
            "B": (),
            "C": (),
            "D": (),
        },
        slow=True,
    ),
    Program(
        "an own object created by a message to itself",
        {"A": (Remote("x", "A"), _share("C", _share("A")), Drop("x")), "C": ()},
    ),
)
