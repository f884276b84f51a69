"""Proxies: operations on the object behind a reference, carried out where the object lives.

No operation waits for the reference itself. Each request leaves at once, is queued where the value
will be, and runs there in the order of the requests on this reference. The result of a `remote` is
a reference that takes the next request: so a chain of calls costs one round trip (promise
pipelining).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ..core import sites
from ..core.current import chain_in
from ..values.making import made_as
from ..values.several import Several
from ..values.wrapper import ByValue
from .parts import parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...protocol.ids import RRefId
    from ..core.sites import Place
    from .front import Front


class Handle(Protocol):
    """A reference (`RRef`)."""

    _front: Front

    @property
    def id(self) -> RRefId:
        """The object's id."""


class Proxy:
    """The object behind a reference: call its methods, call it, index it, use its attributes.

    ======================  ==================================================
    ``p.method(*args)``     call a method
    ``p(*args)``            call the object itself
    ``p[key]``              index it
    ``p[key] = value``      set an item; also ``del p[key]``
    ``p.name.get()``        read an attribute
    ``p.name = value``      set an attribute; also ``del p.name``
    ======================  ==================================================

    Each returns the result, a `Future` or an `RRef`, for a proxy of `rpc_sync`, `rpc_async` or
    `remote`. An assignment with ``=`` drops that future or reference, and so its error. To keep it,
    write ``p.__setitem__(key, value)`` or ``p.__setattr__(name, value)``.

    Python needs the answers to ``len(p)``, ``key in p``, ``bool(p)`` and iterations at once, so
    only the proxy of `rpc_sync` has them (`SyncProxy`).
    """

    __slots__ = ("__way",)  # any other name may be an attribute of the object
    __way: Way

    def __init__(self, way: Way) -> None:
        object.__setattr__(self, "_Proxy__way", way)

    def __getattr__(self, name: str) -> ProxyAttribute:
        if name.startswith("__") and name.endswith("__") and name not in ANSWERED:
            raise AttributeError(name)  # copy, pickle and repr mean the proxy, not the object
        return ProxyAttribute(self.__way, name)

    def __setattr__(self, name: str, value: Any) -> Any:
        return self.__way.ask("__setattr__", (name, value), {})

    def __delattr__(self, name: str) -> Any:
        return self.__way.ask("__delattr__", (name,), {})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the object itself, at its owner."""
        return self.__way.ask("__call__", args, kwargs)

    def __getitem__(self, key: Any) -> Any:
        return self.__way.ask("__getitem__", (key,), {})

    def __setitem__(self, key: Any, value: Any) -> Any:
        return self.__way.ask("__setitem__", (key, value), {})

    def __delitem__(self, key: Any) -> Any:
        return self.__way.ask("__delitem__", (key,), {})

    def __iter__(self) -> Any:
        # Without this Python would index the object, one call after the other, until one raises.
        raise TypeError(
            f"{self!r} gives no answer at once, as `in` and iterations need it: use "
            "`rref.rpc_sync()`, or fetch the value"
        )

    def __repr__(self) -> str:
        return repr(self.__way)


ANSWERED = frozenset({"__len__", "__contains__"})
"""Methods that Python's own syntax uses only where the answer comes at once. A program may call
them by name on any proxy."""


class SyncProxy(Proxy):
    """A proxy that waits for each answer.

    ====================  ==================================================
    ``len(p)``            the length of the object
    ``key in p``          whether it contains *key*
    ``for each in p``     iterate over it: the owner makes a list of all items, which comes in one
                          answer; an object that an iteration would use up is refused
    ``bool(p)``           its truth
    ====================  ==================================================
    """

    __slots__ = ()

    def __len__(self) -> int:
        return int(_way(self).ask("__len__", (), {}))

    def __contains__(self, key: object) -> bool:
        return bool(_way(self).ask("__contains__", (key,), {}))

    def __iter__(self) -> Iterator[Any]:
        return iter(_way(self).ask("__iter__", (), {}))

    def __bool__(self) -> bool:
        return bool(_way(self).ask("__bool__", (), {}))


def _way(proxy: Proxy) -> Way:
    # Not by a method of the proxy's: that would hide an attribute of the object.
    way: Way = object.__getattribute__(proxy, "_Proxy__way")
    return way


class ProxyAttribute:
    """An attribute of the object behind a reference: a method to call, or a value to `get`."""

    __slots__ = ("__name__", "_way")

    def __init__(self, way: Way, name: str) -> None:
        self._way = way
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method at the owner."""
        return self._way.ask(self.__name__, args, kwargs)

    def get(self) -> Any:
        """Read the attribute at the owner."""
        return self._way.ask("__getattr__", (self.__name__,), {})

    def __repr__(self) -> str:
        return f"<{self.__name__!r} of {self._way!r}: call it, or get() it>"


class Way(msgspec.Struct, frozen=True):
    """The way to ask the object behind a reference; the result is a value, `Future` or `RRef`."""

    rref: Handle
    how: str
    timeout: float | None
    resolve: bool = False
    """Whether the references among the arguments are resolved first."""
    frozen: bool = False
    """Whether to freeze the resulting object."""
    serial: bool = True
    """Whether requests on the resulting object take turns."""
    number: int = 1
    """The number of resulting objects."""

    def ask(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Have the object carry out the operation *name*."""
        if self.how == "remote":
            return self._make(name, args, kwargs, sites.caller(2))
        front, what = self.rref._front, (ByValue(name) if self.resolve else name, args, kwargs)
        if self.how == "async":
            future = front.calls.invoke(self.rref.id, what, self.timeout, ())
            future.place = sites.caller(2)
            return future
        core = front.core
        core.check_may_block(f"the reply of {name}()", f"`await rref.rpc_async().{name}()`")
        chain = chain_in(core)
        return front.calls.invoke(self.rref.id, what, self.timeout, chain, waits=True).result()

    def _make(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], place: Place) -> Any:
        """Have the object make new objects; returns their references."""
        front, timeout, frozen, serial = self.rref._front, self.timeout, self.frozen, self.serial
        function: Any = made_as(name, frozen=frozen, serial=serial)
        if self.number > 1:  # the parts are frozen, and not the run
            function = Several(name, self.number)
        if self.resolve:
            function = ByValue(function)
        made = front.calls.remote_method(self.rref.id, (function, args, kwargs))
        if self.number > 1:
            return parts_of(made, name, self.number, timeout, place, frozen=frozen, serial=serial)
        made._asked(name, timeout, place)
        return made

    def __repr__(self) -> str:
        return f"<{self.how} access to {self.rref!r}>"
