"""Calls in the form of plain calls: keyword arguments, completion, and types that are checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from ..calls.futures import Future
from ..core import sites
from ..handles.proxies import Way
from ..handles.rref import RRef
from ..wire.settings import check_timeout
from . import rpc

P = ParamSpec("P")
T = TypeVar("T")
O = TypeVar("O")  # noqa: E741 - the type of an object


class On:
    """Calls functions on one endpoint. `on` makes it."""

    __slots__ = ("_resolve", "_timeout", "_to")

    def __init__(self, to: rpc.To, timeout: float | None, resolve: bool) -> None:
        self._to, self._timeout, self._resolve = to, timeout, resolve

    @overload
    def rpc_sync(
        self, fn: Callable[P, rpc.Coming[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    @overload
    def rpc_sync(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    def rpc_sync(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run ``fn(*args, **kwargs)`` there and return its result, as `farref.rpc_sync`. Blocks."""
        return rpc.rpc_sync(self._to, fn, args, kwargs, self._timeout, resolve=self._resolve)

    @overload
    def rpc_async(
        self, fn: Callable[P, rpc.Coming[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]: ...
    @overload
    def rpc_async(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]: ...
    def rpc_async(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The same, returning a `Future`, as `farref.rpc_async`. Does not block."""
        made = rpc.rpc_async(self._to, fn, args, kwargs, self._timeout, resolve=self._resolve)
        made.place = sites.caller(1)
        return made

    @overload
    def remote(
        self, fn: Callable[P, rpc.Elsewhere[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> RRef[T]: ...
    @overload
    def remote(
        self, fn: Callable[P, rpc.Coming[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> RRef[T]: ...
    @overload
    def remote(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> RRef[T]: ...
    def remote(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> RRef[Any]:
        """The same; the result stays there, as with `farref.remote`. Does not block."""
        made = rpc.remote(self._to, fn, args, kwargs, self._timeout, resolve=self._resolve)
        made._asked(fn, self._timeout, sites.caller(1))
        return made

    def __repr__(self) -> str:
        return f"<calls on {self._to or 'ANY'}>"


class OnObject(Generic[O]):
    """Calls methods of the object behind one reference. `on` makes it."""

    __slots__ = ("_resolve", "_rref", "_timeout")

    def __init__(self, rref: RRef[O], timeout: float | None, resolve: bool) -> None:
        self._rref, self._timeout, self._resolve = rref, timeout, resolve

    @overload
    def rpc_sync(
        self,
        method: Callable[Concatenate[O, P], rpc.Coming[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T: ...
    @overload
    def rpc_sync(
        self, method: Callable[Concatenate[O, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    def rpc_sync(self, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run *method* of the object and return its result, as `RRef.rpc_sync`. Blocks."""
        return self._way("sync").ask(_name(method), args, kwargs)

    @overload
    def rpc_async(
        self,
        method: Callable[Concatenate[O, P], rpc.Coming[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Future[T]: ...
    @overload
    def rpc_async(
        self, method: Callable[Concatenate[O, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]: ...
    def rpc_async(self, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """The same, returning a `Future`, as `RRef.rpc_async`. Does not block."""
        return self._way("async").ask(_name(method), args, kwargs)

    @overload
    def remote(
        self,
        method: Callable[Concatenate[O, P], rpc.Elsewhere[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> RRef[T]: ...
    @overload
    def remote(
        self,
        method: Callable[Concatenate[O, P], rpc.Coming[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> RRef[T]: ...
    @overload
    def remote(
        self, method: Callable[Concatenate[O, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> RRef[T]: ...
    def remote(self, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """The same; the result stays at the owner, as with `RRef.remote`. Does not block."""
        return self._way("remote").ask(_name(method), args, kwargs)

    def _way(self, how: str) -> Way:
        return Way(self._rref, how, self._timeout, self._resolve)

    def __repr__(self) -> str:
        return f"<calls on {self._rref!r}>"


@overload
def on(to: RRef[O], *, timeout: float | None = None, resolve: bool = False) -> OnObject[O]: ...
@overload
def on(to: rpc.To, *, timeout: float | None = None, resolve: bool = False) -> On: ...
def on(to: Any, *, timeout: float | None = None, resolve: bool = False) -> Any:
    """Call functions on a worker, or methods of an object, in the form of a plain call.

    ``on("B").rpc_sync(f, x, y=2)`` is ``rpc_sync("B", f, (x,), {"y": 2})``, and
    ``on(ref).rpc_sync(Model.step, x)`` is ``ref.rpc_sync().step(x)``. So a type checker and an
    editor know the arguments and the result. The same with `rpc_async`, which returns a `Future`,
    and `remote`, which returns an `RRef`.

    *to* is a worker as in `remote`, or a reference. *timeout* and *resolve* are those of
    `rpc_sync`. Raises `ValueError` for a timeout of 0 or less; the calls raise the errors of those
    functions, and `TypeError` for something that is no method of a class. Does not block.
    """
    if timeout is not None:
        check_timeout(timeout, timeout)
    return OnObject(to, timeout, resolve) if isinstance(to, RRef) else On(to, timeout, resolve)


def _name(method: Callable[..., Any]) -> str:
    """The name by which the object has *method*."""
    outside, _, name = getattr(method, "__qualname__", "").rpartition(".")
    if not outside or outside.endswith("<locals>"):
        raise TypeError(
            f"`on(ref)` calls a method of the object's class, such as `Model.step`, not {method!r}"
        )
    return name
