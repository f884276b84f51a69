"""Between the user's values and the protocol's cargo: pickling with an endpoint's hooks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec
from thespian.actors import ActorAddress

from ..protocol.delivery import Packet
from ..protocol.errors import (
    FarrefError,
    ForeignReferenceError,
    ProtocolError,
    SerializationError,
)
from ..protocol.messages import Cargo
from ..protocol.packets import size_of
from ..serialization.failures import Failure
from ..serialization.frozen import Frozen
from ..serialization.payload import Payload, grounded_buffers
from ..serialization.pickling import loads, pickle_value, placed, share
from ..serialization.plain import dumps_plain
from .base.interrupts import undisturbed
from .intake import NOTED
from .rref import RRef
from .wire import WorkerInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..protocol.ids import RRefId, WorkerId
    from ..protocol.messages import Descriptor
    from ..serialization.pickling import Pickled, Reference
    from .endpoint import Endpoint

    Share = Callable[[RRefId], Descriptor]
    """Shares one reference; called under the endpoint's lock."""


HEAD = 2048
"""Bytes that a message has beside its payload and its references, at most."""
PER_PEER = 300
"""The same for each endpoint that it introduces, beside its name."""


def bytes_of(cargo: Cargo) -> int:
    """What a message with *cargo* takes on the wire, or a little less than that."""
    payload, size = cargo.payload, HEAD + size_of(cargo.descriptors)
    if isinstance(payload, Payload):
        size += payload.framed
        if payload.peers:
            introduced = cast("tuple[WorkerInfo, ...]", payload.peers)
            size += sum(PER_PEER + 4 * len(each.name) for each in introduced)
    elif isinstance(payload, Failure):
        size += payload.size
    return size


def pieces(packet: Packet, largest: int) -> Iterator[Packet]:
    """*packet* as several, none of more than *largest* bytes unless it is one message."""
    start = size = 0
    for number, message in enumerate(packet.messages):
        cargo = getattr(message, "cargo", None)
        more = HEAD if cargo is None else bytes_of(cargo)
        if size + more > largest and number > start:
            yield Packet(packet.first + start, packet.messages[start:number], packet.expects)
            start, size = number, 0
        size += more
    yield Packet(packet.first + start, packet.messages[start:], packet.expects)


def grounded(packet: Packet, *, near: bool) -> Packet:
    """*packet* with the buffers in it that its reader, who may be *near*, cannot be told of."""
    messages = tuple([_grounded(message, near=near) for message in packet.messages])
    return Packet(packet.first, messages, packet.expects)


def payload_of(message: object) -> Payload | None:
    """What of the user's is in *message*; None if there is nothing, or an exception."""
    payload = getattr(getattr(message, "cargo", None), "payload", None)
    return payload if isinstance(payload, Payload) else None


def is_answer(payload: object) -> bool:
    """Whether it answers an `ask`, rather than that it is for a handler or a listener."""
    tag = getattr(payload, "tag", None)
    return type(tag) is tuple and tag[0] == "answer"


def _grounded(message: Any, *, near: bool) -> Any:
    payload = payload_of(message)
    if payload is None:
        return message
    try:
        payload = payload.grounded(near=near)
    except FarrefError:  # its sender is dead: its reader will be told so, as we would be
        return message
    cargo = Cargo(payload=payload, descriptors=message.cargo.descriptors)
    return msgspec.structs.replace(message, cargo=cargo)


class Pack(NamedTuple):
    """The content of a message, pickled. No reference in it is shared so far."""

    cargo: Callable[[Share], Cargo]
    """Shares the references, each by the function that it is given, and returns the cargo.

    Call it `undisturbed`, together with the step that sends the cargo. It raises what sharing
    raises; then nothing stays shared."""
    large: bool
    """Whether it is worth counting; see `intake`."""


class Packer:
    """Packs what one endpoint sends and opens what it receives, in any thread of the user's."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def pack(self, value: object, to: WorkerId, tag: object = None) -> Pack:
        """Pickle *value* for *to*, or take it `Frozen`.

        Raises `SerializationError`, `SharedMemoryFullError`.
        """
        plain = dumps_plain(value)
        near = partial(self._endpoint.registry.near, to)
        if plain is not None:
            data, views = plain
            cargo = Cargo(payload=Payload(data, placed(views, near) if views else (), tag=tag))
            if views or len(data) + HEAD >= self._endpoint.port.largest():
                self._check_size(cargo)
            return Pack(lambda _: cargo, bool(views) or len(data) >= NOTED)
        frozen = isinstance(value, Frozen)
        if isinstance(value, Frozen):
            pickled = value.pickled
            if value.shared and not near():
                pickled = replace(pickled, buffers=grounded_buffers(pickled.buffers))
        else:
            pickled = pickle_value(value, ActorAddress, lambda views: placed(views, near))
        large = bool(pickled.buffers) or len(pickled.data) >= NOTED
        return Pack(partial(self._share, pickled, tag, frozen), large)

    def _share(self, pickled: Pickled, tag: object, frozen: bool, fork: Share) -> Cargo:
        hooks = _Hooks(self._endpoint, fork)
        payload, descriptors = share(pickled, hooks, peers=self._introduce, tag=tag, frozen=frozen)
        cargo = Cargo(payload=payload, descriptors=descriptors)
        try:
            self._check_size(cargo)
        except SerializationError:
            hooks.abandon(descriptors)
            raise
        return cargo

    def _check_size(self, cargo: Cargo) -> None:
        """Raise `SerializationError` if the port cannot send so much."""
        limit = self._endpoint.port.largest()
        size = bytes_of(cargo)
        if size > limit:
            raise SerializationError(
                f"a message of {size} bytes, and {self._endpoint.me} can send {limit} at most; "
                "send it in parts, or keep the value where it is and pass an RRef to it"
            )

    def open(self, cargo: Cargo) -> Any:
        """Unpickle what came, or raise the exception that came in its place (G7)."""
        payload = cargo.payload
        if isinstance(payload, Payload):
            hooks = _Hooks(self._endpoint, _share_nothing)
            payload = loads(payload, cargo.descriptors, hooks)
        elif not isinstance(payload, Failure):
            raise ProtocolError(f"{self._endpoint.me} got a message without content")
        if type(payload) is Failure:  # `isinstance` asks the user's `__class__`
            raise payload.rebuild()
        return payload

    def freeze(self, value: object) -> Frozen:
        """*value* as it is now, for ever. Raises `SerializationError`, `SharedMemoryFullError`."""
        return Frozen.of(value, ActorAddress)

    def open_frozen(self, cargo: Cargo, *, copy: bool = True) -> Frozen | None:
        """What came, if it is frozen, to be kept; None if it is not.

        Raises `SenderDiedError`; and `MemoryError`, if it is not to be copied and has to be.
        """
        payload = cargo.payload
        if not isinstance(payload, Payload) or not payload.frozen:
            return None
        hooks = _Hooks(self._endpoint, _share_nothing)
        return Frozen.arrived(payload, hooks.join(cargo.descriptors), copy=copy)

    def _introduce(
        self, descriptors: list[Descriptor], addresses: list[Any]
    ) -> tuple[WorkerInfo, ...]:
        """Whom the receiver may not know: who owns the references, who lives at the addresses."""
        endpoint = self._endpoint
        workers = {descriptor.owner for descriptor in descriptors}
        workers.update(filter(None, map(endpoint.book.worker_at, addresses)))
        known = ((worker, endpoint.address_of(worker)) for worker in workers)
        return tuple(WorkerInfo(worker, at) for worker, at in known if at is not None)


def _share_nothing(rref: RRefId) -> Descriptor:
    raise AssertionError(f"{rref} is shared by unpickling")


class _Hooks:
    """The pickler's hooks for one message to one receiver."""

    __slots__ = ("_endpoint", "_share")

    def __init__(self, endpoint: Endpoint, share: Share) -> None:
        self._endpoint = endpoint
        self._share = share

    def fork(self, reference: Reference) -> Descriptor:
        endpoint = self._endpoint
        if not isinstance(reference, RRef) or reference._endpoint is not endpoint:
            raise ForeignReferenceError(
                f"{reference!r} belongs to another endpoint, maybe of another system, than "
                f"{endpoint.me}, which sends this message; a reference can be passed on only by "
                "the endpoint that holds it: pass the value, or call from there"
            )
        with endpoint.lock:
            return self._share(reference.id)

    def abandon(self, descriptors: Iterable[Descriptor]) -> None:
        endpoint, forks = self._endpoint, tuple(descriptors)
        if forks:
            endpoint.step(lambda: endpoint.context.abandon(forks))

    def join(self, descriptors: tuple[Descriptor, ...]) -> tuple[RRef[Any], ...]:
        if not descriptors:
            return ()  # most messages have none, and a section has its price
        with undisturbed:
            return tuple(map(self._join, descriptors))

    def _join(self, descriptor: Descriptor) -> RRef[Any]:
        endpoint, rref = self._endpoint, descriptor.name or descriptor.rref
        if descriptor.name is None:
            with endpoint.lock:
                endpoint.context.hold(rref)
        else:
            endpoint.step(lambda: endpoint.context.take_up(descriptor))
        return RRef._of(endpoint, rref)
