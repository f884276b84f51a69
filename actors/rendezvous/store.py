"""`Store`: the keys and values that the members of one round share.

The names and the meaning are those of `torch.distributed.Store`. The rendezvous service keeps the
store; a `get` that waits there holds up no other call. Only members of the current round may use
it, and it ends with the round. `AwaitableStore` is for handlers, `Store` for all other code.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from datetime import timedelta
from typing import Any, Never

from ...protocol.ids import WorkerId
from ...protocol.store import Change, Op
from ..wire.settings import check_timeout
from .client import Client, blocking

Timeout = float | timedelta
Value = str | bytes

DEFAULT_TIMEOUT = 300.0
"""Seconds that `get` and `wait` wait at most, by default; as in torch."""
NO_QUEUES = (
    "the store of a round has no queues; number the values: store.set(f'q/{store.add('last', 1)}', "
    "value) adds one, and store.get(f'q/{store.add('next', 1)}') waits for the next one"
)
MARGIN = 5.0
"""Seconds that the service has for an answer, beyond the time of the wait itself."""


class AwaitableStore:
    """The store of one round. Its methods that reach the service are awaited, in any handler.

    Each of them, also a `get` that waits, raises `RendezvousStateError` once this node has left the
    round or the round is over; `RendezvousConnectionError` if the service cannot be reached;
    and `FetchTimeoutError` if it does not answer in time.
    """

    def __init__(
        self, client: Client, run: str, number: int, node: WorkerId, prefix: str = ""
    ) -> None:
        self._client = client
        self._where = (run, number, node)
        self._prefix = prefix
        self._timeout = DEFAULT_TIMEOUT

    async def set(self, key: str, value: Value) -> None:
        """Set *key* to *value*; text is stored as UTF-8."""
        await self._change("set", [key], [value])

    async def multi_set(self, keys: Sequence[str], values: Sequence[Value]) -> None:
        """Set each key to its value, all at once. Raises `ValueError` unless they are pairs."""
        if len(keys) != len(values):
            raise ValueError(f"each of {len(keys)} keys needs a value, but {len(values)} are given")
        await self._change("set", keys, values)

    async def get(self, key: str) -> bytes:
        """The value of *key*. Waits for it until the timeout (`FetchTimeoutError`)."""
        return (await self._values([key], None))[0]

    async def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of *keys*. Waits for all until the timeout (`FetchTimeoutError`)."""
        return await self._values(keys, None)

    async def wait(self, keys: Sequence[str], timeout: Timeout | None = None) -> None:  # noqa: ASYNC109 - as torch has it
        """Wait until all *keys* are there, for *timeout* at most (`FetchTimeoutError`).

        *timeout* is in seconds, or a `timedelta` as in torch.
        """
        await self._values(keys, timeout)

    async def check(self, keys: Sequence[str]) -> bool:
        """Whether all *keys* are there. Does not wait for them."""
        there = set(await self._keys())
        return there.issuperset(self._full(keys))

    async def add(self, key: str, amount: int) -> int:
        """Add *amount* to the number at *key* (0 if the key is new), and return the sum.

        Raises `ValueError` if its value is not a number.
        """
        if isinstance(amount, bool) or not isinstance(amount, int):
            raise TypeError(f"amount must be a whole number, not {amount!r}")
        return int(await self._change("add", [key], (), amount))

    async def append(self, key: str, value: Value) -> None:
        """Append *value* to the value of *key*."""
        await self._change("append", [key], [value])

    async def compare_set(self, key: str, expected: Value, desired: Value) -> bytes:
        """Set *key* to *desired* if its value is *expected*. Returns its value after that.

        A key that is not there is made if *expected* is "". Otherwise it is not made, and
        *expected* is returned.
        """
        return bytes(await self._change("compare_set", [key], [expected, desired]))

    async def delete_key(self, key: str) -> bool:
        """Remove *key*. Returns whether it was there."""
        return bool(await self._change("delete", [key]))

    async def num_keys(self) -> int:
        """The number of keys."""
        return len(await self.list_keys())

    async def list_keys(self) -> list[str]:
        """All keys; of a view those that begin with its prefix, without it."""
        here = len(self._prefix)
        return [key[here:] for key in await self._keys() if key.startswith(self._prefix)]

    async def barrier(self, key: str, world_size: int, timeout: Timeout | None = None) -> None:  # noqa: ASYNC109 - as torch has it
        """Wait until *world_size* callers have come to *key*, *timeout* at most.

        The next *world_size* callers of the same key wait for each other again. The keys that it
        stores begin with *key* and a slash. Raises `FetchTimeoutError` if some do not come in time,
        and `ValueError` if *world_size* is less than 1.
        """
        if world_size < 1:
            raise ValueError(f"world_size must be 1 or more, not {world_size}")
        came = await self.add(f"{key}/came", 1)
        generation = (came + world_size - 1) // world_size
        if came == generation * world_size:
            await self.set(f"{key}/all {generation}", b"")
        await self.wait([f"{key}/all {generation}"], timeout)

    @property
    def timeout(self) -> float:
        """Seconds that `get` and `wait` wait at most, by default."""
        return self._timeout

    def set_timeout(self, timeout: Timeout) -> None:
        """Set the `timeout`, in seconds or as a `timedelta`. Raises `ValueError` for 0 or less."""
        self._timeout = check_timeout(timeout, DEFAULT_TIMEOUT)

    def prefix(self, prefix: str) -> AwaitableStore:
        """A view of the keys that begin with *prefix* and a slash, without this beginning."""
        return self._view(f"{self._prefix}{_key(prefix)}/")

    def clone(self) -> AwaitableStore:
        """Another view of the same keys. `set_timeout` of one leaves the other's as it is."""
        return self._view(self._prefix)

    # ---- inside

    def _view(self, prefix: str) -> AwaitableStore:
        view = AwaitableStore(self._client, *self._where, prefix=prefix)
        view.set_timeout(self._timeout)
        return view

    async def _change(
        self, what: Change, keys: Sequence[str], values: Sequence[Value] = (), amount: int = 0
    ) -> Any:
        me, seconds = self._client.core.me, self._client.core.settings.timeout
        op = Op(me, 0, 0, what, self._full(keys), tuple(map(_bytes, values)), amount)
        doing = self._client.change("change", *self._where, op=op, seconds=seconds)
        answer = await self._client.wait(doing)
        if isinstance(answer, str):
            raise ValueError(answer)  # noqa: TRY004 - the answer is the error's text
        return answer

    async def _values(self, keys: Sequence[str], timeout: Timeout | None) -> list[bytes]:  # noqa: ASYNC109 - the service's own limit
        seconds = check_timeout(timeout, self._timeout)
        asked = (*self._where, self._full(keys), seconds)
        doing = self._client.ask("values", *asked, seconds=seconds + MARGIN)
        found: list[bytes] = await self._client.wait(doing)
        return found

    async def _keys(self) -> list[str]:
        doing = self._client.ask("keys", *self._where, seconds=MARGIN)
        found: list[str] = await self._client.wait(doing)
        return found

    def _full(self, keys: Sequence[str]) -> tuple[str, ...]:
        if isinstance(keys, str):
            raise TypeError(f"keys must be a list, not the text {keys!r}")
        return tuple(self._prefix + _key(key) for key in keys)


class Store:
    """The store of one round: the methods of `AwaitableStore`, which block here.

    They raise the same errors, and `WouldBlockError` in a handler: there await the methods of
    `awaitable`.
    """

    def __init__(self, awaitable: AwaitableStore) -> None:
        self.awaitable = awaitable
        """The same store for handlers: ``await store.awaitable.get("key")``."""

    set = blocking(AwaitableStore.set)
    multi_set = blocking(AwaitableStore.multi_set)
    get = blocking(AwaitableStore.get)
    multi_get = blocking(AwaitableStore.multi_get)
    wait = blocking(AwaitableStore.wait)
    check = blocking(AwaitableStore.check)
    add = blocking(AwaitableStore.add)
    append = blocking(AwaitableStore.append)
    compare_set = blocking(AwaitableStore.compare_set)
    delete_key = blocking(AwaitableStore.delete_key)
    num_keys = blocking(AwaitableStore.num_keys)
    list_keys = blocking(AwaitableStore.list_keys)
    barrier = blocking(AwaitableStore.barrier)

    def queue_push(self, key: str, value: Value) -> Never:
        """Torch's queue. Raises `NotImplementedError`, which names the replacement."""
        raise NotImplementedError(NO_QUEUES)

    def queue_pop(self, key: str, block: bool = True) -> Never:
        """Torch's queue. Raises `NotImplementedError`, which names the replacement."""
        raise NotImplementedError(NO_QUEUES)

    def queue_len(self, key: str) -> Never:
        """Torch's queue. Raises `NotImplementedError`, which names the replacement."""
        raise NotImplementedError(NO_QUEUES)

    @property
    def timeout(self) -> float:
        """Seconds that `get` and `wait` wait at most, by default."""
        return self.awaitable.timeout

    def set_timeout(self, timeout: Timeout) -> None:
        """Set the `timeout`, in seconds or as a `timedelta`. Raises `ValueError` for 0 or less."""
        self.awaitable.set_timeout(timeout)

    def prefix(self, prefix: str) -> Store:
        """A view of the keys that begin with *prefix* and a slash, without this beginning."""
        return Store(self.awaitable.prefix(prefix))

    def clone(self) -> Store:
        """Another view of the same keys. `set_timeout` of one leaves the other's as it is."""
        return Store(self.awaitable.clone())

    def _block(self, doing: Coroutine[Any, Any, Any]) -> Any:
        client = self.awaitable._client
        return client.block(doing, "the store", "`await store.awaitable.get(...)` and its like")


def _key(key: str) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key must be text, not {key!r}")
    return key


def _bytes(value: Value) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"a value must be bytes or text, not {value!r}")
    return bytes(value)
