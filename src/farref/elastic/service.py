"""The state of a run in the rendezvous service of a farref system.

The service is an actor with a standby in another process; the first request starts it. When the
service's process dies, the standby goes on with the same states. Only endpoints of the system can
use it.
"""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from ..actors.core.current import frame
from ..actors.rendezvous.client import client_of
from ..protocol.errors import FarrefError, RendezvousConnectionError
from .api import RendezvousBackend, Token, checked_run_id

if TYPE_CHECKING:
    from ..actors.shells.endpoint import Endpoint


class ServiceRendezvousBackend(RendezvousBackend):
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
        self._run = checked_run_id(run_id)
        self._client = client_of((frame().core if endpoint is None else endpoint.core).front)
        self._timeout = timeout

    @property
    def name(self) -> str:
        """``farref``."""
        return "farref"

    def get_state(self) -> tuple[bytes, Token] | None:
        found: tuple[bytes, Token] | None = self._ask("cell", self._run)
        return found

    def set_state(
        self, state: bytes, token: Token | None = None
    ) -> tuple[bytes, Token, bool] | None:
        if token is not None and type(token) is not int:
            found = self.get_state()
            return None if found is None else (*found, False)
        stored: tuple[bytes, Token, bool] | None = self._ask("keep", self._run, state, token)
        return stored

    def _ask(self, what: str, *args: Any) -> Any:
        try:
            asked = self._client.submit(self._client.ask(what, *args, seconds=self._timeout))
            return asked.result(60 + self._timeout)  # its own timeouts come before
        except RendezvousConnectionError:
            raise
        except (FarrefError, TimeoutError, CancelledError) as error:
            raise RendezvousConnectionError(
                f"the rendezvous service cannot be reached: {error}"
            ) from error
