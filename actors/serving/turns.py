"""Turns: an `async` method has its object's turn only while its code runs, not while it awaits.

`protocol.owner` decides the order of turns. Here the coroutine of a method is run one step at a
time, from one `await` to the next. Before a step its request takes the object's turn, after the
step it gives the turn away. So the object never runs in two threads at once: the steps run on the
endpoint's loop, plain methods run in threads, and each of them has the turn meanwhile. No thread
waits for a turn: the coroutine is suspended until then, and the loop goes on.

To asyncio the steps are one coroutine in one task. Whatever the method's coroutine yields goes to
the task unchanged, and whatever the task sends or throws goes to the coroutine. So futures of
asyncio, cancellation, `asyncio.timeout`, `asyncio.current_task` and context variables work as
usual. Tasks that a method starts itself are not part of its steps: they take no turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import types
from typing import TYPE_CHECKING, Any

from ...protocol.effects import Resume
from ..core.core import Internal

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ...protocol.ids import CallId, RRefId
    from ..core.brief import Later
    from ..core.core import Core
    from ..values.box import Box


class Turns(Internal):
    """The turns of one endpoint's requests that await."""

    def __init__(self, core: Core) -> None:
        self.core = core
        core.handlers[Resume] = self._resume
        self._waiting: dict[CallId, Callable[[], object]] = {}
        """What to do when a request that lines up gets its turn."""

    def pause(self, rref: RRefId, call: CallId) -> None:
        """*call* awaits: it gives its turn on *rref* away."""
        core = self.core
        core.step(lambda: core.context.pause(rref, call))

    def resume(self, rref: RRefId, call: CallId, go_on: Callable[[], object]) -> None:
        """*call* lines up for a turn on *rref*; then *go_on* is called, in any thread."""
        core = self.core
        self._waiting[call] = go_on
        core.step(lambda: core.context.resume(rref, call))

    def _resume(self, effect: Resume, later: Later) -> None:
        later.append(self._waiting.pop(effect.call))  # type: ignore[arg-type]  # its result is dropped


class Steps:
    """Awaits the coroutine in *box*, a method that *call* runs on *rref*, in turns.

    *call* has the turn when the first step begins, and when the last step has ended.
    """

    def __init__(self, box: Box, turns: Turns, rref: RRefId, call: CallId) -> None:
        self._box = box
        self._turns = turns
        self._rref = rref
        self._call = call

    def __await__(self) -> Generator[Any, Any, Any]:
        coroutine = self._box.take()
        error: BaseException | None = None
        try:
            while True:
                try:
                    awaited = coroutine.send(None) if error is None else coroutine.throw(error)
                except StopIteration as end:
                    return end.value
                finally:
                    error = None  # else the error's traceback would hold this frame, and so itself
                self._turns.pause(self._rref, self._call)
                try:
                    yield awaited
                except GeneratorExit:
                    raise
                except BaseException as thrown:
                    error = thrown
                error = (yield from self._line_up()) or error
        finally:
            coroutine.close()  # it has ended, unless the loop ends and drops its tasks

    def _line_up(self) -> Generator[Any, Any, BaseException | None]:
        """Wait for a turn. Returns the cancellation that came meanwhile: the method will get it."""
        loop, thread = asyncio.get_running_loop(), threading.get_ident()
        core, granted = self._turns.core, False
        waiter: asyncio.Future[None] | None = None
        thrown: BaseException | None = None

        def wake() -> None:
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

        def go_on() -> None:
            nonlocal granted
            granted = True
            if threading.get_ident() == thread:
                wake()
                return
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(wake)

        self._turns.resume(self._rref, self._call, go_on)
        while not granted and not core.closed:
            waiter = loop.create_future()
            try:
                yield from waiter
            except GeneratorExit:
                raise
            except BaseException as error:
                thrown = error
        return thrown


def method_of(awaited: Any) -> Any:
    """The coroutine of the method, if *awaited* runs one in steps; else *awaited*."""
    if type(awaited) is types.GeneratorType and awaited.gi_code is Steps.__await__.__code__:
        frame = awaited.gi_frame
        return frame.f_locals.get("coroutine") if frame is not None else None
    return awaited
