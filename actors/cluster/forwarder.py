"""Forwarding between the endpoints of one host and the elected registrar, without input or output.

The endpoints of a host send to their registrar proxy all that they would send to a registrar. The
forwarder passes their requests on, by its `RegistrarLine`, and hands the answers out. So no
endpoint learns that another host has become the registrar. Like the machines of the protocol, a
forwarder has neither a clock nor a socket: it returns the messages to send, each with its address.
A message without an address is for the proxy itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from thespian.actors import ActorAddress

from ...protocol.ids import WorkerId
from ...protocol.succession.line import RegistrarLine
from ..wire import messages as wire

Addressed = tuple[ActorAddress | None, object]

BEAT = 2
"""Ticks between two beats of the host."""
DOUBT = 4
"""Ticks without a message of the registrar after which the candidate looks for another one, and
after which it looks again."""
LOST = 50
"""Ticks without a message of any registrar after which this host counts as cut off."""


class Due(NamedTuple):
    """The actions that are due in a tick."""

    beat: bool
    """Send the beat of the host to the registrar."""
    doubt: bool
    """Have the candidate look for another registrar."""
    lost: bool
    """This host is cut off from the system."""


class Forwarder:
    """The endpoints of one host, the actors that it was told to make, and its pending requests."""

    def __init__(self, me: WorkerId, info: wire.HostInfo) -> None:
        self.me = me
        self.info = info
        self.line = RegistrarLine()
        self.joined = False
        self.lost = False
        """This host is given up for dead."""
        self._ticks = 0
        self._unheard = 0
        """Ticks without a message of a registrar."""
        self.endpoints: dict[WorkerId, ActorAddress] = {}
        self.ordered: set[WorkerId] = set()
        """The actors that this host was told to make. Each is made once."""

    # ---- ticks

    def tick(self) -> Due:
        self._ticks += 1
        self._unheard += 1
        return Due(
            self.joined and self._ticks % BEAT == 0,
            self._unheard % DOUBT == 0,
            self.joined and self._unheard > LOST,
        )

    @property
    def doubts(self) -> bool:
        """Whether the candidate is to look for another registrar, and none has spoken since."""
        return self._unheard >= DOUBT

    # ---- to the registrar

    def ask(self, message: object, sender: ActorAddress) -> list[Addressed]:
        """Pass a request of *sender* on to the registrar."""
        parts: list[object] = [message]
        if isinstance(message, wire.Settled):  # each is answered for itself
            parts = [wire.Settled(message.me, (worker,)) for worker in message.workers]
        kept = [self.line.keep((sender, part)) for part in parts]
        return [self._forward(each.number, each.request) for each in kept] if self.joined else []

    def _forward(self, number: int, request: tuple[ActorAddress, Any]) -> Addressed:
        return self.line.registrar, wire.Forward(self.me, self.line.term, number, *request)

    def hello(self) -> Addressed:
        """The message by which this host joins, or follows another registrar."""
        return self.line.registrar, wire.HostJoin(self.me, self.info, self.joined)

    # ---- from the registrar

    def take(self, message: wire.Deliver, registrar: ActorAddress) -> list[Addressed]:
        """Take a message for this host from the registrar at *registrar*."""
        if not self.line.believes(message.term) or self.lost:
            return []
        self._unheard = 0
        messages: list[Addressed] = []
        again = self.line.follow(message.term, registrar)
        self.line.done(*message.done)
        if again is not None:
            messages.append(self.hello())
            if self.joined:
                messages += [self._forward(each.number, each.request) for each in again]
        return messages + self._hand_out(message.to, message.message)

    def _hand_out(self, to: ActorAddress | None, message: Any) -> list[Addressed]:
        match message:
            case wire.HostJoined() if not self.joined:
                self.joined = True
                kept = self.line.kept.values()
                return [(None, message), *(self._forward(k.number, k.request) for k in kept)]
            case wire.Died(workers=workers) if to is None:
                if self.me in workers:
                    self.lost = True
                    return [(None, message)]
                return self._deaths(message)
            case wire.AllSettled(workers=workers):
                self.line.done_if(lambda kept: _is_answered(kept, workers, to))
                return self._all(message) if to is None else [(to, message)]
            case wire.Spawned(token=token) if to is not None:
                self.line.done_if(lambda kept: _is_order(kept, to, token))
                return [(to, message)]
            case wire.Joined(me=me, address=address):
                self.endpoints[me] = address
            case wire.Make(me=me):
                if me in self.ordered:
                    return []
                self.ordered.add(me)
            case wire.Heard() | wire.HostJoined():
                return []
        return [(to, message)]

    def _all(self, message: object) -> list[Addressed]:
        return [(address, message) for address in self.endpoints.values()]

    def _deaths(self, message: wire.Died) -> list[Addressed]:
        messages = self._all(message)
        for worker in message.workers:
            address = self.endpoints.pop(worker, None)
            self.ordered.discard(worker)
            if address is not None:
                self.line.done_if(lambda kept, gone=address: kept[0] == gone)  # type: ignore[misc]  # a default binds it
        return messages

    def leave(self) -> Addressed | None:
        """The message by which this host leaves; None if it is in no system."""
        if not self.joined or self.lost:
            return None
        self.lost = True
        own = wire.EndpointLeave(self.me)
        return self.line.registrar, wire.Forward(
            self.me, self.line.term, 0, self.line.registrar, own
        )


def _is_answered(
    kept: tuple[ActorAddress, Any], workers: tuple[WorkerId, ...], to: ActorAddress | None
) -> bool:
    sender, request = kept
    mine = to is None or sender == to
    return isinstance(request, wire.Settled) and mine and request.workers[0] in workers


def _is_order(kept: tuple[ActorAddress, Any], to: ActorAddress, token: int) -> bool:
    sender, request = kept
    return isinstance(request, wire.Spawn) and sender == to and request.token == token
