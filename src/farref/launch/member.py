"""The process of another node than the first: one more host of the program's system.

Run by the agent: ``python -m farref.launch.member JSON DESCRIPTOR``. An error goes to the agent by
this descriptor: maybe nobody should see it, as the program has ended and its exit code says more.
"""

from __future__ import annotations

import json
import signal
import sys

from ..actors.api.system import System
from ..actors.hosting import launched
from ..protocol.errors import FarrefError
from .errors import FAILED
from .joining import tell
from .options import SIGNALS


def main() -> int:
    """Join, and take part until the system ends. Returns the exit code."""
    how, report = json.loads(sys.argv[1]), int(sys.argv[2])
    path = how.pop("path")
    # The modules beside the program can be imported here, too, if the nodes share its folder.
    sys.path += [folder for folder in path if folder not in sys.path]
    for number in SIGNALS:  # they then end our workers in order, and tell the system
        signal.signal(number, _leave)
    try:
        with System.join(how.pop("first"), key=launched.key(), **how) as system:
            system.serve()
    except FarrefError as error:
        tell(report, error)
        return FAILED
    return 0


def _leave(*_: object) -> None:
    """A handler of signals, also in processes that are forked before they have their own."""
    sys.exit()


if __name__ == "__main__":
    sys.exit(main())
