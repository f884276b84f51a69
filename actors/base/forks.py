"""The id of this process, without a system call.

A wait, a handle's end and a context check whether a fork has copied them into another process.
Asking the kernel each time would take as long as checking the message.

C code may fork without telling Python.  So a step of the protocol, without which nothing leaves
this process, asks the kernel itself.
"""

from __future__ import annotations

import os

pid = os.getpid()


def _note() -> None:
    global pid  # noqa: PLW0603 - it is the process's
    pid = os.getpid()


os.register_at_fork(after_in_child=_note)
