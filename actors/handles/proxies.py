"""Proxies: operations on the object behind a reference, carried out where the object lives.

No operation waits for the reference itself: each request leaves at once, and runs where the value
will be, in the order of the requests on this reference. So a chain of calls on the results of
`remote` costs one round trip (promise pipelining).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NoReturn, Protocol

import msgspec

from ...protocol.ids import RRefId
from ..core import sites
from ..core.current import chain_in
from ..core.sites import Place
from ..values.several import PART, ResultPart, Several
from ..values.wrapper import ByValue, made_as
from .front import Front


class Handle(Protocol):
    """A reference (`RRef`)."""

    _front: Front

    @property
    def id(self) -> RRefId:
        """The object's id."""


OPERATORS: dict[str, Callable[..., Any]] = {
    f"__{function.__name__.strip('_')}__": function
    for function in (
        *(operator.add, operator.sub, operator.mul, operator.matmul, operator.truediv),
        *(operator.floordiv, operator.mod, divmod, pow, operator.lshift, operator.rshift),
        *(operator.and_, operator.xor, operator.or_, operator.neg, operator.pos, operator.invert),
        *(abs, round, math.trunc, math.floor, math.ceil),
    )
}
"""Special methods with any result, each as the function that calls it."""
REFLECTED = [
    *("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow"),
    *("lshift", "rshift", "and", "xor", "or"),
]
"""Operators with two operands. The proxy may be the second, and all but ``divmod`` have ``+=``."""
ANSWERED: dict[str, Callable[..., Any]] = {
    "__len__": len,
    "__contains__": operator.contains,
    "__bool__": operator.truth,
    "__int__": int,
    "__float__": float,
    "__complex__": complex,
    "__index__": operator.index,
    "__lt__": operator.lt,
    "__le__": operator.le,
    "__gt__": operator.gt,
    "__ge__": operator.ge,
}
"""Special methods that Python asks for an answer at once."""
NAMED = frozenset(
    {
        *OPERATORS,
        *(f"__r{name}__" for name in REFLECTED),
        *(f"__i{name}__" for name in REFLECTED if name != "divmod"),
        *ANSWERED,
        *("__iter__", "__reversed__", "__next__", "__enter__", "__exit__"),
        *("__anext__", "__aenter__", "__aexit__"),
        *("__call__", "__getitem__", "__setitem__", "__delitem__", "__setattr__", "__delattr__"),
    }
)
"""The special methods of the object that a proxy has. A program may call them by name on any proxy.
All others, for instance for `repr`, `hash`, ``==``, copies and pickles, are the proxy's own."""

COMPLETION = 1.0
"""Seconds that `dir` of a proxy waits for the owner."""


class Itself:
    """The class itself is the answer of ``__enter__`` and ``__aenter__`` that return the object."""


class Proxy:
    """The object behind a reference: call its methods, call it, index it, use its attributes.

    ======================  ==================================================
    ``p.method(*args)``     call a method
    ``p(*args)``            call the object itself
    ``p[key]``              index it
    ``p[key] = value``      set an item; also ``del p[key]``
    ``p.name.get()``        read an attribute
    ``p.name = value``      set an attribute; also ``del p.name``
    ``p + 1``, ``-p``       any operator; also ``1 + p``, ``abs(p)``, ``round(p)``
    ``p += value``          change the object in place, if it can be changed so
    ``next(p)``             the next item of an iterator
    ``async with p``        and ``async for each in p``: only by `rpc_async`
    ======================  ==================================================

    Each returns the result, a `Future` or an `RRef`, for a proxy of `rpc_sync`, `rpc_async` or
    `remote`. An assignment with ``=`` or ``+=`` drops that future or reference, and so its error.
    To keep it, write ``p.__setitem__(key, value)`` or ``p.__setattr__(name, value)``.

    Python needs the answers to ``len(p)``, ``key in p``, ``bool(p)``, ``p < 1``, ``with p`` and
    iterations at once, so only the proxy of `rpc_sync` has them (`SyncProxy`). ``p == other`` is
    about the proxies.
    """

    __slots__ = ("__way",)  # any other name may be an attribute of the object
    __way: Way

    def __init__(self, way: Way) -> None:
        object.__setattr__(self, "_Proxy__way", way)

    def __getattribute__(self, name: str) -> Any:
        # Python's syntax looks the methods below up on the class, and not here.
        if name.startswith("__") and name.endswith("__") and name not in NAMED:
            return object.__getattribute__(self, name)
        return ProxyAttribute(_way(self), name)

    def __setattr__(self, name: str, value: Any) -> Any:
        return _way(self).ask("__setattr__", (name, value), {})

    def __delattr__(self, name: str) -> Any:
        return _way(self).ask("__delattr__", (name,), {})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the object itself, at its owner."""
        return _way(self).ask("__call__", args, kwargs)

    def __aiter__(self) -> Proxy:
        return self

    async def __aenter__(self) -> Any:
        entered = await _awaitable(self, "__aenter__")
        return self if entered is Itself else entered

    async def __aexit__(self, *error: object) -> bool:
        return bool(await _awaitable(self, "__aexit__", *_without_traceback(error)))

    async def __anext__(self) -> Any:
        return await _awaitable(self, "__anext__")

    def __dir__(self) -> list[str]:
        """The names that the object has, for completion: asks the owner. Blocks for a moment."""
        way = _way(self)
        try:
            names: list[str] = Way(way.rref, "sync", COMPLETION).ask("__dir__", (), {})
        except Exception:
            return []  # completion shows nothing then
        return names

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise TypeError(f"{self!r} cannot be sent: pass the reference itself")

    def __repr__(self) -> str:
        return repr(_way(self))


class SyncProxy(Proxy):
    """A proxy that waits for each answer.

    ====================  ==================================================
    ``len(p)``            the length of the object
    ``key in p``          whether it contains *key*
    ``for each in p``     iterate over it: the owner makes a list of all items, which comes in one
                          answer; also ``reversed(p)``. An object that an iteration would use up is
                          refused: take its items by ``next(p)``
    ``bool(p)``           its truth; also ``int(p)``, ``float(p)`` and other numbers
    ``p < other``         and ``<=``, ``>``, ``>=``
    ``with p as it``      enter and leave the context at the owner; *it* is the proxy if the object
                          returns itself
    ====================  ==================================================
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(_way(self).ask("__iter__", (), {}))

    def __reversed__(self) -> Iterator[Any]:
        return iter(_way(self).ask("__reversed__", (), {}))

    def __enter__(self) -> Any:
        entered = _way(self).ask("__enter__", (), {})
        return self if entered is Itself else entered

    def __exit__(self, *error: object) -> bool:
        return bool(_way(self).ask("__exit__", _without_traceback(error), {}))


def _add_special_methods() -> None:
    """Give the classes their other special methods: Python looks for these on the class alone."""

    def asks(name: str) -> Callable[..., Any]:
        return lambda self, *args: _way(self).ask(name, args, {})

    def changes(name: str) -> Callable[..., Any]:
        def change(self: Proxy, value: Any) -> Proxy:
            _way(self).ask(name, (value,), {})
            return self

        return change

    def refuses(name: str) -> Callable[..., Any]:
        def refuse(self: Proxy, *_: object) -> Any:
            raise TypeError(
                f"{self!r} gives no answer at once, as Python needs it from {name}(): use "
                "`rref.rpc_sync()`, or fetch the value"
            )

        return refuse

    for name in NAMED - vars(Proxy).keys():
        if name in ANSWERED or name in vars(SyncProxy):
            setattr(Proxy, name, refuses(name))
            if name in ANSWERED:
                setattr(SyncProxy, name, asks(name))
        elif name.startswith("__i") and name != "__invert__":
            setattr(Proxy, name, changes(name))
        else:
            setattr(Proxy, name, asks(name))


_add_special_methods()


def _without_traceback(error: tuple[object, ...]) -> tuple[object, ...]:
    """The arguments of ``__exit__``: a traceback stays in its process."""
    return (*error[:2], None)


def _awaitable(proxy: Proxy, name: str, *args: object) -> Awaitable[Any]:
    way = _way(proxy)
    if way.how != "async":
        raise TypeError(f"{proxy!r} has no {name}() to await: use `rref.rpc_async()`")
    asked: Awaitable[Any] = way.ask(name, args, {})
    return asked


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
        answer = front.calls.invoke(self.rref.id, what, self.timeout, chain, waits=True)
        return answer.result_or_cancel()

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


def parts_of(
    run: Any,
    name: str,
    number: int,
    timeout: float | None,
    place: Place,
    *,
    frozen: bool,
    serial: bool,
) -> list[Any]:
    """References to the *number* results of *run*, a reference to the run of the function *name*.

    Each result is to be made within *timeout* seconds. *frozen* and *serial* are as in `remote`.
    The user's code at *place* has asked for them.
    """
    front, take = run._front, made_as(PART, frozen=frozen, serial=serial)
    front.unasked.asked(run.id, name, place)  # it may be the last to have the error of all
    made = [
        front.calls.remote_method(run.id, (take, (ResultPart(index, number, name, run.id),), {}))
        for index in range(number)
    ]
    for part in made:
        part._asked(name, timeout, place)
    front.unasked.together(run.id, [part.id for part in made])
    return made
