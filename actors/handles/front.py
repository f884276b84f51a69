"""The services of an endpoint that the program's handles and functions use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..calls.calls import Calls
from ..calls.placing import Placing
from ..calls.unasked import Unasked
from ..calls.waits import Waits
from ..core.core import Core, Internal
from ..core.counters import Counters
from ..core.registrar_client import RegistrarClient
from ..values.objects import Objects


@dataclass(eq=False, kw_only=True, repr=False)
class Front(Internal):
    """One endpoint from the program's side: `Core.front`."""

    core: Core
    registrar_client: RegistrarClient
    objects: Objects
    waits: Waits
    calls: Calls
    placing: Placing
    unasked: Unasked
    count: Callable[[], Counters]
    """Reads the counters of the endpoint."""
    pulls: Any
    """The `Pulls` of others from iterators here."""

    def __post_init__(self) -> None:
        self.core.front = self
