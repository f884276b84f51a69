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
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ...protocol.columns import MANY
from ...protocol.lending import LendingUser
from ...protocol.messages import Cargo
from ...protocol.room import ROOM_BYTES
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

    from ...protocol.effects import Effect
    from ...protocol.ids import RRefId, WorkerId
    from ...serialization.definitions import Definition
    from ...serialization.pickling import Reference
    from ..base.loop import RunLoop
    from ..core.core import Core
    from ..core.current import Frame
    from ..core.delivery import Delivery
    from .calls import Calls
    from .futures import Future
    from .waits import Waits

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
        delivery: Delivery,
        calls: Calls,
        waits: Waits,
        loop: RunLoop,
        guests: bool,
    ) -> None:
        """*guests*: threads that run no function may lead, as in a program."""
        self._core = core
        self._state = core.context.state
        self._calls = calls
        self._channels = delivery.channels
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
        info, payload, rrefs = begun
        there, seconds = info.id, core.settings.timeout
        channel = self._channels.get(there)
        if channel is not None and len(channel.flight) >= CROWD and not calls.fits(there):
            return NOT_PLAIN  # it has to wait for room
        if timeout is not None:
            seconds = check_timeout(timeout, seconds)
        what = "the reply of {} to {}()", info, payload.tag
        answer = Answer(calls.future_of, self._lead, here.run, what, seconds)

        def begin(cargo: Cargo) -> list[Effect]:
            call, effects = core.context.call(there, cargo)
            calls.await_answer(call, answer)  # noqa: F821 - it is deleted only afterwards
            return effects

        undisturbed.hold(self._poller)
        try:
            self._send(begin, there, payload, rrefs)
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
        core, calls, begun = self._core, self._calls, self._begun(to, function, args)
        if begun is None or not calls.fits(begun[0].id):
            return None
        info, payload, _ = begun
        what = "the reply of {} to {}()", info, payload.tag
        future: Future[Any] = calls.future_of(what, timeout)

        def move(cargo: Cargo) -> list[Effect]:
            call, effects = core.context.call(info.id, cargo)
            future.call = call
            calls.waiting[call] = future
            calls.bound(future, call)
            return effects

        with undisturbed:
            self._send(move, info.id, payload)
        if core.closed and not future.over:  # meanwhile: nobody would complete it
            core.check_open()
        return future

    def create(self, to: object, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """The reference of the result of ``function(*args)`` at *to*; None if it is not plain."""
        core = self._core
        begun = None if core.sites.wanted else self._begun(to, function, args)
        if begun is None or not self._idle(begun[0].id):
            return None
        info, payload, _ = begun
        made: list[RRefId] = []

        def move(cargo: Cargo) -> list[Effect]:
            rref, effects = core.context.create(info.id, cargo)
            made.append(rref)
            return effects

        with undisturbed:
            self._send(move, info.id, payload)
            self._calls.owners[info.id] = info
            if core.closed:
                core.check_open()
            return core.handles(made)[0]

    def _idle(self, to: WorkerId) -> bool:
        """Whether *to* has taken nearly all that was sent to it."""
        channel = self._channels.get(to)
        return channel is not None and channel.lighter(CROWD, ROOM_BYTES)

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
        there = user.owner
        channel = self._channels.get(there)
        if channel is None:
            return NOT_PLAIN
        if len(channel.flight) >= CROWD and not calls.fits(there):
            return NOT_PLAIN  # it has to wait for room
        seconds = core.settings.timeout
        if timeout is not None:
            seconds = check_timeout(timeout, seconds)
        what = "the value of {}", rref
        answer = Answer(calls.future_of, self._lead, run, what, seconds, rref, asker)

        def begin() -> list[Effect]:
            call, effects = core.context.fetch(rref, direct=True)
            calls.await_answer(call, answer)  # noqa: F821 - it is deleted only afterwards
            return effects

        try:
            undisturbed.hold(self._poller)
            try:
                core.step_within(begin)
                self._receive(answer)
            finally:
                undisturbed.release()
            if answer.payload is not None and not answer.payload.frozen:
                return opened(answer.payload)
            return calls.general(answer).result()
        finally:
            if answer.payload is None and answer.call is not None:
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
    ) -> tuple[WorkerInfo, Payload, tuple[RRefId, ...]] | None:
        """The receiver of a request, its payload, and with *lends* its references.

        None if the request is not plain.
        """
        core = self._core
        info = core.peers.named.get(to) if type(to) is str else to
        if type(info) is not WorkerInfo or info.id not in core.peers.resolved:
            return None
        if self._unfetched.bytes >= MAX_UNFETCHED_BYTES:
            return None
        if os.getpid() != core.pid:  # the lock of a forked child may never come back
            core.check_process()
        rrefs: tuple[RRefId, ...] = ()
        data = dumps_call(function, args)
        if data is not None:
            payload = Payload(data, tag=function.__name__, plain=True)
        else:
            packed = self._packed(function, args, lends=lends)
            if packed is None:
                return None
            payload, rrefs = packed
        return (info, payload, rrefs) if len(payload.data) < SHORT else None

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
        return Payload(data, tag=name, functions=definitions, plain=True), rrefs

    def _ids(self, references: list[Reference]) -> tuple[RRefId, ...]:
        """The ids of *references*; none if two are equal, or one belongs to another endpoint."""
        front = self._core.front
        rrefs = tuple([each._id for each in references if getattr(each, "_front", 0) is front])
        return rrefs if len(set(rrefs)) == len(references) else ()

    def _send(
        self,
        move: Callable[[Cargo], list[Effect]],
        there: WorkerId,
        payload: Payload,
        rrefs: tuple[RRefId, ...] = (),
    ) -> None:
        """Make the request by *move*, which lends *rrefs*. Call it `undisturbed`."""
        core = self._core

        def begin() -> list[Effect]:
            if not rrefs:
                return move(Cargo(payload=payload))
            cargo = Cargo(payload=payload, descriptors=core.context.lend_all(rrefs, there))
            self._introduce(there, cargo)
            return move(cargo)

        core.step_within(begin)

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
