"""What a system's endpoints agree on. The program that starts the system sets it."""

from __future__ import annotations

from dataclasses import dataclass

from ...protocol.sharing import Sharing
from .faults import Faults

DEFAULT_TIMEOUT = 60.0
"""Seconds that a wait takes at most unless it says otherwise (G6)."""

THREADS = 16
"""Functions that one endpoint runs at once unless it says otherwise."""

LONGEST = 1e9
"""Seconds; the operating system's waits overflow somewhere beyond (30 years are for ever)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Carried to every endpoint when it joins."""

    system: str = "farref"
    sharing: Sharing = "lend"
    """The discipline of references in calls."""
    timeout: float = DEFAULT_TIMEOUT
    """Seconds; see `DEFAULT_TIMEOUT`."""
    orphan_grace: float = 5.0
    """Seconds between the notice of a death and the release of what the dead held."""
    silence: float | None = 5.0
    """Seconds after which an endpoint that says nothing is given up for dead; None: never."""
    trace: str | None = None
    """Folder in which every endpoint records its steps, or None."""
    sites: bool = False
    """Whether creations note where in the program they were made."""
    telemetry: bytes | None = None
    """If there are to be spans (see `telemetry`): the function that prepares each process for
    them, pickled, or nothing."""
    faults: Faults | None = None
    """What goes wrong on purpose with the packets, in tests."""


def check_timeout(timeout: float | None, default: float, *, poll: bool = False) -> float:
    """*timeout* in seconds, or *default* for None.

    Raises:
        ValueError: it is not a number above 0 (or, where polling makes sense, 0).
    """
    if timeout is None:
        return default
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"a timeout is a number of seconds or None, not {timeout!r}")
    if not timeout >= 0 or (timeout == 0 and not poll):
        raise ValueError(
            f"a timeout must be more than 0 seconds, not {timeout}; None means {default}"
        )
    return min(float(timeout), LONGEST)
