"""Counting the steps of Python."""

from __future__ import annotations

import gc
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from farref.actors.base import leadership, loop
from farref.actors.core import brief

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    import pytest


def one_thread_works(patched: pytest.MonkeyPatch) -> None:
    """At each end one thread does all the work of an operation, also on a busy machine.

    There a call is not brief; the thread that checks from time to time whether it must lead wakes
    more often for each call; and brief leads are neither brief nor close to each other. Processes
    that are forked later inherit this.
    """
    for module, seconds in (
        (brief, "BRIEF"),
        (leadership, "PATIENCE"),
        (leadership, "LONGEST_PATIENCE"),
        (leadership, "BRIEF_GAP"),
        (loop, "BRIEF_LEAD"),
    ):
        patched.setattr(module, seconds, 1.0)


def functions(work: Callable[[], object]) -> int:
    """The Python functions that *work* calls, without those of the collector."""
    count = 0

    def called(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    gc.disable()
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def instructions(work: Callable[[], object]) -> int:
    """The instructions of Python that *work* executes, without those of the collector."""
    count = 0
    thread = threading.get_ident()

    def executed() -> None:
        nonlocal count
        count += threading.get_ident() == thread

    gc.disable()
    try:
        with _each_instruction(executed):
            work()
    finally:
        gc.enable()
    return count


@contextmanager
def _each_instruction(executed: Callable[[], None]) -> Iterator[None]:
    """Call *executed* at each. From Python 3.13 on, a tracing function misses some of a frame's."""
    if sys.version_info >= (3, 12):
        monitoring = sys.monitoring
        tool, event = monitoring.PROFILER_ID, monitoring.events.INSTRUCTION
        monitoring.use_tool_id(tool, __name__)
        monitoring.register_callback(tool, event, lambda _code, _offset: executed())
        monitoring.set_events(tool, event)
        try:
            yield
        finally:
            monitoring.set_events(tool, monitoring.events.NO_EVENTS)
            monitoring.free_tool_id(tool)
        return

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        if event == "opcode":
            executed()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
