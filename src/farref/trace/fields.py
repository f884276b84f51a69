"""Converts the rows that endpoints write (see `recording.steps`) into the fields of trace records.

A row has the values of a step by position. A record has their names, the spelled ids, and no empty
fields of messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..actors.recording import steps
from ..actors.recording.tracing import spell
from ..protocol.ids import CallId, ForkId, RRefId, WorkerId
from ..protocol.messages import Cargo, Descriptor, Message, Part, Reply, UserMessage


def fields_of(step: steps.Step) -> dict[str, Any]:
    head: dict[str, Any] = {"at": spell(step.at), "kind": steps.kind_of(step), "time": step.time}
    match step:
        case steps.JoinStep(sharing=sharing, tables=tables):
            known = {} if tables == {} else {"tables": tables}
            return {**head, "sharing": sharing, **known}
        case steps.SendStep() | steps.ReceiveStep():
            more = {"peer": spell(step.peer), "number": step.number, **_message(step.message)}
            if isinstance(step, steps.ReceiveStep) and step.then:
                more["then"] = [(kind, spell(rref)) for kind, rref in step.then]
            if isinstance(step, steps.SendStep):
                more |= {"relays": spell(step.relays)} if step.relays is not None else {}
                more |= {"by": step.by} if step.by is not None else {}
            return {**head, **more}
        case steps.Input():
            return {**head, "kind": "do", "do": head["kind"], **_named(step, len(head) - 1)}
        case _:
            return {**head, **_named(step, len(head) - 1)}


def implied(fields: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The steps that always follow the step of a row, and so have no rows of their own.

    A fork or a creation is counted when its request takes effect. A function that is not a
    method of an object may start then. This removes from *fields* what describes other steps.
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
        "user": isinstance(message, UserMessage),
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
    """The fields of *struct* without the first *after*."""
    return {name: _plain(getattr(struct, name)) for name in struct.__struct_fields__[after:]}


def _plain(value: Any) -> Any:
    match value:
        case WorkerId() | RRefId() | ForkId() | CallId():
            return spell(value)
        case Descriptor():
            return _descriptor(value)
        case Part():
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
