"""`breakpoint()` in an actor: its session of pdb is in a terminal of another process.

The thread that stands at the breakpoint runs pdb (`breakpoints`). It asks a program for each line,
by a message that takes the same way as any other, between hosts too. So nothing listens for a
debugger. The program shows the text, and has the line typed (`terminal`). First the thread asks all
endpoints who has a terminal. ``farref debug``, the latest of several, comes before a program whose
standard input is a terminal: the caller of the function, or else the one that has started the
system. It looks again every `LOOK`, so a ``farref debug`` that is started later takes over.

By the same question every endpoint learns of the session. Until it is over no call ends by its
timeout (`Future.expire`), because a person types. Nor is the endpoint silent meanwhile: only the
thread at the breakpoint waits, and other threads send the beats.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...protocol.errors import DebuggerError, FarrefError
from ...protocol.ids import WorkerId
from ..core.core import Core, Internal
from ..core.current import found
from ..core.registrar_client import RegistrarClient
from ..wire.messages import Prompt, Typed, WorkerInfo

if TYPE_CHECKING:
    from .terminal import Terminal

LOOK = 1.0
"""Seconds between two looks for a better terminal."""
PATIENCE, GLANCE = 5.0, 0.5
"""Seconds that endpoints have to tell whether they have a terminal: at first, and in a look."""
ACTOR, PROGRAM, GUEST, TERMINAL, DEBUGGER = range(5)
"""The ranks of endpoints. A `GUEST` has a terminal for its own calls only; a `PROGRAM` has none."""


class AtBreakpoint(Internal):
    """The session of a thread at a breakpoint."""

    to: WorkerInfo
    """The program whose terminal it has."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.number = 0
        self.rank = ACTOR
        """Of that program."""
        self.actors: set[WorkerId] = set()
        """Endpoints that cannot have a terminal."""


class Debugging(Internal):
    """The sessions of one endpoint's threads, and its terminal for those of others."""

    def __init__(self, core: Core, registrar_client: RegistrarClient) -> None:
        self._core = core
        self._registrar_client = registrar_client
        self._numbers = itertools.count(1)
        self.terminal: Terminal | None = None
        """Of a program that has one, from the first session on."""
        self.guest = False
        """This program has not started the system."""
        core.takers[Prompt] = self._prompted
        core.on_deaths.append(self._died)

    # ---- in the thread at the breakpoint

    def begin(self, stop: AtBreakpoint) -> None:
        """Find a terminal for *stop*, and let all endpoints know. Raises `DebuggerError`."""
        core = self._core
        stop.number = next(self._numbers)
        self._note((core.me, stop.number), stop.place)
        try:
            stop.to, stop.rank = self._best(stop, PATIENCE)
        except BaseException:
            self.end(stop)
            raise

    def line(self, stop: AtBreakpoint, text: str) -> str:
        """Show *text*, and return the line that is typed. Blocks for any time.

        Raises `KeyboardInterrupt` for Ctrl-C, `DebuggerError` if the only terminal has gone, and
        `SystemDownError`.
        """
        while True:
            with self._asked(stop, stop.to, text) as answer:
                better = None
                while better is None and not self._core.port.wait(answer, LOOK):
                    better = self._better(stop)
            if answer.done() and answer.exception(0) is None:
                typed: Typed = answer.result(0)
                if typed.interrupted:
                    raise KeyboardInterrupt
                return typed.line
            self._core.check_open()
            self._tell(stop, [stop.to], "it goes on in another terminal\n", moved=True)
            stop.to, stop.rank = better or self._best(stop, PATIENCE)

    def end(self, stop: AtBreakpoint, text: str = "") -> None:
        """Let all endpoints know that *stop* is over; its terminal shows *text*."""
        self._note((self._core.me, stop.number), None)
        with contextlib.suppress(FarrefError):  # the system ends
            self._tell(stop, self._registrar_client.workers(), text)

    def _best(self, stop: AtBreakpoint, seconds: float) -> tuple[WorkerInfo, int]:
        """The endpoint with the best terminal for *stop*, and its rank."""
        here, infos = found(), self._registrar_client.workers()
        caller = None if here is None or here.run is None else here.run.call.caller
        ranks = self._ranks(stop, infos, time.monotonic() + seconds)
        stop.actors.update(info.id for info, rank in ranks.items() if rank == ACTOR)
        fit = [
            ((max(rank, TERMINAL), info.id == caller, info.id.incarnation), info)
            for info, rank in ranks.items()
            if rank >= TERMINAL or (rank == GUEST and info.id == caller)
        ]
        if not fit:
            name = self._core.me.name
            raise DebuggerError(
                f"{name} stands at a breakpoint, {stop.place}, and no program of the system has "
                f"a terminal: run `farref debug {name}` on the first host, in a terminal of its "
                "own, before the breakpoint is reached; PYTHONBREAKPOINT=0 skips all breakpoints"
            )
        (rank, *_), info = max(fit, key=lambda each: each[0])
        return info, rank

    def _better(self, stop: AtBreakpoint) -> tuple[WorkerInfo, int] | None:
        """A better terminal for *stop* than the one that it has."""
        if stop.rank == DEBUGGER:
            return None
        try:
            found = self._best(stop, GLANCE)
        except FarrefError:  # they are all slow just now
            return None
        return found if found[1] > stop.rank else None

    def _ranks(
        self, stop: AtBreakpoint, infos: Iterable[WorkerInfo], end: float
    ) -> dict[WorkerInfo, int]:
        """The ranks of those of *infos* that may have a terminal, and answer before *end*."""
        core, me = self._core, self._core.me
        ranks: dict[WorkerInfo, int] = {}
        with contextlib.ExitStack() as asking:
            asked = {
                info: asking.enter_context(self._asked(stop, info, None))
                for info in infos
                if info.id != me and info.id not in stop.actors
            }
            for info, answer in asked.items():
                there = core.port.wait(answer, max(0.0, end - time.monotonic()))
                if there and answer.exception(0) is None:
                    ranks[info] = answer.result(0).rank
        return ranks

    def _asked(
        self, stop: AtBreakpoint, to: WorkerInfo, text: str | None
    ) -> contextlib.AbstractContextManager[concurrent.futures.Future[Any]]:
        what = {"of": self._core.me, "session": stop.number, "place": stop.place}
        return self._registrar_client.posed(Prompt, to, asker=self._core.address, text=text, **what)

    def _tell(
        self, stop: AtBreakpoint, infos: Iterable[WorkerInfo], text: str, *, moved: bool = False
    ) -> None:
        core = self._core
        what = Prompt(0, core.address, core.me, stop.number, stop.place, text, not moved, moved)
        for info in infos:
            with contextlib.suppress(Exception):  # an unreachable one is dead, or will be
                core.port.post(info.address, what)

    def _note(self, key: tuple[WorkerId, int], place: str | None) -> None:
        """Note the session *key*, at *place*, or that it is over."""
        with self._core.lock:
            others = {each: at for each, at in self._core.debugged.items() if each != key}
            self._core.debugged = others if place is None else {**others, key: place}

    # ---- in the mailbox thread

    def _prompted(self, prompt: Prompt) -> None:
        """Take the message of a thread at a breakpoint, or of one that goes on."""
        core, key = self._core, (prompt.of, prompt.session)
        self._note(key, None if prompt.over else prompt.place)
        if prompt.text is None:
            core.port.post(prompt.asker, Typed(prompt.token, rank=self._rank(prompt)))
            return
        if self.terminal is None:
            if prompt.over:
                return
            from .terminal import Terminal  # noqa: PLC0415 - few programs are asked

            self.terminal = Terminal(core)
        self.terminal.take(prompt)

    def _rank(self, prompt: Prompt) -> int:
        if self._core.actor is not None:
            return ACTOR
        if self.terminal is not None and self.terminal.alone:
            return DEBUGGER if self.terminal.wanted in {None, prompt.of.name} else PROGRAM
        return PROGRAM if not os.isatty(0) else GUEST if self.guest else TERMINAL

    def _died(self, workers: tuple[WorkerId, ...]) -> None:
        core = self._core
        for key in [each for each in core.debugged if each[0] in workers]:
            self._note(key, None)
            if self.terminal is not None and core.address is not None:
                text = f"{key[0].name} has died\n"
                self.terminal.take(Prompt(0, core.address, *key, "", text, over=True))
