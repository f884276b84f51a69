"""The state of a run in the rendezvous service of a farref system.

The service is an actor with a standby in another process; the first request starts it. When the
service's process dies, the standby goes on with the same states. Only endpoints of the system can
use it.
"""

from __future__ import annotations

from concurrent.futures import CancelledError

from ..actors.core.current import frame
from ..actors.rendezvous.client import client_of
from ..actors.shells.endpoint import Endpoint
from ..protocol.errors import FarrefError, RendezvousConnectionError
from ..protocol.store import Op
from .c10d import StoreRendezvousBackend


class ServiceRendezvousBackend(StoreRendezvousBackend):
    """Keeps the state in the service of the caller's system, or of *endpoint*'s.

    Args:
        run_id: the run. A run of that name of `farref.rendezvous` is another one.
        endpoint: the endpoint that asks; by default that of this program or actor.
        timeout: how long to wait for an answer, in seconds.

    Raises:
        ValueError: the run id is empty.
        SystemDownError: outside any system.
    """

    def __init__(
        self, run_id: str, *, endpoint: Endpoint | None = None, timeout: float = 5.0
    ) -> None:
        super().__init__(run_id)
        self._client = client_of((frame().core if endpoint is None else endpoint.core).front)
        self._timeout = timeout

    @property
    def name(self) -> str:
        """``farref``."""
        return "farref"

    def _compare_set(self, expected: str, value: str) -> bytes:
        values = expected.encode(), value.encode()
        op = Op(self._client.core.me, 0, 0, "compare_set", (self._key,), values)
        try:
            asked = self._client.submit(self._client.change("cell", op=op, seconds=self._timeout))
            return bytes(asked.result(60 + self._timeout))  # its own timeouts come before
        except RendezvousConnectionError:
            raise
        except (FarrefError, TimeoutError, CancelledError) as error:
            raise RendezvousConnectionError(
                f"the rendezvous service cannot be reached: {error}"
            ) from error
