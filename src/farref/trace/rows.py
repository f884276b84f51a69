"""The rows that endpoints write (see `recording.steps`), as the fields that a trace is read by.

There are two forms of a line. An endpoint writes a row, which costs it the least; a saved trace has
an object with names, which says the same and is what `records` works on. Here one becomes the
other: ids are spelled, and what is nothing is left out of a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ..actors.recording import steps
from ..actors.recording.tracing import spell
from ..protocol.ids import CallId, ForkId, RRefId, WorkerId
from ..protocol.messages import (
    Call,
    Cargo,
    Create,
    Delete,
    Descriptor,
    Fetch,
    Hop,
    Invoke,
    Moved,
    Reply,
    Report,
    Tell,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..protocol.messages import Message

_USER = (Call, Create, Fetch, Invoke, Reply, Tell)


def fields_of(row: str) -> dict[str, Any]:
    """The fields of the step that *row* is. Raises `ValueError` that says what is wrong with it."""
    step = steps.decode(row)
    head: dict[str, Any] = {"at": spell(step.at), "kind": steps.kind_of(step), "time": step.time}
    match step:
        case steps.Join(format=number, sharing=sharing, tables=tables):
            known = {} if tables == {} else {"tables": tables}
            return {**head, "format": number, "sharing": sharing, **known}
        case steps.Send() | steps.Receive():
            more = {"peer": spell(step.peer), "number": step.number, **_message(step.message)}
            if isinstance(step, steps.Receive) and step.then:
                more["then"] = [(kind, spell(rref)) for kind, rref in step.then]
            if isinstance(step, steps.Send):
                more |= {"relays": spell(step.relays)} if step.relays is not None else {}
                more |= {"by": step.by} if step.by is not None else {}
            return {**head, **more}
        case steps.Input():
            return {**head, "kind": "do", "do": head["kind"], **_named(step, len(head) - 1)}
        case _:
            return {**head, **_named(step, len(head) - 1)}


def implied(fields: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The steps that always follow one that a row says, and so have no rows of their own.

    What asks to be counted is counted when it takes effect; a function that is no object's method
    may start then. *fields* lose what they say of others.
    """
    if fields["kind"] != "receive":
        return
    head = {"at": fields["at"], "time": fields["time"]}
    message, peer = fields["message"], fields["peer"]
    if message in {"ForkRequest", "Create"}:
        which = {"rref": fields["rref"], "fork": fields["fork"]}
        yield {**head, "kind": "known", **which, "holder": peer}
    for kind, rref in fields.pop("then", ()):
        yield {**head, "kind": kind, "rref": rref}
    if message == "Call" or (message == "Create" and "target" not in fields):
        yield {**head, "kind": "run", "peer": peer, "label": fields["label"]}


def _message(message: Message) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "message": type(message).__name__,
        "user": isinstance(message, _USER),
    }
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if isinstance(value, Cargo):
            fields["label"] = value.payload or ""
            if value.descriptors:
                fields["carries"] = _plain(value.descriptors)
        elif value is not None and value != ():
            fields[name] = _plain(value)
    if isinstance(message, Reply) and message.moved and message.cargo.payload is None:
        fields["elsewhere"] = True
    return fields


def _named(struct: msgspec.Struct, after: int = 0) -> dict[str, Any]:
    """The fields of *struct* after so many."""
    return {name: _plain(getattr(struct, name)) for name in struct.__struct_fields__[after:]}


def _plain(value: Any) -> Any:
    """*value* as JSON has it."""
    match value:
        case WorkerId() | RRefId() | ForkId() | CallId():
            return spell(value)
        case Descriptor():
            return _descriptor(value)
        case Report() | Delete() | Moved() | Hop():
            return _named(value)
        case tuple():
            return [_plain(each) for each in value]
        case _:
            return value


def _descriptor(value: Descriptor) -> list[str]:
    parts = [spell(value.rref), spell(value.fork), spell(value.owner), value.passing.value]
    if value.name is not None or value.counted:
        parts.append("" if value.name is None else spell(value.name))
    if value.counted:
        parts.append("counted")
    return parts
