"""Plain requests of others, straight: from the message to the answer in few functions.

A plain call (`protocol.plain`) runs in the thread that would run it anyway, and mostly its result
is plain, too. So is a fetch of a small value that no request occupies. The `Server` does everything
else: a function that returns a coroutine, a future or a reference; an error; a large result; and
each request while somebody records.
"""

from __future__ import annotations

import os
import time
from threading import get_ident
from typing import TYPE_CHECKING, Any

from ...protocol import plain
from ...protocol.messages import Call, Cargo, Fetch
from ...serialization.payload import Payload
from ...serialization.plain import dumps_plain, size_class
from ..core.core import Internal
from ..core.current import CurrentRun, running_in
from ..core.intake import NOTED
from ..values.box import Box
from ..values.packing import opened
from ..values.wrapper import ByValue
from ..wire.parcels import SMALL
from .resolving import Resolving
from .server import MAX_WAITING, NAMELESS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.ids import WorkerId
    from ...protocol.messages import Reply
    from ..core.brief import Later
    from ..core.core import Core
    from ..core.lines import Lines
    from ..values.objects import Objects
    from ..values.packing import Packer
    from .server import Server


class StraightServer(Internal):
    """Carries out the plain requests of one endpoint."""

    def __init__(
        self, core: Core, *, lines: Lines, objects: Objects, packer: Packer, server: Server
    ) -> None:
        self._core = core
        self._lines = lines
        self._objects = objects
        self._packer = packer
        self._server = server
        lines.takers |= {Call: self._take_call, Fetch: self._take_fetch}

    # ---- under the endpoint's lock

    def _take_call(self, sender: WorkerId, call: Call, later: Later) -> bool:
        core, payload = self._core, call.cargo.payload
        if type(payload) is not Payload or len(payload.data) >= NOTED or call.chain:
            return False
        if len(core.pool.jobs) >= MAX_WAITING:
            return False
        if not plain.called(core.context.state, sender, call.call):
            return False
        self._server.take_up(call.call)
        core.brief.submit(core.pool, payload.tag, self._run, call, payload.tag, later=later)
        return True

    def _take_fetch(self, sender: WorkerId, fetch: Fetch, later: Later) -> bool:
        core, stored = self._core, self._objects.stored(fetch.rref)
        if stored is None or not fetch.copy or stored.fate is not None:
            return False
        if not plain.fetched(core.context.state, sender, fetch):
            return False
        self._server.served += 1
        kind = Fetch, size_class(stored.value)
        core.brief.submit(core.chores, kind, self._copy, fetch, kind, later=later)
        return True

    # ---- in a thread of the pool, or between two messages

    def _run(self, request: Call, kind: object) -> None:
        """Run the function, and answer."""
        started, core, server = time.perf_counter(), self._core, self._server
        payload: Payload = request.cargo.payload  # type: ignore[assignment]
        run = CurrentRun(request.call, kind if type(kind) is str else NAMELESS, (), get_ident())
        try:
            with running_in(core, (), run):
                function, args, kwargs = opened(payload.data)
                if payload.functions:
                    function = self._packer.made(payload.functions[0])  # type: ignore[arg-type]
                if type(function) is ByValue:
                    box = Box(Resolving(function, args, kwargs, ()))
                else:
                    server.begin(request)
                    box = Box(function(*args, **kwargs))
        except BaseException as error:
            box = server.failed(request, error)
        data = None if server.turns.begun else _pickled(box.content)
        if data is None or not self._answer(data, plain.reply, request.call):
            server.go_on(request, (), box)
        core.brief.took(kind, time.perf_counter() - started)

    def _copy(self, request: Fetch, kind: object) -> None:
        """Answer by a copy of the value."""
        started, server = time.perf_counter(), self._server
        value = server.wanted(request)
        data = _pickled(value)
        if data is None or not self._answer(data, plain.answer, request.call, request.rref):
            server.finish(request, Box(value))
        self._core.brief.took(kind, time.perf_counter() - started)

    def _answer(self, data: bytes, move: Callable[..., Reply | None], *about: Any) -> bool:
        """Answer a request by *data* and a *move* of `protocol.plain`; false if it cannot be."""
        core, lines, caller = self._core, self._lines, about[0].caller
        line = lines.to(caller)
        if line is None:
            return False
        if os.getpid() != core.pid:  # the function has forked
            core.check_process()
        if len(data) >= NOTED:
            self._server.wait_for_room(caller)
        with core.lock:
            state = core.context.state
            if core.closed or core.discards.ended:
                return False
            state.now = time.monotonic()
            message = move(state, Cargo(payload=Payload(data)), *about)
            if message is None:
                return False
            sent = lines.send(caller, message, "results", len(data))
        lines.post(caller, line, sent)
        return True


def _pickled(value: object) -> bytes | None:
    """*value*, pickled, if it is plain and small."""
    try:
        plainly = dumps_plain(value)
    except BaseException:  # its class is the user's; the general way reports it
        return None
    if plainly is None or plainly[1] or len(plainly[0]) >= SMALL:
        return None
    return plainly[0]
