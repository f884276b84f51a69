"""`print` in an actor's process that was forked from a notebook.

Jupyter puts an object of its own in the place of `sys.stdout`. It sends the text to the notebook
from a thread, which a forked process does not have: the text would be lost. The process's standard
output itself comes from the kernel, and all that is written there appears in the notebook.
"""

from __future__ import annotations

import io
import os
import sys


def adopt() -> None:
    """Let `print` write to this process's standard output, if it would write to no file."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None or isinstance(stream, io.TextIOWrapper):
            continue
        try:
            file = os.fdopen(number, "w", buffering=1, encoding="utf-8", closefd=False)
        except OSError:  # it is closed
            continue
        setattr(sys, name, file)
