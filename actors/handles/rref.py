"""`RRef`: the handle that a program holds, with PyTorch's name and behaviour.

It holds no protocol state: that is in the `Context` of its endpoint, which counts the handles.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import AsyncIterable, Callable, Generator, Iterable
from threading import get_ident
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, TypeVar, get_origin, overload

from ...printable import html_text
from ...protocol.errors import OwnerDiedError, RefLostError
from ...protocol.ids import RRefId
from ...protocol.messages import Busy
from ...serialization.frozen import Frozen
from ...serialization.pickling import Reference
from ..base import forks
from ..base.interrupts import undisturbed
from ..calls.futures import Future
from ..core import sites
from ..core.current import chain_in, frame
from ..core.discards import Hold
from ..core.sites import Place
from ..values.objects import Stored
from ..values.several import check_number
from ..wire.messages import WorkerInfo
from ..wire.settings import check_timeout
from .front import Front
from .proxies import Proxy, SyncProxy, Way
from .streams import AHEAD_BYTES, Iteration, Stream, check_ahead

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")

NO_FUTURE = (
    "{} is a reference, not a future: pass `ref.future()`, or `asyncio.ensure_future(ref)`; or "
    "wait by `farref.wait(refs)` or `farref.get(refs)`"
)
OF_THE_OBJECT = (
    "; for the object behind it write `ref.rpc_sync(){0}`, or `ref.to_here(){0}` for a copy"
)
LATE = 1.0
"""Seconds for a wait that begins when the value should have been made already."""


class RRef(Reference, Generic[T_co]):
    """A counted reference to an object that lives in one endpoint's process.

    ``RRef(value)`` makes the calling endpoint the owner of *value* (the object itself, not a copy).
    *on_delete*, if given, is called with the value, in a thread of the owner's pool, once no
    reference to it is left anywhere.

    ``RRef(value, frozen=True)`` declares that no code will change the value. It is copied once,
    now, its large buffers into shared memory. Then a fetch on the same host copies no large array,
    but maps it read-only, because the owner and every fetcher read the same memory. Writing to
    one raises `ValueError` ("assignment destination is read-only"). To change an array, copy it:
    ``ref.to_here().copy()``. `local_value` also returns such a value, not the object that was
    passed, which stays the program's own. See docs/values.md.

    ``RRef(value, serial=False)`` says that *value* is safe in several threads: its methods run at
    once. Otherwise they take turns (see `rpc_sync`).

    References are equal, and hash alike, if their `id` is the same.

    Raises:
        SystemDownError: outside any system.
        TypeError: *on_delete* is not a function; a class is not accepted.
        SerializationError: a value that is to be frozen cannot be pickled.
        SharedMemoryFullError: there is no memory left for the frozen value.
    """

    __slots__ = ("__weakref__", "_due", "_front", "_frozen", "_hold", "_rest")

    _id: RRefId
    _frozen: Frozen | None
    """The value, if it is frozen and has been fetched through this handle."""
    _front: Front
    """The endpoint that the handle belongs to."""
    _hold: Hold
    """The handle's count."""
    _due: float | None
    """The time by which the value is to be made; None for no limit, and once there is a value."""
    _rest: Iteration | None
    """An iteration over the value that was left, if there is one; often not set."""

    def __init__(
        self,
        value: T_co,
        on_delete: Callable[[T_co], object] | None = None,
        *,
        frozen: bool = False,
        serial: bool = True,
    ) -> None:
        if on_delete is not None:
            _check_on_delete(on_delete)
        front: Front = frame().core.front
        kept = front.calls.packer.frozen(value) if frozen else value
        with undisturbed:
            rref = front.objects.own(kept, on_delete, serial=serial)
            self._front = front
            self._id = rref
            self._due = None
            self._frozen = None
            self._hold = front.core.discards.hold(self, rref)

    @classmethod
    def _of(cls, front: Front, rrefs: Iterable[RRefId]) -> list[RRef[Any]]:
        """Handles that were counted just now, in the same `undisturbed` section."""
        new, discards = cls.__new__, front.core.discards
        holds, end = discards.holds, discards.end
        made: list[RRef[Any]] = []
        for rref in rrefs:  # there may be very many: as `Discards.hold` does it
            self: RRef[Any] = new(cls)
            self._front = front
            self._id = rref
            self._due = None
            self._frozen = None
            self._hold = hold = Hold(self, end)
            hold.rref = rref
            holds[hold] = None
            made.append(self)
        return made

    def __del__(self) -> None:
        try:
            hold, core = self._hold, self._front.core
        except AttributeError:  # the constructor has failed
            return
        discards = core.discards
        soon = core.woken or discards.releaser == get_ident()
        if soon and not discards.closed and discards.pid == forks.pid:
            # Nearly always, if there are many: `gone` would do the same.
            discards.ended.append(hold)
        else:
            discards.gone(hold)

    # ---- identity

    @property
    def id(self) -> RRefId:
        """The object's id: its `creator` and `number`. The same for every handle of the object."""
        return self._id

    def canonical(self) -> RRefId | None:
        """The id of the object with the value: another one's if this one is an alias, or its own.

        None while this endpoint does not know it. An endpoint learns it with the reference, or from
        the first answer to a fetch, wait or method call on the reference. Does not block.
        """
        return self._front.core.canonical(self._id)

    def owner(self) -> WorkerInfo:
        """The endpoint that holds the value, as far as this one knows (see `canonical`).

        Raises `OwnerDiedError` if the owner is dead, and `RefLostError` if the reference was
        collected in a cycle. Does not block.
        """
        return self._front.core.owner(self._id)

    def owner_name(self) -> str:
        """The owner's name. Raises `OwnerDiedError` as `owner` does."""
        return self.owner().name

    def is_owner(self) -> bool:
        """Whether the value lives in this endpoint."""
        return self._front.core.is_owner(self._id)

    def confirmed_by_owner(self) -> bool:
        """Whether the owner counts this endpoint's reference already (True at the owner).

        A reference that is only lent, for a running call, is not counted; the lender's is.
        """
        return self._front.core.is_confirmed(self._id)

    # ---- the value

    def to_here(self, timeout: float | None = None) -> T_co:
        """A fresh copy of the value, waiting at most *timeout* seconds.

        By default it waits for the creation's own timeout, or else for the system's.

        Raises:
            ValueError: *timeout* is 0 or less; `farref.wait` polls.
            FetchTimeoutError: the value did not come in time. The reference stays usable.
            OverloadedError: the owner did not take the many earlier messages in time.
            OwnerDiedError, RefLostError: the value will never come.
            WouldBlockError: in a handler or on the actor's loop; write ``await rref`` there.
            Exception: the creating function's error, with the remote traceback.
        """
        front = self._front
        front.core.check_may_block(("the value of {}", self._id))
        seconds = self._seconds(timeout)
        if self._frozen is not None:
            known: T_co = front.calls.known(self._id, seconds, self._frozen)
            return known
        future = self._fetch(timeout, chain_in(front.core), direct=True, waits=True)
        try:
            return future.result_or_cancel()
        finally:
            del future, self  # an error's traceback holds this frame

    def local_value(self, timeout: float | None = None) -> T_co:
        """The object itself, not a copy, at its owner; of a frozen object the read-only value.

        While the value is being made, blocks for at most *timeout* seconds (default: as `to_here`).
        Does not wait for requests that are queued on the object.

        Raises:
            ValueError: this endpoint is not the owner; use `to_here`, or `farref.wait`.
            FetchTimeoutError: the value was not made in time.
            WouldBlockError: it is being made, and this is a handler, or the actor's loop.
            SelfWaitError: it is being made, and the code that makes it has called this.
            Exception: the creating function's error, with the remote traceback.
        """
        try:
            stored = self._front.objects.local(self._id) or self._made_here(timeout)
            value: T_co = stored.get()
            return value
        finally:
            del self  # an error's traceback holds this frame

    def _made_here(self, timeout: float | None) -> Stored:
        """Wait for the value that is being made here, or for that of which it is an alias."""
        front = self._front
        core, objects = front.core, front.objects
        left = check_timeout(self._seconds(timeout), core.settings.timeout)
        end = time.monotonic() + left
        instead = "`await` the reference before, or call a plain function on this endpoint"
        core.check_may_block(f"the value of {self._id}", instead)
        while True:
            # The fetch finds waits in a circle, and follows aliases. But it is queued behind the
            # requests on the object, and only the value is wanted here.
            future = front.calls.fetch(self._id, left, chain_in(core), copy=False)
            future.overlooked = True
            there = future.finish
            objects.when_there(self._id, there)
            try:
                future.result()
            finally:
                objects.wait_no_more(self._id, there)
                if not future.done():
                    future.cancel()
                del future, there
            stored = objects.local(self._id)
            if stored is not None:
                return stored
            left = max(1e-3, end - time.monotonic())  # it is the value of another object here

    def future(self, timeout: float | None = None) -> Future[T_co]:
        """A future for a copy of the value. Does not wait for the value.

        *timeout* is in seconds (default: as `to_here`); when it has passed, the fetch ends for
        everybody. The future has the errors that come later.

        Raises:
            ValueError: *timeout* is 0 or less.
            OwnerDiedError, RefLostError: this endpoint knows already that the value is lost.
            OverloadedError: the owner did not take the many earlier messages in time.
        """
        future = self._fetch(timeout, ())
        future.place = sites.caller(1)
        return future

    def __await__(self) -> Generator[Any, None, T_co]:
        """``await rref``: a fresh copy of the value, without blocking the loop."""
        future = self._fetch(None, chain_in(self._front.core), direct=True)
        try:
            return (yield from future.__await__())
        finally:
            future.cancel()  # the same when the awaiting task was cancelled
            del future, self

    def _fetch(
        self,
        timeout: float | None,
        chain: tuple[Busy, ...],
        *,
        direct: bool = False,
        follow: bool = True,
        waits: bool = False,
    ) -> Future[T_co]:
        seconds, calls = self._seconds(timeout), self._front.calls
        if self._frozen is not None:
            return calls.known_already(self._id, seconds, self._frozen)
        return calls.fetch(
            self._id,
            seconds,
            chain,
            direct=direct,
            follow=follow,
            waits=waits,
            asker=weakref.ref(self),
        )

    def _asked(self, function: object, timeout: float | None, place: Place) -> None:
        """Note that code at *place* asked *function* for the value, within *timeout* seconds."""
        if timeout is not None:
            seconds = check_timeout(timeout, self._front.core.settings.timeout)
            self._due = time.monotonic() + seconds
        self._front.unasked.asked(self._id, function, place)

    def _seconds(self, timeout: float | None) -> float | None:
        """The seconds that a wait for the value may take; None for the system's default."""
        if timeout is not None or self._due is None:
            return timeout
        if self._front.core.canonical(self._id) is not None:
            self._due = None  # it has been made
            return None
        left = round(self._due - time.monotonic(), 3)
        return left if left > 0 else LATE

    # ---- methods of the value

    @overload
    def rpc_sync(
        self, timeout: float | None = None, *, resolve: Literal[False] = False
    ) -> T_co: ...
    @overload
    def rpc_sync(self, timeout: float | None = None, *, resolve: bool) -> Any: ...
    def rpc_sync(self, timeout: float | None = None, *, resolve: bool = False) -> Any:
        """``rref.rpc_sync().method(*args)``: run the method at the owner, return its value. Blocks.

        Calls on one object start in the order in which this endpoint made them, and take turns: the
        object never runs in two threads at once. An `async def` method gives its turn away while it
        awaits, so others run meanwhile. (With ``RRef(value, serial=False)`` there are no turns.)
        *timeout* is in seconds (default: the system's). Raises the errors of `farref.rpc_sync`,
        `OwnerDiedError` or `RefLostError` if the object is gone, and `SelfWaitError` if the call
        would wait for itself.

        With *resolve* the method gets the values of those references that are themselves arguments.
        The owner fetches them when the call has its turn. Until they are there, later calls on
        the object wait.

        Besides methods you can use ``rref.rpc_sync()(*args)``; ``rref.rpc_sync()[key]``, also to
        set or delete it; ``rref.rpc_sync().name.get()``, and ``rref.rpc_sync().name = value``;
        operators, also ``+=``, and ``next``. All of this works with `rpc_async` and `remote`, too.
        Only with `rpc_sync`: ``len``, ``in``, ``bool``, ``int``, ``<``, ``with``, and iterations,
        which fetch all items at once. Changing a frozen object raises `TypeError`.

        A type checker takes the proxy for the object, unless *resolve* is given.
        """
        return SyncProxy(Way(self, "sync", timeout, resolve))

    def rpc_async(self, timeout: float | None = None, *, resolve: bool = False) -> Any:
        """``rref.rpc_async().method(*args)``: as `rpc_sync`, but returns a `Future` at once.

        *timeout* is in seconds, as in `farref.rpc_async`. *resolve* is as in `rpc_sync`.

        A type checker cannot know this proxy. It checks ``on(rref).rpc_async(Model.step, x)``.
        """
        return Proxy(Way(self, "async", timeout, resolve))

    def remote(
        self,
        timeout: float | None = None,
        *,
        resolve: bool = False,
        frozen: bool = False,
        serial: bool = True,
        num_returns: int = 1,
    ) -> Any:
        """``rref.remote().method(*args)``: the result stays at the owner; returns its `RRef`.

        Does not block, and does not wait for the value of this reference. *timeout* (in seconds),
        *frozen*, *serial* and *num_returns* are as in `farref.remote`, *resolve* as in `rpc_sync`.

        A type checker cannot know this proxy. It checks ``on(rref).remote(Model.step, x)``.
        """
        check_timeout(timeout, self._front.core.settings.timeout)
        check_number(num_returns)
        return Proxy(Way(self, "remote", timeout, resolve, frozen, serial, num_returns))

    # ---- its items

    @overload
    def stream(
        self: RRef[Iterable[U] | AsyncIterable[U]],
        ahead: int | None = None,
        *,
        ahead_bytes: int = AHEAD_BYTES,
        values: Literal[True] = True,
        timeout: float | None = None,
    ) -> Stream[U]: ...
    @overload
    def stream(
        self: RRef[Iterable[U] | AsyncIterable[U]],
        ahead: int | None = None,
        *,
        ahead_bytes: int = AHEAD_BYTES,
        values: Literal[False],
        timeout: float | None = None,
    ) -> Stream[RRef[U]]: ...
    def stream(
        self,
        ahead: int | None = None,
        *,
        ahead_bytes: int = AHEAD_BYTES,
        values: bool = True,
        timeout: float | None = None,
    ) -> Stream[Any]:
        """The items of the value, one by one: an iterator, and an async iterator. Does not block.

        ``for item in ref`` and ``async for item in ref`` iterate over such a stream. The owner
        takes the items from the value if that is an iterator, for instance a generator, and
        otherwise from a new iterator over it. See docs/streams.md.

        The owner makes at most *ahead* items before they are used, of about *ahead_bytes* bytes. By
        default the number follows the time that an item takes. With ``ahead=0`` each item is made
        when it is asked for. Without *values* the items stay at the owner, and the stream is of
        their references. *timeout* is in seconds, for each item (default: the system's).

        An iteration raises the iterator's own errors at their place, and `FetchTimeoutError`,
        `OwnerDiedError`, `RefLostError`, and `TypeError` if the value is not iterable.

        Raises:
            TypeError, ValueError: an argument has a wrong type or value.
        """
        check_ahead(ahead, ahead_bytes)
        iteration: Iteration | None = getattr(self, "_rest", None)
        if iteration is None or iteration.values != values:
            iteration = Iteration(self._front, self._id, values=values)
        else:
            self._rest = None
        iteration.flow.ahead, iteration.flow.most = ahead, ahead_bytes
        return Stream(self, iteration, timeout)

    def __iter__(self: RRef[Iterable[U] | AsyncIterable[U]]) -> Stream[U]:
        return self.stream()

    def __aiter__(self: RRef[Iterable[U] | AsyncIterable[U]]) -> Stream[U]:
        return self.stream()

    # ---- no future

    def add_done_callback(self, fn: object) -> NoReturn:  # noqa: ARG002 - a future's
        """Raise `TypeError`: a reference is not a future.

        `asyncio.wait` and similar functions call it.
        """
        raise TypeError(NO_FUTURE.format(self))

    if not TYPE_CHECKING:  # for the type checker these are not there at all

        def __getattr__(self, name: str) -> NoReturn:
            """Raise `AttributeError`, saying how to use an attribute of the object."""
            if name == "_condition":  # `concurrent.futures.wait` and `as_completed` look for it
                raise AttributeError(NO_FUTURE.format(self))
            hint = "" if name.startswith("_") else OF_THE_OBJECT.format(f".{name}")
            raise AttributeError(f"'RRef' object has no attribute {name!r}{hint}")

        def __getitem__(self, *_: object) -> NoReturn:
            raise TypeError(f"'RRef' object is not subscriptable{OF_THE_OBJECT.format('[key]')}")

        __setitem__ = __delitem__ = __getitem__

        def __contains__(self, item: object) -> NoReturn:
            raise TypeError(
                f"argument of type 'RRef' is no container: for the object behind it write "
                f"`{item!r} in ref.rpc_sync()`"
            )

        def __len__(self) -> NoReturn:
            raise TypeError(
                "object of type 'RRef' has no len(); for the object behind it write "
                "`len(ref.rpc_sync())`, or `len(ref.to_here())` for a copy"
            )

        def __bool__(self) -> bool:  # Python would call `__len__`
            return True

    def __eq__(self, other: object) -> bool:
        return self._id == other._id if isinstance(other, RRef) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._id)

    def _repr_html_(self) -> str:
        return f"<code>{html_text(repr(self))}</code>"

    def __repr__(self) -> str:
        if getattr(self, "_hold", None) is None:
            return "RRef(not made)"  # the constructor has failed
        try:
            return f"RRef({self._id} at {self._front.core.owner_id(self._id)})"
        except OwnerDiedError:
            return f"RRef({self._id}, whose owner is dead)"
        except RefLostError:
            return f"RRef({self._id}, collected)"


def _check_on_delete(given: object) -> None:
    if isinstance(given, type) or get_origin(given) is not None:
        raise TypeError(
            f"on_delete must be a function that takes the value, not the type {given!r}. A type "
            "hint as in PyTorch is for `farref.rpc.RRef` only: leave it out here"
        )
    if not callable(given):
        raise TypeError(f"on_delete must be a function that takes the value, not {given!r}")
