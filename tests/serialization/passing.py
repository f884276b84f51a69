"""One value from its sender to its receiver, both in this process."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from farref.serialization.pickling import dumps, loads

from .endpoint import TinyAddress, TinyEndpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from farref.serialization.payload import Payload


def near() -> bool:
    return True


def packed(value: Any, to_all: Callable[[], bool] = near) -> Payload:
    payload, _ = dumps(value, TinyEndpoint("A"), inert=TinyAddress, near=to_all)
    return payload


def arrived(payload: Payload) -> Payload:
    """The payload as the receiver gets it."""
    copy: Payload = pickle.loads(pickle.dumps(payload))
    copy.take()
    return copy


def opened(payload: Payload) -> Any:
    return loads(payload, (), TinyEndpoint("B"))
