"""`RRef` with PyTorch's arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ..actors.handles import rref as handle
from .options import refuse_devices

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


class _AnyRRef(type):
    """Makes every `farref.RRef` an instance: those that arrive in messages have that class."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, handle.RRef)


class RankRRef(handle.RRef[T], metaclass=_AnyRRef):
    """A reference to *value*, which stays in this process; see `farref.RRef`.

    Its methods may run in several threads at once, as in PyTorch. *type_hint* is for TorchScript
    there, and only checked here.

    Raises:
        RuntimeError: before `init_rpc`, or after `shutdown`.
        TypeError: *type_hint* is no type.
        NotImplementedError: *devices* are given.
    """

    __slots__ = ()

    def __init__(
        self, value: T, type_hint: object = None, devices: Sequence[Any] | None = None
    ) -> None:
        if type_hint is not None and not isinstance(type_hint, type):
            raise TypeError(
                f"type_hint must be a type, not {type_hint!r}; `farref.RRef` has `on_delete=`"
            )
        if devices:
            refuse_devices("devices of an RRef")
        super().__init__(value, serial=False)


RRef = RankRRef
