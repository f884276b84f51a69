"""Plain requests of an endpoint, straight: one thread sends the request and receives its answer.

Most calls name an importable function, and have numbers and texts for arguments; most fetches bring
a small value. The calling thread waits for the answer at once. While it leads the loop of our own
base, it receives the answer itself, so no future is needed. A thread of the program's may lead, and
so may a thread that runs a function, if nobody else needs the loop (`RunLoop.visit`). The wait of a
function is noted, for the search for rings (`Waits`).
A call in flight (`rpc_async`) has a future, which its plain reply completes. A creation waits for
nothing. If a handle has just ended, mostly that of an earlier creation, its end leaves with it.
Everything else goes the general way (`Calls`), also the rest of a wait in which the thread may no
longer lead, and each request of code on which an object waits (its chain).
"""

from __future__ import annotations

import os
import time
from functools import partial
from heapq import heappush
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from ...protocol import plain, plain_loan
from ...protocol.columns import MANY
from ...protocol.effects import Confirmed
from ...protocol.lending import LendingUser
from ...protocol.messages import Ack, Call, Cargo, Reply
from ...serialization.holes import holed
from ...serialization.payload import Payload
from ...serialization.plain import NAMED, SHORT, dumps_arguments, dumps_call, is_by_name
from ..base.interrupts import undisturbed
from ..core.core import Internal
from ..core.current import found
from ..core.links import CROWD
from ..values.packing import opened
from ..wire.messages import WorkerInfo
from ..wire.settings import check_timeout
from .answers import Answer
from .calls import MAX_UNFETCHED_BYTES

if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable

    from ...protocol.delivery import Packet
    from ...protocol.ids import RRefId, WorkerId
    from ...protocol.messages import Create
    from ...protocol.state import Tables
    from ...serialization.definitions import Definition
    from ...serialization.pickling import Reference
    from ..base.loop import RunLoop
    from ..core.brief import Later
    from ..core.core import Core
    from ..core.current import Frame
    from ..core.lines import Lines
    from ..core.links import Outgoing
    from ..core.port import Connection
    from .calls import Calls
    from .futures import Future
    from .waits import Waits

    M = TypeVar("M", Call, Create)

NOT_PLAIN: Final = object()
"""Returned in place of a value: nothing has happened, and the request has to go the general way."""
MOST_LENT: Final = MANY - 1
"""The most references that a plain call lends: more travel in columns."""
_is_over = attrgetter("over")


class Straight(Internal):
    """Makes the plain requests of one endpoint, on our own base."""

    def __init__(
        self,
        core: Core,
        *,
        lines: Lines,
        calls: Calls,
        waits: Waits,
        loop: RunLoop,
        guests: bool,
    ) -> None:
        """*guests*: threads that run no function may lead, as in a program."""
        self._core = core
        self._state = core.context.state
        self._lines = lines
        self._calls = calls
        self._channels = lines.channels
        self._waits = waits
        self._loop = loop
        self._poller = loop.poller
        self._lead = loop.lead_of
        self._guests = guests
        self._unfetched = calls.unfetched
        self._lends = core.context.state.discipline.user is LendingUser
        self._introduced: dict[WorkerId, set[WorkerId]] = {}
        """For each peer: the owners of references that a straight message has introduced to it."""
        core.on_deaths.append(self._died)
        lines.takers |= {Reply: calls.replied, Ack: self._acked}

    def call(
        self,
        to: object,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        timeout: float | None,
        here: Frame,
    ) -> Any:
        """The result of ``function(*args)`` at *to*, or `NOT_PLAIN`. Blocks, as `rpc_sync`.

        *here*: the code that waits; no object waits for it, or the call is not plain.
        """
        core, calls = self._core, self._calls
        begun = None if here.chain else self._begun(to, function, args, lends=self._lends)
        if begun is None:
            return NOT_PLAIN
        info, line, payload, rrefs = begun
        there, seconds = info.id, core.settings.timeout
        channel = self._channels.get(there)
        if channel is not None and len(channel.flight) >= CROWD and not calls.fits(there):
            return NOT_PLAIN  # it has to wait for room
        if timeout is not None:
            seconds = check_timeout(timeout, seconds)
        undisturbed.hold(self._poller)
        try:
            with core.lock:
                made = self._made(plain.call, there, payload, rrefs)
                if made is None:
                    return NOT_PLAIN
                message, sent, gone = made
                what = "the reply of {} to {}()", info, payload.tag
                end = self._state.now + seconds
                answer = Answer(
                    message.call, calls.future_of, self._lead, here.run, what, seconds, end
                )
                calls.waiting[message.call] = answer
            self._lines.post(there, line, sent, gone)
            self._receive(answer)
        finally:
            undisturbed.release()
        if answer.payload is not None:
            return opened(answer.payload)
        try:
            return calls.general(answer).result()
        finally:
            del answer  # an error's traceback holds this frame

    def begin(
        self,
        to: object,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        timeout: float | None,
    ) -> Future[Any] | None:
        """The future of the result, as `rpc_async`; None if the call is not plain."""
        calls, begun = self._calls, self._begun(to, function, args)
        if begun is None or not calls.fits(begun[0].id):
            return None
        info, line, payload, _ = begun
        what = "the reply of {} to {}()", info, payload.tag
        future: Future[Any] = calls.future_of(what, timeout)
        with undisturbed:
            with self._core.lock:
                made = self._made(plain.call, info.id, payload, ())
                if made is None:
                    return None
                message, sent, gone = made
                future.call = message.call
                calls.waiting[message.call] = future
                due: Any = future.deadline  # a call has one
                deadlines = calls.deadlines  # as `Calls.bound`, without the call of a function
                if due < calls.first or len(deadlines) > calls.most:
                    calls.bound(future, message.call)
                else:
                    heappush(deadlines, (due, next(calls.numbers), message.call))
            self._lines.post(info.id, line, sent, gone)
        return future

    def create(self, to: object, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """The reference of the result of ``function(*args)`` at *to*; None if it is not plain."""
        core = self._core
        begun = None if core.sites.wanted else self._begun(to, function, args)
        if begun is None or not self._lines.idle(begun[0].id):
            return None
        info, line, payload, _ = begun
        with undisturbed:
            with core.lock:
                made = self._made(plain.create, info.id, payload, ())
            if made is None:
                return None
            message, sent, gone = made
            self._lines.post(info.id, line, sent, gone)
            self._calls.owners[info.id] = info
            return core.handles([message.rref])[0]

    def fetch(self, rref: RRefId, timeout: float | None, asker: weakref.ref[Any]) -> Any:
        """A copy of the value of *rref*, or `NOT_PLAIN`. Blocks, as `RRef.to_here`."""
        core, calls, here, run = self._core, self._calls, found(), None
        if here is not None:
            if here.chain or here.core is not core:
                return NOT_PLAIN
            run = here.run
        user = self._state.users.get(rref)
        if user is None or self._unfetched.bytes >= MAX_UNFETCHED_BYTES:
            return NOT_PLAIN
        if os.getpid() != core.pid:  # the lock of a forked child may never come back
            core.check_process()
        there, line = user.owner, self._lines.to(user.owner)
        channel = self._channels.get(there)
        if line is None or channel is None:
            return NOT_PLAIN
        if len(channel.flight) >= CROWD and not calls.fits(there):
            return NOT_PLAIN  # it has to wait for room
        seconds = core.settings.timeout
        if timeout is not None:
            seconds = check_timeout(timeout, seconds)
        answer: Answer | None = None
        try:
            undisturbed.hold(self._poller)
            try:
                with core.lock:
                    if core.closed or core.discards.ended:
                        return NOT_PLAIN
                    self._state.now = time.monotonic()
                    message = plain.fetch(self._state, there, rref)
                    if message is None:
                        return NOT_PLAIN
                    what = "the value of {}", rref
                    end = self._state.now + seconds
                    answer = Answer(
                        message.call,
                        calls.future_of,
                        self._lead,
                        run,
                        what,
                        seconds,
                        end,
                        rref,
                        asker,
                    )
                    calls.waiting[message.call] = answer
                    if core.tracer is not None:
                        core.tracer.asked(message, "fetch", rref, (), True, True, True)
                    sent = self._lines.send(there, message, 0)
                self._lines.post(there, line, sent)
                self._receive(answer)
            finally:
                undisturbed.release()
            if answer.payload is not None and not answer.payload.frozen:
                return opened(answer.payload)
            return calls.general(answer).result()
        finally:
            if answer is not None and answer.payload is None:
                future = calls.general(answer)
                if not future.over:  # a program that polls must not fill the owner's queue
                    future.cancel()
                del future
            del answer  # an error's traceback holds this frame

    def _begun(
        self,
        to: object,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        *,
        lends: bool = False,
    ) -> tuple[WorkerInfo, Connection, Payload, tuple[RRefId, ...]] | None:
        """The receiver of a request, the way there, its payload, and with *lends* its references.

        None if the request is not plain.
        """
        core = self._core
        info = core.peers.named.get(to) if type(to) is str else to
        if type(info) is not WorkerInfo or self._unfetched.bytes >= MAX_UNFETCHED_BYTES:
            return None
        if os.getpid() != core.pid:  # the lock of a forked child may never come back
            core.check_process()
        line = self._lines.to(info.id)
        if line is None:
            return None
        rrefs: tuple[RRefId, ...] = ()
        data = dumps_call(function, args)
        if data is not None:
            payload = Payload(data, tag=function.__name__)
        else:
            packed = self._packed(function, args, lends=lends)
            if packed is None:
                return None
            payload, rrefs = packed
        return (info, line, payload, rrefs) if len(payload.data) < SHORT else None

    def _receive(self, answer: Answer) -> None:
        """Receive until *answer* is over, if the calling thread may lead."""
        if self._core.lock._is_owned():  # type: ignore[attr-defined]  # of any `RLock`
            return  # a signal handler, or a finalizer, in the midst of a step: it must not wait
        over, pool, loop = partial(_is_over, answer), self._core.pool, self._loop
        if not pool.mine.inside:
            if self._guests:
                loop.lead(over, answer.timeout, held=True)
        elif not loop.is_runner():  # it may be: in a finalizer
            waiting, run = self._waits.straight, answer.run
            # The wait that a finalizer, which runs this, has interrupted.
            before = None if run is None else waiting.get(run.call)
            began = time.perf_counter()
            self._lead.waiting.append(None)
            try:
                if run is not None:
                    waiting[run.call] = answer
                pool.lend()
                loop.visit(over, answer.timeout)
            finally:
                pool.mine.waited += time.perf_counter() - began
                pool.take_back()
                if run is not None:
                    if before is None:
                        del waiting[run.call]
                    else:
                        waiting[run.call] = before
                self._lead.waiting.pop()

    def _packed(
        self, function: Callable[..., Any], args: tuple[Any, ...], *, lends: bool
    ) -> tuple[Payload, tuple[RRefId, ...]] | None:
        """The payload of a request that is not plain at the first look, and its references.

        The function is apart if it has a definition. With *lends* there may be references.
        """
        data: bytes | None = None
        definitions: tuple[Definition, ...] = ()
        rrefs: tuple[RRefId, ...] = ()
        holes: list[Any] | None = None
        if lends:
            found = holed(args, MOST_LENT)
            if found is not None:
                args, references = found
                rrefs = self._ids(references)
                if not rrefs:
                    return None
                holes = []
                data = dumps_call(function, args, holes)
        if data is None:
            data = dumps_arguments(args, holes)
            if data is None or (type(function) in NAMED and is_by_name(function)):
                return None
            definition = self._calls.packer.definition_of(function)
            if definition is None:
                return None
            definitions = (definition,)
        name = str(getattr(function, "__name__", function))
        return Payload(data, tag=name, functions=definitions), rrefs

    def _ids(self, references: list[Reference]) -> tuple[RRefId, ...]:
        """The ids of *references*; none if two are equal, or one belongs to another endpoint."""
        front = self._core.front
        rrefs = tuple([each._id for each in references if getattr(each, "_front", 0) is front])
        return rrefs if len(set(rrefs)) == len(references) else ()

    def _made(
        self,
        move: Callable[[Tables, WorkerId, Cargo], M | None],
        there: WorkerId,
        payload: Payload,
        rrefs: tuple[RRefId, ...],
    ) -> tuple[M, Packet | Outgoing, Packet | Outgoing | None] | None:
        """Under the lock: the request by *move*, and the two things to `Lines.post`; or None."""
        core, state, lines = self._core, self._state, self._lines
        at = gone = None
        if payload.functions:
            definition: Any = payload.functions[0]
            at = lines.shelves.known(there, "requests", definition)
            if at is None:  # this request takes it there
                return None
            payload = replace(payload, functions=(at,))
        state.now = time.monotonic()
        if core.closed or core.discards.ended:
            gone = self._gone(there) if not rrefs else None
            if gone is None:
                return None
        message: Any
        if rrefs:
            message = plain_loan.lend(state, there, rrefs, payload)
        else:
            message = move(state, there, Cargo(payload=payload))
        if message is None:  # so no handle has gone: that needs more
            return None
        tracer = core.tracer
        if tracer is not None:
            for rref in rrefs:
                tracer.did("lend", rref, there, True)
            if isinstance(message, Call):
                tracer.asked(message, "call", there, message.cargo.descriptors, ())
            else:
                tracer.asked(message, "create", there, (), None)
        if rrefs:
            self._introduce(there, message.cargo)
        if at is not None:
            lines.shelves.use(there, "requests", at)
        sent = lines.send(there, message, len(payload.data))
        return message, sent, gone

    def _introduce(self, there: WorkerId, cargo: Cargo) -> None:
        """Under the lock: tell *there* once where to find each owner of a reference in *cargo*."""
        me, known = self._core.me, self._introduced.get(there, ())
        for each in cargo.descriptors:
            owner = each.owner
            if owner not in known and owner not in (me, there):
                known = self._introduced.setdefault(there, set())
                known.add(owner)
                address = self._core.peers.addresses.get(owner)
                if address is not None:
                    payload: Any = cargo.payload
                    peers = *payload.peers, WorkerInfo(owner, address)
                    msgspec.structs.force_setattr(payload, "peers", peers)

    def _died(self, dead: tuple[WorkerId, ...]) -> None:
        for worker in dead:
            self._introduced.pop(worker, None)

    def _gone(self, there: WorkerId) -> Packet | Outgoing | None:
        """Under the lock: the end of a handle, if all that it needs is a message to *there*."""
        core = self._core
        if core.closed:
            return None
        rref = core.discards.only
        user = core.context.users.get(rref) if rref is not None else None
        if rref is None or user is None or user.owner != there:
            return None
        message = plain.dropped(core.context.state, rref)
        if message is None:
            return None
        core.discards.settle_only()
        if core.tracer is not None:
            core.tracer.did("drop", (rref,))
        return self._lines.send(there, message, 0)

    def _acked(self, sender: WorkerId, message: Ack, _: Later) -> bool:
        core = self._core
        if not plain.acked(core.context.state, sender, message):
            return False
        if core.tracer is not None:
            core.tracer.brought(Confirmed(message.rref))
        return True
