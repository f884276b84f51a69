"""The endpoint that the running code belongs to, and the objects that wait for it.

`remote`, `rpc_sync`, `RRef(value)` and similar calls use the endpoint of their caller: an actor's,
a worker function's, or else the innermost system that the program entered.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, NoReturn

import msgspec

from ...protocol.errors import SystemDownError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...protocol.ids import CallId, RRefId
    from .core import Core


class CurrentRun(msgspec.Struct, frozen=True):
    """The request that the current code runs for: *call* of *name*, on the last of *chain*."""

    call: CallId
    name: str
    chain: tuple[RRefId, ...]
    by: int
    """Identity of the thread, or of the asyncio task, that ends when the request has run."""

    def __str__(self) -> str:
        return f"{self.name}() of {self.chain[-1]}" if self.chain else f"{self.name}()"


class Frame(msgspec.Struct, frozen=True):
    """The endpoint that runs the current code, and the chain of objects that wait for it."""

    core: Core
    chain: tuple[RRefId, ...] = ()
    run: CurrentRun | None = None


_frame: ContextVar[Frame | None] = ContextVar("farref frame", default=None)
_programs: list[tuple[int, Core]] = []
"""Systems that this program entered, innermost last, each with the pid that entered it."""


@contextmanager
def running_in(
    core: Core, chain: tuple[RRefId, ...] = (), run: CurrentRun | None = None
) -> Iterator[None]:
    """Code inside belongs to *core*, and runs for the request *run*.

    A process that is forked inside does not leave the block: it ends there.
    """
    token = _frame.set(Frame(core, chain, run))
    try:
        yield
    finally:
        if os.getpid() == core.pid:
            _frame.reset(token)
        elif not isinstance(sys.exc_info()[1], GeneratorExit):
            _end_child(core)  # else the child only collects a function of its parent's that waited


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
    """Make *core* the endpoint of this program's code outside any actor.

    If *core* is entered already, it becomes the innermost. It stays entered all the time, as other
    threads run meanwhile.
    """
    entry = (os.getpid(), core)
    _programs.append(entry)
    while _programs.count(entry) > 1:
        _programs.remove(entry)  # the outer one


def leave_program(core: Core) -> None:
    """Undo `enter_program`."""
    for each in _programs.copy():
        if each[1] is core:
            with suppress(ValueError):  # another thread was faster
                _programs.remove(each)


def frame() -> Frame:
    """The endpoint and the chain of the running code.

    Raises:
        SystemDownError: the code is in no system: none was started, or it has ended.
    """
    found = _frame.get()
    if found is not None:
        found.core.check_process()
        return found
    pid = os.getpid()
    for owner, core in reversed(_programs.copy()):  # other threads enter and leave
        if owner == pid:
            return Frame(core)
    raise SystemDownError(
        "this code runs in no farref system; start one with `with farref.System() as system:`"
    )


def chain_in(core: Core) -> tuple[RRefId, ...]:
    """The objects that wait for the running code, if that code belongs to *core*."""
    found = _frame.get()
    return found.chain if found is not None and found.core is core else ()


def run_in(core: Core, by: int) -> CurrentRun | None:
    """The request of the running code, if the thread or task *by* ends with it."""
    found = _frame.get()
    if found is None or found.run is None or found.core is not core:
        return None
    return found.run if found.run.by == by else None
