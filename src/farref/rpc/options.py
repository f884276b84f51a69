"""PyTorch's options of `init_rpc`, as far as they mean something without devices."""

from __future__ import annotations

import enum
import math
from datetime import timedelta
from typing import Any, NoReturn

from ..actors.wire.settings import THREADS

DEFAULT_RPC_TIMEOUT_SEC = 60.0
UNSET_RPC_TIMEOUT = -1.0
INIT_METHOD = "env://"


class BackendType(enum.Enum):
    """The transport that a program names. farref has one of its own, whatever the name."""

    TENSORPIPE = "TENSORPIPE"


class RpcBackendOptions:
    """The default timeout of calls in seconds (0: no limit), and the meeting point.

    Raises `ValueError` for a negative timeout.
    """

    def __init__(
        self, rpc_timeout: float = DEFAULT_RPC_TIMEOUT_SEC, init_method: str = INIT_METHOD
    ) -> None:
        self.rpc_timeout = rpc_timeout
        self.init_method = init_method

    @property
    def rpc_timeout(self) -> float:
        """Seconds; 0 means no limit."""
        return self._timeout

    @rpc_timeout.setter
    def rpc_timeout(self, seconds: float) -> None:
        given: object = seconds
        if isinstance(given, timedelta):
            raise TypeError(f"rpc_timeout must be a number of seconds, not {seconds!r}")
        if not seconds >= 0:
            raise ValueError(f"rpc_timeout must be 0 (no limit) or more seconds, not {seconds}")
        self._timeout = seconds

    @property
    def limit(self) -> float:
        """The timeout as farref has it."""
        return self._timeout or math.inf


class TensorPipeRpcBackendOptions(RpcBackendOptions):
    """`RpcBackendOptions`, and the number of functions that run at once in the process.

    Raises:
        ValueError: a number is out of range.
        NotImplementedError: device maps or devices are given.
    """

    def __init__(
        self,
        *,
        num_worker_threads: int = THREADS,
        rpc_timeout: float = DEFAULT_RPC_TIMEOUT_SEC,
        init_method: str = INIT_METHOD,
        device_maps: dict[str, Any] | None = None,
        devices: list[Any] | None = None,
    ) -> None:
        super().__init__(rpc_timeout, init_method)
        if num_worker_threads < 1:
            raise ValueError(f"num_worker_threads must be 1 or more, not {num_worker_threads}")
        self.num_worker_threads = num_worker_threads
        if device_maps:
            self.set_device_map("", device_maps)
        if devices:
            self.set_devices(devices)

    def set_device_map(self, to: str, device_map: dict[Any, Any]) -> NoReturn:  # noqa: ARG002 - PyTorch's signature
        """Refuse: farref moves nothing between devices. Raises `NotImplementedError`."""
        refuse_devices("set_device_map()")

    def set_devices(self, devices: list[Any]) -> NoReturn:  # noqa: ARG002 - PyTorch's signature
        """Refuse, as `set_device_map` does."""
        refuse_devices("set_devices()")


def refuse_devices(what: str) -> NoReturn:
    """Raise `NotImplementedError` for *what* was asked for."""
    raise NotImplementedError(
        f"farref has no {what}: send tensors as `tensor.cpu()`, and call `.to(device)` where they "
        "arrive"
    )
