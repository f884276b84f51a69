"""Processes of farref's own that outlive the program that starts them, and end when unused."""

from __future__ import annotations

import contextlib
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

from .actors.base.lacks import hint
from .protocol.errors import SystemDownError


def start(what: str, *command: str, patience: float) -> None:
    """Run ``python -m command...`` until it says a line, that it is ready. Blocks.

    It goes on when this program ends, and at Ctrl-C. From then on it must say nothing more.

    Raises:
        SystemDownError: it ended before, and the text says what it wrote; or it said nothing within
            *patience* seconds, and was killed.
    """
    with tempfile.TemporaryFile() as said:  # no pipe, whose reader may have ended
        try:
            process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-m", *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
            )
        except OSError as error:
            raise SystemDownError(f"cannot start {what}: {error}{hint(error)}") from error
        if process.stdout is None:
            raise AssertionError("it was asked for")
        with process.stdout as first:
            waiting = select.poll()
            waiting.register(first, select.POLLIN)
            if not waiting.poll(max(0.0, patience) * 1000):
                process.kill()  # else it might come up later, unexpected
                process.wait()
                raise SystemDownError(f"{what} did not answer in {patience:g} s")
            if first.readline():
                # It is no zombie for as long as this program lives, when it has ended.
                with contextlib.suppress(RuntimeError):  # there can be no more threads
                    threading.Thread(target=process.wait, daemon=True).start()
                return
        process.wait()
        said.seek(0)
        why = said.read().decode(errors="replace").strip()
        raise SystemDownError(f"{what} did not start: {why}")


def wait_while(used: Callable[[], bool], first: float, idle: float, look: float) -> None:
    """Wait until *used* was false for *idle* seconds; at least *first* seconds, in steps of *look*.

    Blocks.
    """
    until = time.monotonic() + max(first, idle)
    while time.monotonic() < until:
        time.sleep(look)
        if used():
            until = time.monotonic() + idle
