"""Plain requests of others, straight: from the message to the answer in few functions.

A plain call (`protocol.plain`) runs in the thread that would run it anyway, and mostly its result
is plain, too. A fetch of a small value that no request occupies is answered by the thread that
receives it, if the value takes microseconds to pickle and no job waits. A plain creation is
acknowledged at once. When its value is there, the same thread answers the fetch that has come
meanwhile. The `Server` does everything else: a function that returns a coroutine, a future or a
reference; an error; and a large result.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future as AnyFuture
from functools import partial
from os import getpid
from threading import get_ident
from time import monotonic, perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from ...protocol import plain, plain_loan
from ...protocol.effects import Free
from ...protocol.messages import Busy, Call, Cargo, Create, Delete, Fetch
from ...serialization.errors import Failure
from ...serialization.failures import CAUGHT
from ...serialization.frozen import Frozen
from ...serialization.holes import filled
from ...serialization.payload import Payload
from ...serialization.pickling import cannot_unpickle
from ...serialization.plain import ATOMS, dumps_plain, size_class
from ..calls.straight import MOST_LENT
from ..core.core import Internal
from ..core.current import CurrentRun, Frame, enter, leave
from ..core.intake import NOTED
from ..handles.rref import RRef
from ..values.box import Box
from ..values.making import Made
from ..values.packing import Pack, opened
from ..values.wrapper import ByValue
from ..wire.cargoes import HEAD
from ..wire.parcels import SMALL
from .resolving import Resolving
from .server import MAX_WAITING, NAMELESS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.delivery import Packet
    from ...protocol.effects import Run
    from ...protocol.ids import CallId, RRefId, WorkerId
    from ...protocol.messages import Reply
    from ..core.brief import Later
    from ..core.core import Core
    from ..core.lines import Lines
    from ..core.links import Outgoing
    from ..values.objects import Objects
    from ..values.packing import Packer
    from .server import Server

NOT_KEPT = frozenset({Failure, Made, Resolving, CoroutineType})
"""Results that are no values, besides references and futures."""
LEAVING = 0.1
"""Seconds to wait for the thread that posts a large answer; it may run a user's finalizer."""


class StraightServer(Internal):
    """Carries out the plain requests of one endpoint."""

    def __init__(
        self, core: Core, *, lines: Lines, objects: Objects, packer: Packer, server: Server
    ) -> None:
        self._core = core
        self._state = core.context.state
        self._offered, self._waiting = core.brief.offered, core.pool.jobs
        self._lines = lines
        self._objects = objects
        self._packer = packer
        self._server = server
        self._most = min(SMALL, core.port.largest() - HEAD)
        """A payload that travels as a row has fewer bytes."""
        self._leaving = threading.Lock()
        """Held while a large answer is posted, until its thread has let go of it. Its reader may
        ask for the next one meanwhile, which is to be written to the same memory."""
        lines.takers |= {
            Call: self._take_call,
            Fetch: self._take_fetch,
            Create: self._take_create,
            Delete: self._take_delete,
        }

    # ---- under the endpoint's lock

    def _take_call(self, sender: WorkerId, call: Call, later: Later) -> bool:
        core, server, cargo = self._core, self._server, call.cargo
        payload: Any = cargo.payload
        if not self._runs(payload) or call.chain:
            return False
        if cargo.descriptors:
            effects = plain_loan.lent(self._state, sender, call.call, cargo.descriptors)
            if effects is None:
                return False
            if core.tracer is not None:
                core.tracer.brought(*effects)
        elif not plain.called(self._state, sender, call.call):
            return False
        server.served += 1
        server.unstarted.add(call.call)
        core.brief.submit(core.pool, payload.tag, self._run, call, payload.tag, later=later)
        return True

    def _take_create(self, sender: WorkerId, create: Create, later: Later) -> bool:
        core, line = self._core, self._lines.to(sender)
        payload: Any = create.cargo.payload
        if line is None or core.sites.wanted or not self._runs(payload):
            return False
        ack = plain.created(self._state, sender, create)
        if ack is None:
            return False
        self._server.served += 1
        sent = self._lines.send(sender, ack, 0)
        later.append(partial(self._lines.post, sender, line, sent))
        core.brief.submit(core.pool, payload.tag, self._make, create, payload.tag, later=later)
        return True

    def _take_delete(self, sender: WorkerId, delete: Delete, later: Later) -> bool:
        core = self._core
        if not plain.deleted(self._state, sender, delete):
            return False
        if core.tracer is not None:
            core.tracer.brought(Free(delete.rref))
        self._objects.free(delete.rref, later)
        return True

    def _runs(self, payload: Any) -> bool:
        """Whether a function with this *payload* can run soon."""
        small = type(payload) is Payload and len(payload.data) < NOTED
        # The `Server` counts exactly: see `Brief.waits`.
        return small and len(self._offered) + len(self._waiting) < MAX_WAITING - 1

    def _take_fetch(self, sender: WorkerId, fetch: Fetch, later: Later) -> bool:
        core, stored = self._core, self._objects.stored(fetch.rref)
        if stored is None or not fetch.copy or stored.fate is not None:
            return False
        if not plain.fetched(self._state, sender, fetch):
            return False
        self._server.served += 1
        # Jobs begin in their order: nothing may overtake one that waits.
        waits = self._offered or core.chores.jobs
        if waits or not self._copied(stored.value, fetch, later):
            kind = Fetch, size_class(stored.value)
            core.brief.submit(core.chores, kind, self._copy, fetch, kind, later=later)
        return True

    def _copied(self, value: object, fetch: Fetch, later: Later) -> bool:
        """Answer *fetch* at once by a copy of *value*; false if that needs a job."""
        lines, caller = self._lines, fetch.call.caller
        payload = self._packer.soon(value, caller)
        if payload is None:
            return False
        line, framed = lines.to(caller), len(payload.data)
        size = framed
        if payload.frozen:  # only such a value has buffers that travel in the message
            framed, size = payload.framed, payload.size
        else:
            for each in payload.buffers:  # as `Payload.size`, which calls two functions
                size += each.size  # type: ignore[union-attr]  # it is in a slot
        if line is None or framed >= self._most:
            return False
        if size >= NOTED and not self._server.has_room(caller):
            return False
        cargo = Cargo(payload=payload)
        message = plain.answer(self._state, cargo, fetch.call, fetch.rref)
        if message is None:
            return False
        if self._core.tracer is None:
            sent = lines.send(caller, message, size)
        else:
            sent = self._traced(message, fetch, size)
        later.append(partial(lines.post, caller, line, sent))
        return True

    # ---- in a thread of the pool, or between two messages

    def _run(self, request: Call, kind: object) -> None:
        """Run the function, and answer."""
        started, core, server = perf_counter(), self._core, self._server
        result, answer = self._called(request, (), kind), None
        if not server.turns.begun:
            answer = self._packed(result, request.call.caller)
        if answer is None or not self._answer(answer, request):
            box = Box(result)
            del result
            server.go_on(request, (), box)
        if request.cargo.descriptors:
            core.discards.settle_elsewhere()
        core.brief.took(kind, perf_counter() - started, core.pool.mine.waited)

    def _make(self, request: Create, kind: object) -> None:
        """Run the function, and keep its value. Answer the fetch that waits for it, if one does."""
        started, core, server = perf_counter(), self._core, self._server
        chain = (Busy(request.rref, request.call),)
        result = self._called(request, chain, kind)
        runs = None if server.turns.begun else self._kept(request.rref, result)
        if runs is None:
            box = Box(result)
            del result
            server.go_on(request, chain, box)
        core.brief.took(kind, perf_counter() - started, core.pool.mine.waited)
        for run in runs or ():
            self._fetch_at_once(run.request)  # type: ignore[arg-type]  # it is a fetch

    def _fetch_at_once(self, fetch: Fetch) -> None:
        """Answer *fetch* in this thread, if it costs little."""
        self._server.served += 1
        answer = None
        if fetch.copy:
            answer = self._packed(self._server.wanted(fetch), fetch.call.caller, large=False)
        if answer is None or not self._answer(answer, fetch):
            later: Later = []
            kind = Fetch, size_class(self._server.wanted(fetch))
            self._core.brief.submit(self._core.chores, kind, self._copy, fetch, kind, later=later)
            self._core.conclude(later)

    def _called(self, request: Call | Create, chain: tuple[Busy, ...], kind: object) -> object:
        """The function's result, or its `Failure`."""
        payload: Payload = request.cargo.payload  # type: ignore[assignment]  # an endpoint's
        core, server = self._core, self._server
        name = kind if type(kind) is str else NAMELESS
        token = enter(Frame(core, chain, CurrentRun(request.call, name, chain, get_ident())))
        try:
            try:
                if request.cargo.descriptors:
                    return self._called_with(request, core)
                function, args, kwargs = opened(payload)
                if payload.functions:
                    function = self._packer.made(payload.functions[0])  # type: ignore[arg-type]  # unshelved
                if type(function) is ByValue:
                    return Resolving(function, args, kwargs, chain)
                server.begin(request)
                return function(*args, **kwargs)
            finally:
                leave(core, token)
        except BaseException as error:
            return server.failure(error, request)

    def _called_with(self, request: Call | Create, core: Core) -> object:
        """The function's result; its arguments have references."""
        payload: Payload = request.cargo.payload  # type: ignore[assignment]  # an endpoint's
        rrefs = [each.rref for each in request.cargo.descriptors]
        with core.lock:
            core.context.hold(*rrefs)
        try:
            function, args, kwargs = filled(payload.data, core.handles(rrefs))
        except CAUGHT as error:
            raise cannot_unpickle(f"a message of {len(payload.data)} bytes", error) from error
        if payload.functions:
            function = self._packer.made(payload.functions[0])  # type: ignore[arg-type]  # unshelved
        self._server.begin(request)
        result = function(*args, **kwargs)
        core.discards.settler = get_ident()  # of the handles that end with this frame
        return result

    def _traced(self, message: Reply, request: Call | Fetch, size: int) -> Packet | Outgoing:
        """Under the lock: `Lines.send` for the reply to *request*, which a trace is to show."""
        call = request.call
        tracer: Any = self._core.tracer  # there is one
        tracer.asked(message, "reply", call, ())
        sent = self._lines.send(call.caller, message, size)
        if type(request) is Fetch:
            tracer.did("done", request.rref, call)
            tracer.flush()
        return sent

    def _returned(self, cargo: Cargo, call: CallId) -> Reply | None:
        """Under the lock: the reply that gives back what *call* has brought and let go of."""
        discards = self._core.discards
        ended = discards.few(MOST_LENT)
        if ended is None:
            return None
        gone: list[Any] = [each.rref for each in ended]  # of handles
        message = plain_loan.returned(self._state, cargo, call, gone)
        if message is not None:
            discards.settle_few(ended)
            if gone and self._core.tracer is not None:
                self._core.tracer.did("drop", tuple(gone))
        return message

    def _kept(self, rref: RRefId, value: object) -> Sequence[Run] | None:
        """Keep *value*; returns the fetch that is to run. None: nothing is done."""
        core, kind = self._core, type(value)
        if kind in NOT_KEPT or issubclass(kind, RRef | AnyFuture):
            return None
        if getpid() != core.pid:  # the function has forked
            core.check_process()
        with core.lock:
            self._state.now = monotonic()
            if core.closed or core.discards.ended:
                return None
            runs = self._objects.keep(rref, value)
            if runs is not None and core.tracer is not None:
                core.tracer.did("resolve", rref)
                core.tracer.flush()
            return runs

    def _copy(self, request: Fetch, kind: object) -> None:
        """Answer by a copy of the value."""
        started, server = perf_counter(), self._server
        value, answer = server.wanted(request), None
        if request.copy:
            answer = self._packed(value, request.call.caller)
        large = answer is not None and bool(answer[0].buffers)
        if answer is None:
            server.finish(request, Box(value))
        elif not self._answer(answer, request):
            server.finish(request, Box(Pack(large=True, plain=Cargo(payload=answer.pop()))))
        seconds = perf_counter() - started
        self._core.brief.took(kind, seconds, seconds if large else 0.0)

    def _packed(self, value: object, to: WorkerId, *, large: bool = True) -> list[Payload] | None:
        """The `Payload` of *value*, if it is plain and small, but for buffers shared with *to*.

        A value that is not frozen has them only with *large*. None if it is not plain. It comes in
        a list, which `_answer` empties: so no caller keeps it.
        """
        try:
            if type(value) not in ATOMS:
                if type(value) is Frozen:
                    payload = self._packer.as_it_is(value, to)
                    if payload is None or payload.framed >= self._most:
                        return None
                    return [payload]
                payload = self._packer.in_slot(value, to)
                if payload is not None:
                    return [payload]
            plainly = dumps_plain(value)
            if plainly is None or len(plainly[0]) >= self._most:
                return None
            data, views = plainly
            if not views:
                return [Payload(data)]
            if not large or self._lines.to(to) is None:
                return None
            if self._leaving.acquire(timeout=LEAVING):
                self._leaving.release()
            buffers = self._packer.shared(views, to)
        except BaseException:  # its class is the user's; the general way reports it
            return None
        return None if buffers is None else [Payload(data, buffers)]

    def _answer(self, answer: list[Payload], request: Call | Fetch) -> bool:
        """Answer *request* by the payload in *answer*; false if that needs more than a plain move.

        Takes a large one out of the list.
        """
        payload, call = answer[0], request.call
        core, lines, caller = self._core, self._lines, call.caller
        line = lines.to(caller)
        if line is None:
            return False
        if getpid() != core.pid:  # the function has forked
            core.check_process()
        size = payload.size if payload.buffers else len(payload.data)
        if size >= NOTED:
            self._server.wait_for_room(caller)
        with core.lock:
            if core.closed:
                return False
            state, cargo = self._state, Cargo(payload=payload)
            state.now = monotonic()
            if type(request) is Call and request.cargo.descriptors:
                message = self._returned(cargo, call)
            elif core.discards.ended:
                return False
            elif type(request) is Call:
                message = plain.reply(state, cargo, call)
            else:
                message = plain.answer(state, cargo, call, request.rref)  # type: ignore[union-attr]  # a fetch
            if message is None:
                return False
            if core.tracer is None:
                sent = lines.send(caller, message, size)
            else:
                sent = self._traced(message, request, size)
        if not payload.buffers:  # nearly always
            lines.post(caller, line, sent)
            return True
        answer.clear()
        held = self._leaving.acquire(timeout=LEAVING)
        try:
            lines.post(caller, line, sent)
            del payload, cargo, message, sent
        finally:
            if held:
                self._leaving.release()
        return True
