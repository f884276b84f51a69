"""A terminal for the sessions of threads at breakpoints, which are in other processes.

It shows one session after the other: the next one comes when this one is over, or when it has not
asked for a line for `TURN`, as its thread may wait for that of another session.

While a line is typed, Ctrl-C is a character that ends the line. Otherwise it would be a signal, and
interrupt the main thread of the program, which probably waits for the function that is debugged.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import select
import sys
import termios
import threading
import time
from collections.abc import Iterator
from typing import TypeAlias

from ...printable import printable
from ...protocol.ids import WorkerId
from ..core.core import Core, Internal
from ..wire.messages import Prompt, Typed

Key: TypeAlias = tuple[WorkerId, int]

TURN = 1.0
"""Seconds for which a session keeps the terminal while its thread runs."""
LOOK = 0.1
"""Seconds between two looks whether a session goes on, while a line is typed."""
LFLAG, CC = 3, 6
"""The places of the local modes and of the special characters in a terminal's attributes."""


class Terminal(Internal):
    """The terminal of one endpoint: a program's, or that of ``farref debug``."""

    def __init__(self, core: Core, *, alone: bool = False, wanted: str | None = None) -> None:
        """*alone*: no other code reads the terminal. *wanted*: only sessions of that endpoint."""
        self._core = core
        self.alone = alone
        self.wanted = wanted
        self._reads = 0
        self._writes = 1 if alone or os.isatty(1) else 2
        self._came: queue.SimpleQueue[Prompt | None] = queue.SimpleQueue()
        self._open: set[Key] = set()
        """The sessions that are not over."""
        self._asked: dict[Key, Prompt] = {}
        """The prompts of sessions that wait for a line."""
        self._current: Key | None = None
        self._since = 0.0
        self._typed = bytearray()
        self._interrupt = b""
        """The character of Ctrl-C, while it is no signal."""
        self._ended = False
        """The input has ended."""
        self._starting = threading.Lock()
        self._runs = alone
        core.closing.append(lambda: self._came.put(None))

    def take(self, prompt: Prompt) -> None:
        """Have *prompt* shown. In the mailbox thread."""
        with self._starting:
            self._came.put(prompt)
            if self._runs:
                return
            self._runs = True
        self._core.threads.start(self.serve, "farref debugger")

    def serve(self) -> None:
        """Show the sessions, until all are over; if *alone*, until the system or the input ends."""
        while not self._core.closed:
            key = self._turn()
            if key is not None:
                self._show(key)
                continue
            with self._starting:
                if not self.alone and not self._open and self._came.empty():
                    self._runs = False
                    return
            if self._current is None and not os.isatty(self._reads):
                self._read_on(0)
                if self._ended and not self._typed:
                    return
            self._collect(TURN)

    def _turn(self) -> Key | None:
        """The session that has the terminal next, and waits for a line."""
        if self._current in self._asked:
            return self._current
        if self._current is not None and time.monotonic() < self._since + TURN:
            return None
        return next(iter(self._asked), None)

    def _collect(self, seconds: float = 0.0) -> None:
        """Take the messages that have come; wait for the first one for *seconds* at most."""
        with contextlib.suppress(queue.Empty):
            prompt = self._came.get(timeout=seconds) if seconds else self._came.get_nowait()
            while prompt is not None:
                key = prompt.of, prompt.session
                if not (prompt.over or prompt.moved):
                    self._open.add(key)
                    self._asked[key] = prompt
                elif key in self._open:
                    self._open.discard(key)
                    self._asked.pop(key, None)
                    if key == self._current:
                        self._current = None
                        self._write(prompt.text or "")
                prompt = self._came.get_nowait()

    def _show(self, key: Key) -> None:
        prompt = self._asked[key]
        if not self._is_ours(prompt):
            return
        del self._asked[key]
        if key != self._current:
            self._write(f"farref: {prompt.of.name} stands at a breakpoint, {prompt.place}\n")
        self._current = key
        self._write(prompt.text or "")
        try:
            with self._keyboard():
                line = self._line(key)
            if line is None:
                return
            typed = Typed(prompt.token, line.decode(errors="replace"))
        except KeyboardInterrupt:
            self._write("\n")
            typed = Typed(prompt.token, interrupted=True)
        self._core.port.post(prompt.asker, typed)
        self._since = time.monotonic()

    def _is_ours(self, prompt: Prompt) -> bool:
        """Wait until no other code reads the terminal. False if the session is over before."""
        key, told = (prompt.of, prompt.session), False
        while not self.alone and not _free(self._reads):
            if not told:
                self._write(
                    f"farref: {prompt.of.name} stands at a breakpoint, {prompt.place}; wait here "
                    f"for its answer, or run `farref debug {prompt.of.name}` in another terminal\n"
                )
                told = True
            time.sleep(LOOK)
            self._collect()
            if self._core.closed or self._asked.get(key) is not prompt:
                return False
        return True

    def _line(self, key: Key) -> bytes | None:
        """The next line that is typed, with its end. None if the session is over before."""
        while not self._core.closed:
            line, end, rest = self._typed.partition(b"\n")
            if end or self._ended:
                self._typed = rest
                self._ended = self._ended and not os.isatty(self._reads)
                return bytes(line + end)
            self._read_on(LOOK)
            self._collect()
            if key not in self._open:
                self._write("\n")
                return None
        return None

    def _read_on(self, seconds: float) -> None:
        """Read what is typed; wait for it for *seconds* at most."""
        if select.select([self._reads], [], [], seconds)[0]:
            more = os.read(self._reads, 4096)
            self._ended = not more
            if self._interrupt and more.endswith(self._interrupt):
                self._typed.clear()
                raise KeyboardInterrupt
            self._typed += more

    @contextlib.contextmanager
    def _keyboard(self) -> Iterator[None]:
        """Ctrl-C ends a line meanwhile, and is no signal."""
        if not os.isatty(self._reads):
            yield
            return
        before = termios.tcgetattr(self._reads)
        ours = [*before[:CC], [*before[CC]]]
        ours[LFLAG] |= termios.ICANON | termios.ECHO | termios.ISIG
        ours[CC][termios.VEOL] = self._interrupt = ours[CC][termios.VINTR]
        ours[CC][termios.VINTR] = bytes([os.fpathconf(self._reads, "PC_VDISABLE")])

        def restore() -> None:
            termios.tcsetattr(self._reads, termios.TCSADRAIN, before)

        atexit.register(restore)
        try:
            termios.tcsetattr(self._reads, termios.TCSADRAIN, ours)
            yield
        finally:
            restore()
            atexit.unregister(restore)

    def _write(self, text: str) -> None:
        said = printable(text, lines=True).encode(errors="replace")
        with contextlib.suppress(OSError):  # nobody reads it any more
            while said:
                said = said[os.write(self._writes, said) :]


def _free(terminal: int) -> bool:
    """Whether this program may read *terminal*: it is in the foreground, and does not read itself.

    An interactive interpreter reads whenever its main thread is not in a call of farref's.
    """
    try:
        if os.tcgetpgrp(terminal) != os.getpgrp():
            return False
    except OSError:  # it is not the controlling terminal
        return False
    if not hasattr(sys, "ps1"):
        return True
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(f"{__name__.partition('.')[0]}."):
            return True
        frame = frame.f_back
    return False
