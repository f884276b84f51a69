"""Packets as bytes, and back: one row of MessagePack, in which each message is a part.

A packet is the same on every base: its ends, its numbers, its messages, and the endpoints that it
introduces. As the incarnation of an endpoint tells it from all others, an end is a number; only the
first packet to a peer has the sender's whole id. An id in a part for a frequent message is a number
with its `Namer`. All other messages have the general part, `OtherPart`, which holds the message
itself. A part says on its own who has created what: nothing is taken from the connection.

Some things travel *beside* the bytes, which then have only their numbers: payloads that are too
large to be copied again, exceptions, payloads with actor addresses inside, texts that are not
UTF-8, and the addresses of other bases. An `Envelope` carries these. Without them, packets on our
own base travel as bytes alone.

Decoding builds everything by its annotations, in C, and refuses anything else: what was decoded
needs no `wellformed.check`. A malformed message spoils no other: a `Malformed` takes its place, so
the messages behind it keep their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import force_setattr, replace
from thespian.actors import ActorAddress

from ...protocol.columns import MANY, Columns, columns_of, descriptors_of
from ...protocol.delivery import Packet
from ...protocol.errors import ProtocolError
from ...protocol.ids import CallId, ForkId, Number, RRefId, WorkerId
from ...protocol.messages import (
    NAMING,
    Ack,
    Call,
    Cargo,
    Create,
    Delete,
    Descriptor,
    Fetch,
    Invoke,
    Message,
    Reply,
    strangers_in,
)
from ...serialization.definitions import Exported
from ...serialization.payload import Buffer, Origin, Payload, said
from ...serialization.shared import Segment
from ..base.addresses import Address
from .messages import WorkerInfo, check_payload

Written = tuple[bytes, Sequence[object]]
"""A packet: its bytes, and what travels beside them."""

LONGEST = 1 << 17
"""A longer payload would be copied too often: it travels beside the bytes."""
PART_BYTES = 1 << 14
"""The most bytes of one of several payloads: a window of these is not too long for a packet."""
TEXT = 200
"""The decoder's text about an error is cut to this many characters."""

Data = bytes | bytearray | memoryview
"""The bytes of a packet; a view is good until its reader returns."""
Namer = Literal[0, 1] | WorkerId
"""Who has named a thing: the sender (0), the receiver (1), or a third endpoint."""
_Buffer = bytes | tuple[Number, Number, str, Number, bool, int]
"""A buffer itself, or the `Segment.fields` of it."""
_Peer = tuple[WorkerId, tuple[str, str, str, int] | int]
"""An endpoint with the fields of its `Address`, or the number of an address beside the bytes.

It is not a `Number`: msgspec 0.22 crashes where one may stand in place of a tuple.
"""


class Malformed(msgspec.Struct, frozen=True):
    """Stands in the place of a malformed message, and says why it is malformed."""

    why: str


class _Row(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """A part of a packet; its fields are a row without names."""


class CallPart(_Row, frozen=True, tag=1):
    """A `Call` by the sender, of the function with this name."""

    call: Number
    data: bytes
    name: str
    index: Number | None
    """The index of the function in the export cache, if it has one (`protocol.exports`)."""
    loans: tuple[Descriptor, ...]
    plain: bool
    """See `Payload.plain`."""
    origin: Origin | None


class InvokePart(CallPart, frozen=True, tag=2):
    """An `Invoke` by the sender."""

    namer: Namer
    number: Number


class CreatePart(CallPart, frozen=True, tag=3):
    """A `Create` by the sender, of the object with this number."""

    number: Number
    fork: Number
    settled: Number


class FetchPart(_Row, frozen=True, tag=4):
    """A `Fetch` by the sender."""

    call: Number
    namer: Namer
    number: Number
    copy: bool
    direct: bool


class ReplyPart(_Row, frozen=True, tag=5):
    """The `Reply` to a request of the receiver's."""

    call: Number
    data: bytes
    plain: bool


class BuffersReplyPart(ReplyPart, frozen=True, tag=6):
    """The same for a value with buffers, and for each value that never changes."""

    buffers: tuple[_Buffer, ...]
    frozen: bool


class AckPart(_Row, frozen=True, tag=7):
    namer: Namer
    number: Number
    parent: Namer
    """That of the fork."""
    fork: Number


class DeletePart(AckPart, frozen=True, tag=8):
    """The `Delete` of one fork."""


class Content(_Row, frozen=True):
    """The `Payload` of a message in an `OtherPart`: its fields."""

    data: bytes
    buffers: tuple[_Buffer, ...]
    writable: tuple[Number, ...]
    """The places of the buffers that their reader may change."""
    peers: tuple[_Peer, ...]
    tag: str | tuple[str, int, str] | None
    frozen: bool
    origin: Origin | None
    functions: tuple[Exported, ...]
    plain: bool


class OtherPart(_Row, frozen=True, tag=0):
    """Any message, without its payload, and without many references (`columns`)."""

    message: Message
    payload: Content | Number | None
    """Its content, or its number among the things beside the bytes."""
    columns: tuple[Columns, ...]


_OfRequest = CallPart | InvokePart | CreatePart | FetchPart | ReplyPart | BuffersReplyPart
Part = _OfRequest | AckPart | DeletePart | OtherPart


class PacketRow(_Row, frozen=True, tag=2):
    """A packet. Its tag is the version of all these rows."""

    sender: Number | WorkerId
    to: Number
    first: Number
    expects: Number
    parts: tuple[Part, ...]
    peers: tuple[_Peer, ...]
    """The endpoints that it names, and that its receiver may not know; mostly none."""


class _LooseRow(PacketRow, frozen=True, tag=2):
    """The same with parts that are not decoded yet, as something in it is malformed."""

    parts: tuple[msgspec.Raw, ...]  # type: ignore[assignment]  # see above


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PacketRow).decode
_decode_loose = msgspec.msgpack.Decoder(_LooseRow).decode
_decode_part = msgspec.msgpack.Decoder(Part).decode
_WRONG = msgspec.DecodeError, UnicodeDecodeError, RecursionError

# ---- out


def encode(
    sender: WorkerId,
    to: WorkerId,
    packet: Packet,
    address_of: Callable[[WorkerId], ActorAddress | None],
    longest: int,
) -> Written:
    """*packet* as bytes, and what travels beside them: each payload of more than *longest* bytes.

    It introduces the endpoints that it names, and of which *address_of* knows the address.
    """
    parts: list[Any] = []
    beside: list[object] = []
    named: list[WorkerId] = []
    for message in packet.messages:
        make = _PARTS.get(type(message))
        part = make(message, sender, to, longest) if make is not None else None
        if part is None:
            part = _other(message, beside, longest)
            if type(message) in NAMING:
                named += strangers_in(message)
        parts.append(part)
    me = sender.incarnation if packet.first else sender  # the first packet says who we are
    peers: Any = ()
    if named:
        known = [(each, address_of(each)) for each in dict.fromkeys(named)]
        peers = [(each, _place(address, beside)) for each, address in known if address is not None]
    row = PacketRow(me, to.incarnation, packet.first, packet.expects, parts, peers)  # type: ignore[arg-type]  # encoding takes a list for a tuple
    try:
        return _encode(row), beside
    except UnicodeEncodeError:  # the name of a function or a file may not be valid UTF-8
        if longest < 0:
            raise
    return encode(sender, to, packet, address_of, -1)


def _request(
    message: Call | Invoke | Create, sender: WorkerId, to: WorkerId, longest: int
) -> Part | None:
    payload, loans = message.cargo.payload, message.cargo.descriptors
    if message.call.caller != sender or len(loans) >= MANY:
        return None
    if type(payload) is not Payload or len(payload.data) > longest:
        return None
    if payload.buffers or payload.inert or payload.peers or payload.frozen:
        return None
    name, index = payload.tag, None
    if type(name) is not str or len(name) > PART_BYTES:
        return None
    if payload.functions:
        exported = payload.functions[0]
        if (
            type(exported) is not Exported
            or exported.origin is not None
            or len(payload.functions) > 1
        ):
            return None
        index = exported.index
    call, data = message.call.number, payload.data
    plain, origin = payload.plain, payload.origin
    if isinstance(message, Create):
        rref, fork = message.rref, message.fork
        if message.target is not None or rref.creator != sender or fork.parent != sender:
            return None
        made = rref.number, fork.number, message.settled
        return CreatePart(call, data, name, index, loans, plain, origin, *made)
    if message.chain:
        return None
    if isinstance(message, Call):
        return CallPart(call, data, name, index, loans, plain, origin)
    if message.cancelled:
        return None
    rref = message.rref
    namer = _namer(rref.creator, sender, to)
    return InvokePart(call, data, name, index, loans, plain, origin, namer, rref.number)


def _reply(message: Reply, _: WorkerId, to: WorkerId, longest: int) -> Part | None:
    payload = message.cargo.payload
    if message.loans or message.cargo.descriptors or message.moved is not None:
        return None
    if message.relayed or message.refused or message.call.caller != to:
        return None
    if type(payload) is not Payload or payload.tag is not None:
        return None
    if (payload.framed if payload.buffers else len(payload.data)) > longest:
        return None
    if payload.inert or payload.peers or payload.origin or payload.functions:
        return None
    call, data, plain = message.call.number, payload.data, payload.plain
    if not (payload.buffers or payload.frozen):
        return ReplyPart(call, data, plain)
    buffers, writable = _said(payload.buffers) if payload.buffers else ((), ())
    return None if writable else BuffersReplyPart(call, data, plain, buffers, payload.frozen)


def _fetch(message: Fetch, sender: WorkerId, to: WorkerId, _: int) -> Part | None:
    rref = message.rref
    if message.chain or message.cancelled or message.call.caller != sender:
        return None
    namer = _namer(rref.creator, sender, to)
    return FetchPart(message.call.number, namer, rref.number, message.copy, message.direct)


def _of_fork(message: Ack | Delete, sender: WorkerId, to: WorkerId, _: int) -> Part | None:
    rref, kind = message.rref, AckPart
    if isinstance(message, Ack):
        fork = message.fork
    elif message.borrowers or len(message.forks) != 1:
        return None
    else:
        (fork,), kind = message.forks, DeletePart
    namer, parent = _namer(rref.creator, sender, to), _namer(fork.parent, sender, to)
    return kind(namer, rref.number, parent, fork.number)


_PARTS: dict[type[Message], Callable[[Any, WorkerId, WorkerId, int], Part | None]] = {
    Call: _request,
    Invoke: _request,
    Create: _request,
    Reply: _reply,
    Fetch: _fetch,
    Ack: _of_fork,
    Delete: _of_fork,
}
"""Makes the part of a frequent message; None if it needs more than that has."""


def _namer(who: WorkerId, sender: WorkerId, to: WorkerId) -> Namer:
    return 0 if who == sender else 1 if who == to else who


def _other(message: Message, beside: list[object], longest: int) -> OtherPart:
    cargo: Cargo | None = getattr(message, "cargo", None)
    if cargo is None:
        return OtherPart(message, None, ())
    references, payload = cargo.descriptors, cargo.payload
    columns = columns_of(references) if len(references) >= MANY else None
    bare = replace(message, cargo=Cargo(descriptors=() if columns else references))
    content = None if payload is None else _content(payload, beside, longest)
    return OtherPart(bare, content, columns or ())  # type: ignore[arg-type]  # as above


def _content(payload: object, beside: list[object], longest: int) -> Content | int:
    if type(payload) is not Payload or payload.inert or payload.framed > longest:
        beside.append(payload)
        return len(beside) - 1
    buffers, writable = _said(payload.buffers) if payload.buffers else ((), ())
    introduced: Any = payload.peers
    return Content(
        payload.data,
        buffers,
        writable,
        tuple([(each.id, _place(each.address, beside)) for each in introduced]),
        payload.tag,  # type: ignore[arg-type]  # the reader checks it
        payload.frozen,
        payload.origin,
        payload.functions,  # type: ignore[arg-type]  # each is `Exported` in a message that leaves
        payload.plain,
    )


def _said(buffers: Iterable[Buffer]) -> tuple[Any, Any]:
    """*buffers* as they are written, and the places of the writable ones."""
    made: list[Any] = []
    writable: list[int] = []
    for each in buffers:
        if type(each) is bytearray:
            writable.append(len(made))
        made.append(each.fields() if isinstance(each, Segment) else each)
    return made, writable


def _place(address: ActorAddress, beside: list[object]) -> tuple[str, str, str, int] | int:
    details = getattr(address, "addressDetails", None)
    if type(details) is Address:
        return details.key, details.path, details.host, details.port
    beside.append(address)  # Thespian translates it
    return len(beside) - 1


# ---- in


def read(
    data: Data, me: WorkerId, numbered: Mapping[int, WorkerId], beside: Sequence[object] = ()
) -> tuple[WorkerId, Packet, tuple[WorkerInfo, ...]] | None:
    """The packet in *data*, which is for *me*: its sender, itself, and whom it introduces.

    *numbered*: the known endpoints by their incarnations. None if the sender says only its number,
    and is not among them. Raises `ProtocolError` if *data* is not a packet for *me*.
    """
    try:
        row = _decode(data)
    except _WRONG:
        row = _decoded_apart(data)
    sender = row.sender
    who = numbered.get(sender) if isinstance(sender, int) else sender
    if who is None:
        return None
    if row.to != me.incarnation or who == me:
        raise ProtocolError(f"{who} sent {me} a packet that is for number {row.to}")
    parts = row.parts
    messages: tuple[Message, ...]
    if len(parts) == 1:  # nearly always
        part = parts[0]
        messages = (_MESSAGES[type(part)](part, who, me, beside),)
    else:
        messages = tuple([_MESSAGES[type(part)](part, who, me, beside) for part in parts])
    peers = _infos(row.peers, beside) if row.peers else ()
    return who, Packet(row.first, messages, row.expects), peers


def _decoded_apart(data: Data) -> PacketRow:
    """The packet in *data*, which has an error in it: each part is decoded on its own."""
    try:
        row = _decode_loose(data)
    except _WRONG as error:
        raise ProtocolError(f"it is no packet: {error!s:.{TEXT}}") from None
    return replace(row, parts=tuple(map(_part, row.parts)))


def _part(data: Any) -> Any:
    try:
        return _decode_part(data)
    except _WRONG as error:
        return _malformed(error)


def _malformed(error: Exception) -> Any:
    # It passes through a `Channel` in the message's place: a `Channel` looks at no message.
    return Malformed(str(error)[:TEXT])


def _to_request(part: Any, sender: WorkerId, me: WorkerId, _: object) -> Message:
    functions = () if part.index is None else (Exported(part.index),)
    payload = Payload(
        part.data, tag=part.name, origin=part.origin, functions=functions, plain=part.plain
    )
    cargo, call = Cargo(payload=payload, descriptors=part.loans), CallId(sender, part.call)
    kind = type(part)
    if kind is CallPart:
        return Call(call=call, cargo=cargo)
    if kind is InvokePart:
        rref = RRefId(_who(part.namer, sender, me), part.number)
        return Invoke(call=call, rref=rref, cargo=cargo)
    rref, fork = RRefId(sender, part.number), ForkId(sender, part.fork)
    return Create(call=call, rref=rref, fork=fork, cargo=cargo, settled=part.settled)


def _to_reply(part: Any, _: WorkerId, me: WorkerId, __: object) -> Reply:
    if type(part) is ReplyPart:
        payload = Payload(part.data, plain=part.plain)
    else:
        buffers = _read(part.buffers) if part.buffers else ()
        payload = Payload(part.data, tuple(buffers), frozen=part.frozen, plain=part.plain)
    return Reply(call=CallId(me, part.call), cargo=Cargo(payload=payload))


def _to_fetch(part: FetchPart, sender: WorkerId, me: WorkerId, _: object) -> Fetch:
    call, rref = CallId(sender, part.call), RRefId(_who(part.namer, sender, me), part.number)
    return Fetch(call=call, rref=rref, copy=part.copy, direct=part.direct)


def _to_of_fork(part: AckPart, sender: WorkerId, me: WorkerId, _: object) -> Ack | Delete:
    rref = RRefId(_who(part.namer, sender, me), part.number)
    fork = ForkId(_who(part.parent, sender, me), part.fork)
    if type(part) is DeletePart:
        return Delete(rref=rref, forks=(fork,))
    return Ack(rref=rref, fork=fork)


def _to_other(part: OtherPart, _: WorkerId, __: WorkerId, beside: Sequence[object]) -> Message:
    message, payload, columns = part.message, part.payload, part.columns
    cargo: Cargo | None = getattr(message, "cargo", None)
    if cargo is None and payload is None and not columns:
        return message
    try:
        if cargo is None or cargo.payload is not None or (columns and cargo.descriptors):
            raise ProtocolError("its payload or references are in two places, or wrong ones")  # noqa: TRY301 - handled below
        # Nobody has seen the cargo yet, so changing the frozen object is safe.
        if columns:
            force_setattr(cargo, "descriptors", descriptors_of(columns))
        if payload is not None:
            force_setattr(cargo, "payload", _payload(payload, beside))
    except ProtocolError as error:
        message = _malformed(error)
    return message


_MESSAGES: dict[type, Callable[[Any, WorkerId, WorkerId, Sequence[object]], Message]] = {
    CallPart: _to_request,
    InvokePart: _to_request,
    CreatePart: _to_request,
    ReplyPart: _to_reply,
    BuffersReplyPart: _to_reply,
    FetchPart: _to_fetch,
    AckPart: _to_of_fork,
    DeletePart: _to_of_fork,
    OtherPart: _to_other,
    Malformed: lambda part, *_: part,
}


def _who(namer: Namer, sender: WorkerId, me: WorkerId) -> WorkerId:
    return sender if namer == 0 else me if namer == 1 else namer


def _payload(content: Content | int, beside: Sequence[object]) -> object:
    if isinstance(content, int):
        payload = _beside(content, beside)
        check_payload(payload)
        return payload
    buffers = _read(content.buffers)
    for place in content.writable:
        fixed = buffers[place] if place < len(buffers) else None
        if not isinstance(fixed, bytes):
            raise ProtocolError(f"it has no buffer {place} to be changed")
        buffers[place] = bytearray(fixed)
    peers = _infos(content.peers, beside) if content.peers else ()
    tag, frozen, origin, functions = content.tag, content.frozen, content.origin, content.functions
    return Payload(
        content.data, tuple(buffers), (), peers, tag, frozen, origin, functions, content.plain
    )


def _read(buffers: Iterable[_Buffer]) -> list[Buffer]:
    return [said(each) if isinstance(each, tuple) else each for each in buffers]


def _infos(peers: Iterable[_Peer], beside: Sequence[object]) -> tuple[WorkerInfo, ...]:
    made = []
    for who, at in peers:
        address = _beside(at, beside) if isinstance(at, int) else ActorAddress(Address(*at))
        if not isinstance(address, ActorAddress):
            raise ProtocolError(f"it introduces {who!s:.{TEXT}} without an address")
        made.append(WorkerInfo(who, address))
    return tuple(made)


def _beside(number: int, beside: Sequence[object]) -> object:
    if not 0 <= number < len(beside):
        raise ProtocolError(f"it names a thing that is not among the {len(beside)} beside it")
    return beside[number]
