"""Running the requests of others: functions, methods of objects, copies of values.

Plain functions run in the endpoint's pool of threads, `async def` ones on its loop, and methods
take turns on their object (`turns`). If a function returns a future, that future's outcome is the
answer (`outcomes`). A caller may cancel its call (`cancels`). The payload of a request is unpickled
in the pool too, never in the mailbox thread. Each request gets exactly one reply.

A reference lent for a call costs nothing if the callee does not keep it. So before the reply is
made, the library lets go of the arguments, the function, the frames of an error and the result (it
is in a `Cell`, which the code that takes it empties).
"""

from __future__ import annotations

import contextlib
import threading
import time
import types
from collections import deque
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import CancelledError
from functools import partial
from typing import Any

import msgspec

from ...printable import logger
from ...protocol.effects import Effect, Refusal, Refuse, Run
from ...protocol.errors import (
    FarrefError,
    OverloadedError,
    OwnerDiedError,
    RefLostError,
    SelfWaitError,
)
from ...protocol.ids import CallId, RRefId, WorkerId
from ...protocol.messages import (
    Busy,
    Call,
    Cargo,
    Create,
    Fetch,
    Invoke,
    Request,
    chain_of,
    target_of,
)
from ...serialization.by_pickle import size_class
from ...serialization.errors import Failure
from ...serialization.frozen import Frozen
from ...serialization.payload import Payload
from ..base import forks
from ..base.interrupts import undisturbed
from ..calls import calls
from ..calls.calls import Calls, Invocation
from ..calls.waits import Waits
from ..core.brief import Later
from ..core.core import Core
from ..core.current import CurrentRun, Frame, enter, leave, running_in
from ..core.delivery import Delivery
from ..core.intake import NOTED
from ..core.registrar_client import RegistrarClient
from ..handles.rref import RRef
from ..values.cell import LATER, Cell, CoroutineCell
from ..values.objects import Objects, Stored
from ..values.packing import LEAVING, Pack, Packer, opened
from ..values.several import PART, ResultPart, check_run
from ..values.wrapper import ByValue, Made
from . import operations
from .cancels import Cancels, cancel_on
from .loop import Loop
from .outcomes import Outcomes
from .resolving import Resolving
from .turns import Turns

Started = Call | Create | Invoke
"""A request that runs code."""

Spawn = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]

log = logger(__name__)

CANCELLABLE = Call, Invoke
"""The requests that run code for a caller who may cancel them."""
NAMELESS = "a function"
"""The name of a function that came without one."""
MAX_WAITING = 100_000
"""The most calls and creations that wait for a thread of one endpoint; a further one is refused."""


class Server:
    """Carries out the requests of one endpoint."""

    def __init__(
        self,
        core: Core,
        *,
        registrar_client: RegistrarClient,
        delivery: Delivery,
        objects: Objects,
        packer: Packer,
        waits: Waits,
        calls: Calls,
    ) -> None:
        self._core = core
        self._registrar_client = registrar_client
        self._delivery = delivery
        self._objects = objects
        self._packer = packer
        self._waits = waits
        self._calls = calls
        self._offered = core.brief.offered
        core.handlers |= {Run: self._start_it, Refuse: self._refuse}
        code = Server._go.__code__
        self.cancels = Cancels(core, waits, self.finish, self.failure, code)
        self._starting = threading.Lock()
        self.turns = Turns(core)
        self._outcomes = Outcomes(core, waits, self.turns, self.finish, self.failure)
        self.forgotten = self._outcomes.left
        """Requests whose futures nobody can set any more; `end_forgotten` ends them."""
        self.end_forgotten = self._outcomes.end_forgotten
        self.spawn: Spawn = self._start_loop
        """Runs an `async def` function. By default a loop is started for the first one, in one
        thread; it ends with the endpoint."""
        self.served = 0
        """The number of requests taken up so far."""
        self.errors = 0
        """The number of them that ended with an exception."""
        self.recent: deque[tuple[float, str, str, str, str]] = deque(maxlen=8)
        """The latest of these errors: time, function, type, message and traceback."""
        self.failed: Callable[[BaseException, Failure], None] | None = None
        """Called with each such error."""

    def _start_it(self, effect: Run, later: Later) -> None:
        """Run a request soon: between two messages if it is brief, or else in a thread.

        The thread is woken *later*: sooner it would only wait for the endpoint's lock.
        """
        # A copy of a value must not wait for functions: `Fetch`es have threads of their own.
        core, request = self._core, effect.request
        self.served += 1
        kind: Hashable
        if isinstance(request, Fetch):
            pool, stored = core.chores, None
            if request.copy:
                stored = self._objects.stored(request.rref)
                if stored is not None and self._copied(stored, request, later):
                    return
            kind = Fetch, size_class(stored.value) if stored is not None else 0
        else:
            pool, kind = core.pool, getattr(request.cargo.payload, "tag", None)
        if (
            len(self._offered) + len(pool.jobs) >= MAX_WAITING - 1  # nearly always fewer
            and target_of(request) is None
            and core.brief.waits(pool) >= MAX_WAITING
        ):
            self._refuse(Refuse(effect.sender, request, Refusal.FULL), later)
            return
        if type(request) in CANCELLABLE:
            self.cancels.unstarted[request.call] = request  # type: ignore[assignment]  # it is one
        core.brief.submit(pool, kind, self._run, request, kind, later=later)

    def _copied(self, stored: Stored, fetch: Fetch, later: Later) -> bool:
        """Answer *fetch* at once by a copy. Returns false if that needs a job.

        A small value that takes microseconds to pickle needs none, unless jobs wait: these begin in
        their order.
        """
        core, caller = self._core, fetch.call.caller
        if self._offered or core.chores.jobs or caller == core.me:
            return False
        if type(stored.value) is Failure:
            return False
        if core.context.owners[fetch.rref].queue:  # each answer would start the next request
            return False
        payload = self._packer.soon(stored.value, caller)
        if payload is None or (payload.size >= NOTED and not self.has_room(caller)):
            return False
        core.carry_out(core.context.reply(fetch.call, Cargo(payload=payload)), later)
        core.carry_out(core.context.done(fetch.rref, fetch.call), later)
        return True

    def _refuse(self, effect: Refuse, _: Later) -> None:
        """Answer a request that will not run by an error, which names all waits of a ring."""
        sender, request, why = effect.sender, effect.request, effect.why
        error: BaseException
        if why is Refusal.CANCELLED:
            error = CancelledError(why.value)
        elif why is Refusal.LOST:
            error = OwnerDiedError(
                f"a call on {getattr(request, 'rref', None)} has no answer: {why.value}; "
                "create the object again"
            )
        elif why is Refusal.FULL:
            target = target_of(request)
            where = "for a thread" if target is None else f"for their turn on {target}"
            error = OverloadedError(
                f"{self._core.me} did not start a request of {sender}: {why.value} {where}; wait "
                "for earlier answers before you send more, or give the worker more threads"
            )
        elif why is Refusal.RING:
            waits = "; ".join(hop.what for hop in effect.ring)
            error = SelfWaitError(
                f"a call of {sender} waits in a ring, so no call in it can go on: {waits}; it was "
                "refused to let the others go on; make all calls in one order, or wait for fewer"
            )
        else:
            error = SelfWaitError(
                f"the call of {sender} would wait for itself: the object runs one call at a time, "
                "and it runs an earlier call of this same chain; pass the value as an argument"
            )
        cell = Cell(self.failure(error, request))
        self._core.chores.submit(partial(self.finish, request, cell, refused=True))

    # ---- in a thread of the pool

    def _run(self, request: Request, kind: Hashable) -> None:
        started, core, copied = time.perf_counter(), self._core, False
        if isinstance(request, Fetch):
            copied = self.finish(request, Cell(self._wanted(request)))
        else:
            if type(request) is not Create:
                # Without the lock: this or a cancel takes the call away, and the other one comes
                # too late.
                self.cancels.running[request.call] = None
                if self.cancels.unstarted.pop(request.call, None) is None:
                    for table in self.cancels.tables:
                        table.pop(request.call, None)
                    return  # it has its answer
            chain = request.chain if isinstance(request, Call) else chain_of(request)
            if self._objects.beside:  # nothing waits for the methods of these: they take no turns
                chain = tuple(each for each in chain if each.rref not in self._objects.beside)
            self._go(request, chain, partial(self._open, request))
        seconds = time.perf_counter() - started
        core.brief.took(kind, seconds, seconds if copied else core.pool.mine.waited)

    def _go(  # noqa: PLR0915 - another function would cost each call
        self, request: Started, chain: tuple[Busy, ...], invocation: Callable[[], Invocation]
    ) -> None:
        """Run the function, and go on according to its result."""
        core, by = self._core, threading.get_ident()
        tag = getattr(request.cargo.payload, "tag", None)
        run = CurrentRun(request.call, tag if type(tag) is str else NAMELESS, chain, by)
        token, hooks, begun = enter(Frame(core, chain, run)), core.hooks, None
        function: Any = None
        args: Any = None
        kwargs: Any = None
        result: Any = None
        try:
            try:
                if hooks is not None:
                    begun = hooks.begins(request)
                function, args, kwargs = invocation()
                if hooks is not None:
                    hooks.runs(request, function)
                if isinstance(function, ByValue):
                    result = Resolving(function, args, kwargs, chain)
                else:
                    cancels = self.cancels
                    if type(request) is not Create:
                        cancels.running[request.call] = by, function
                    if cancels.revoked and cancels.begins_in_vain(request.call):
                        raise CancelledError(Refusal.CANCELLED.value)
                    try:
                        result = function(*args, **kwargs)
                    finally:
                        if cancels.struck and request.call in cancels.struck:
                            # No Python function, which would be struck. An exception that was only
                            # taken back would leave Python's flag for one behind, for ever.
                            try:
                                cancels.raise_in(by, cancels.error)
                                while True:
                                    pass
                            except cancels.error:
                                pass
                            cancels.struck.pop(request.call, None)
                    if request.cargo.descriptors:  # their handles end here, if it keeps none
                        core.discards.releaser = by
            finally:
                leave(core, token)
                if hooks is not None and begun is not None:
                    hooks.pauses(begun)
        except BaseException as error:
            result = self.failure(error, request)
        kind = type(result)  # `isinstance` would ask the user's `__class__`, which may raise
        cell = CoroutineCell(result) if kind is types.CoroutineType else Cell(result)
        function = args = kwargs = result = None
        if self.turns.begun:
            self.turns.wake()
        if kind is Resolving:
            self._resolve(request, chain, cell.take())
        elif kind is types.CoroutineType:
            self._await(request, cell, chain)
        elif kind is Made or issubclass(kind, LATER):
            self._returned(request, chain, cell)
        else:
            self.finish(request, cell)
        if request.cargo.descriptors:
            core.discards.release_elsewhere()

    def _returned(self, request: Started, chain: tuple[Busy, ...], cell: Cell) -> None:
        """Answer with the result in *cell*: now, or, if that is a future, when it is done."""
        result = cell.content
        if type(result) is Made:
            result = result.value
        later = issubclass(type(result), LATER)
        del result
        if later:
            run, give_up = self._as_run(request, chain, 0), self._outcomes.give_up
            self.cancels.has_end(request.call, partial(give_up, request.call))
            self._outcomes.follow(request, self._turn_of(request), run, cell)
            if request.call in self.cancels.revoked:  # its end may have come too early
                give_up(request.call)
        else:
            self.finish(request, cell)

    def _turn_of(self, request: Request) -> RRefId | None:
        """The object on which *request*, which has begun, takes turns, or None."""
        target = target_of(request)
        return None if target in self._objects.beside else target

    def _resolve(self, request: Started, chain: tuple[Busy, ...], resolving: Resolving) -> None:
        """Start the function as soon as its arguments are there. No thread waits for them."""
        waits = self._waits.begin(self._as_run(request, chain, 0), resolving.futures)
        if not self.cancels.has_end(request.call, resolving.give_up):
            resolving.give_up()

        def run() -> None:
            self._waits.unblock(waits)
            self.cancels.has_no_end(request.call)
            self._go(request, chain, resolving.take)

        def ready() -> None:
            cancelled = request.call in self.cancels.revoked  # then it needs no thread of the pool
            (self._core.chores if cancelled else self._core.pool).submit(run)

        resolving.then(ready)

    def _as_run(self, request: Started, chain: tuple[Busy, ...], by: int) -> CurrentRun:
        tag = getattr(request.cargo.payload, "tag", None)
        return CurrentRun(request.call, tag if isinstance(tag, str) else NAMELESS, chain, by)

    def _open(self, request: Started) -> Invocation:
        """The function of *request* and its arguments."""
        cargo = request.cargo
        payload: Any = cargo.payload
        if type(payload) is Payload and payload.plain and not cargo.descriptors:  # nearly always
            what, args, kwargs = opened(payload)  # a function apart is not in it
        else:
            what, args, kwargs = self._packer.open(cargo)
        if what is None:
            what = self._packer.made(payload.functions[0])
        if payload.buffers or len(payload.data) >= NOTED:
            # Let go of the pickle: it must not stay here, and count, while the function runs.
            msgspec.structs.force_setattr(cargo, "payload", Payload(b"", tag=payload.tag))
        target = None if isinstance(request, Call) else target_of(request)
        if target is None:
            return what, args, kwargs
        stored = self._objects.stored(target)
        if (
            type(what) is str
            and what != PART
            and stored is not None
            and type(stored.value) not in (Failure, Frozen)
        ):  # nearly always
            return operations.bound(what, stored.value), args, kwargs
        is_part = operations.is_part(what)
        value = self._stored(target, fetched=not is_part)
        if type(value) is Failure:
            return operations.failed(what, value), args, kwargs
        if type(value) is Frozen:
            operations.check_frozen(what)
            value = value.thaw()
        if is_part:
            failure = self._wrong_run(target, value, *args)
            if failure is not None:
                return operations.failed(what, failure), args, kwargs
        return operations.bound(what, value), args, kwargs

    def _wrong_run(self, target: RRefId, value: Any, part: ResultPart) -> Failure | None:
        """The failure of the run if *value* has not as many values as *part* expects."""
        try:
            check_run(value, part)
        except (TypeError, ValueError) as error:
            with self._core.lock:
                self.errors += 1
            failure = self._packer.failure(error, f"{part.name}()", str(part.run))
            if part.run == target:
                self._objects.fail(target, failure)
            return failure
        return None

    def _stored(self, rref: RRefId, *, fetched: bool = True) -> object:
        stored = self._objects.stored(rref)
        if stored is None:
            raise AssertionError(f"{rref} runs a request but has no value")
        if fetched:
            stored.looked_at()
        return stored.value

    def _wanted(self, fetch: Fetch) -> object:
        """The value to send: for a wait None, or a frozen value, which costs nothing."""
        if fetch.copy:
            return self._stored(fetch.rref)
        stored, caller, core = None, fetch.call.caller, self._core
        if caller != core.me:
            stored = self._objects.stored(fetch.rref)
        value = stored.value if stored is not None else None
        if type(value) is Frozen and value.light:
            with contextlib.suppress(FarrefError):  # the system ends
                return value if self._registrar_client.near(caller) else None
        return None

    def _await(self, request: Started, cell: Cell, chain: tuple[Busy, ...]) -> None:
        """Run an `async def` function to its end, on the endpoint's loop.

        While it awaits it keeps no object from other requests, so its own is in no chain.
        """
        on, hooks = self._turn_of(request), self._core.hooks
        holds = tuple(each for each in chain if each.rref != on)

        async def run() -> None:
            import asyncio  # noqa: PLC0415 - the running loop has loaded it

            self.turns.begins()
            task, loop = asyncio.current_task(), asyncio.get_running_loop()
            try:
                if not self.cancels.has_end(request.call, partial(cancel_on, loop, task)):
                    cell.take().close()
                    raise asyncio.CancelledError(Refusal.CANCELLED.value)  # noqa: TRY301 - as if from within
                if hooks is not None:
                    hooks.begins(request)  # it pauses with the task, which has its own context
                me = self._as_run(request, chain, id(task))
                with running_in(self._core, holds, me):
                    if on is None:
                        cell.content = await cell.take()
                    else:
                        cell.content = await self.turns.run(cell, on, request.call)
            except BaseException as error:
                # No reply is possible. Maybe the collector runs this, even in a forked child.
                # It must not format a traceback anywhere.
                if self._core.closed or forks.pid != self._core.pid:
                    return
                cell.content = self.failure(error, request)
            finally:
                self.cancels.has_no_end(request.call)
                self.turns.begun -= 1
            # Pickling a large result would hold up the loop, so a thread does it.
            self._core.pool.submit(self._returned, request, chain, cell)

        self.spawn(run)

    def _start_loop(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start this endpoint's loop, for *work* and all later `async def` functions."""
        core = self._core
        with self._starting:
            if self.spawn == self._start_loop:
                loop = Loop(cancels=True)
                loop.start(core)
                self.spawn = loop.spawn
                core.closing.append(loop.end)
        if core.closed:
            return
        self.spawn(work)

    def finish(self, request: Request, cell: Cell, *, refused: bool = False) -> bool:
        """Reply, or store the result; then free the request's object for the next request.

        A request that was *refused* has never occupied its object. Returns whether most of the time
        was for copying into shared memory.
        """
        core, call = self._core, request.call
        if isinstance(request, Create):
            self._store(request, cell)
            target = target_of(request)
            if target is not None and not refused:
                core.step(lambda: self._done(target, call))
            return False
        if type(request) is not Fetch:
            for table in self.cancels.tables:
                table.pop(call, None)
        result, cell.content = cell.content, None
        try:
            if type(result) is Failure:
                pack = self._packer.pack_failure(result)
            else:
                pack = result if type(result) is Pack else self._packer.pack(result, call.caller)
        except BaseException as error:
            pack = self._packer.pack_failure(self.failure(error, request))
        del result
        if core.hooks is not None:
            core.hooks.ended(request)
        if not pack.large and pack.plain is not None:  # nearly always
            core.step_within(self._answer, request, pack.plain, refused)
            return False
        if pack.large and not self.has_room(call.caller):  # it has not taken the earlier ones yet
            self._calls.wait_for_room(call.caller, "results")
        copied = pack.plain is not None and bool(getattr(pack.plain.payload, "buffers", ()))
        # Its reader may ask for the next one before this thread has let go of it.
        held = copied and self._packer.leaving.acquire(timeout=LEAVING)
        try:
            with undisturbed:
                try:
                    cargo = pack.cargo(lambda rrefs: core.context.give_all(rrefs, call))
                except BaseException as error:
                    failure = self.failure(error, request)
                    if failure.references or failure.inert:  # these would have to be shared, too
                        failure = failure.as_text()
                    cargo = Cargo(payload=failure)
                del pack  # its handles: a loan that is given back would look kept
                core.step(partial(self._answer, request, cargo, refused))
                del cargo
        finally:
            if held:
                self._packer.leaving.release()
        return copied

    def _store(self, request: Create, cell: Cell) -> None:
        """Keep the result. If it is a reference, the object becomes an alias."""
        serial, hooks = self._make(request, cell), self._core.hooks
        if hooks is not None:
            hooks.ended(request)
        made = cell.content
        alias = issubclass(type(made), RRef) and made._front is self._core.front
        del made
        if alias:
            try:
                self._objects.stand_for(request.rref, cell)
                return
            except RefLostError as error:
                cell.content = self.failure(error, request)
        self._objects.resolve(request.rref, cell, serial=serial)

    def has_room(self, caller: WorkerId) -> bool:
        """Whether a large result may leave at once."""
        channel = self._delivery.channels.get(caller)
        return channel is None or channel.bytes_of("results") < calls.MAX_BACKLOG_BYTES

    def _make(self, request: Request, cell: Cell) -> bool:
        """Turn the value in *cell* into the kind of object that the request asks for.

        Returns whether the object is serial, so that its requests take turns.
        """
        if type(cell.content) is not Made:
            return True
        made = cell.take()
        value, frozen, serial = made.value, made.frozen, made.serial
        del made
        if frozen and not issubclass(type(value), RRef):  # a reference's object stays as it is
            try:
                value = self._packer.frozen(value)
            except BaseException as error:
                value = self.failure(error, request)
        cell.content = value
        return bool(serial)

    def _done(self, target: RRefId, call: CallId) -> list[Any]:
        context, owner = self._core.context, self._core.context.owners.get(target)
        if owner is None or (owner.running != call and call not in owner.aside):
            return []
        return context.done(target, call)

    def _answer(self, request: Call | Invoke | Fetch, cargo: Cargo, refused: bool) -> list[Effect]:
        """Answer *request*, and free its object for the next request. Under the lock."""
        core, call = self._core, request.call
        context, discards = core.context, core.discards
        if refused:  # it has never occupied its object
            return context.refuse(call, cargo)
        effects: list[Effect] = []
        if discards.ended:  # or the callee would count what it has let go of
            effects = discards.released(context, len(discards.ended))
        effects = [*effects, *context.reply(call, cargo)] if effects else context.reply(call, cargo)
        if not isinstance(request, Call):
            effects += self._done(request.rref, call)
        return effects

    def failure(self, error: BaseException, request: Request) -> Failure:
        """Turn *error*, raised by the function or in place of it, into the answer to *request*."""
        core = self._core
        with core.lock:
            self.errors += 1
        if core.hooks is not None:
            core.hooks.failed(request, error)
        tag = None if isinstance(request, Fetch) else getattr(request.cargo.payload, "tag", None)
        where = f"{tag}()" if isinstance(tag, str) else type(request).__name__.lower()
        about = target_of(request) or getattr(request, "rref", None)
        failure = self._packer.failure(error, where, str(about or ""))
        self.recent.append((time.time(), where, failure.type_name, failure.message, failure.text))
        if self.failed is not None:
            self.failed(error, failure)
        return failure
