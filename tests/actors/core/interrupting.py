"""Running a signal handler, or a finalizer, at every place where Python could run it.

Python checks for signals when a function begins, after a call, and when a loop goes back. So these
places are counted over one run of the code. The code then runs once for each place, and the signal
is sent there, until the code ends before its place comes.
"""

from __future__ import annotations

import dis
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any

LOOKS = ("RESUME", "CALL", "JUMP_BACKWARD")
"""The beginnings of the names of instructions after which Python checks for signals."""


class Interrupt(BaseException):
    """The exception that the handler raises."""


def _interrupt(*_: object) -> None:
    raise Interrupt


def is_free(lock: Any) -> bool:
    """Whether another thread can take *lock*: soon, as one that uses it may have it just now."""
    taken: list[bool] = []

    def take() -> None:
        taken.append(lock.acquire(timeout=10))
        if taken[0]:
            lock.release()

    other = threading.Thread(target=take)
    other.start()
    other.join()
    return taken[0]


def _places(code: CodeType) -> dict[int, int]:
    """The instruction after each place in *code*, and the one before it.

    Only places where both have the same exception handlers.
    """
    table = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]  # has it

    def catches(offset: int) -> Any:
        return [each for each in table if each.start <= offset < each.end][-1:]

    return {
        each.offset: before.offset
        for before, each in pairwise(dis.get_instructions(code))
        if before.opname.startswith(LOOKS) and catches(before.offset) == catches(each.offset)
    }


class Interrupting:
    """Runs code, and interrupts it at the place with a given number."""

    def __init__(self, *files: str, handler: Callable[..., None] = _interrupt) -> None:
        """Count only places in the code of *files*, given by the ends of their paths."""
        self._files, self._handler = files, handler
        self._places: dict[CodeType, dict[int, int]] = {}
        self._left = 0
        self._strike: Callable[[], object] = partial(signal.raise_signal, signal.SIGINT)

    def at_every_place(self, code: Callable[[], object], step: int = 1) -> Iterator[int]:
        """Run *code* again and again; yields the number of each place once it was interrupted.

        Only every *step*-th place is tried.
        """
        number = 0
        while self.at_place(code, number):
            yield number
            number += step

    def at_place(self, code: Callable[[], object], number: int) -> bool:
        """Run *code*, and interrupt it at the place *number*. False if it has no such place."""
        before = signal.signal(signal.SIGINT, self._handler)
        assert before is not self._handler, "it was left behind"
        try:
            self._run(code, number)
        except Interrupt:
            pass
        finally:
            signal.signal(signal.SIGINT, before)
        return self._left < 0

    def _run(self, code: Callable[[], object], number: int) -> None:
        self._left = number
        # When the trace is set, Python 3.12 checks whether any frame wants its instructions.
        sys._getframe().f_trace_opcodes = True
        try:
            sys.settrace(self._begin)
            code()
        finally:
            sys.settrace(None)

    def _begin(self, frame: FrameType, _event: str, _arg: object) -> Any:
        code = frame.f_code
        if code not in self._places:
            counts = code.co_filename.endswith(self._files)
            self._places[code] = _places(code) if counts else {}
        places = self._places[code]
        if not places:
            return None
        last = -1

        def look(frame: FrameType, event: str, _arg: object) -> Any:
            nonlocal last
            if event == "opcode":
                if places.get(frame.f_lasti) == last:
                    self._left -= 1
                    if self._left == -1:
                        self._strike()
                last = frame.f_lasti
            return look

        # In this order: Python 3.13 checks for a trace when instructions are asked for.
        frame.f_trace = look
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return look


class Finalizing(Interrupting):
    """Runs code in any thread, and at the place with a given number a finalizer of the user's."""

    def at_place(
        self, code: Callable[[], object], number: int, finalizer: Callable[[], object] = bool
    ) -> bool:
        """Run *code*, and *finalizer* in the midst of it. False if there is no such place."""
        self._strike = finalizer
        try:
            self._run(code, number)
        finally:
            self._strike = bool
        return self._left < 0
