"""The services of an endpoint that the program's handles and functions use."""

from __future__ import annotations

from collections.abc import Callable

from ..calls.calls import Calls
from ..calls.placing import Placing
from ..calls.unasked import Unasked
from ..calls.waits import Waits
from ..core.core import Core, Internal
from ..core.counters import Counters
from ..core.registrar_client import RegistrarClient
from ..values.objects import Objects


class Front(Internal):
    """One endpoint from the program's side: `Core.front`."""

    def __init__(
        self,
        core: Core,
        *,
        registrar_client: RegistrarClient,
        objects: Objects,
        waits: Waits,
        calls: Calls,
        placing: Placing,
        unasked: Unasked,
        count: Callable[[], Counters],
    ) -> None:
        self.core = core
        self.registrar_client = registrar_client
        self.objects = objects
        self.waits = waits
        self.calls = calls
        self.placing = placing
        self.unasked = unasked
        self.count = count
        """Reads the counters of the endpoint."""
        core.front = self
