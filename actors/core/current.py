"""The endpoint that the running code belongs to, and the objects that wait for it."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from contextvars import ContextVar, Token
from multiprocessing import parent_process
from typing import NoReturn

import msgspec

from ...protocol.errors import SystemDownError
from ...protocol.ids import CallId
from ...protocol.messages import Busy
from ..base import forks
from .core import Core


class CurrentRun(msgspec.Struct, frozen=True, gc=False):
    """The request that the current code runs for: *call* of *name*, on the last of *chain*."""

    call: CallId
    name: str
    chain: tuple[Busy, ...]
    by: int
    """Identity of the thread, or of the asyncio task, that ends when the request has run."""

    def __str__(self) -> str:
        return f"{self.name}() of {self.chain[-1].rref}" if self.chain else f"{self.name}()"


class Frame(msgspec.Struct, frozen=True):
    """The endpoint that runs the current code, and the chain of objects that wait for it."""

    core: Core
    chain: tuple[Busy, ...] = ()
    run: CurrentRun | None = None


_frame: ContextVar[Frame | None] = ContextVar("farref frame", default=None)
found = _frame.get
"""Returns the `Frame` of the running code; None for code of the program's own."""
enter = _frame.set
"""The code that follows runs in a `Frame`, until `leave` with the token that this returns."""
_programs: list[Frame] = []
"""The systems that this program entered, innermost last. A forked child has entered none."""
os.register_at_fork(after_in_child=_programs.clear)


class running_in:  # noqa: N801 - a context manager, short: each call enters one
    """Code inside belongs to *core*, and runs for the request *run*; see `leave`."""

    __slots__ = ("_frame", "_token")

    def __init__(
        self, core: Core, chain: tuple[Busy, ...] = (), run: CurrentRun | None = None
    ) -> None:
        self._frame = Frame(core, chain, run)

    def __enter__(self) -> None:
        self._token = enter(self._frame)

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        core = self._frame.core
        if forks.pid == core.pid or not isinstance(error, GeneratorExit):
            leave(core, self._token)  # else the child only collects a function that waited


def leave(core: Core, token: Token[Frame | None]) -> None:
    """Leave a frame of *core*. A process that was forked within the frame ends here."""
    if forks.pid == core.pid:
        _frame.reset(token)
    else:
        _end_child(core)


def _end_child(core: Core) -> NoReturn:
    """End this forked process. It would go on as its parent and read its parent's messages.

    The exit code is as if the process had come to its end or raised. No exit handler of the parent
    runs.
    """
    error, code = sys.exc_info()[1], 0
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        code = 1
    with suppress(BaseException):
        if error is not None and not isinstance(error, SystemExit):
            sys.stderr.write(f"In a process that was forked on {core.me}:\n")
            traceback.print_exception(error)
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code & 0xFF)


def enter_program(core: Core) -> None:
    """Make *core* the endpoint of this program's code outside any actor, and the innermost one.

    If *core* is entered already, it stays entered all the time, as other threads run meanwhile.
    """
    outer = [each for each in _programs if each.core is core]
    _programs.append(Frame(core))
    for each in outer:
        _programs.remove(each)


def leave_program(core: Core) -> None:
    """Undo `enter_program`."""
    for each in _programs.copy():
        if each.core is core:
            with suppress(ValueError):  # another thread was faster
                _programs.remove(each)


def frame() -> Frame:
    """The endpoint and the chain of the running code. Raises `SystemDownError` if there is none."""
    here = found()
    if here is not None:
        if forks.pid != here.core.pid:
            here.core.check_process()
        return here
    try:
        return _programs[-1]
    except IndexError:
        if parent_process() is not None:  # maybe an actor's
            raise SystemDownError(
                "this code runs in no farref system. An `__init__` that `createActor` runs is in "
                "none yet: use references in handlers, or create the actor with `farref.create`"
            ) from None
        raise SystemDownError(
            "this code runs in no farref system; start one with `with farref.System() as system:`"
        ) from None


def chain_in(core: Core) -> tuple[Busy, ...]:
    """The objects that wait for the running code, if that code belongs to *core*."""
    here = found()
    return here.chain if here is not None and here.core is core else ()


def run_in(core: Core, by: int) -> CurrentRun | None:
    """The request of the running code, if the thread or task *by* was made for it."""
    here = found()
    if here is None or here.run is None or here.core is not core:
        return None
    return here.run if here.run.by == by else None
