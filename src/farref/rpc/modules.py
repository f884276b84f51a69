"""`RemoteModule`, as in ``torch.distributed.nn``, but without autograd between processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..actors.calls.futures import Future
from .calls import remote, rpc_sync
from .handles import RRef
from .options import refuse_devices


class RemoteModule:
    """A ``torch.nn.Module`` that lives on another rank. It can be sent, as a reference can.

    Args:
        remote_device: ``"worker1"`` or ``"rank:1"``, also with ``"/cpu"``.
        module_cls: makes the module there.
        args: its arguments.
        kwargs: its keyword arguments.

    Raises:
        NotImplementedError: the device is another one than the CPU.
        RuntimeError: there is no such rank.
        ValueError: the rank is not a number.
    """

    def __init__(
        self,
        remote_device: str,
        module_cls: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        place, _, device = remote_device.partition("/")
        if device not in {"", "cpu"}:
            refuse_devices(f"modules on {device!r}")
        rank = place.removeprefix("rank:")
        self.on: str | int = place if rank == place else int(rank)
        self.device = "cpu"
        self.training = True
        self.module_rref: RRef[Any] = remote(self.on, module_cls, args, kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the module. Blocks. No gradient flows back through the call."""
        return self.module_rref.rpc_sync()(*args, **kwargs)

    __call__ = forward

    def forward_async(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """`forward`, as a future."""
        asked: Future[Any] = self.module_rref.rpc_async()(*args, **kwargs)
        return asked

    def remote_parameters(self, recurse: bool = True) -> list[RRef[Any]]:
        """References to the parameters, which stay there."""
        found: list[RRef[Any]] = rpc_sync(self.on, _parameters, (self.module_rref, recurse))
        return found

    def get_module_rref(self) -> RRef[Any]:
        """The reference to the module."""
        return self.module_rref

    def train(self, mode: bool = True) -> RemoteModule:
        """Set the training mode of the module."""
        rpc_sync(self.on, _train, (self.module_rref, mode))
        self.training = mode
        return self

    def eval(self) -> RemoteModule:
        """Set the evaluation mode of the module."""
        return self.train(False)

    def __repr__(self) -> str:
        return f"<RemoteModule on {self.on}: {self.module_rref!r}>"


def _parameters(module: RRef[Any], recurse: bool) -> list[RRef[Any]]:
    """Runs at the owner."""
    return [RRef(each) for each in module.local_value().parameters(recurse)]


def _train(module: RRef[Any], mode: bool) -> None:
    """Runs at the owner: the module itself is not the answer."""
    module.local_value().train(mode)
