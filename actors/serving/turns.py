"""Turns: an `async` method has its object's turn only while its code runs, not while it awaits.

`protocol.owner` decides the order of turns. Here the coroutine of a method is run one step at a
time, from one `await` to the next; its request takes the object's turn before a step, and gives it
away after the step. The steps run on the endpoint's loop, and plain methods in threads, so the
object never runs in two threads at once. A coroutine that waits for a turn is suspended.

A plain method may set the `asyncio.Event` of its object, as in Ray. asyncio takes note of that, but
does not wake a loop that sleeps in another thread. `Turns.wake` does, after each plain function.

To asyncio the steps are one coroutine in one task: all that the one yields, and the other sends or
throws, is passed on unchanged. The tasks that a method starts (`create_task`, `gather`, ...) run in
steps, too, and share the turn of its request, until the method has ended.
"""

from __future__ import annotations

import contextlib
import threading
import types
from collections import deque
from collections.abc import Callable, Generator
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any

from ...protocol.effects import Resume
from ...protocol.ids import CallId, RRefId
from ..core.brief import Later
from ..core.core import Core, Internal
from ..values.cell import Cell, CoroutineCell

if TYPE_CHECKING:
    import asyncio

_turn: ContextVar[SharedTurn | None] = ContextVar("farref turn", default=None)
"""The turn that tasks share which are started by the running code."""


class Turns(Internal):
    """The turns of one endpoint's requests that await."""

    def __init__(self, core: Core) -> None:
        self.core = core
        core.handlers[Resume] = self._resume
        self._waiting: dict[CallId, Callable[[], object]] = {}
        """The function to call when a request that has lined up gets its turn."""
        self.begun = 0
        """The number of `async` functions and methods that have begun and not ended."""
        self._loop: asyncio.AbstractEventLoop | None = None

    def begins(self) -> None:
        """An `async` function begins, on the running loop. At its end, count `begun` down."""
        import asyncio  # noqa: PLC0415 - the running loop has loaded it

        self._loop = asyncio.get_running_loop()
        self.begun += 1

    def wake(self) -> None:
        """Have the loop notice what a plain function did to asyncio's events, locks and futures."""
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(_look)

    def pause(self, rref: RRefId, call: CallId) -> None:
        core = self.core
        core.step(lambda: core.context.pause(rref, call))

    def resume(self, rref: RRefId, call: CallId, go_on: Callable[[], object]) -> None:
        """Line *call* up for a turn on *rref*. Once it has it, *go_on* is called, in any thread."""
        core = self.core
        self._waiting[call] = go_on
        core.step(lambda: core.context.resume(rref, call))

    def _resume(self, effect: Resume, later: Later) -> None:
        later.append(self._waiting.pop(effect.call))  # type: ignore[arg-type]  # its result is dropped

    async def run(self, cell: Cell, rref: RRefId, call: CallId) -> Any:
        """The result of the coroutine in *cell*, a method that *call*, which has the turn, runs.

        *call* has the turn in the end, too.
        """
        turn = SharedTurn(self, rref, call)
        _turn.set(turn)  # for the rest of this task
        try:
            return await StepByStep(cell, turn, begun=True)
        finally:
            turn.end()


def _look() -> None:
    """Do nothing: the call wakes the loop, which then checks for ready tasks."""


class TaskPlace:
    """The place of a task in the line for the turn of its request."""

    __slots__ = ("granted", "waiter")

    def __init__(self) -> None:
        self.granted = False
        self.waiter: asyncio.Future[None] | None = None

    def grant(self) -> None:
        self.granted = True
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)


class SharedTurn:
    """The turn of *call* on *rref*, for the tasks of the request. Only the loop's thread uses it.

    The tasks are all on one loop, so each of them has the turn for one step.
    """

    def __init__(self, turns: Turns, rref: RRefId, call: CallId) -> None:
        import asyncio  # noqa: PLC0415 - as above

        self._turns = turns
        self._rref = rref
        self._call = call
        self._thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        self._held = True
        self._asked = False
        """Whether the request has lined up for a new turn."""
        self._over = False
        self._line: deque[TaskPlace] = deque()

    def give(self) -> None:
        """Give the turn away after the step of a task."""
        if not self._over:
            self._held = False
            self._turns.pause(self._rref, self._call)
            self._ask()

    def take(self) -> Generator[Any, None, BaseException | None]:
        """Wait until the running task may make a step.

        Returns the cancellation that came meanwhile, which is to be thrown into the coroutine.
        """
        place, thrown, core = TaskPlace(), None, self._turns.core
        place.granted = self._over
        if not place.granted:
            self._line.append(place)
            self._ask()
        try:
            while not place.granted and not core.closed:
                place.waiter = self._loop.create_future()
                try:
                    yield from place.waiter
                except GeneratorExit:
                    raise
                except BaseException as error:
                    thrown = error
            return thrown
        finally:
            thrown = None  # else its traceback would hold this frame, and so itself

    def end(self) -> None:
        """Let the tasks that remain run without turns, as the method has ended with the turn."""
        self._over = True
        with contextlib.suppress(RuntimeError):  # the loop has ended
            while self._line:
                self._line.popleft().grant()

    def _ask(self) -> None:
        if self._line and not self._held and not self._asked:
            self._asked = True
            self._turns.resume(self._rref, self._call, self._granted)

    def _granted(self) -> None:
        """Go on, as the request has its turn. In any thread."""
        if threading.get_ident() == self._thread:
            self._go_on()
        else:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._go_on)

    def _go_on(self) -> None:
        self._asked, self._held = False, True
        if self._line:
            self._line.popleft().grant()


class StepByStep:
    """Awaits the coroutine in *cell* in steps, each in its *turn*.

    *begun*: the first step has the turn already.
    """

    def __init__(self, cell: Cell, turn: SharedTurn, *, begun: bool) -> None:
        self._cell = cell
        self._turn = turn
        self._begun = begun

    def __await__(self) -> Generator[Any, Any, Any]:
        coroutine, turn, has_turn = self._cell.take(), self._turn, self._begun
        error: BaseException | None = None
        try:
            if not has_turn:
                error, has_turn = (yield from turn.take()), True
            while True:
                try:
                    awaited = coroutine.send(None) if error is None else coroutine.throw(error)
                except StopIteration as end:
                    return end.value
                finally:
                    error = None  # else the error's traceback would hold this frame, and so itself
                has_turn = False
                turn.give()
                try:
                    yield awaited
                except GeneratorExit:
                    raise
                except BaseException as thrown:
                    error = thrown
                error = (yield from turn.take()) or error
                has_turn = True
        finally:
            coroutine.close()  # it has ended, unless the loop ends and drops its tasks
            if has_turn and not self._begun:
                turn.give()


def in_turns(coroutine: Any, context: Context | None) -> Any:
    """*coroutine*, for a new task in *context*, in steps if a method starts that task."""
    turn = _turn.get() if context is None else context.get(_turn)
    if turn is None or type(coroutine) is not types.CoroutineType:
        return coroutine
    name, cell = coroutine.__qualname__, CoroutineCell(coroutine)
    stepped: Any = _in_steps(cell, turn)
    stepped.__qualname__ = name
    return stepped


def no_turn() -> None:
    """Let the tasks that the running code starts take no turns: they are not a method's."""
    _turn.set(None)


async def _in_steps(cell: Cell, turn: SharedTurn) -> Any:
    return await StepByStep(cell, turn, begun=False)


def method_of(awaited: Any) -> Any:
    """The user's coroutine that *awaited* runs in steps, or else *awaited* itself."""
    if type(awaited) is types.GeneratorType and awaited.gi_code is StepByStep.__await__.__code__:
        frame = awaited.gi_frame
        return frame.f_locals.get("coroutine") if frame is not None else None
    return awaited
