"""The future that a call returns: it blocks, awaits, chains and cancels. Programs make some, too.

The first thread that asks for the result unpickles the reply: the mailbox thread never runs user
code. Until then the reply's own hold keeps the references in it alive. A future that is dropped
unasked gives that hold back.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import sys
import threading
import time
import weakref
from _thread import RLock
from collections.abc import Callable, Generator, Iterable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, Self, TypeVar

from ...protocol.effects import Effect
from ...protocol.errors import FarrefError, FetchTimeoutError, SelfWaitError, WouldBlockError
from ...protocol.ids import CallId, RRefId
from ...protocol.messages import Busy, Cargo
from ...serialization.errors import Failure
from ...serialization.failures import pass_on
from ...serialization.frozen import Frozen
from ...serialization.shared import used
from ..base import forks
from ..base.interrupts import Condition, Guard, new_future, undisturbed
from ..base.leadership import Leadership
from ..core import notices, sites
from ..core.core import Core, runs_loop
from ..core.current import found, frame
from ..core.discards import Hold
from ..core.hooks import RequestHooks
from ..core.notices import What
from ..core.sites import Place
from ..values.packing import Packer
from ..wire.settings import check_timeout
from .waits import Waits

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
U = TypeVar("U")


is_over = attrgetter("over")
"""Whether a future is over, for a loop that asks often: it calls no Python function."""


CANCELLED = frozenset(
    {"asyncio.exceptions.CancelledError", "concurrent.futures._base.CancelledError"}
)
"""The errors of functions that were cancelled."""
CALL_IN = 0.002
"""Seconds between two calls of a loop into a system whose actors run only then."""


class Keeper(Protocol):
    """A handle that fetches a value."""

    _frozen: Frozen | None
    """A frozen value that it keeps."""


def _check_callback(callback: object) -> None:
    if not callable(callback):
        raise TypeError(f"incompatible function arguments. {callback!r:.80} cannot be called")


def _follow(chained: Future[U], callback: Callable[[Future[T]], U], done: Future[T]) -> None:
    """Give *chained* the outcome of *callback* with the future that is *done*."""
    try:
        chained.after = None
        if chained._begin():  # or else it was cancelled
            chained._result = callback(done)
            chained.finish("RUNNING")
    except BaseException as error:
        chained._exception = error
        chained.finish("RUNNING")
    finally:
        del chained


class Enough:
    """Completes *some* once *number* futures are done: a waiter of `concurrent.futures`."""

    def __init__(self, number: int) -> None:
        self.some: concurrent.futures.Future[None] = new_future()
        self._left = itertools.count(number - 1, -1)
        if number <= 0:
            self.some.set_result(None)

    def add_result(self, _: object) -> None:
        if next(self._left) == 0:
            with contextlib.suppress(concurrent.futures.InvalidStateError):  # it was cancelled
                self.some.set_result(None)

    add_exception = add_cancelled = add_result


def _is_cancelled(cargo: Cargo | None) -> bool:
    payload = cargo.payload if cargo is not None else None
    return type(payload) is Failure and payload.type_name in CANCELLED


class Future(concurrent.futures.Future[Any], Generic[T]):
    """The outcome of a call on another endpoint, or of the program's own work. Thread-safe.

    `rpc_async`, `RRef.future` and similar methods make it. It is a `concurrent.futures.Future`:
    `done` and `cancelled` do not wait, and a handler can ``await`` it. The call's own *timeout* (in
    seconds from the call) ends it for everybody (G6): its outcome is then a `FetchTimeoutError`,
    for waits, callbacks and chains, and for the caller of a function that has returned it. A reply
    that comes later is dropped. The function is not cancelled: `cancel` does that. A wait may have
    a shorter timeout. If the call was given none, a wait may also have a longer one, and the call
    then lasts as long.

    ``Future()`` makes one that the program sets, by `set_result` or `set_exception`, as
    ``torch.futures.Future()``. A function or method that returns it answers its caller when it is
    set; no thread waits. (It may also return the future of a call, whose outcome is then the
    answer.) A wait for it ends after the system's timeout unless the wait has its own. If it is
    returned, and then forgotten without being set, the caller gets a `FarrefError`. It stays in
    its endpoint: it cannot be sent.

    Raises:
        SystemDownError: outside any system.
    """

    began: float
    """When it was made."""
    deadline: float | None
    """When the call ends. None: it has no end of its own, and waits that name no timeout end
    `_timeout` seconds after they began, or after the call that must be done first has ended."""
    _core: Core
    _packer: Packer
    _waits: Waits
    _what: What
    _rref: RRefId | None
    _timeout: float
    _waiters: list[Any]
    _done_callbacks: list[Callable[[Any], object]]
    _deciding: Guard
    """Guards the state, so it decides between an outcome and a cancel. Reentrant, as a callback of
    a cancel may cancel again."""
    _taking: RLock

    # Most futures never change these, so a new one need not set them. The first three are those of
    # `concurrent.futures`.
    _state = "PENDING"
    _result: Any = None
    _exception: BaseException | None = None
    over = False
    """The outcome is there, or it was cancelled: no change comes after this."""
    call: CallId | None = None
    moved = False
    """The answer was that the value is elsewhere; by then this endpoint has learned where."""
    asker: weakref.ref[Keeper] | None = None
    """The handle that fetches the value; it keeps the value if it is frozen."""
    asked: RequestHooks | None = None
    """Its request, as the hooks have it."""
    question: int | None = None
    """The number of the `ask` whose answer it is."""
    fetches = False
    """It asks for a value: this request is taken back when it ends."""
    after: Future[Any] | None = None
    """Of a chained future: the future that must be done first."""
    place: Place | None = None
    """The line of the program that made the call."""
    overlooked = False
    """Its error need not be logged: the library itself made the request, or the caller has got
    another error."""
    leader: Leadership | None = None
    """The leadership of the run loop whose leader waits for this future, and looks when that is
    over."""
    _waited: Condition | None = None
    _taken = False
    _cargo: Cargo | None = None
    _hold: Hold | None = None
    """The hold of the references that came with the reply."""
    _mine = False
    """Whether the program sets it."""
    _asking: concurrent.futures.Future[None] | None = None
    """Done when the callee has said what becomes of the call that `cancel` is to cancel."""
    _interrupted = False
    """Whether `cancel` has asked for an interrupt."""
    _extends = False
    """Whether a wait may name a longer time than the call, which has named none."""

    def __new__(cls) -> Self:
        front = frame().core.front
        self = cls.of(front.core, front.calls.packer, front.waits, "a Future")
        self.deadline, self._mine = None, True
        front.calls.made(self)
        return self

    def __init__(self) -> None:
        pass  # `of` has set everything, and no request passes here

    @classmethod
    def of(
        cls,
        core: Core,
        packer: Packer,
        waits: Waits,
        what: What,
        timeout: float | None = None,
        *,
        rref: RRefId | None = None,
    ) -> Self:
        """The future of a request; *what* is the awaited thing in words.

        *timeout* is in seconds; None: the system's. Raises `ValueError` if it is 0 or less.
        """
        self = object.__new__(cls)
        seconds = core.settings.timeout
        if timeout is not None:
            seconds = check_timeout(timeout, seconds)
        else:
            self._extends = True
        self._waiters, self._done_callbacks = [], []
        self._core, self._packer, self._waits = core, packer, waits
        self._what, self._rref = what, rref
        self.began = time.monotonic()
        self._timeout, self.deadline = seconds, self.began + seconds
        self._deciding, self._taking = Guard(), RLock()
        return self

    def __dir__(self) -> list[str]:
        """The names for a program: those of `concurrent.futures.Future`, and these."""
        return [*dir(concurrent.futures.Future), *("remove_done_callback", "then", "value", "wait")]

    # ---- filled by the endpoint, in the mailbox thread

    def known(self, value: T) -> None:
        """The value is known without a request."""
        self._taken, self._result = True, value
        self.finish()

    def elsewhere(self) -> None:
        """A value exists, at the object that this one is an alias of."""
        self.moved = True
        self.finish()

    if not TYPE_CHECKING:  # for the type checker it is the attribute of the base

        @property
        def _condition(self) -> Condition:
            """`concurrent.futures` waits here. Most futures need none, as one thread uses them."""
            with self._deciding:
                if self._waited is None:
                    self._waited = Condition(self._deciding)
                return self._waited

    def _begin(self) -> bool:
        """Whether the outcome is still wanted; nobody can cancel after this."""
        with self._deciding:
            if self._state != "PENDING":
                return False
            self._state = "RUNNING"
            return True

    def finish(
        self,
        since: str = "PENDING",
        *,
        cargo: Cargo | None = None,
        error: BaseException | None = None,
    ) -> None:
        """The outcome is there: the reply *cargo*, which is still pickled, or *error*.

        With neither, the outcome was set before, or is only that the future has ended. If the state
        is not *since*, the outcome is no longer wanted: nothing changes, and the references in
        *cargo* are released.
        """
        # An answer to a question is a message like others: it may hold an error (see `_take`).
        if (
            self.asked is not None
            and (self.question is None or cargo is None)
            and (self._asking is None or not _is_cancelled(cargo))  # else `give_up` says so
        ):
            self.asked.over(error if cargo is None else cargo.payload)
        # Most answers come while the main thread holds signals back: then the lock alone will do.
        with self._deciding.lock if undisturbed.within else self._deciding:
            wanted = self._state == since
            asking, self._asking = self._asking, None
            cancelled = asking is not None and _is_cancelled(cargo)
            if wanted and not cancelled:
                if cargo is not None:
                    self._cargo = cargo
                    if cargo.descriptors:
                        self._hold = self._core.discards.hold(self, None, cargo.descriptors)
                elif error is not None:
                    self._exception = error
                self._state, self.over = "FINISHED", True
                for waiter in self._waiters:
                    (waiter.add_exception if self.failed else waiter.add_result)(self)
                if self._waited is not None:
                    self._waited.notify_all()
        if asking is not None:
            if cancelled:
                self.give_up()
            asking.set_result(None)
        if not wanted or cancelled:
            if cargo is not None and cargo.descriptors:
                self._core.discards.message(cargo.descriptors)
            return
        if self.leader is not None and self.leader.leader != threading.get_ident():
            self.leader.look()
        if self._done_callbacks:
            self._invoke_callbacks()  # type: ignore[attr-defined] # typeshed leaves it out

    def _claim(self) -> None:
        """Only the calling thread may now set the outcome. Raises `InvalidStateError`."""
        if not self._mine:
            raise concurrent.futures.InvalidStateError(
                f"nobody but its reply sets {self.what}; make a `farref.Future()` to set"
            )
        if not self._begin():
            done = "was cancelled" if self.cancelled() else "is set already"
            raise concurrent.futures.InvalidStateError(f"{self.what} {done}")

    # ---- used by the program

    def set_result(self, result: T) -> None:
        """Set the outcome of a ``Future()`` to the value *result*. Does not block.

        Raises `concurrent.futures.InvalidStateError` if it is set or cancelled, or is the future of
        a call, which the reply sets.
        """
        self._claim()
        self._result = result
        self.finish("RUNNING")

    def set_exception(self, exception: BaseException | None) -> None:
        """Set the outcome of a ``Future()`` to the error *exception*. Does not block.

        Raises `TypeError` if *exception* is not an exception, and
        `concurrent.futures.InvalidStateError` as `set_result` does.
        """
        if not isinstance(exception, BaseException):
            raise TypeError(f"an exception is needed, not {exception!r}")
        self._claim()
        self.finish("RUNNING", error=exception)

    @property
    def what(self) -> str:
        """The awaited thing in words."""
        return notices.in_words(self._what)

    def __repr__(self) -> str:
        error = self._exception if self.done() else None
        if self.cancelled():
            state = "cancelled"
        elif error is not None:
            state = f"failed with {type(error).__name__}"
        else:
            state = "done" if self.done() else "pending"
        return f"<Future of {self.what}: {state}>"

    def done(self) -> bool:
        """Whether the outcome is there, or the future was cancelled. Does not block."""
        return self.over

    @property
    def failed(self) -> bool:
        """Whether the outcome is there, and is an error or a cancel. Does not block.

        An error in unpickling the value is found by `result` only.
        """
        payload = self._cargo.payload if self._cargo is not None else None
        return self.over and (
            type(payload) is Failure or self._exception is not None or self._state != "FINISHED"
        )

    def result(self, timeout: float | None = None) -> T:
        """The value. Blocks for at most *timeout* seconds (default: the call's own timeout).

        A *timeout* of 0 polls.

        Raises:
            FetchTimeoutError: the wait took too long, and the future stays usable; or the call did,
                and has ended.
            WouldBlockError: in a handler or on the actor's loop, unless it is done; write
                ``await future`` there.
            CancelledError: it was cancelled.
            Exception: the remote function's error, with its traceback as the cause.
        """
        try:
            if not self.over:  # reading one attribute needs no lock
                self._block(timeout)
            if not self._taken:
                self._take()
            if self._exception is None and self._state == "FINISHED":
                outcome: T = self._result
                return outcome
            value: T = super().result(0)
            return value
        finally:
            del self  # the error's traceback holds this frame, and the future holds the error

    def result_or_cancel(self) -> T:
        """`result` for the one thread that waits: an interrupt of the wait cancels the call."""
        try:
            return self.result()
        except FarrefError:
            raise  # such as one of a finalizer, which may not wait: its request has left
        except BaseException:
            if not self.over:
                self.give_up()
            raise
        finally:
            del self  # as in `result`

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error that `result` would raise, or None.

        Waits as `result` does, *timeout* seconds at most. Raises the error that ends its wait:
        `FetchTimeoutError`, `WouldBlockError`, `CancelledError`.
        """
        self._block(timeout)
        self._take()
        return super().exception(0)

    def wait(self, timeout: float | None = None) -> T:
        """PyTorch's name for `result`; *timeout* is in seconds. Blocks."""
        return self.result(timeout)

    def value(self) -> T:
        """The value of a future that is done, as in PyTorch; raises its error. Does not block.

        Raises `concurrent.futures.InvalidStateError` if it is not done: `wait` waits.
        """
        if not self.done():
            raise concurrent.futures.InvalidStateError(
                f"{self.what} is not done; wait() waits for it"
            )
        return self.result()

    def then(self, callback: Callable[[Future[T]], U]) -> Future[U]:
        """A future for ``callback(self)``, which runs in a thread of the endpoint's pool.

        *callback* runs after any outcome. Its error becomes the error of the new future. A
        wait for the new future ends when this call's time is over and, after that, the call's
        timeout or the system's, whichever is longer, has passed once more. Does not block.

        Raises `TypeError` if *callback* cannot be called.
        """
        _check_callback(callback)
        seconds = max(self._timeout, self._core.settings.timeout)
        what = f"what follows {self.what}"
        chained: Future[U] = Future.of(self._core, self._packer, self._waits, what, seconds)
        chained.after, chained.deadline = self, None
        chained.place = sites.caller(1)

        # The frames of this function and of `_follow` will be in an error's traceback. The new
        # future will hold the error, so they must not hold the future.
        once = [chained]
        self.add_done_callback(lambda done: _follow(once.pop(), callback, done))
        return chained

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Call ``fn(self)`` in a thread of the endpoint's pool once the outcome is there.

        A callback of asyncio's own functions, such as `asyncio.wait`, runs on the running loop:
        these expect that of every future, and none of them wakes a loop from another thread.

        Raises `TypeError` if *fn* cannot be called.
        """
        _check_callback(fn)
        call, loop = self._core.callbacks.call, None
        if getattr(fn, "__module__", "").startswith("asyncio"):
            loop = sys.modules["asyncio"]._get_running_loop()
        if loop is not None:
            call = partial(self._call_on, loop)
            if not self._core.port.runs_by_itself:
                self._keep_calling_in(loop)
        super().add_done_callback(partial(call, fn))

    def remove_done_callback(self, fn: Callable[[Future[T]], object]) -> int:
        """Do not call *fn* any more, if it has not begun. Returns how often it was to be called."""
        with self._deciding:
            left = [
                each for each in self._done_callbacks if getattr(each, "args", ())[-1:] != (fn,)
            ]
            removed = len(self._done_callbacks) - len(left)
            self._done_callbacks = left
        return removed

    @staticmethod
    def _call_on(
        loop: asyncio.AbstractEventLoop, fn: Callable[[Any], object], future: Future[Any]
    ) -> None:
        with contextlib.suppress(RuntimeError):  # the loop ended: no task waits any more
            loop.call_soon_threadsafe(fn, future)

    def _keep_calling_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """In-process actors run only while the program calls in: have *loop* do it until the end.

        Nothing holds this future for that.
        """
        weak = weakref.ref(self)

        def again() -> None:
            future = weak()
            if future is not None and not future.over:
                future._core.port.call_in()
                loop.call_later(CALL_IN, again)

        loop.call_soon(again)

    def cancel(self, *, interrupt: bool = False) -> bool:
        """Cancel the call. Returns whether it was cancelled: no code of it runs any more.

        A call that has not started does not start. A coroutine gets `asyncio.CancelledError` at its
        await, and so do the calls that it awaits, in whatever process; this waits until it has
        ended. A plain function goes on: this returns False, and the future will have its result.
        With *interrupt* such a function gets the same error at its next bytecode; code in C goes on
        until it returns. Where it waits in the library, the wait ends with
        `concurrent.futures.CancelledError`. A function that handles the error and returns has not
        been cancelled: False.

        Blocks for the callee's word, at most as long as the call's time, or the system's timeout.
        If no word comes, as from a process that is stopped, it returns False. Code on an asyncio
        loop may not wait. There the callee is asked to end the call, and this returns False if the
        call may have begun; ``await future`` then raises the error, or gives the result. To know
        at once, write ``await asyncio.to_thread(future.cancel)``.

        The future of a fetch, one that the program sets and one that `then` has made are only
        cancelled here, without a wait.
        """
        core = self._core
        if self.call is None or self.fetches:
            return self.give_up(interrupt=interrupt)
        with self._deciding:
            if self.over:
                return self.cancelled()
            self._interrupted |= interrupt
            told = self._asking = self._asking or new_future()
        try:
            core.check_no_step()
            if self._take_back(interrupt=interrupt):  # it has not left, and will not
                return self.give_up()
            if not runs_loop():
                with core.pool.waiting():
                    core.port.wait(told, min(max(1e-3, self.left()), core.settings.timeout))
        except WouldBlockError:  # in a finalizer
            return self.give_up(interrupt=interrupt)
        return self.cancelled()

    def goes_on(self) -> None:
        """The callee refuses to cancel the call, as a plain function runs it."""
        with self._deciding:
            if self._interrupted and not self.over:
                return  # this answers an earlier cancel: no interrupt is refused
            asking, self._asking = self._asking, None
        if asking is not None:
            asking.set_result(None)

    def give_up(self, *, interrupt: bool = False) -> bool:
        """Cancel the future at once, and the call if the callee can. False if it is done.

        The answer is dropped. Does not block.
        """
        with self._deciding:
            if self.cancelled():
                return True
            if self._state == "PENDING":
                self.over = True  # first: its callbacks run before this returns
            if not super().cancel():
                return False
            self.set_running_or_notify_cancel()  # else waiting threads would not wake
        if self.asked is not None:
            self.asked.over("cancelled")
        self.goes_on()  # nobody needs the callee's word any more
        self._take_back(interrupt=interrupt)
        if self.question is not None:
            self._core.front.calls.drop(self)
        return True

    def is_shared(self) -> bool:
        """Whether several wait for the outcome."""
        return len(self._done_callbacks) + len(self._waiters) > 1

    def __await__(self) -> Generator[Any, None, T]:
        """Wait without blocking the loop; the call's own timeout holds."""
        try:
            if not self.done():
                yield from self._until_done()
            self._take()
            value: T = super().result(0)
            return value
        finally:
            del self  # as in `result`

    # ---- inside

    def _until_done(self) -> Generator[Any, None, None]:
        import asyncio  # noqa: PLC0415 - the running loop has loaded it

        self.check_self_wait()
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not waiter.done():
                waiter.set_result(None)

        def done(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop ended: no task waits any more
                loop.call_soon_threadsafe(wake)

        super().add_done_callback(done)
        run = self._waits.suspend(self)
        try:
            while not waiter.done():
                left = max(0.0, self.left())
                try:
                    yield from self._come(waiter, left).__await__()
                except TimeoutError:
                    if self.deadline is None:
                        raise self._late(left) from None
                    if time.monotonic() >= self.deadline and self.expire():
                        return
        except asyncio.CancelledError:
            if not self._mine:  # others may await it too, and its setter knows of no cancel
                self.give_up()
            raise
        finally:
            self._waits.unblock(run)

    async def _come(self, waiter: asyncio.Future[None], seconds: float) -> None:
        import asyncio  # noqa: PLC0415 - as above

        # Not `asyncio.wait_for`: in Python 3.11 it loses a cancel that comes together with the
        # answer.
        async with asyncio.timeout(seconds):
            # In-process actors run only while the program calls in.
            while not waiter.done() and self._core.port.call_in():  # noqa: ASYNC110 - nobody else would
                await asyncio.sleep(CALL_IN)
            await waiter

    def _block(self, timeout: float | None) -> None:
        core = self._core
        while not self.over:
            left = self.left() if self.deadline is None else self.deadline - time.monotonic()
            left = at_most = max(1e-3, left)
            if timeout is not None:
                left = self._bounded(check_timeout(timeout, left, poll=True), left)
            if forks.pid != core.pid:
                core.check_process()
            core.check_no_step()
            if core.loop_thread is not None and core.in_loop():
                core.check_may_block(self.what)
            if found() is None and not core.pool.mine.inside:  # in a thread of the program's
                came = core.port.wait(self, left)
            else:
                self.check_self_wait()
                came = self._block_call(left)
            if came:
                return
            if self.deadline is None or left < at_most:
                raise self._late(left)
            if time.monotonic() >= self.deadline:
                self.expire()
            if timeout is not None:
                timeout = max(0.0, timeout - left)

    def _block_call(self, seconds: float) -> bool:
        """Wait in a function that others have called. Returns whether the outcome is there."""
        core, enough = self._core, None
        if self.call is None and self.question is None:
            enough = Enough(1)  # an interrupt ends this wait, and no other one
            self.watch(enough)
        told = enough.some if enough is not None else None
        run = self._waits.block((self,), told)
        try:
            with core.pool.waiting():
                came = core.port.wait(told or self, seconds)
            if told is not None and told.cancelled():
                raise concurrent.futures.CancelledError
            return came
        finally:
            self._waits.unblock(run)
            if enough is not None:
                self.watch_no_more(enough)

    def left(self) -> float:
        """The seconds that a wait may take which begins now and names no timeout."""
        first: Future[Any] = self
        while first.after is not None:
            first = first.after
        own = self._timeout if self.deadline is None else self.deadline - time.monotonic()
        return own if first is self else max(0.0, first.left()) + own

    def outlast(self, others: Iterable[Future[Any]]) -> None:
        """A wait for this future, which ends with *others*, has as much time as they have left."""
        self._timeout = max([self._timeout, *(each.left() for each in others)])

    def _bounded(self, seconds: float, left: float) -> float:
        """The time of a wait that names *seconds*, while the call has *left*."""
        if self.deadline is None or seconds <= left:
            return seconds
        if self._extends:
            self._timeout, self.deadline = seconds, time.monotonic() + seconds
            return seconds
        return left

    def expire(self) -> bool:
        """The call's time is over: it ends for everybody. A reply that comes later is dropped.

        While a thread of the system is in the debugger, the time begins anew instead, and this
        returns false.
        """
        if self._core.debugged:
            self.deadline = time.monotonic() + self._timeout
            return False
        self._core.front.calls.drop(self)
        if self.asked is not None:
            self.asked.over("timeout")
        self.finish(error=self._late(self._timeout, ends=True))
        if self.fetches:
            self._take_back()  # a call takes effect all the same (G3)
        return True

    def _take_back(self, *, interrupt: bool = False) -> bool:
        """Cancel the request at its receiver. Returns whether it has not left: it never runs."""
        held, context, call = False, self._core.context, self.call

        def cancel() -> list[Effect]:
            nonlocal held
            held = call in context.state.held_calls
            return context.cancel(call, interrupt=interrupt) if call is not None else []

        if call is not None:
            self._core.step(cancel)
        return held

    def check_self_wait(self) -> None:
        """Raise `SelfWaitError` if the code that waits is the call that must be done first."""
        here, core, rref = found(), self._core, self._rref
        if rref is None or here is None or here.core is not core or self.done():
            return
        if not here.chain or here.run is None:
            return
        with core.lock:
            # The other requests of its chain may have ended. Their owners know that.
            turn = Busy(core.context.whereabouts(rref), here.run.call)
            waits = turn in here.chain and core.context.deadlocks.blocker(turn.rref) == turn.call
        if waits:
            self.overlooked = True  # the owner refuses it, too
            raise SelfWaitError(
                f"{self.what} waits for itself: {self._rref} runs one call at a time, and this "
                "code is that call; call the method directly on the object instead"
            )

    def _late(self, seconds: float, *, ends: bool = False) -> FetchTimeoutError:
        """The error of a wait that took *seconds*, or of the call, which *ends* with it."""
        again = "fetch it again" if self.fetches else "call `remote` and keep the reference"
        then = (
            ", so the request has ended here: an answer that comes later is dropped. Give it a "
            f"longer timeout, or {again}"
            if ends
            else "; it may still: wait again for this future, or longer"
        )
        error = FetchTimeoutError(f"{self.what} did not come within {seconds:.4g} s{then}")
        if self.asked is not None:
            self.asked.late(error)
        return error

    def _take(self) -> None:
        """Unpickle the reply, once, in the thread that asks for it first."""
        if self._taken:
            return
        if self._taking._is_owned():  # type: ignore[attr-defined]  # of any `RLock`
            raise WouldBlockError(
                f"this code has interrupted the thread that unpickles {self.what}: ask again later"
            )
        with self._taking:  # other threads wait here until the first has unpickled it
            cargo = self._cargo
            if cargo is not None:
                try:
                    frozen = None
                    if getattr(cargo.payload, "frozen", False):
                        frozen = self._packer.open_frozen(cargo)
                    if frozen is None:
                        self._result = self._packer.open(cargo, again=True)
                    else:
                        self._result = frozen.thaw()
                        keeper = self.asker() if self.asker else None
                        if keeper is not None:
                            keeper._frozen = frozen
                except Exception as error:
                    pass_on(error)  # an interrupt is not an answer: asking again opens it
                    # Without the frames on the way here: they hold the message, and so this future.
                    self._exception = error.with_traceback(None)
                    trail = self._core.trail(self._rref) if self._rref else ""
                    if trail:
                        error.add_note(f"farref: it is the value of an alias: {trail}")
                self._let_go()
                if buffers := getattr(cargo.payload, "buffers", ()):
                    used(buffers)  # an interrupt loses nothing any more
            self._taken = True
        if self.asked is not None:
            self.asked.over(self._exception)

    def on_answer(self, *, keep: bool, then: Callable[[object], object] = bool) -> None:
        """A wait gets its answer. If *keep*, the handle may keep a frozen value that came with it.

        Copies nothing. An answer that is not kept is let go of at once, as it holds file
        descriptors. Calls *then* with this future afterwards.
        """

        def answered(future: Any) -> None:
            try:
                future.answered(keep=keep)
            finally:
                then(future)

        super().add_done_callback(answered)

    def watch(self, waiter: Any) -> None:
        """Tell *waiter*, as `concurrent.futures.wait` has it, once the outcome is there."""
        with self._deciding:
            if not self.over:
                self._waiters.append(waiter)
                return
        waiter.add_result(self)

    def watch_no_more(self, waiter: Any) -> None:
        """Undo one `watch`, if it has been made."""
        with self._deciding:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def answered(self, *, keep: bool) -> None:
        """Let go of the answer of a wait, once; see `on_answer`."""
        with undisturbed, self._taking:
            cargo = self._cargo
            keeper = self.asker() if keep and self.asker is not None else None
            if cargo is None:
                return
            with contextlib.suppress(FarrefError, MemoryError):  # a fetch will report it
                if keeper is not None:
                    frozen = self._packer.open_frozen(cargo, copy=False)
                    keeper._frozen = frozen or keeper._frozen
            self._let_go()

    def _let_go(self) -> None:
        """The message was opened, or nobody needs it: its own hold on its references ends."""
        self._cargo = None
        if self._hold is not None:
            self._core.discards.release(self._hold)
            self._hold = None

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a Future stays where it was made ({self.what}); return it alone from a function, and "
            "its outcome will be the answer; or send its value"
        )

    def __del__(self) -> None:
        if self._hold is not None:
            self._core.discards.gone(self._hold)
        if not self._taken and self._state == "FINISHED":
            self._drop()

    def _drop(self) -> None:
        """Nobody has looked at the outcome: have it logged, if it is an error. Takes no lock."""
        payload = self._cargo.payload if self._cargo is not None else None
        error = payload if type(payload) is Failure else self._exception
        core = self._core
        if error is None or self.overlooked or forks.pid != core.pid:
            return
        if core.closed:  # nobody drains it any more
            notices.dropped(self.what, self.place, error)
        else:
            core.soon.append(partial(notices.dropped, self.what, self.place, error))
            core.wake()
