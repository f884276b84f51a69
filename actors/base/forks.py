"""The id of this process, without a system call.

A step, a wait and a handle's end check whether a fork has copied them into another process.  Four
times in a call, `os.getpid` would take as long as the whole check of the message.
"""

from __future__ import annotations

import os

pid = os.getpid()


def _note() -> None:
    global pid  # noqa: PLW0603 - it is the process's
    pid = os.getpid()


os.register_at_fork(after_in_child=_note)
