"""pdb in a thread of an actor, with its text and its lines elsewhere (`debugging`).

A session begins at `breakpoint()` and ends when the thread is told to continue, without breakpoints
of its own, or to quit, or when the outermost frame of the user's code is left. So pdb never stops
in the library's frames below that, which may hold locks.
"""

from __future__ import annotations

import dis
import io
import pdb
import sys
import threading
from bdb import BdbQuit
from types import FrameType
from typing import Any

from ...printable import logger
from ...protocol.errors import DebuggerError, FarrefError
from ..core.core import Internal
from .debugging import AtBreakpoint, Debugging

log = logger(__name__)

PACKAGE = __name__.partition(".")[0]
BELOW = [f"{PACKAGE}.*", "thespian.*", "asyncio*", "concurrent.*", "threading*"]
"""Modules whose functions call the user's; no session stops in them."""
_YIELD = dis.opmap["YIELD_VALUE"]
_latest = threading.local()


def stop(debugging: Debugging, frame: FrameType, *, header: str | None = None) -> None:
    """Stop in *frame*, after the call of `breakpoint()` in it. *header* is as in `pdb`.

    Raises `DebuggerError` if there is no terminal for a session.
    """
    session: Session | None = getattr(_latest, "session", None)
    if session is None or session.over:
        session = _latest.session = Session(debugging, frame)
        debugging.begin(session.stop)
    if header is not None:
        session.message(header)
    session.set_trace(frame)


class Console(io.TextIOBase):
    """What pdb writes and reads."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._texts: list[str] = []

    def write(self, text: str) -> int:
        self._texts.append(text)
        return len(text)

    def said(self) -> str:
        """What was written since the last line was read."""
        texts, self._texts = self._texts, []
        return "".join(texts)

    def readline(self, _: int | None = -1, /) -> str:  # type: ignore[override]  # typeshed has bytes
        return self._session.line(self.said())


class Session(pdb.Pdb, Internal):
    def __init__(self, debugging: Debugging, frame: FrameType) -> None:
        self._console = Console(self)
        ends: Any = {"stdin": self._console, "stdout": self._console}
        super().__init__(**ends, nosigint=True, skip=BELOW)
        self._debugging = debugging
        self._raised: FrameType | None = None
        self._spaces: list[dict[str, Any]] = []
        code = frame.f_code
        self.stop = AtBreakpoint(f"{code.co_qualname} ({code.co_filename}:{frame.f_lineno})")
        self.over = False

    def line(self, text: str) -> str:
        """Show *text*, and return the next line."""
        try:
            return self._debugging.line(self.stop, text)
        except DebuggerError:
            log.warning("the session of %s goes on, as its terminal has gone", self.stop.place)
            self.clear_all_breaks()
            return "continue\n"
        except FarrefError:  # the system ends
            return "quit\n"

    def set_trace(self, frame: FrameType | None = None, **options: Any) -> None:
        """Stop in *frame* as soon as it goes on."""
        bottom = outer = frame
        while outer is not None and not self.is_skipped_module(outer.f_globals.get("__name__", "")):
            bottom, outer = outer, outer.f_back
        super().set_trace(frame, **options)  # from here on pdb would stop in its own functions
        self.botframe = bottom
        while outer is not None:
            del outer.f_trace
            outer.f_trace_opcodes = False  # or Python 3.14 would stop there
            outer = outer.f_back

    def set_continue(self) -> None:
        """Go on until a breakpoint of the session's own. Without any it is over."""
        super().set_continue()
        if not self.breaks:
            self._end()

    def trace_dispatch(self, frame: FrameType, event: str, arg: Any) -> Any:
        if self.over:
            return None
        outermost = frame is self.botframe
        try:
            after = super().trace_dispatch(frame, event, arg)
        except BdbQuit:
            self._end()
            raise BdbQuit(f"the call was ended in the debugger, {self.stop.place}") from None
        if event == "exception" and arg[2] is not None:
            self._raised = frame
        elif event == "line":
            self._raised = None
        elif event == "return" and outermost and (self._raised is frame or not _awaits(frame)):
            self._end()
        return after

    def set_convenience_variable(self, frame: FrameType, name: str, value: Any) -> None:
        """Set a variable such as ``$_frame``, until the session is over."""
        super().set_convenience_variable(frame, name, value)  # type: ignore[misc]  # from Python 3.12 on
        self._spaces.append(frame.f_globals)

    def do_run(self, arg: str) -> None:  # noqa: ARG002 - pdb's
        """Refuse: only the program itself could start anew."""
        self.error("an actor cannot start the program anew")

    do_restart = do_run

    def _end(self) -> None:
        """The session is over. It keeps nothing alive."""
        if self.over:
            return
        self.over = True
        sys.settrace(None)
        for frame in {self.botframe, self.curframe, *(frame for frame, _ in self.stack)}:
            if frame is not None:
                del frame.f_trace
        for space in self._spaces:
            space.pop("__pdb_convenience_variables", None)
        self.clear_all_breaks()
        self.reset()
        self.botframe = self._raised = None
        _latest.session = None
        self._debugging.end(self.stop, self._console.said())


def _awaits(frame: FrameType) -> bool:
    """Whether *frame*, which is left, is of a coroutine that will go on."""
    return frame.f_code.co_code[frame.f_lasti] == _YIELD
