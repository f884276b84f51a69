"""Answers that come later: a function has returned a future, whose outcome is its answer.

No thread waits for the outcome, and the method that has returned the future has no turn on its
object. When the future is done, the request takes a turn, as the outcome may be a part of the
object, and a thread of the pool sends it.

A future that the program is to set is held by the program alone. If it is forgotten, the request
ends with an error; if the caller dies, the request ends, too.
"""

from __future__ import annotations

import concurrent.futures
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from ...protocol.errors import FarrefError
from ...protocol.ids import CallId, RRefId, WorkerId
from ...protocol.messages import Create, Request
from ...serialization.errors import Failure
from ..calls.waits import Waits
from ..core.core import Core, Internal
from ..core.current import CurrentRun, running_in
from ..core.duties import in_mailbox_thread
from ..values.cell import Cell
from ..values.wrapper import Made
from .turns import Turns

Finish = Callable[[Request, Cell], object]
Fail = Callable[[BaseException, Request], Failure]


class Pending(msgspec.Struct, frozen=True):
    """A *request* that has begun on the object *on*, and now waits as *run* for its answer.

    *kind* says what to make of the answer: None, or a `Made` without a value.
    """

    request: Request
    on: RRefId | None
    run: CurrentRun
    kind: Any


class FutureAnswer:
    """A pending answer. Only the future that will bring it refers to this object."""

    def __init__(self, outcomes: Outcomes, pending: Pending) -> None:
        self._outcomes = outcomes
        self._pending: list[Pending] = [pending]

    def take(self) -> Pending | None:
        """Returns the request to the first caller, and None to all others: it is answered once."""
        try:
            return self._pending.pop()
        except IndexError:
            return None

    def __call__(self, future: concurrent.futures.Future[Any]) -> None:
        """Answer the request, as the future is done. In any thread."""
        pending = self.take()
        if pending is not None:
            self._outcomes.came(pending, future)

    def __del__(self) -> None:
        pending = self.take()
        if pending is not None:
            self._outcomes.forgotten(pending)


class Outcomes(Internal):
    """The requests of one endpoint whose answers are futures."""

    def __init__(self, core: Core, waits: Waits, turns: Turns, finish: Finish, fail: Fail) -> None:
        self._core = core
        self._waits = waits
        self._turns = turns
        self._finish = finish
        self._fail = fail
        self._open: weakref.WeakValueDictionary[CallId, FutureAnswer] = (
            weakref.WeakValueDictionary()
        )
        """The pending answers to calls. Creations are left out, as others may use their objects."""
        self.left: deque[Pending] = deque()
        """The forgotten ones, which `end_forgotten` has not ended yet."""
        core.on_deaths.append(self._died)

    def follow(self, request: Request, on: RRefId | None, run: CurrentRun, cell: Cell) -> None:
        """Answer *request*, which has the turn on *on*, when the future in *cell* is done."""
        content, kind = cell.take(), None
        if type(content) is Made:
            content, kind = content.value, replace(content, value=None)
        future: concurrent.futures.Future[Any] = content
        outcome = FutureAnswer(self, Pending(request, on, run, kind))
        if not isinstance(request, Create):
            with self._core.lock:
                self._open[request.call] = outcome
        if getattr(future, "call", None) or getattr(future, "after", None):
            self._waits.begin(run, (future,))  # the record holds the future, as its call does
        if on is not None:
            self._turns.pause(on, request.call)
        # Not the method of our own class, which would wait for a thread of the pool.
        concurrent.futures.Future.add_done_callback(future, outcome)

    def came(self, pending: Pending, future: concurrent.futures.Future[Any]) -> None:
        """Answer with the outcome of *future*, which is done."""
        kind, content = pending.kind, Cell(future)

        def take() -> Cell:
            cell = Cell(None)
            try:
                with running_in(self._core, (), pending.run):
                    value = content.take().result()
                cell.content = value if kind is None else replace(kind, value=value)
            except BaseException as error:
                cell.content = self._fail(error, pending.request)
            return cell

        self._end(pending, take)

    def give_up(self, call: CallId) -> None:
        """Answer *call* now, as its caller has cancelled it.

        If the future is that of a call, and is the answer to this one only, it is cancelled. One
        that the program is to set is not: its setter would get an error from `Future.set_result`.
        """
        with self._core.lock:
            outcome = self._open.get(call)
        pending = outcome.take() if outcome is not None else None
        if pending is not None:
            self._waits.cancel(call, alone=True)
            error = CancelledError("its caller cancelled it before the future was done")
            self._end(pending, partial(self._failed, error, pending.request))

    def forgotten(self, pending: Pending) -> None:
        """Note that nobody can set the future any more. Takes no lock, as a finalizer calls it."""
        self.left.append(pending)
        if not self._core.closed:
            self._core.wake()

    @in_mailbox_thread
    def end_forgotten(self) -> None:
        while self.left:
            pending = self.left.popleft()
            error = FarrefError(
                "a Future was returned, and then forgotten before anybody had set it, so no answer "
                "will come; keep the Future until set_result() or set_exception() was called"
            )
            self._end(pending, partial(self._failed, error, pending.request))

    def _failed(self, error: Exception, request: Request) -> Cell:
        return Cell(self._fail(error, request))

    def _died(self, workers: tuple[WorkerId, ...]) -> None:
        """End the calls of the dead *workers*. Creations go on, for other users of the objects."""
        with self._core.lock:
            answers = list(self._open.items())
        for call, outcome in answers:
            if call.caller in workers:
                pending = outcome.take()
                if pending is not None:
                    self._end(pending, partial(Cell, None))

    def _end(self, pending: Pending, take: Callable[[], Cell]) -> None:
        """Answer with the content that *take* returns, as soon as the request has a turn."""
        with self._core.lock:
            self._open.pop(pending.request.call, None)
        self._waits.unblock(pending.run)

        def answer() -> None:
            self._core.pool.submit(lambda: self._finish(pending.request, take()))

        if pending.on is None:
            answer()
        else:
            self._turns.resume(pending.on, pending.request.call, answer)
