"""Streams: the iteration over the object behind a reference, item by item.

A holder asks the owner for items by *pulls*; `protocol.streams` says when, and for how many.
Without credit the owner does not run the iterator, so a slow consumer slows a generator down, also
through a chain of stages. A pull is a request on the object like a method call, and takes the
object's turn while the iterator runs. Its reply brings the items. If the next one takes long, those
that are there come before, as answers to a question with any number of them (`Answers`).

A plain item travels as the `bytes` of its pickle, and is unpickled when it is used. So the owner
knows at once whether it can be sent.

An iteration that is left (``break``) keeps what it has asked for in its handle, and the next one
goes on from there. What has been asked for is lost with the last handle here.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import math
import pickle
from collections import deque
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from ...protocol.errors import FarrefError, FetchTimeoutError
from ...protocol.ids import RRefId
from ...protocol.messages import Busy
from ...protocol.streams import StreamFlow
from ...serialization.failures import CAUGHT, pass_on
from ...serialization.pickling import cannot_unpickle
from ..base.interrupts import undisturbed
from ..calls.futures import Future
from ..core.current import chain_in
from ..wire.settings import check_timeout
from .front import Front

T = TypeVar("T")

PULL = "__items__"
"""The operation that takes items from an iterator."""
CLOSE = "__close__"
"""The operation that ends an iterator."""
AHEAD_BYTES = 4 << 20
"""The bytes of items that a holder asks for ahead, if it is not told otherwise."""


def check_ahead(ahead: object, ahead_bytes: object) -> None:
    """Raise `TypeError` or `ValueError` for a wrong argument of `RRef.stream`."""
    for name, given, least in ("ahead", ahead, 0), ("ahead_bytes", ahead_bytes, 1):
        if given is None and name == "ahead":
            continue
        if type(given) is not int:
            raise TypeError(f"{name} must be a number, not {given!r}")
        if given < least:
            raise ValueError(f"{name} must be {least} or more, not {given}")


class Iterated(Protocol):
    """A reference (`RRef`)."""

    _front: Front
    _rest: Iteration | None

    @property
    def id(self) -> RRefId:
        """The object's id."""


class Pull:
    """One request for items, and the answers that bring them."""

    def __init__(self, front: Front, rref: RRefId, credit: int, *, values: bool) -> None:
        calls, core = front.calls, front.core
        self.answers = calls.answers(("the next item of {}", rref))
        # Numbers and texts are pickled at once.
        me, creator = core.me, rref.creator
        ends = me.name, me.incarnation, creator.name, creator.incarnation, rref.number
        what: Any = PULL, (credit, self.answers.number, values, *ends), {}
        try:
            self.reply: Any = calls.invoke(rref, what, math.inf, chain_in(core))
        except BaseException:
            calls.no_more(self.answers)
            raise
        self.reply.overlooked = True
        answers = self.answers  # not this pull: the reply's callback would keep its own future
        concurrent.futures.Future.add_done_callback(self.reply, lambda _: calls.no_more(answers))


class Iteration:
    """The pulls and the items of one iteration. It does not hold the handle, which may hold it."""

    def __init__(self, front: Front, rref: RRefId, *, values: bool) -> None:
        self._front, self._rref = front, rref
        self.values = values
        self.flow = StreamFlow(None, AHEAD_BYTES)
        self.items: deque[Any] = deque()
        self.iterator: Iterated | None = None
        """The new iterator, if the value is an iterable: each iteration begins anew."""
        self.value: Any = None
        """The value with which the iterator ended."""
        self._pulls: deque[Pull] = deque()

    @property
    def over(self) -> bool:
        """Whether no further item comes."""
        return self.flow.over

    def next(self) -> Future[Any]:
        """The future of the next items, which have been asked for; see `take`."""
        self._ask()
        return self._pulls[0].answers.line[0]

    def take(self, found: list[Any] | None) -> None:
        """Take what `next` has brought: items, or None if the pull was answered."""
        pull = self._pulls[0]
        if found is not None:
            with undisturbed:
                pull.answers.line.popleft()
                self.flow.came(len(found))
                self.items.extend(found)
            return
        reply = pull.reply
        size = getattr(getattr(reply._cargo, "payload", None), "size", 0)
        try:
            found, end, iterator, taken, seconds = reply.result()
        except BaseException:
            if reply._taken:  # else an interrupt came before
                self._pulls.popleft()
                self.flow.failed()
            raise
        first = not self.flow.known
        with undisturbed:
            self._pulls.popleft()
            self.items.extend(found)
            each = size / len(found) if found else None
            self.flow.answered(taken, seconds, each, over=end is not None)
            if iterator is not None:
                self.iterator, self._rref = iterator, iterator.id
            if end is not None:
                self.value = end[0]
                self._pulls.clear()
        if end is None and not first:  # the first item comes as soon as a call's result
            with contextlib.suppress(FarrefError):  # which the items come before
                self._ask()

    def _ask(self) -> None:
        """Ask for more items, if there is credit."""
        credit = self.flow.ask(len(self.items))
        if credit:
            try:
                self._pulls.append(Pull(self._front, self._rref, credit, values=self.values))
            except BaseException:
                self.flow.asked.pop()
                raise

    def close(self, timeout: float, chain: tuple[Busy, ...]) -> Future[None]:
        """Nobody wants the items any more: end the iterator. Returns the future of that."""
        self.items.clear()
        while self._pulls:
            self._pulls.popleft().reply.give_up()
        self.flow.over = True
        return self._front.calls.invoke(self._rref, (CLOSE, (), {}), timeout, chain)

    def __del__(self) -> None:
        if self._pulls:
            core = self._front.core
            core.soon.extend(pull.reply.give_up for pull in self._pulls)
            core.wake()


def _opened(item: Any) -> Any:
    """*item*, which is pickled if it is `bytes`."""
    if type(item) is not bytes:
        return item
    try:
        return pickle.loads(item)  # noqa: S301 - of an endpoint of the system
    except CAUGHT as error:
        pass_on(error)
        raise cannot_unpickle("an item", error) from error


class Stream(Generic[T]):
    """The items of the object behind a reference; made by `RRef.stream`, and by iterations.

    It is an iterator and an async iterator, for one thread or task at a time.
    """

    def __init__(self, ref: Iterated, iteration: Iteration, timeout: float | None) -> None:
        self._ref, self._iteration, self._items = ref, iteration, iteration.items
        self._timeout = check_timeout(timeout, ref._front.core.settings.timeout)

    def __iter__(self) -> Stream[T]:
        return self

    def __aiter__(self) -> Stream[T]:
        return self

    def __next__(self) -> T:
        items, iteration = self._items, self._iteration
        while not items:
            if iteration.over:
                raise StopIteration(iteration.value)
            core = self._ref._front.core
            core.check_may_block(("the next item of {}", self._ref.id), "`async for`")
            came = iteration.next()
            try:
                iteration.take(came.result(self._timeout))
            except FetchTimeoutError:
                if came.done():
                    raise
                raise self._late() from None
        return _opened(items.popleft())  # type: ignore[no-any-return]  # the user knows their type

    async def __anext__(self) -> T:
        items, iteration = self._items, self._iteration
        while not items:
            if iteration.over:
                raise StopAsyncIteration
            came = iteration.next()
            came._timeout = self._timeout
            try:
                iteration.take(await came)
            except FetchTimeoutError:
                if came.done():
                    raise
                raise self._late() from None
        return _opened(items.popleft())  # type: ignore[no-any-return]  # as above

    def _late(self) -> FetchTimeoutError:
        return FetchTimeoutError(
            f"the next item of {self._ref.id} did not come within {self._timeout:g} s; it may "
            "still: go on with the iteration, or give `stream` a longer timeout"
        )

    def close(self) -> None:
        """End the iterator for all holders: a generator's ``finally`` blocks run. Blocks."""
        if not self._iteration.over:
            self._iteration.close(self._timeout, chain_in(self._ref._front.core)).result()

    async def aclose(self) -> None:
        """The same as `close`, for coroutines."""
        if not self._iteration.over:
            await self._iteration.close(self._timeout, ())

    def __del__(self) -> None:
        kept = getattr(self, "_iteration", None)
        if kept is not None and kept.iterator is None and (kept.items or not kept.over):
            self._ref._rest = kept  # the next iteration goes on

    def __reduce__(self) -> NoReturn:
        raise TypeError("a stream stays where it was made: pass the reference on")

    def __repr__(self) -> str:
        return f"<stream of {self._ref!r}>"
