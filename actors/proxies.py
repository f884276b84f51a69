"""Proxies: what is done to the object behind a reference, where it lives, however far away.

Nothing here waits for the reference itself. What is asked for goes out at once, is queued where
the value will be, and runs there in the order in which it was asked for on this reference. The
result of a `remote` is a reference, of which the next thing may be asked: so a chain of calls
costs one round trip (promise pipelining).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .current import chain_in
from .freezing import Freezing

if TYPE_CHECKING:
    from .rref import RRef


class Proxy:
    """The object behind a reference: call its methods, call it, index it, read its attributes.

    ====================  ==================================================
    ``p.method(*args)``   call a method
    ``p(*args)``          call the object itself
    ``p[key]``            index it
    ``p.name.get()``      read an attribute
    ====================  ==================================================

    Each returns the result, a `Future` or an `RRef`, as the proxy was asked for by `rpc_sync`,
    `rpc_async` or `remote`.
    """

    __slots__ = ("_frozen", "_how", "_rref", "_timeout")

    def __init__(
        self, rref: RRef[Any], how: str, timeout: float | None, *, frozen: bool = False
    ) -> None:
        self._rref = rref
        self._frozen = frozen
        self._how = how
        self._timeout = timeout

    def __getattr__(self, name: str) -> Member:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)  # copy, pickle and repr ask the proxy, not the object
        return Member(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the object itself there."""
        return _ask(self, "__call__", args, kwargs)

    def __getitem__(self, key: Any) -> Any:
        return _ask(self, "__getitem__", (key,), {})

    def __iter__(self) -> Any:
        # Or Python would index it, one call after the other, until one raises.
        raise TypeError(f"{self!r} cannot be iterated over from here; fetch the value")

    def __repr__(self) -> str:
        return f"<{self._how} access to {self._rref!r}>"


class Member:
    """An attribute of the object behind a reference: a method to call, or a value to `get`."""

    __slots__ = ("__name__", "_proxy")

    def __init__(self, proxy: Proxy, name: str) -> None:
        self._proxy = proxy
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it there."""
        return _ask(self._proxy, self.__name__, args, kwargs)

    def get(self) -> Any:
        """Read it there."""
        return _ask(self._proxy, "__getattr__", (self.__name__,), {})

    def __repr__(self) -> str:
        return f"<{self.__name__!r} of {self._proxy!r}: call it, or get() it>"


def _ask(proxy: Proxy, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    rref, endpoint, what = proxy._rref, proxy._rref._endpoint, (name, args, kwargs)
    if proxy._how == "remote":
        to_do = (Freezing(name), args, kwargs) if proxy._frozen else what
        made = endpoint.calls.remote_method(rref, to_do)
        made._timeout = proxy._timeout
        return made
    if proxy._how == "async":
        return endpoint.calls.invoke(rref, what, proxy._timeout, ())
    endpoint.check_may_block(f"the reply of {name}()", f"`await rref.rpc_async().{name}()`")
    return endpoint.calls.invoke(rref, what, proxy._timeout, chain_in(endpoint)).result()
