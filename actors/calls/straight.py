"""Plain requests of the program's, straight: one thread sends the request and receives its answer.

Most calls name an importable function, and have numbers and texts for arguments; most fetches bring
a small value. The calling thread waits for the answer at once. While it leads the loop of our own
base, it receives the answer itself, so no future is needed. Everything else goes the general way
(`Calls`), also the rest of a wait in which the thread may no longer lead.
"""

from __future__ import annotations

import os
import time
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from ...protocol import plain
from ...protocol.messages import Cargo, Reply
from ...serialization.payload import Payload
from ...serialization.plain import SHORT, dumps_arguments, dumps_call
from ..base.interrupts import undisturbed
from ..core.core import Internal
from ..core.current import found
from ..values.packing import opened
from ..wire.messages import WorkerInfo
from ..wire.settings import check_timeout
from .answers import Answer
from .calls import MAX_UNFETCHED_BYTES

if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable

    from ...protocol.ids import CallId, RRefId
    from ..base.loop import RunLoop
    from ..core.core import Core
    from ..core.lines import Lines
    from .calls import Calls

NOT_PLAIN: Final = object()
"""Returned in place of a value: nothing has happened, and the request has to go the general way."""
_is_over = attrgetter("over")


class Straight(Internal):
    """Makes the plain requests of one program's endpoint, on our own base."""

    def __init__(self, core: Core, lines: Lines, calls: Calls, loop: RunLoop) -> None:
        self._core = core
        self._lines = lines
        self._calls = calls
        self._loop = loop
        self._unfetched = calls.unfetched
        lines.takers[Reply] = calls.replied

    def call(
        self,
        to: object,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        timeout: float | None,
    ) -> Any:
        """The result of ``function(*args)`` at *to*, or `NOT_PLAIN`. Blocks, as `rpc_sync`."""
        core, calls = self._core, self._calls
        info = core.peers.named.get(to) if type(to) is str else to
        if type(info) is not WorkerInfo or not self._may_lead():
            return NOT_PLAIN
        there, line = info.id, self._lines.to(info.id)
        if line is None:
            return NOT_PLAIN
        data, definition = dumps_call((function, args, {})), None
        if data is None:
            definition = calls.packer.definition_of(function)
            data = None if definition is None else dumps_arguments(args)
        if data is None or len(data) >= SHORT:
            return NOT_PLAIN
        seconds = core.settings.timeout
        if timeout is not None:
            seconds = check_timeout(timeout, seconds)
        end, name = time.monotonic() + seconds, str(getattr(function, "__name__", function))
        answer = Answer(
            self._loop.lead_of,
            partial(calls.future_until, ("the reply of {} to {}()", info, name), seconds, end),
        )
        payload = Payload(data, tag=name)
        undisturbed.hold(self._loop.poller)
        try:
            with core.lock:
                if not self._ready():
                    return NOT_PLAIN
                at = None
                if definition is not None:
                    at = self._lines.shelves.known(there, "requests", definition)
                    if at is None:  # this call takes it there
                        return NOT_PLAIN
                    payload = Payload(data, tag=name, functions=(at,))
                message = plain.call(core.context.state, there, Cargo(payload=payload))
                if message is None:
                    return NOT_PLAIN
                if at is not None:
                    self._lines.shelves.use(there, "requests", at)
                call = message.call
                calls.waiting[call] = answer
                sent = self._lines.send(there, message, "requests", len(data))
            self._lines.post(there, line, sent)
            self._loop.lead(partial(_is_over, answer), seconds, held=True)
        finally:
            undisturbed.release()
        if answer.data is None:
            return calls.general(call, answer).result()
        return opened(answer.data)

    def fetch(self, rref: RRefId, timeout: float | None, asker: weakref.ref[Any]) -> Any:
        """A copy of the value of *rref*, or `NOT_PLAIN`. Blocks, as `RRef.to_here`."""
        core, calls = self._core, self._calls
        user = core.context.users.get(rref)
        if user is None or not self._may_lead():
            return NOT_PLAIN
        there, line = user.owner, self._lines.to(user.owner)
        if line is None:
            return NOT_PLAIN
        seconds = core.settings.timeout
        if timeout is not None:
            seconds = check_timeout(timeout, seconds)
        end = time.monotonic() + seconds
        answer = Answer(
            self._loop.lead_of,
            partial(
                calls.future_until, ("the value of {}", rref), seconds, end, rref=rref, asker=asker
            ),
        )
        call: CallId | None = None
        try:
            undisturbed.hold(self._loop.poller)
            try:
                with core.lock:
                    if not self._ready():
                        return NOT_PLAIN
                    message = plain.fetch(core.context.state, there, rref)
                    if message is None:
                        return NOT_PLAIN
                    call = message.call
                    calls.waiting[call] = answer
                    sent = self._lines.send(there, message, None, 0)
                self._lines.post(there, line, sent)
                self._loop.lead(partial(_is_over, answer), seconds, held=True)
            finally:
                undisturbed.release()
            if answer.data is None:
                return calls.general(call, answer).result()
        finally:  # a program that polls must not fill the owner's queue
            if call is not None and answer.data is None:
                future = calls.general(call, answer)
                if not future.over:
                    future.cancel()
                del future
        return opened(answer.data)

    def _may_lead(self) -> bool:
        """Whether the calling thread is the program's own, and no function of the endpoint."""
        if found() is not None or self._core.pool.mine.inside:
            return False
        return self._unfetched.bytes < MAX_UNFETCHED_BYTES

    def _ready(self) -> bool:
        """Under the lock: whether a plain move may be made. Notes the time."""
        core = self._core
        if os.getpid() != core.pid:
            core.check_process()
        core.context.state.now = time.monotonic()
        return not (core.closed or core.discards.ended or core.tracer is not None)
