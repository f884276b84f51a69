"""Proxies: operations on the object behind a reference, carried out where the object lives.

No operation waits for the reference itself. Each request leaves at once, is queued where the value
will be, and runs there in the order of the requests on this reference. The result of a `remote` is
a reference that takes the next request: so a chain of calls costs one round trip (promise
pipelining).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ..core import sites
from ..core.current import chain_in
from ..values.making import Making

if TYPE_CHECKING:
    from ...protocol.ids import RRefId
    from .front import Front


class Handle(Protocol):
    """A reference (`RRef`)."""

    _front: Front

    @property
    def id(self) -> RRefId:
        """The object's id."""


class Proxy:
    """The object behind a reference: call its methods, call it, index it, read its attributes.

    ====================  ==================================================
    ``p.method(*args)``   call a method
    ``p(*args)``          call the object itself
    ``p[key]``            index it
    ``p.name.get()``      read an attribute
    ====================  ==================================================

    Each returns the result, a `Future` or an `RRef`, for a proxy of `rpc_sync`, `rpc_async` or
    `remote`.
    """

    __slots__ = ("__way",)  # any other name may be an attribute of the object

    def __init__(
        self,
        rref: Handle,
        how: str,
        timeout: float | None,
        *,
        frozen: bool = False,
        serial: bool = True,
    ) -> None:
        self.__way = Way(rref, how, timeout, frozen, serial)

    def __getattr__(self, name: str) -> ProxyAttribute:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)  # copy, pickle and repr mean the proxy, not the object
        return ProxyAttribute(self.__way, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the object itself there."""
        return self.__way.ask("__call__", args, kwargs)

    def __getitem__(self, key: Any) -> Any:
        return self.__way.ask("__getitem__", (key,), {})

    def __iter__(self) -> Any:
        # Without this Python would index the object, one call after the other, until one raises.
        raise TypeError(f"{self!r} cannot be iterated over from here; fetch the value")

    def __repr__(self) -> str:
        return repr(self.__way)


class ProxyAttribute:
    """An attribute of the object behind a reference: a method to call, or a value to `get`."""

    __slots__ = ("__name__", "_way")

    def __init__(self, way: Way, name: str) -> None:
        self._way = way
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it there."""
        return self._way.ask(self.__name__, args, kwargs)

    def get(self) -> Any:
        """Read it there."""
        return self._way.ask("__getattr__", (self.__name__,), {})

    def __repr__(self) -> str:
        return f"<{self.__name__!r} of {self._way!r}: call it, or get() it>"


@dataclass(frozen=True, slots=True)
class Way:
    """The way to ask the object behind a reference; the result is a value, `Future` or `RRef`."""

    rref: Handle
    how: str
    timeout: float | None
    frozen: bool
    """Whether to freeze the resulting object."""
    serial: bool = True
    """Whether requests on the resulting object take turns."""

    def ask(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Have the object carry out the operation *name*."""
        front, what = self.rref._front, (name, args, kwargs)
        if self.how == "remote":
            special = self.frozen or not self.serial
            to_do = (Making(name, self.frozen, self.serial), args, kwargs) if special else what
            made = front.calls.remote_method(self.rref.id, to_do)
            made._expect(self.timeout)
            front.outcomes.asked(made.id, to_do[0], sites.caller(2))
            return made
        if self.how == "async":
            future = front.calls.invoke(self.rref.id, what, self.timeout, ())
            future.place = sites.caller(2)
            return future
        core = front.core
        core.check_may_block(f"the reply of {name}()", f"`await rref.rpc_async().{name}()`")
        return front.calls.invoke(self.rref.id, what, self.timeout, chain_in(core)).result()

    def __repr__(self) -> str:
        return f"<{self.how} access to {self.rref!r}>"
