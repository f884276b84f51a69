"""Cancelling the calls of others: what a `Cancel` does to a call that has reached the shell.

From its `Run` to its answer a call is in these states:

===========  ==================================  =================================================
state        what the call does                  what a cancel does
===========  ==================================  =================================================
unstarted    it waits for a thread               the call is answered at once, and never starts
opening      its message is unpickled            its function is not called
running      a plain function runs               it is refused; or `CancelledError` is raised there
with an end  its coroutine runs, or it awaits a  the end is called: it cancels the coroutine, or
             future or its arguments             answers the call
===========  ==================================  =================================================

A thread takes a call from one state to the next without the lock, so a cancel may come in between.
It is noted in `revoked`, and each state begins with a look there. So a function that runs with its
cancel refused, and returns a coroutine or a future, is cancelled after all.

**Interrupting.** Python can raise an exception in another thread, at that thread's next bytecode.
It must strike the function, and no code of the library, nor the next request in the thread. So
`_strike` looks at the frames of the thread: the innermost one of `Server._go` must be that of this
call, at the instruction that calls the function, and the frames above it must be the user's. Then
it looks once more and raises, in one go of C code, in which no other thread runs. The exception
comes up in the user's code, at the latest at the first instruction of a function that C code calls.
If that is a finalizer, Python ignores the exception, and it is raised once more. `Server._go`
catches it if the function has ended before. A function that waits in the library is not struck: its
wait ends with an error, and the call that it waits for is cancelled too.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from functools import partial
from inspect import CO_COROUTINE
from itertools import chain, compress
from operator import attrgetter, eq
from operator import call as call_it
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

from ...protocol.effects import Refusal, Stop
from ...protocol.ids import CallId
from ...protocol.messages import Call, Invoke
from ..calls.waits import Waits
from ..core.brief import Later
from ..core.core import Core, Internal
from ..core.duties import under_lock
from ..values.cell import Cell
from ..values.wrapper import unwrapped
from .outcomes import Fail, Finish

SOON, LATER = 0.001, 0.05
"""Seconds between two attempts to interrupt a function: at first, and at most."""

KEPT_OUT = frozenset({"farref"})
KEPT_OUT_AT_TOP = KEPT_OUT | {"asyncio", "concurrent"}
"""The packages whose code is not interrupted. An event loop is, where it sleeps (`selectors`)."""

CALLS = "CALL_FUNCTION_EX"
"""The instruction of `Server._go` that calls the function. It has one of these."""


class Cancels(Internal):
    """The calls of others to one endpoint that may be cancelled."""

    def __init__(
        self, core: Core, waits: Waits, finish: Finish, fail: Fail, code: CodeType
    ) -> None:
        self._core = core
        self._waits = waits
        self._finish = finish
        self._fail = fail
        self._code = code
        """That of `Server._go`, which calls the functions."""
        core.handlers[Stop] = self._stop
        self.unstarted: dict[CallId, Call | Invoke] = {}
        """The calls that wait for a thread. The thread or a cancel takes a call out."""
        self.running: dict[CallId, tuple[int, Any] | None] = {}
        """The calls that have begun, until they are answered: the thread that runs a function, and
        the function; None if no function runs."""
        self.revoked: dict[CallId, bool] = {}
        """The calls among them that were cancelled, and whether that was refused."""
        self._ends: dict[CallId, Callable[[], object]] = {}
        self.tables: tuple[dict[CallId, Any], ...]
        self.tables = self.unstarted, self.running, self._ends, self.revoked
        """A call leaves them, in this order, when it is about to be answered."""
        self.struck: dict[CallId, bool] = {}
        """The calls in whose threads an exception was raised, or is about to be, and whether a
        finalizer got it."""
        self.raise_in: Any = None
        """C's `PyThreadState_SetAsyncExc`, from the first interrupt on: most need none."""
        self.error: type[BaseException]
        """What it raises."""

    # ---- in the thread that runs the call

    def begins_in_vain(self, call: CallId) -> bool:
        """Whether *call* was cancelled before its function was noted in `running`."""
        with self._core.lock:
            return self.revoked.get(call) is False

    def has_end(self, call: CallId, end: Callable[[], object]) -> bool:
        """From now on *end* cancels *call*. Returns false if it was cancelled before."""
        with self._core.lock:
            if call not in self.running:  # a creation
                return True
            self.running[call] = None
            if call in self.revoked:
                return False
            self._ends[call] = end
            return True

    def has_no_end(self, call: CallId) -> None:
        """The end of *call* has no effect any more."""
        self._ends.pop(call, None)

    # ---- the cancel

    @under_lock
    def _stop(self, effect: Stop, later: Later) -> None:
        core, call = self._core, effect.call
        if call.caller != effect.sender:
            return
        request = self.unstarted.pop(call, None)
        if request is not None:
            core.chores.submit(self._answer, request)
            return
        if call not in self.running:
            return  # it has been answered
        # In this order, as `Server._go` notes the function first, and then looks for a cancel.
        self.revoked.setdefault(call, False)
        function, end = self.running.get(call), self._ends.pop(call, None)
        if end is not None:
            core.chores.submit(end)
        elif effect.interrupt:
            name = f"farref interrupt {core.me}"
            later.append(partial(core.threads.start, self._interrupt, name, call))
        elif function is not None and not _is_async(function[1]):
            self.revoked[call] = True
            core.carry_out(core.context.refuse_cancel(call), later)
        if call not in self.running:  # the answer came meanwhile, without the lock
            self.revoked.pop(call, None)

    def _answer(self, request: Call | Invoke) -> None:
        error = CancelledError(Refusal.CANCELLED.value)
        self._finish(request, Cell(self._fail(error, request)))

    def _interrupt(self, call: CallId) -> None:
        """Raise `CancelledError` where the function of *call* runs, as soon as that is possible."""
        import asyncio  # noqa: PLC0415 - most processes cancel nothing
        import ctypes  # noqa: PLC0415 - as above
        import dis  # noqa: PLC0415 - as above

        raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
        raise_in.argtypes, raise_in.restype = (ctypes.c_ulong, ctypes.py_object), ctypes.c_int
        if self.raise_in is None:
            sys.unraisablehook = partial(self._ignored, sys.unraisablehook)
        self.raise_in, self.error = raise_in, asyncio.CancelledError
        (at,) = (each.offset for each in dis.get_instructions(self._code) if each.opname == CALLS)
        pause = SOON
        while call in self.running and not self._core.closed:
            function = self.running.get(call)
            if function is not None and self.struck.get(call, True):
                if self._waits.cancel(call):
                    return  # the wait raises: another exception would strike its cleanup
                self._strike(call, function[0], at)
            time.sleep(pause)
            pause = min(2 * pause, LATER)

    def _ignored(self, before: Callable[[Any], object], raised: Any) -> None:
        """Let an interrupt that struck a finalizer strike again: Python would only report it.

        Others go to the hook *before*. In the thread that was struck, without locks.
        """
        by, found = threading.get_ident(), False
        for call in list(self.struck) if raised.exc_type is self.error else ():
            if (self.running.get(call) or (0,))[0] == by:
                self.struck[call] = found = True
        if not found:
            before(raised)

    def _strike(self, call: CallId, thread: int, at: int) -> None:
        """Raise `error` in *thread*, if it runs the function of *call*.

        The function is called at the instruction *at*.
        """
        frames = self._frames_of(call, thread, at)
        if not frames:
            return
        self.struck[call] = False  # first: the thread may go on at once, and end
        # C code from here on: no other thread runs between the look and the exception.
        top = map(dict.get, map(call_it, (sys._current_frames,)), (thread,))
        below = map(attrgetter("f_back"), frames[:-1])
        now = chain(top, below, map(attrgetter("f_lasti"), frames[-1:]))
        unmoved = map(all, (map(eq, now, (*frames, at)),))
        if not list(map(self.raise_in, compress((thread,), unmoved), (self.error,))):
            self.struck.pop(call, None)

    def _frames_of(self, call: CallId, thread: int, at: int) -> list[FrameType]:
        """The frames of *thread* from its top to that of `Server._go` which is *at* the function.

        Empty if the thread does not run *call*, or is in code that is not interrupted.
        """
        frames: list[FrameType] = []
        frame = sys._current_frames().get(thread)
        while frame is not None:
            frames.append(frame)
            if frame.f_code is self._code:
                if frame.f_lasti != at:
                    break
                variables = frame.f_locals
                ours = getattr(variables.get("request"), "call", None) == call
                if type(variables) is dict:  # before Python 3.13: a copy, which holds the arguments
                    variables.clear()
                return frames if ours else []
            names = KEPT_OUT if len(frames) > 1 else KEPT_OUT_AT_TOP
            if str(frame.f_globals.get("__name__")).partition(".")[0] in names:
                break
            frame = frame.f_back
        return []


def _is_async(function: Any) -> bool:
    """Whether *function* returns a coroutine at once. Runs no code of the user's."""
    function = unwrapped(function)
    while type(function) in (partial, MethodType):
        function = function.func if type(function) is partial else function.__func__
    return type(function) is FunctionType and bool(function.__code__.co_flags & CO_COROUTINE)


def cancel_on(loop: Any, task: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(task.cancel)
