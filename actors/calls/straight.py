"""Plain calls of the program's, straight: one thread sends the request, and receives the reply.

Most calls name an importable function and have numbers and texts as arguments. Such a call needs
no future, as the calling thread waits for it at once; and while that thread leads the loop of our
own base, it receives the reply itself. Everything else goes the general way (`Calls`), and so does
a straight call whose thread may not lead.
"""

from __future__ import annotations

import os
import pickle
import time
from _thread import get_ident
from operator import attrgetter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...protocol import plain
from ...protocol.messages import Cargo
from ...serialization.failures import CAUGHT
from ...serialization.payload import Payload
from ...serialization.plain import SHORT, dumps_call
from ..base.interrupts import undisturbed
from ..core.core import Internal
from ..wire.messages import WorkerInfo
from ..wire.settings import check_timeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.messages import Cargo as _Cargo

NOT_PLAIN: Final = object()
_over = attrgetter("over")


class Answer:
    """The answer to a straight call, for the thread that waits for it."""

    __slots__ = ("__weakref__", "cargo", "error", "hold", "lead", "over")

    def __init__(self, lead: Any) -> None:
        self.cargo = None
        self.error = None
        self.hold = None
        self.over = False
        self.lead = lead

    def finish(self, *, cargo=None, error=None) -> None:
        self.cargo, self.error, self.over = cargo, error, True
        if self.lead.leader != get_ident():
            self.lead.look()


class Straight(Internal):
    def __init__(self, core, delivery, calls, packer, loop) -> None:
        self._core = core
        self._delivery = delivery
        self._calls = calls
        self._packer = packer
        self._loop = loop

    def call(self, to, fn, args, timeout):
        core, delivery = self._core, self._delivery
        info = core.peers.named.get(to) if type(to) is str else to
        if type(info) is not WorkerInfo or core.pool.mine.inside or core.closed or core.tracer is not None:
            return NOT_PLAIN
        line = delivery.line(info.id)
        if line is None:
            return NOT_PLAIN
        data = dumps_call((fn, args, {}))
        if data is None or len(data) >= SHORT:
            return NOT_PLAIN
        seconds = core.settings.timeout
        if timeout is not None:
            seconds = check_timeout(timeout, seconds)
        cargo = Cargo(payload=Payload(data, tag=fn.__name__))
        calls, lead = self._calls, self._loop.lead_of
        answer = Answer(lead)
        undisturbed.hold(self._loop._poller)
        try:
            if os.getpid() != core.pid:
                core.check_process()
            with core.lock:
                state = core.context.state
                state.now = now = time.monotonic()
                if core.discards.ended:
                    return NOT_PLAIN
                message = plain.call(state, info.id, cargo)
                if message is None:
                    return NOT_PLAIN
                calls.waiting[message.call] = answer
                packet = delivery.send_plain(info.id, message, "requests", len(data), now)
                packets = None if packet is not None else delivery.packets(gather=True)
            if packet is not None:
                line.post(packet)
            elif packets:
                delivery.post(packets)
            self._loop.attend(answer, seconds)
        finally:
            undisturbed.release()
        if not answer.over:
            raise RuntimeError("todo")
        if answer.error is not None:
            raise answer.error
        cargo = answer.cargo
        payload = cargo.payload
        if type(payload) is Payload and not (cargo.descriptors or payload.buffers or payload.inert or payload.functions):
            return pickle.loads(payload.data)
        return self._packer.open(cargo)
