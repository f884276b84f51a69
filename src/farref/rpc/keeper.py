"""The keeper of ranks that come and leave when they like.

Such ranks have no process that must be there for as long as the others: rank 0 may come last, or
leave first. So none of them has the system. The first rank on the machine of the meeting point
starts this process, which has the system and the roster, and ends soon after the last rank has
left. Ranks that come afterwards start another one.
"""

from __future__ import annotations

import sys
from typing import Any

from .. import background
from ..actors.api.system import System
from ..actors.hosting import launched
from .meeting import Meeting
from .roster import Roster
from .world import FIRST, KEEPER, Here

LOOK = 0.05
"""Seconds between two looks whether ranks are there."""
PATIENCE = 10.0
"""Seconds in which the first rank comes."""
IDLE = 0.5
"""The keeper ends after so many seconds without ranks."""


def start(meeting: Meeting, patience: float) -> None:
    """Start the keeper of *meeting* on this machine. Blocks until ranks can attach.

    Raises:
        SystemDownError: that is not possible now, for instance as there is one.
    """
    reach = (str(meeting.host), str(meeting.port)) if meeting.is_open else ()
    what = f"the keeper of the ranks at {meeting.point}"
    background.start(what, __name__, meeting.system, *reach, patience=patience)


def main(system: str, host: str | None = None, port: str = "0") -> None:
    """Keep the ranks that meet in *system*, until they have left."""
    Here.roster = Roster(0)
    reach: dict[str, Any] = {}
    if host is not None:
        reach = {"host": host, "port": int(port), "key": launched.key()}
    with System(name=system, capabilities={FIRST: KEEPER}, program=KEEPER, **reach) as Here.keeper:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        workers = Here.keeper.workers
        background.wait_while(lambda: len(workers()) > 1, PATIENCE, IDLE, LOOK)


if __name__ == "__main__":
    main(*sys.argv[1:])
