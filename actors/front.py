"""What the program's handles and functions use of the endpoint that they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core import Part

if TYPE_CHECKING:
    from collections.abc import Callable

    from .calls import Calls
    from .core import Core
    from .counters import Counters
    from .objects import Objects
    from .registry import Registry
    from .waits import Waits


class Front(Part):
    """One endpoint, as the program sees it: `Core.front`."""

    def __init__(
        self,
        core: Core,
        *,
        registry: Registry,
        objects: Objects,
        waits: Waits,
        calls: Calls,
        count: Callable[[], Counters],
    ) -> None:
        self.core = core
        self.registry = registry
        self.objects = objects
        self.waits = waits
        self.calls = calls
        self.count = count
        """Reads the counters of the endpoint."""
        core.front = self
