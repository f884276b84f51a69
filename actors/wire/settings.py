"""The settings that a system's endpoints share. The program that starts the system makes them."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

import msgspec

from ...protocol.sharing import Sharing
from .faults import Faults

CycleMode = Literal["collect", "report", "off"]
"""What a system does about objects that only hold each other."""
DEFAULT_TIMEOUT = 60.0
"""The most seconds that a wait takes unless it names another limit (G6)."""

THREADS = 16
"""The most functions that one endpoint runs at once unless it names another number."""

LONGEST = 1e9
"""The most seconds of a wait; the operating system's waits overflow somewhere beyond. (30 years are
for ever.)"""


class Settings(msgspec.Struct, frozen=True):
    """Sent to every endpoint when it joins."""

    system: str = "farref"
    sharing: Sharing = "lend"
    """The discipline of references in calls."""
    timeout: float = DEFAULT_TIMEOUT
    """The default timeout in seconds; see `DEFAULT_TIMEOUT`."""
    orphan_grace: float = 5.0
    """The least seconds between the notice of a death and the release of the dead one's holds."""
    silence: float | None = 5.0
    """Seconds of a cut that are survived (see `failure_detector`). None: silence is no proof."""
    cycles: CycleMode = "collect"
    """Whether endpoints search for objects that only hold each other."""
    trace: str | None = None
    """Folder in which every endpoint records its steps, or None."""
    sites: bool = False
    """Whether creations record their place in the program."""
    telemetry: bytes | None = None
    """If there are to be spans (see `telemetry`): the pickled function that prepares each process
    for them, or no bytes."""
    faults: Faults | None = None
    """Deliberate faults of the packets, in tests."""
    registry: str = ""
    """The store from which any host may become the registrar; empty: only the first is it."""


_as_in_torch = False


def timeouts_as_in_torch(on: bool) -> None:
    """Whether, in this process, 0 is no limit and -1 is the default, as for PyTorch's RPC."""
    global _as_in_torch  # noqa: PLW0603 - a matter of the whole process
    _as_in_torch = on


def check_timeout(
    timeout: float | timedelta | None, default: float, *, poll: bool = False
) -> float:
    """*timeout*, in seconds or as a `timedelta`, as seconds; *default* for None.

    Raises:
        ValueError: *timeout* is not a number above 0 (with *poll* 0 is allowed too).
    """
    if timeout is None:
        return default
    if isinstance(timeout, timedelta):
        timeout = timeout.total_seconds()
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"a timeout must be a number of seconds or None, not {timeout!r}")
    if not timeout >= 0 or (timeout == 0 and not poll):
        if _as_in_torch and timeout in (0, -1):
            return LONGEST if timeout == 0 else default
        raise ValueError(
            f"a timeout must be more than 0 seconds, not {timeout}; None means {default:g}, and "
            "math.inf no limit"
        )
    return min(float(timeout), LONGEST)
