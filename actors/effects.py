"""What is done about the effects of a protocol step (`protocol.effects` says what they mean).

Under the endpoint's lock nothing of the user's runs, nothing is sent and no future is completed.
So an effect either changes tables, gives work to a pool, or is put off: messages until the packets
of the step are posted, futures and one-way messages until the step's `Later` is worked off.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..protocol.effects import (
    Confirmed,
    Fail,
    Free,
    Hand,
    Look,
    Lose,
    Refuse,
    Run,
    Send,
    Settle,
    Stop,
)
from ..protocol.messages import Fetch, Invoke
from .deaths import death_of
from .packing import is_answer
from .tracing import EFFECTS, RARE

if TYPE_CHECKING:
    from thespian.actors import ActorAddress

    from ..protocol.effects import Effect
    from ..protocol.ids import CallId, WorkerId
    from ..protocol.messages import Message, Tell
    from .endpoint import Endpoint

Later = list[Callable[[], None]]
"""What a step leaves to be done when the lock is given back."""
_ON_OBJECTS = (Fetch, Invoke)


class Effects:
    """Carries out the effects of one endpoint's steps. Under its lock."""

    def __init__(self, endpoint: Endpoint, hand: Callable[[Any, ActorAddress], None]) -> None:
        self._endpoint = endpoint
        self._hand = hand
        """Gives a one-way message (its cargo, and who sent it) to the user."""
        self._self_sent: deque[Message] = deque()

    def carry_out(self, effects: list[Effect], later: Later, *, noted: bool = False) -> None:
        """Do what *effects* say, now or *later*, and what follows from messages to ourselves.

        *noted*: the tracer knows of them already, but for the `RARE` ones.
        """
        endpoint = self._endpoint
        for effect in effects:
            if endpoint.tracer and type(effect) in (RARE if noted else EFFECTS):
                endpoint.tracer.effect(effect)
            match effect:
                case Send(to, message):
                    self._send(to, message)
                case Run(sender, request):
                    endpoint.server.start(sender, request, later)
                case Refuse(sender, request, why, ring):
                    endpoint.server.refuse(sender, request, why, ring)
                case Hand(sender, message):
                    later.append(lambda s=sender, m=message: self._hand_over(s, m))  # type: ignore[misc]
                case Settle(_, reply):
                    future = endpoint.calls.answered(reply.call)
                    if future is None:
                        endpoint.discards.message(reply.cargo.descriptors)
                    elif reply.moved is not None and reply.cargo.payload is None:
                        later.append(future.elsewhere)
                    else:
                        later.append(lambda f=future, c=reply.cargo: f.arrived(c))  # type: ignore[misc]
                case Fail(call, worker, rref):
                    future = endpoint.calls.answered(call)
                    if future is not None:
                        error = death_of(worker, rref, endpoint.context.entries.how(worker))
                        later.append(lambda f=future, e=error: f.failed(e))  # type: ignore[misc]
                case Stop(sender, call):
                    endpoint.server.stop(sender, call)
                case Look(run):
                    self.carry_out(endpoint.context.waits(run, *endpoint.waits.of(run)), later)
                case Lose(rref, why):
                    self.carry_out(endpoint.objects.lose(rref, why), later)
                case Free(rref):
                    endpoint.objects.free(rref, later)
                case Confirmed():
                    pass
        while self._self_sent:
            endpoint.receive(endpoint.me, self._self_sent.popleft(), later)

    def _send(self, to: WorkerId, message: Message) -> None:
        if to == self._endpoint.me:
            self._self_sent.append(message)
            self.left(to, message, None)
        else:
            number = self._endpoint.delivery.send(to, message)
            if number is not None and self._endpoint.tracer:
                self.left(to, message, number)

    def left(self, to: WorkerId, message: Message, number: int | None) -> None:
        """*message*, the *number*-th to *to*, is to leave with the next packet."""
        if self._endpoint.tracer:
            relays = self._relayed(message) if isinstance(message, _ON_OBJECTS) else None
            self._endpoint.tracer.sent(to, message, number, relays)

    def _relayed(self, message: Fetch | Invoke) -> CallId | None:
        """The request on an alias that *message* passes on."""
        waiting = self._endpoint.context.waiting.get(message.call)
        return waiting.relay.request.call if waiting is not None and waiting.relay else None

    def _hand_over(self, sender: WorkerId, message: Tell) -> None:
        """A one-way message is for an ask that waits, or for the user. Without the lock."""
        endpoint, cargo = self._endpoint, message.cargo
        payload: Any = cargo.payload
        if is_answer(payload):
            future = endpoint.calls.ask_answered(payload.tag[1])
            if future is None:
                endpoint.discards.message(cargo.descriptors)
            else:
                future.arrived(cargo)
            return
        address = endpoint.address_of(sender)
        if address is None:
            endpoint.discards.message(cargo.descriptors)
            return
        self._hand(cargo, address)
