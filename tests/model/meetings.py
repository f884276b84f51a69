"""The programs of `meeting`, each as small as its purpose allows."""

from __future__ import annotations

from dataclasses import replace

from farref.protocol.rendezvous.limits import RoundLimits

from .meeting import Meeting

JOIN = ("join",)
TWICE = ("join", "join")

_BOTH = (
    Meeting("two meet", (JOIN, JOIN), RoundLimits(2, 2), reaches=("no round is formed",)),
    Meeting(
        "newcomers come in the order that they ask for",
        (JOIN, JOIN, JOIN),
        RoundLimits(3, 3),
        names=("n10", "n9", "n1"),
        orders=(None, None, 5),
        reaches=("no round is formed",),
    ),
    Meeting(
        "one may come",
        (JOIN, JOIN),
        RoundLimits(1, 2),
        ticks=2,
        reaches=("no round is formed by fewer than may come",),
    ),
    Meeting(
        "one comes late, and they meet again",
        (TWICE, TWICE, JOIN),
        RoundLimits(2, 3),
        ticks=3,
        reaches=("no group grows", "nobody waits", "nobody joins again"),
    ),
    Meeting(
        "one dies while they meet",
        (JOIN, JOIN, JOIN),
        RoundLimits(2, 3),
        ticks=5,
        deaths=1,
        reaches=("no last call is called off", "no last call is repeated"),
    ),
    Meeting(
        "one dies, and they meet again",
        (TWICE, TWICE, JOIN),
        RoundLimits(2, 3),
        ticks=4,
        deaths=1,
        reaches=("no group shrinks", "rank 0 never changes", "no member is lost"),
    ),
    Meeting(
        "a spare steps in",
        (TWICE, TWICE, JOIN),
        RoundLimits(1, 2),
        ticks=3,
        deaths=1,
        reaches=("nobody is spare", "no spare steps in"),
    ),
    Meeting(
        "one leaves",
        (("join", "leave", "join"), TWICE, JOIN),
        RoundLimits(1, 2),
        ticks=3,
        reaches=("nobody is spare", "no spare steps in"),
    ),
    Meeting(
        "the run is closed",
        (("join", "close"), TWICE, JOIN),
        RoundLimits(1, 2),
        ticks=2,
        reaches=(
            "nobody gets a RendezvousClosedError",
            "nobody gets a RendezvousGracefulExitError",
        ),
    ),
    Meeting(
        "the run is closed while they meet",
        (JOIN, JOIN, ("close",)),
        RoundLimits(1, 3),
        ticks=2,
        reaches=("nobody gets a RendezvousClosedError",),
    ),
    Meeting(
        "the run is closed, and its id is used again",
        (("join", "close", "leave"), JOIN),
        RoundLimits(1, 2),
        ticks=2,
        reaches=("no run ends",),
    ),
    Meeting(
        "the run is closed, all leave, and its id is used again",
        (("join", "close", "leave"), ("join", "leave"), JOIN),
        RoundLimits(1, 2),
        ticks=3,
        deaths=1,
        slow=True,
        reaches=("no run ends",),
    ),
    Meeting(
        "too few come",
        (JOIN, JOIN),
        RoundLimits(3, 4),
        ticks=4,
        join=2,
        deaths=1,
        reaches=("nobody gets a RendezvousTimeoutError",),
    ),
)

_SHARED = (
    Meeting(
        "what was stored is not told",
        (TWICE, TWICE),
        RoundLimits(2, 2),
        ticks=2,
        unsure=2,
        reaches=("no second round is formed",),
    ),
    Meeting(
        "clocks that differ",
        (TWICE, TWICE),
        RoundLimits(1, 2),
        ticks=2,
        fair=False,
        reaches=("nobody gets a RendezvousStateError",),
    ),
    Meeting(
        "clocks that differ, and a third node",
        (JOIN, JOIN, JOIN),
        RoundLimits(2, 3),
        ticks=1,
        fair=False,
        slow=True,
    ),
    Meeting(
        "clocks that differ, for longer",
        (TWICE, TWICE),
        RoundLimits(1, 2),
        ticks=4,
        fair=False,
        slow=True,
    ),
    Meeting(
        "one of two dies, and the other goes on",
        (TWICE, TWICE),
        RoundLimits(1, 2),
        ticks=4,
        deaths=1,
        reaches=("no group shrinks", "rank 0 never changes", "no member is lost"),
    ),
)


def _served(program: Meeting) -> Meeting:
    return replace(program, name=f"{program.name} [service]", shell="service")


def _shared(program: Meeting) -> Meeting:
    """*program* with fewer seconds: the observers' different views make many more states."""
    few = max(program.ticks - 1, 0) if len(program.scripts) < 3 else program.ticks // 2
    slow = program.slow or (program.deaths > 0 and len(program.scripts) > 2)
    return replace(program, ticks=few, slow=slow, reaches=())


MEETINGS = (*map(_shared, _BOTH), *_SHARED, *map(_served, _BOTH))
