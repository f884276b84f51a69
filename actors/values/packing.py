"""The user's values as the contents of messages, and back: pickling with an endpoint's hooks."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import replace
from thespian.actors import ActorAddress

from ...protocol.columns import MANY
from ...protocol.errors import FarrefError, ForeignReferenceError, ProtocolError, SerializationError
from ...protocol.ids import RRefId, WorkerId
from ...protocol.messages import Cargo, Descriptor
from ...serialization import by_pickle, pickling, shared, slots
from ...serialization.by_pickle import (
    ATOMS,
    SHORT,
    dumps_call,
    dumps_plain,
    dumps_soon,
    fits_slot,
)
from ...serialization.definitions import Definition
from ...serialization.errors import Failure
from ...serialization.failures import CAUGHT, pass_on
from ...serialization.frozen import Frozen
from ...serialization.holes import holed
from ...serialization.library import Library
from ...serialization.payload import Buffer, Payload, grounded_buffers
from ...serialization.pickling import (
    DEFINABLE,
    Pickled,
    Reference,
    cannot_unpickle,
    loads,
    pickle_value,
    placed,
    share,
)
from ...serialization.spaces import SPACES
from ..base.interrupts import undisturbed
from ..core.core import Core, Internal
from ..core.duties import in_mailbox_thread, without_lock
from ..core.intake import NOTED
from ..core.registrar_client import RegistrarClient
from ..wire.cargoes import HEAD, bytes_of
from ..wire.codec import LONGEST
from ..wire.messages import WorkerInfo

Share = Callable[[list[RRefId]], tuple[Descriptor, ...]]
"""Shares all references of a message, or none; called under the endpoint's lock."""

_is_reference = Reference.__subclasscheck__
_id_of = attrgetter("_id")
FEW_REFERENCES = 16
"""Fewer references than this never make a message too large, so its size is not checked."""
MOST_LENT = MANY - 1
"""The most references among simple arguments: more travel in columns."""
LEAVING = 0.1
"""Seconds to wait for the thread that posts a large answer; it may run a user's finalizer."""
FEW_BUFFERS = 8
"""Up to so many places of buffers in shared memory do not make a message too large, either."""
TIDY_SECONDS = 1.0
"""Seconds between two calls of `Packer.tidy`. A list that a sent function used may live on for this
time after the program has dropped it."""


class Pack(msgspec.Struct, frozen=True):
    """The content of a message, pickled. No reference in it is shared so far."""

    large: bool
    """Whether it is large enough to count; see `intake`."""
    plain: Cargo | None = None
    """The cargo, if there is nothing to share in it."""
    shared: Callable[[Share], Cargo] | None = None

    def cargo(self, share: Share) -> Cargo:
        """The cargo; *share* shares its references.

        Call it `undisturbed`, together with the step that sends the cargo. If sharing raises an
        error, so does this, and nothing stays shared.
        """
        if self.shared is not None:
            return self.shared(share)
        return self.plain or Cargo()


class Packer(Internal):
    """Packs messages of one endpoint and opens received ones, in any thread of the user's."""

    def __init__(self, core: Core, registrar_client: RegistrarClient) -> None:
        self._core = core
        self._registrar_client = registrar_client
        self._library = Library(core.me, (Reference, ActorAddress))
        self._tidy_at = 0.0
        self._asked: set[WorkerId] = set()
        """The endpoints for which a chore is to ask, or asks now, whether they are near."""
        self.leaving = threading.Lock()
        """Held while a large answer is posted, until its thread has let go of it. The next one is
        to be written to the same memory."""
        self._introduced: dict[WorkerId, set[WorkerId]] = {}
        """For each peer: the owners of references that a call has introduced to it."""
        core.on_deaths.append(self._forget)

    def pack(self, value: Any, to: WorkerId, tag: object = None, *, call: bool = False) -> Pack:
        """Pickle *value* for *to*; a `Frozen` value is taken as it is.

        With *call*, *value* is a function and its arguments.

        Raises `SerializationError`, `SharedMemoryFullError`.
        """
        simple: tuple[bytes, list[memoryview]] | None = None
        lends = False
        if not call:
            payload = self._as_it_is(value, to) if type(value) is Frozen else None
            if payload is None and type(value) not in ATOMS:
                payload = self.in_slot(value, to, tag, wait=True)
            if payload is not None:
                return Pack(payload.size >= NOTED, Cargo(payload=payload))
            simple = dumps_plain(value)
            if simple is not None and not simple[1] and len(simple[0]) < NOTED:  # nearly always
                return Pack(False, Cargo(payload=Payload(simple[0], tag=tag, plain=True)))
        else:
            function, args, kwargs = value
            simplest = None if kwargs else dumps_call(function, args)
            lends = simplest is None and any(map(_is_reference, map(type, args)))
            if simplest is not None:
                if len(simplest) < SHORT:  # nearly always
                    return Pack(False, Cargo(payload=Payload(simplest, tag=tag, plain=True)))
                simple = simplest, []
            elif lends and not kwargs:
                lent = self._holed(function, args, to, tag)
                if lent is not None:
                    return lent
            elif not lends:
                simple = dumps_plain(value)
        functions: tuple[Definition, ...] = ()
        apart = 0
        if simple is None and call:
            function, args, kwargs = value
            definition = self.definition_of(function)
            if definition is not None:  # without its function, a call costs as little as by name
                value, functions = (None, args, kwargs), (definition,)
                if not lends:
                    simple, apart = dumps_plain(value), len(definition.data)
        if simple is not None:
            data, views = simple
            buffers: tuple[Buffer, ...] = ()
            if views:
                if self.leaving.locked() and self.leaving.acquire(timeout=LEAVING):
                    self.leaving.release()
                buffers = placed(views, partial(self._registrar_client.near, to))
            payload = Payload(data, buffers, tag=tag, functions=functions, plain=True)
            cargo = Cargo(payload=payload)
            if views or len(data) + apart >= SHORT:
                self._check_size(cargo)
            return Pack(bool(views) or len(data) >= NOTED, cargo)
        near = partial(self._registrar_client.near, to)
        if type(value) is Frozen:
            pickled = value.pickled
            if value.shared and not near():
                pickled = replace(pickled, buffers=grounded_buffers(pickled.buffers))
        else:
            pickled = pickle_value(
                value,
                ActorAddress,
                lambda views: placed(views, near),
                library=self._library,
                functions=functions,
            )
        large = bool(pickled.buffers) or len(pickled.data) >= NOTED
        return Pack(large, None, partial(self._share, pickled, tag, type(value) is Frozen))

    def _holed(
        self, function: Any, args: tuple[Any, ...], to: WorkerId, tag: object
    ) -> Pack | None:
        """A call with few references among simple arguments; None if it is another one."""
        found = holed(args, MOST_LENT)
        if found is None:
            return None
        args, references = found
        front = self._core.front
        rrefs = [each._id for each in references if getattr(each, "_front", 0) is front]
        if len(set(rrefs)) < len(references):  # one comes twice, or belongs to another endpoint
            return None
        holes: list[Any] = []
        functions: tuple[Definition, ...] = ()
        data = dumps_call(function, args, holes)
        if data is None:
            definition = self.definition_of(function)
            data = dumps_call(None, args, holes)
            if data is None or definition is None:
                return None
            functions = (definition,)
        if len(data) >= SHORT:
            return None
        payload = Payload(data, tag=tag, functions=functions, plain=True)
        return Pack(False, None, partial(self._share_holes, payload, rrefs, to))

    def _share_holes(
        self, payload: Payload, rrefs: list[RRefId], to: WorkerId, share: Share
    ) -> Cargo:
        """The cargo; it introduces each owner to *to* once."""
        core = self._core
        with core.lock:
            descriptors = _shared(core, share, rrefs)
            known = self._introduced.setdefault(to, set())
            new = {each.owner for each in descriptors} - known - {core.me, to}
            known |= new
            found = [WorkerInfo(each, at) for each in new if (at := core.address_of(each))]
        if found:
            payload = replace(payload, peers=tuple(found))
        return Cargo(payload=payload, descriptors=descriptors)

    def soon(self, value: object, to: WorkerId) -> Payload | None:
        """*value*, pickled for *to* in microseconds; None if it may take longer.

        Asks nobody, runs none of the user's code, and raises nothing.
        """
        made = dumps_soon(value)
        if made is None:
            return self._as_it_is(value, to) if type(value) is Frozen else None
        data, buffer = made
        if buffer is None:
            return Payload(data, plain=True) if self._is_short(len(data)) else None
        return _in_slot(data, buffer) if self._core.peers.near.get(to) else None

    def _as_it_is(self, value: Frozen, to: WorkerId) -> Payload | None:
        """A frozen value for *to*; None if more than its bytes and a few places has to be sent.

        Asks nobody, and raises nothing.
        """
        pickled = value.pickled
        more = pickled.references or pickled.inert or pickled.functions
        if more or len(pickled.buffers) > FEW_BUFFERS:
            return None
        if value.shared and not self._core.peers.near.get(to):
            return None
        payload = Payload(pickled.data, pickled.buffers, frozen=True)
        return payload if self._is_short(payload.framed) else None

    def _is_short(self, size: int) -> bool:
        """Whether so many bytes surely have room in a message."""
        return size < SHORT or size <= min(LONGEST, self._core.port.largest() - HEAD)

    @without_lock
    def in_slot(
        self, value: Any, to: WorkerId, tag: object = None, *, wait: bool = False
    ) -> Payload | None:
        """*value* in a slot, if it is for one, and *to* is known to be near.

        If that is not known, a chore asks. With *wait*, this asks itself, if no message can take
        the value.
        """
        if not fits_slot(value):
            return None
        near = self._core.peers.near.get(to)
        if near is None and wait and memoryview(value).nbytes > self._core.port.largest():
            near = self._registrar_client.near(to)
        if near is None and to not in self._asked:
            self._asked.add(to)
            self._core.chores.submit(partial(self._ask, to))
        made = dumps_soon(value) if near else None
        return None if made is None else _in_slot(*made, tag)

    def _ask(self, to: WorkerId) -> None:
        """Ask whether *to* is near. If that fails, the next value for *to* asks again."""
        try:
            with suppress(FarrefError, OSError):  # the system ends, or no descriptor is left
                self._registrar_client.near(to)
        finally:
            self._asked.discard(to)

    def frozen(self, value: object) -> Frozen:
        """*value* as it is now. Raises the errors of `Frozen.of`."""
        return Frozen.of(value, ActorAddress, self._library)

    def failure(self, error: BaseException, where: str, about: str = "") -> Failure:
        """*error*, see `Failure.of`."""
        me, library = self._core.me.name, self._library
        return Failure.of(error, me, where, about, ActorAddress, library=library)

    def definition_of(self, function: Any) -> Definition | None:
        """The definition of a called function; None if it goes with its arguments."""
        if type(function) not in DEFINABLE or function in by_pickle.BY_NAME:
            return None
        return self._library.define(function)

    def _share(self, pickled: Pickled, tag: object, frozen: bool, fork: Share) -> Cargo:
        hooks = _Hooks(self._core, fork)
        payload, descriptors = share(pickled, hooks, peers=self._introduce, tag=tag, frozen=frozen)
        cargo = Cargo(payload=payload, descriptors=descriptors)
        small = len(payload.data) < SHORT and len(descriptors) < FEW_REFERENCES
        if not small or payload.buffers or payload.functions:
            try:
                self._check_size(cargo)
            except SerializationError:
                hooks.abandon(descriptors)
                raise
        return cargo

    def pack_failure(self, failure: Failure) -> Pack:
        """*failure* in place of a value, as far as a message has room for it."""
        failure = failure.within(self._core.port.largest() - HEAD)
        if not failure.references and not failure.inert:
            return Pack(True, Cargo(payload=failure))
        return Pack(True, None, partial(self._share_failure, failure))

    def _share_failure(self, failure: Failure, fork: Share) -> Cargo:
        pickled: Any = Pickled(b"", (), failure.references, failure.inert)  # type: ignore[arg-type]  # handles
        try:
            payload, descriptors = share(pickled, _Hooks(self._core, fork), peers=self._introduce)
        except FarrefError:  # a reference of another endpoint, for example
            return Cargo(payload=failure.as_text())
        failure = replace(failure, references=(), peers=payload.peers)
        return Cargo(payload=failure, descriptors=descriptors)

    def _check_size(self, cargo: Cargo) -> None:
        """Raise `SerializationError` if the port cannot send that many bytes."""
        limit = self._core.port.largest()
        size = bytes_of(cargo)
        if size > limit:
            raise SerializationError(
                f"{self._core.me} cannot send this message of {size} bytes: the limit is {limit}; "
                "send it in parts, or keep the value where it is and pass an RRef to it"
            )

    def open(self, cargo: Cargo, *, again: bool = False) -> Any:
        """Unpickle *cargo*, or raise the exception that came in place of a value (G7).

        *again*: see `pickling.loads`.
        """
        payload = cargo.payload
        if type(payload) is Failure:
            raise payload.rebuild(_Hooks(self._core, _share_nothing).join(cargo.descriptors))
        if isinstance(payload, Payload):
            if payload.plain and not (payload.buffers or again):
                hooks = _Hooks(self._core, _share_nothing)
                payload = opened(payload, hooks.join(cargo.descriptors))
            elif cargo.descriptors or payload.buffers or payload.inert or payload.functions:
                hooks = _Hooks(self._core, _share_nothing)
                payload = loads(payload, cargo.descriptors, hooks, again=again)
            else:
                payload = opened(payload)
        else:
            raise ProtocolError(f"{self._core.me} got a message without content")
        if type(payload) is Failure:  # of a handler; `isinstance` asks the user's `__class__`
            raise payload.rebuild()
        return payload

    def made(self, definition: Definition) -> Any:
        """The called function of *definition*. Raises `SerializationError`."""
        try:
            return definition.called()
        except CAUGHT as error:
            raise cannot_unpickle("the called function", error) from error

    @in_mailbox_thread
    def tidy(self, now: float) -> None:
        """Now and then: let go of what the program's functions do not use any more."""
        if now < self._tidy_at:
            return
        self._tidy_at = now + TIDY_SECONDS
        gone = self._library.tidy()
        if gone:
            self._core.chores.submit(gone.clear)

    def _forget(self, dead: tuple[WorkerId, ...]) -> None:
        """Let go of the modules and slots of dead endpoints. In the mailbox thread.

        Finalizers of values in these modules are user code, so chores do it.
        """
        for worker in dead:
            self._introduced.pop(worker, None)
        self._core.chores.submit(SPACES.forget, dead)
        self._asked.difference_update(dead)
        self._core.chores.submit(slots.forget_dead)

    def open_frozen(self, cargo: Cargo, *, copy: bool = True) -> Frozen | None:
        """The frozen value in *cargo*, to be kept; None if it is not frozen.

        Raises `SenderDiedError`. With *copy* false raises `MemoryError` if its memory cannot be
        mapped, instead of making a copy.
        """
        payload = cargo.payload
        if not isinstance(payload, Payload) or not payload.frozen:
            return None
        hooks = _Hooks(self._core, _share_nothing)
        return Frozen.arrived(payload, hooks.join(cargo.descriptors), copy=copy)

    def _introduce(
        self, descriptors: Sequence[Descriptor], addresses: list[Any]
    ) -> tuple[WorkerInfo, ...]:
        """Endpoints that the receiver may not know: owners of references, and at *addresses*."""
        workers = set(map(attrgetter("owner"), descriptors))
        workers.update(filter(None, map(self._core.peers.worker_at, addresses)))
        known: list[WorkerInfo] = []
        for worker in workers:
            at = self._core.address_of(worker)
            if at is not None:
                known.append(WorkerInfo(worker, at))
        return tuple(known)


def _share_nothing(rrefs: list[RRefId]) -> tuple[Descriptor, ...]:
    raise AssertionError(f"{rrefs} are shared by unpickling")


def _in_slot(data: bytes, buffer: bytes | memoryview | None, tag: object = None) -> Payload | None:
    """A pickle with *buffer* beside it, which is in a slot; None if there is none.

    Raises nothing.
    """
    try:
        made = None if buffer is None else slots.put(buffer)
    except Exception:  # such as for want of memory
        return None
    return None if made is None else Payload(data, (made,), tag=tag, plain=True)


def opened(payload: Payload, references: Sequence[Reference] = ()) -> Any:
    """The value in *payload*, which has no persistent ids.

    *references* fill its holes (`holes`); a payload with holes has no buffers. Raises
    `SerializationError`, `SenderDiedError`.
    """
    buffers = pickling.opened(payload.buffers) if payload.buffers else references
    try:
        value = pickle.loads(payload.data, buffers=buffers)  # noqa: S301 - of an endpoint of the system
    except CAUGHT as error:
        pass_on(error)
        raise cannot_unpickle(f"a message of {payload.size} bytes", error) from error
    if payload.buffers:
        shared.used(payload.buffers)
    return value


def _shared(core: Core, share: Share, rrefs: list[RRefId]) -> tuple[Descriptor, ...]:
    """Share *rrefs*, before the step that sends them, and note the age of what that names.

    Under the lock.
    """
    now = time.monotonic()
    if now >= core.ages.due:
        core.ages.mark(core.context.state, now)
    return share(rrefs)


class _Hooks:
    """The pickler's hooks for one message to one receiver."""

    __slots__ = ("_core", "_share")

    def __init__(self, core: Core, share: Share) -> None:
        self._core = core
        self._share = share

    def fork(self, references: tuple[Reference, ...]) -> tuple[Descriptor, ...]:
        core, front = self._core, self._core.front
        rrefs = [each._id for each in references if getattr(each, "_front", None) is front]
        if len(rrefs) < len(references):
            foreign = next(it for it in references if getattr(it, "_front", None) is not front)
            raise ForeignReferenceError(
                f"{core.me} cannot send {foreign!r}: the reference belongs to another endpoint, "
                "maybe of another system, and only that endpoint can pass it on; send the value, "
                "or send the reference from there"
            )
        with core.lock:
            return _shared(core, self._share, rrefs)

    def abandon(self, descriptors: Iterable[Descriptor]) -> None:
        core, forks = self._core, tuple(descriptors)
        if forks:
            core.step(lambda: core.context.abandon(forks))

    def join(self, descriptors: tuple[Descriptor, ...]) -> tuple[Reference, ...]:
        if not descriptors:
            return ()  # most messages have no references, and a section has its price
        core = self._core
        rrefs = [each.rref for each in descriptors if each.name is None]
        with undisturbed:
            with core.lock:
                core.context.hold(*rrefs)
            if len(rrefs) < len(descriptors):
                for each in descriptors:
                    if each.name is not None:
                        core.step(partial(core.context.take_up, each))
                rrefs = [each.name or each.rref for each in descriptors]
            return tuple(core.handles(rrefs))
