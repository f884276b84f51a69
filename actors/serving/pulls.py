"""Pulls: the owner of an iterator takes items from it for the holder that iterates.

`handles.streams` has the other end, and the idea. A pull ends when its credit is used up, when the
iterator ends or raises, or after a while, so that others have their turn, and nothing runs for long
for a holder that has gone. Its reply brings the items.

An item is sent soon after it came, also while the iterator takes long for the next one. A thread
sees to that (`Pulls._send`), as the one that runs the iterator cannot.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from types import AsyncGeneratorType, GeneratorType
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from ...protocol.errors import SerializationError
from ...protocol.ids import RRefId, WorkerId
from ...serialization.by_pickle import ATOMS, dumps_plain
from ...serialization.failures import name_of, text_of
from ..calls.calls import Calls
from ..core.core import Core, Internal
from ..core.current import frame
from ..handles.rref import RRef
from ..values.packing import Pack, Packer
from ..wire.messages import WorkerInfo

SOON = 0.002
"""Seconds for which an item may wait for further ones."""
LONGEST = 0.1
"""Seconds after which a pull ends with its current item."""


class StreamState(msgspec.Struct):
    """What has become of an iterator so far."""

    items: int = 0
    """The number of items that were taken from it."""
    to: str = ""
    """The holder that asked last."""
    running: bool = False
    """Whether it makes an item now. Otherwise it waits for credit, or has ended."""
    over: bool = False

    def __str__(self) -> str:
        if self.over:
            return "has ended"
        return f"makes an item for {self.to}" if self.running else "waits for credit"


class Pulls(Internal):
    """The pulls of others at one endpoint."""

    def __init__(self, core: Core, calls: Calls, packer: Packer) -> None:
        self.core, self.calls, self.packer = core, calls, packer
        self._streams: dict[RRefId, StreamState] = {}
        """The objects from which items were taken. Those that are gone leave with the next look."""
        self._locks: WeakValueDictionary[int, Any] = WeakValueDictionary()
        """By the `id` of an iterator, while pulls take items from it. Two may: the code of an async
        one gives its turn away while it awaits, and some objects take no turns."""
        self._changed = threading.Condition()
        self._waiting: list[Batch] = []
        """Those with items that wait for further ones."""
        self._sends = False
        """Whether the thread runs that sends them."""

    def pull(self, value: Any, batch: Batch) -> Any:
        """Take items from *value*, or from a new iterator over it. Returns the reply."""
        kind = type(value)
        if not hasattr(kind, "__next__") and not hasattr(kind, "__anext__"):
            is_async = hasattr(kind, "__aiter__") and not hasattr(kind, "__iter__")
            value = aiter(value) if is_async else iter(value)
            batch.iterator = RRef(value)
        if hasattr(type(value), "__anext__"):
            return self._take_async(value, batch)
        return self._take(value, batch)

    def _take(self, value: Iterator[Any], batch: Batch) -> Pack:
        with self._lock_of(value, threading.Lock):
            try:
                with batch:
                    try:
                        while batch.add(next(value)):
                            pass
                    except StopIteration as stop:
                        batch.end = (stop.value,)
                return batch.reply()
            except BaseException as error:
                if batch.was_refused(error) and type(value) is GeneratorType:
                    with contextlib.suppress(BaseException), contextlib.closing(value):
                        value.throw(error)
                raise

    async def _take_async(self, value: AsyncIterator[Any], batch: Batch) -> Pack:
        import asyncio  # noqa: PLC0415 - the running loop has loaded it

        async with self._lock_of(value, asyncio.Lock):
            try:
                with batch:
                    try:
                        while batch.add(await anext(value)):
                            pass
                    except StopAsyncIteration:
                        batch.end = (None,)
                return batch.reply()
            except BaseException as error:
                if batch.was_refused(error) and type(value) is AsyncGeneratorType:
                    with contextlib.suppress(BaseException):
                        await value.athrow(error)
                        await value.aclose()
                raise

    async def close_async(self, value: Any) -> None:
        """End *value*, after the pulls that take items from it."""
        import asyncio  # noqa: PLC0415 - as above

        async with self._lock_of(value, asyncio.Lock):
            await value.aclose()

    def state_of(self, rref: RRefId) -> StreamState:
        """The state of the iterator *rref*, which lives here."""
        return self._streams.setdefault(rref, StreamState())

    def streams(self) -> dict[RRefId, StreamState]:
        """The iterators that live here. Under the endpoint's lock."""
        owners = self.core.context.owners
        for rref in [rref for rref in self._streams.copy() if rref not in owners]:
            self._streams.pop(rref, None)
        return self._streams.copy()

    def _lock_of(self, value: object, make: Callable[[], Any]) -> Any:
        return self._locks.setdefault(id(value), make())

    def send_soon(self, batch: Batch) -> None:
        """Have the items of *batch* sent, unless they are sent before."""
        with self._changed:
            self._waiting.append(batch)
            if self._sends:
                self._changed.notify()
            else:
                self._sends = True
                self.core.threads.start(self._send, f"farref streams {self.core.me}")

    def _send(self) -> None:
        while True:
            with self._changed:
                if not self._waiting and not self._changed.wait(1.0):
                    self._sends = False
                    return
                batches, self._waiting = self._waiting, []
            time.sleep(SOON)
            if self.core.closed:
                return
            while batches:  # no variable may keep one, which has references
                batches.pop().send()


class Batch:
    """The items of one pull that have not been sent yet, and what its reply says."""

    def __init__(
        self, rref: RRefId, holder: WorkerId, credit: int, number: int, *, values: bool
    ) -> None:
        here = frame()
        self._pulls: Pulls = here.core.front.pulls
        self._caller = here.run.call.caller if here.run is not None else holder
        if self._caller != holder:
            # The owner of an alias has passed the pull on, and passes the reply back. What is sent
            # to the holder directly might overtake it.
            credit = 1
        self._holder, self._credit, self._number, self._values = holder, credit, number, values
        self._items: deque[Any] = deque()
        self._sending = threading.Lock()
        self._count = 0
        self._began = self._sent = time.perf_counter()
        with here.core.lock:
            self._rref = here.core.context.whereabouts(rref)
        self._state = StreamState()
        self.iterator: RRef[Any] | None = None
        """The iterator, if the holder's reference is to an iterable."""
        self.end: tuple[Any] | None = None
        """The value with which the iterator ended."""
        self.refused: BaseException | None = None
        """Why an item cannot be sent."""

    def __enter__(self) -> None:
        rref = self._rref if self.iterator is None else self.iterator.id
        state = self._state = self._pulls.state_of(rref)
        state.to, state.running = self._holder.name, True

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._state.running, self._state.over = False, self.end is not None
        if error is not None:  # which is the reply
            self.send()

    def add(self, item: Any) -> bool:
        """Add *item*. Returns whether the pull goes on. Raises the error if it cannot be sent."""
        if not self._values:
            item = RRef(item)
        elif type(item) not in ATOMS:
            item = self._pickled(item)
        items, now = self._items, time.perf_counter()
        self._count += 1
        self._state.items += 1
        items.append(item)
        if self._count >= self._credit or now > self._began + LONGEST:
            return False
        if now > self._sent + SOON:
            self.send()
        elif len(items) == 1:
            self._pulls.send_soon(self)
        if self.refused is not None:
            raise self.refused
        return True

    def _pickled(self, item: Any) -> Any:
        """*item* as `bytes` if it is plain, or else itself; see `streams`.

        It is refused now if it cannot be sent, as its iterator is to know that.
        """
        try:
            plain = dumps_plain(item)
            if plain is not None and not plain[1]:
                return plain[0]
            self._pulls.packer.pack(item, self._caller)
        except Exception as error:
            kind = name_of(type(item))
            text = f"an item of the iterator, a {kind}, cannot be sent: {text_of(error)}"
            self.refused = SerializationError(text)
            raise self.refused from error
        return item

    def was_refused(self, error: BaseException) -> bool:
        """Whether *error* is that of an item. It is forgotten: its traceback has this batch."""
        refused, self.refused = self.refused, None
        return refused is error

    def send(self) -> None:
        """Send the items that are here, before the reply. In any thread; raises nothing."""
        address = self._pulls.core.address_of(self._caller)
        with self._sending:
            items = self._taken()
            try:
                if items and address is not None:
                    to = WorkerInfo(self._caller, address)
                    self._pulls.calls.tell(to, items, ("answer", self._number))
            except Exception as error:  # such as that of the holder's death
                self.refused = error
            self._sent = time.perf_counter()

    def _taken(self) -> list[Any]:
        # Not `list` and `clear`: the iterator's thread may add one in between.
        return [self._items.popleft() for _ in range(len(self._items))]

    def reply(self) -> Pack:
        """The reply, with the items that are left."""
        with self._sending:
            items = self._taken()
        if self.refused is not None:
            raise self.refused
        seconds = time.perf_counter() - self._began
        said = items, self.end, self.iterator, self._count, seconds
        return self._pulls.packer.pack(said, self._caller)


def pull(value: Any, credit: int, number: int, values: bool, *ends: Any) -> Any:
    """The operation `PULL`: take *credit* items at most.

    *ends*: the holder's name and incarnation, and the object's creator's and number.
    """
    name, incarnation, creator, of, which = ends
    rref = RRefId(WorkerId(creator, of), which)
    batch = Batch(rref, WorkerId(name, incarnation), credit, number, values=values)
    return batch._pulls.pull(value, batch)


def close(value: Any) -> Any:
    """The operation `CLOSE`: end the iterator, if it can be ended."""
    if hasattr(value, "aclose"):
        return frame().core.front.pulls.close_async(value)
    return value.close() if hasattr(value, "close") else None
