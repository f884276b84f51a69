"""`RRef` with PyTorch's arguments and methods."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn, TypeVar, get_origin

from ..actors.api.system import System
from ..actors.calls.futures import Future
from ..actors.core import sites
from ..actors.core.core import runs_loop
from ..actors.core.current import chain_in
from ..actors.handles import rref as handle
from ..actors.handles.proxies import Proxy, Way
from ..actors.serving.operations import LACK, MADE, OPERATIONS, TYPE
from ..actors.wire.settings import check_timeout
from ..protocol.errors import FarrefError, SelfWaitError, SystemDownError, WouldBlockError
from ..protocol.messages import Busy
from ..serialization.errors import Failure, RemoteTraceback
from .missing import GRADIENTS
from .options import UNSET_RPC_TIMEOUT, refuse_devices
from .world import RankInfo, current, get_worker_info

T = TypeVar("T")


class RankRRef(handle.RRef[T]):
    """A reference to *value*, which stays in this process; see `farref.RRef`.

    Its methods may run in several threads at once, as in PyTorch. *type_hint* is for TorchScript
    there, and only checked here. All references that a rank gets have this class.

    Raises:
        RuntimeError: before `init_rpc`, or after `shutdown`.
        TypeError: *type_hint* is not a type.
        NotImplementedError: *devices* are given.
    """

    __slots__ = ("_has",)

    _has: frozenset[str]
    """The methods that the value has, as far as `remote` has asked."""

    def __init__(
        self, value: T, type_hint: object = None, devices: Sequence[Any] | None = None
    ) -> None:
        is_type = isinstance(type_hint, type) or get_origin(type_hint) is not None
        if type_hint is not None and not is_type:
            raise TypeError(
                f"type_hint must be a type, not {type_hint!r}; `farref.RRef` has `on_delete=`"
            )
        if devices:
            refuse_devices("devices of an RRef")
        try:
            super().__init__(value, serial=False)
        except SystemDownError as error:
            current()  # names init_rpc, if it has not run
            raise error from None

    def to_here(self, timeout: float | None = None) -> T:
        """A fresh copy of the value; at its owner the object itself, as in PyTorch.

        Waits, and raises, as `farref.RRef.to_here`.
        """
        try:
            if self.is_owner():
                return self.local_value(timeout)
        except ValueError:  # of the function that makes it; or it stands for an object elsewhere
            if self.is_owner():
                raise
        return super().to_here(timeout)

    def owner(self) -> RankInfo:  # type: ignore[override]  # PyTorch's: its id is the rank
        """The name and the rank of the process that holds the value.

        Raises:
            OwnerDiedError: a RuntimeError; the owner is dead.
            WorkerNotFoundError: a RuntimeError; the owner is not a rank. `owner_name` has its name.
        """
        return get_worker_info(self.owner_name())

    def owner_name(self) -> str:
        """The name of the process that holds the value. Raises `OwnerDiedError` as `owner` does."""
        return super().owner().name

    def confirmed_by_owner(self) -> bool:
        """Whether the object stays while this reference is held; True for an argument of a call.

        It is lent to the call, and its lender holds it meanwhile.
        """
        return self._front.core.is_confirmed(self._id, lent=True)

    def remote(self, timeout: float | None = None) -> Any:  # type: ignore[override]  # PyTorch's
        """``rref.remote().method(*args)``: the result stays at the owner; returns its `RRef`.

        *timeout* is that of the creation. Methods of the result may run in several threads at once.

        As in PyTorch, the first call of a method blocks until the value is there, at most *timeout*
        seconds, and raises `AttributeError` if the value has no such method. It does not where
        `to_here` may not wait: on an asyncio loop, or in code that the value waits for.
        """
        check_timeout(timeout, self._front.core.settings.timeout)
        return Proxy(_Remote(self, "remote", timeout, serial=False))

    def _get_type(self, timeout: float = UNSET_RPC_TIMEOUT, blocking: bool = True) -> Any:
        """The type of the value; with *blocking* false a `Future` for it."""
        future = self._ask((TYPE, (), {}), timeout, chain_in(self._front.core) if blocking else ())
        return future.result() if blocking else future

    def _get_future(self) -> Future[None]:
        """A future that is done once there is the value, or its error. It brings no copy."""
        return self._ask((MADE, (), {}), None, ())

    def _check_has(self, name: str, timeout: float | None) -> None:
        """Raise `AttributeError` if the value has no method *name*; or raise its own error.

        Asks the owner once, and not at all where a wait is not possible.
        """
        known: frozenset[str] = getattr(self, "_has", frozenset())
        if name in OPERATIONS or name in known or runs_loop():
            return
        future = self._ask((LACK, (name,), {}), timeout, chain_in(self._front.core))
        future.overlooked = True
        with suppress(WouldBlockError, SelfWaitError):
            if lack := future.result():
                raise AttributeError(lack)
            self._has = known | {name}

    def _ask(
        self, what: tuple[Any, ...], timeout: float | None, chain: tuple[Busy, ...]
    ) -> Future[Any]:
        """A future for the operation *what* on the value: there, if this stands for another.

        Without a *timeout* it ends with the creation's own.
        """
        seconds = self._seconds(None if timeout == UNSET_RPC_TIMEOUT else timeout)
        future = self._front.calls.invoke(self.id, what, seconds, chain)
        future.place = sites.caller(2)
        return future

    def backward(self, dist_autograd_ctx_id: int = -1, retain_graph: bool = False) -> NoReturn:
        """Refuse: there is no distributed autograd. Raises `NotImplementedError`."""
        raise NotImplementedError(f"farref has no distributed autograd: {GRADIENTS}")


class _Remote(Way, frozen=True):
    """The way of `RankRRef.remote`."""

    def ask(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        rref: Any = self.rref
        rref._check_has(name, self.timeout)
        return self._make(name, args, kwargs, sites.caller(2))


def as_in_torch(system: System) -> None:
    """Every reference that this rank gets is a `RankRRef`; errors of its functions are printed."""
    core = system.endpoint.core
    core.handles = partial(RankRRef._of, core.front)
    system.endpoint.server.failed = _print_failure


def _print_failure(error: BaseException, failure: Failure) -> None:
    """PyTorch's callee does so, too, though the caller gets the error."""
    elsewhere = isinstance(error.__cause__, RemoteTraceback)  # it was printed there
    ours = isinstance(error, FarrefError | CancelledError)
    if sys.stderr is not None and not elsewhere and not ours:
        sys.stderr.write(f"{failure.where} failed on {failure.worker}:\n{failure.text}")


RRef = RankRRef
