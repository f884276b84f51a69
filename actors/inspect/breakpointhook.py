"""`sys.breakpointhook` in an actor's process."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any

from ..core.core import Core
from .debugging import Debugging


def install(core: Core, debugging: Debugging) -> None:
    """Have `breakpoint()` open sessions in this process, which is that of an actor.

    If the program has set a hook of its own, that stays. But pytest's, which needs the program's
    terminal, does not.
    """
    chosen = sys.breakpointhook
    if chosen is sys.__breakpointhook__ or getattr(chosen, "__module__", "") == "_pytest.debugging":
        sys.breakpointhook = partial(_stop, core, debugging)


def _stop(core: Core, debugging: Debugging, *args: Any, **options: Any) -> None:
    """Stop in the caller.

    Raises `DebuggerError` if no terminal is there, and `WouldBlockError` in code that has
    interrupted a step.
    """
    if os.getpid() != core.pid or os.environ.get("PYTHONBREAKPOINT"):
        sys.__breakpointhook__(*args, **options)  # of a forked child; or what the user chose
        return
    core.check_no_step()
    from .breakpoints import stop  # noqa: PLC0415 - it loads pdb

    stop(debugging, sys._getframe(1), *args, **options)
