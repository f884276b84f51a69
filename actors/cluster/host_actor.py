"""An actor that acts for the registrar on its host: a host agent, or a registrar proxy."""

from __future__ import annotations

from thespian.actors import ActorAddress

from ...protocol.ids import WorkerId
from ..base import lives
from ..hosting import processes
from ..hosting.children import EXITED
from ..wire.messages import Make, Serving, Unmade, Welcome
from .making import Maker, UnfitError, UnmadeError
from .system_actor import SystemActor


class HostActor(SystemActor):
    """Makes the workers of its host, and tells programs there whether the host has joined."""

    def __init__(self) -> None:
        super().__init__()
        self._maker = Maker(self)
        self._ordered: dict[WorkerId, ActorAddress] = {}
        """The workers that were made here on the order of the registrar."""
        self._asking: list[ActorAddress] = []
        """Programs that wait for this host to join."""
        self._refused = ""
        """The reason why this host may not join."""
        self._program: lives.Watched | None = None

    def _say(self, message: object) -> None:
        """Send *message* to the registrar."""
        raise NotImplementedError

    def _obey(self, order: Make, registrar: ActorAddress | None) -> None:
        """Make a worker on the order of the registrar. The worker believes it is at *registrar*."""
        try:
            address = self._maker.make(order.actor_class, order.requirements, here=True)
        except UnmadeError as error:
            self._say(Unmade(order.me, str(error), isinstance(error, UnfitError)))
            return
        self._ordered[order.me] = address
        how = order.threads, order.surroundings
        self.send(address, Welcome(order.me, registrar, self._settings, *how))

    def _child_ended(self, address: ActorAddress) -> None:
        """Report the end of the child at *address*, if the registrar has ordered it."""
        for worker in [each for each, known in self._ordered.items() if known == address]:
            del self._ordered[worker]
            self._say(Unmade(worker, self._maker.cause(address) or EXITED))

    def _answer_all(
        self, registrar: ActorAddress | None, owner: int, *, versions: bool = False
    ) -> None:
        """Tell the waiting programs whether this host has joined. *versions*: see `Serving`."""
        pids, session = processes.mine()
        for program in self._asking:
            self.send(program, Serving(registrar, owner, session, pids, self._refused, versions))
        self._asking.clear()
