"""What a call returns: a future that blocks, awaits, chains and cancels.

The reply is unpickled by whoever asks for the result first, in that thread: the mailbox
thread never runs code of the user's. Until then the reply's own hold keeps the references
in it alive; a future that is dropped unasked gives that hold back.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import operator
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ...protocol.errors import FarrefError, FetchTimeoutError, SelfWaitError
from ..core.current import chain_in
from ..wire.settings import check_timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ...protocol.ids import CallId, RRefId
    from ...protocol.messages import Cargo
    from ...serialization.frozen import Frozen
    from ..core.core import Core
    from ..core.discards import Hold
    from ..values.packing import Packer
    from .waits import Waits

_OVER = frozenset({"FINISHED", "CANCELLED", "CANCELLED_AND_NOTIFIED"})
"""The states of `concurrent.futures` that no other one follows, but one of these."""

T = TypeVar("T")
U = TypeVar("U")


class Keeper(Protocol):
    """The handle that a value was asked for through."""

    _frozen: Frozen | None
    """It keeps a value that never changes."""


class Future(concurrent.futures.Future, Generic[T]):  # type: ignore[type-arg]
    """The outcome of a call on another endpoint. Thread-safe.

    `rpc_async`, `RRef.future` and their kin make it. It is a `concurrent.futures.Future`, so `done`
    and `cancelled` ask without waiting; in a handler, ``await`` it. Every wait ends with the call's
    own *timeout* (seconds, counted from when it was made) unless it names another (G6).
    """

    def __init__(
        self,
        core: Core,
        packer: Packer,
        waits: Waits,
        what: str,
        timeout: float,
        *,
        rref: RRefId | None = None,
    ) -> None:
        super().__init__()
        self.call: CallId | None = None
        self.moved = False
        """The answer was that the value is elsewhere; whoever asked knows where by now."""
        self.asker: weakref.ref[Keeper] | None = None
        """The handle that the value was asked for through; it keeps it if it is frozen."""
        self.after: Future[Any] | None = None
        """The one that has to be done first, of a chained one."""
        self._core = core
        self._packer = packer
        self._waits = waits
        self.what = what
        self._rref = rref
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._deciding = threading.RLock()
        """Either an outcome comes or somebody cancels. A callback of a cancel may cancel again."""
        self._taking = threading.Lock()
        self._taken = False
        self._cargo: Cargo | None = None
        self._hold: Hold | None = None
        """Of the references that came with it."""
        self._told = False
        """Whoever waits in a way of its own is told of the outcome."""

    # ---- filled by the endpoint, in the mailbox thread

    def arrived(self, cargo: Cargo) -> None:
        """The reply is there, pickled still."""
        if self._begin():
            self._cargo = cargo
            if cargo.descriptors:
                self._hold = self._core.discards.keep(self, cargo.descriptors)
            super().set_result(None)
        elif cargo.descriptors:
            self._core.discards.message(cargo.descriptors)

    def known(self, value: T) -> None:
        """Nobody needs to be asked."""
        self._taken = True
        super().set_result(value)

    def elsewhere(self) -> None:
        """There is a value, with the object that this one is an alias of."""
        self.moved = True
        if self._begin():
            super().set_result(None)

    def failed(self, error: BaseException) -> None:
        """There will be no reply."""
        if self._begin():
            super().set_exception(error)

    def tell(self, look: Callable[[object], None]) -> None:
        """Call *look* when the outcome is there, in the thread that brings it; asked once."""
        if not self._told:
            self._told = True
            super().add_done_callback(look)

    def _begin(self) -> bool:
        """Whether the outcome is still wanted; from now on nobody can cancel."""
        with self._deciding:
            return not self.done() and self.set_running_or_notify_cancel()

    # ---- used by the program

    def done(self) -> bool:
        """Whether the outcome is there, or it was cancelled. Does not block."""
        return self._state in _OVER  # one look at one attribute needs no lock

    def result(self, timeout: float | None = None) -> T:
        """The value, waiting for it at most *timeout* seconds (default: the call's own timeout).

        Raises:
            FetchTimeoutError: the wait ended first; the future stays usable.
            WouldBlockError: in a handler or on the actor's loop, unless it is done; write
                ``await future`` there.
            CancelledError: it was cancelled.
            Exception: what the remote function raised, with its traceback as the cause.
        """
        try:
            self._block(timeout)
            self._take()
            return super().result(0)  # type: ignore[no-any-return]
        finally:
            del self  # the error's traceback holds this frame, and the future holds the error

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error that `result` would raise, or None.

        Waits as `result` does, *timeout* seconds at most, and raises what ends its waiting:
        `FetchTimeoutError`, `WouldBlockError`, `CancelledError`.
        """
        self._block(timeout)
        self._take()
        return super().exception(0)

    def wait(self, timeout: float | None = None) -> T:
        """PyTorch's name for `result`; *timeout* is in seconds. Blocks."""
        return self.result(timeout)

    def then(self, callback: Callable[[Future[T]], U]) -> Future[U]:
        """A future for ``callback(self)``, which runs in a thread of the endpoint's pool.

        It runs when the outcome is there, whatever that is. What *callback* raises is the error of
        the new future, whose timeout is this one's. Does not block.
        """
        what = f"what follows {self.what}"
        chained: Future[U] = Future(self._core, self._packer, self._waits, what, self._timeout)
        chained.after = self

        def run(_: object) -> None:
            chained.after = None
            if not chained._begin():
                return  # it was cancelled
            try:
                chained.set_result(callback(self))
            except BaseException as error:
                chained.set_exception(error)

        self.add_done_callback(run)
        return chained

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Call ``fn(self)`` in a thread of the endpoint's pool once the outcome is there."""

        def run(_: object) -> None:
            if not self._core.pool.submit(fn, self):
                fn(self)  # the system ends, and a chain must end with it (G6)

        super().add_done_callback(run)

    def cancel(self) -> bool:
        """Give up waiting, and cancel the call if it has not started. False if it is done.

        A function that runs already goes on, and its result is dropped. Does not block.
        """
        with self._deciding:
            if self.cancelled():
                return True
            if not super().cancel():
                return False
            self.set_running_or_notify_cancel()  # or those who wait already would not wake
        if self.call is not None:
            call = self.call
            self._core.step(lambda: self._core.context.cancel(call))
        return True

    def __await__(self) -> Generator[Any, None, T]:
        """Wait without blocking the loop; the call's own timeout holds."""
        try:
            if not self.done():
                yield from self._until_done()
            self._take()
            return super().result(0)  # type: ignore[no-any-return]
        finally:
            del self  # as in `result`

    # ---- inside

    def _until_done(self) -> Generator[Any, None, None]:
        self._check_self_wait()
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not waiter.done():
                waiter.set_result(None)

        def done(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop ended: nobody waits any more
                loop.call_soon_threadsafe(wake)

        super().add_done_callback(done)
        left = max(0.0, self._deadline - time.monotonic())
        run = self._waits.suspend(self)
        try:
            yield from self._come(waiter, left).__await__()
        except TimeoutError:
            raise self._late(self._timeout) from None
        finally:
            self._waits.unblock(run)

    async def _come(self, waiter: asyncio.Future[None], seconds: float) -> None:
        # Not `asyncio.wait_for`: that of Python 3.11 loses a cancel that comes with the answer.
        async with asyncio.timeout(seconds):
            # In-process actors run only while the program calls in.
            while not waiter.done() and self._core.port.call_in():  # noqa: ASYNC110 - nobody else would
                await asyncio.sleep(0.002)
            await waiter

    def _block(self, timeout: float | None) -> None:
        if self.done():
            return
        self._core.check_process()
        left = check_timeout(timeout, max(1e-3, self._deadline - time.monotonic()), poll=True)
        self._core.check_may_block(self.what)
        self._check_self_wait()
        run = self._waits.block(self)
        try:
            with self._core.pool.waiting():
                came = self._core.port.wait(self, left)
        finally:
            self._waits.unblock(run)
        if not came:
            raise self._late(self._timeout if timeout is None else timeout)

    def _check_self_wait(self) -> None:
        chain = chain_in(self._core)
        if self._rref is None or not chain or self.done():
            return
        if any(each in chain for each in self._core.where_asked(self._rref)):
            raise SelfWaitError(
                f"{self.what} waits for itself: {self._rref} runs one call at a time, and this "
                "code is that call; call the method directly on the object instead"
            )

    def _late(self, seconds: float) -> FetchTimeoutError:
        return FetchTimeoutError(
            f"{self.what} did not come within {seconds:g} s; it may still: wait again, or with "
            "a longer timeout"
        )

    def _take(self) -> None:
        """Unpickle the reply, once, in the thread that asks for it first."""
        if self._taken:
            return
        with self._taking:  # a second thread waits here until the first has unpickled it
            cargo = self._cargo
            if cargo is not None:
                try:
                    frozen = self._packer.open_frozen(cargo)
                    self._result = self._packer.open(cargo) if frozen is None else frozen.thaw()
                    keeper = self.asker() if frozen is not None and self.asker else None
                    if keeper is not None:
                        keeper._frozen = frozen
                except Exception as error:  # an interrupt is no answer: ask again, and it is opened
                    # Without the frames on the way here: they hold the message, and so us.
                    self._exception = error.with_traceback(None)
                    trail = self._core.trail(self._rref) if self._rref else ""
                    if trail:
                        error.add_note(f"farref: it is the value of an alias: {trail}")
                self._let_go()
            self._taken = True

    def on_answer(self, *, keep: bool) -> None:
        """This is for a wait. If a frozen value comes with the answer, its handle may *keep* it.

        Copies nothing. What is not kept is let go of at once: it has descriptors.
        """
        super().add_done_callback(operator.methodcaller("_answered", keep=keep))

    def _answered(self, *, keep: bool) -> None:
        with self._taking:
            cargo = self._cargo
            keeper = self.asker() if keep and self.asker is not None else None
            if cargo is None:
                return
            with contextlib.suppress(FarrefError, MemoryError):  # a fetch will say it
                if keeper is not None:
                    frozen = self._packer.open_frozen(cargo, copy=False)
                    keeper._frozen = frozen or keeper._frozen
            self._let_go()

    def _let_go(self) -> None:
        """The message was opened: its own hold on its references ends."""
        self._cargo = None
        self._core.discards.settle(self._hold)

    def __del__(self) -> None:
        hold = getattr(self, "_hold", None)
        if hold is not None:
            self._core.discards.gone(hold)
