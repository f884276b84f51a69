"""Gives a machine the recorded inputs of another machine.

The fields are those of a trace's line (see `actors.recording.tracing`). The caller chooses the
spelling of endpoints, ``A@6f3a`` in a recording and ``A`` in a trace test; its function *worker*
reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from ..actors.recording.steps import INPUTS
from ..protocol.context import Context
from ..protocol.effects import Effect
from ..protocol.ids import CallId, ForkId, Number, RRefId, WorkerId
from ..protocol.messages import (
    BY_NAME,
    Cargo,
    Descriptor,
    Message,
    Part,
    Passing,
    Report,
    Returned,
)
from .records import Record

Worker = Callable[[str], WorkerId]
Fields = Mapping[str, Any]

Id = TypeVar("Id", RRefId, ForkId, CallId)


class TraceInputError(Exception):
    """A line does not describe an input of a machine."""


def perform(context: Context, fields: Fields, worker: Worker) -> list[Effect]:
    """Give *context* the input in *fields*. The field `do` names it, or `by` for a sent message.

    Raises `TraceInputError`, and every error of the machine.
    """
    try:
        return _perform(context, fields, worker)
    except (KeyError, TypeError, ValueError) as error:
        what = fields.get("do") or fields.get("by")
        raise TraceInputError(f"{what!r} with wrong fields: {error}") from error


def _perform(context: Context, fields: Fields, worker: Worker) -> list[Effect]:
    give, what = _Give(fields, worker), fields.get("do") or fields["by"]
    match what:
        case "receive":
            return context.receive(give.worker("peer"), message_of(fields, worker))
        case "died":
            # All reports that the dead endpoint may not have got.
            lost = give.value(tuple[Report, ...], fields.get("lost"))
            return context.died(give.worker("peer"), [Returned(loans=lost)] if lost else [])
        case "buried":
            return context.bury(give.worker("peer"))
        case _ if what not in INPUTS:
            raise TraceInputError(f"no machine has an input {what!r}")
    flags = {name for name, kind in INPUTS[what].items() if kind is bool or type(kind) is tuple}
    said = {name: bool(fields[name]) for name in flags if name in fields}
    if what == "own":
        made = context.own(**said)
        if "rref" in fields and made != give.field("rref", RRefId):
            raise TraceInputError(f"the next object would be {made}, and not {fields['rref']}")
        return []
    given = {n: give.field(n, kind) for n, kind in INPUTS[what].items() if n not in flags}
    match what:
        case "fork":  # one that was refused is not in the trace
            context.fork_all((given["rref"],), given["to"], lost=True)
            return []
        case "lend":
            context.lend_all((given["rref"],), given["to"], **said)
            return []
        case "drop":
            return context.drop(*given["rrefs"])
        case "take_up":
            return context.take_up(given["carries"].descriptors[0])
        case "abandon" | "release":
            given["carries"] = given["carries"].descriptors
    effects = getattr(context, what)(*given.values(), **said)
    if type(effects) is tuple:  # with an id before them
        effects = effects[1]
    return effects or []


def message_of(fields: Fields, worker: Worker) -> Message:
    """The message that a line is about; its payload is only a label. Raises `TraceInputError`."""
    try:
        message: Message = _Give(fields, worker).value(BY_NAME[fields["message"]], fields)
    except (KeyError, TypeError, ValueError) as error:
        raise TraceInputError(f"{fields.get('message')} with wrong fields: {error}") from error
    return message


def input_of(record: Record) -> dict[str, Any] | None:
    """The fields of *record* as an input for `perform`; None if the record is not an input."""
    match record.kind:
        case "do":
            return record.fields
        case "send":
            return record.fields if record.fields.get("by") else None
        case "receive" | "died" | "buried":
            return {**record.fields, "do": record.kind}
        case _:
            return None


class _Give:
    """The fields of a line, converted to the machines' types."""

    def __init__(self, fields: Fields, worker: Worker) -> None:
        self._fields = fields
        self._worker = worker

    def field(self, name: str, kind: Any) -> Any:
        """The field *name*, of an input; an empty list, and what may be None, is left out."""
        if name == "carries":
            return self.cargo()
        if name == "to":  # of a sent message its receiver
            name = "to" if self._fields.get("to") or "peer" not in self._fields else "peer"
        value = self._fields.get(name, "" if kind is str else None)
        optional = kind is str or get_origin(kind) in (tuple, UnionType)
        return self.value(kind, value if optional else self._fields[name])

    def value(self, kind: Any, value: Any) -> Any:
        origin, parts = get_origin(kind), get_args(kind)
        if kind in (RRefId, ForkId, CallId):
            return self._id(kind, value)
        if kind is WorkerId:
            return self._worker(value)
        if kind is Descriptor and isinstance(value, list):
            return self._descriptor(*value)
        if kind is Passing:
            return Passing(value)
        if kind == Number:
            return int(value)
        if origin is UnionType:  # Optional: one type, or None
            return self.value(parts[0], value) if value else None
        if origin is tuple:
            if not isinstance(value or [], list):
                raise TypeError(f"{value!r} is not a list")
            values: list[Any] = value or []
            each = parts[:1] * len(values) if parts[-1] is Ellipsis else parts
            return tuple(self.value(*pair) for pair in zip(each, values, strict=True))
        if isinstance(kind, type) and issubclass(kind, Part):
            given = {
                name: self.cargo() if it is Cargo else self.value(it, value[name])
                for name, it in _types(kind)
                if it is Cargo or name in value
            }
            return kind(**given)
        return value

    def worker(self, name: str) -> WorkerId:
        return self._worker(self._fields[name])

    def cargo(self) -> Cargo:
        label = None if self._fields.get("elsewhere") else self._fields.get("label") or None
        carries = self.value(tuple[Descriptor, ...], self._fields.get("carries"))
        return Cargo(payload=label if carries or label else None, descriptors=carries)

    def _descriptor(self, rref: str, fork: str, owner: str, *more: str) -> Descriptor:
        passing, name, counted = (*more, "", "")[:3]
        minted = self._id(ForkId, fork)
        return Descriptor(
            rref=self._id(RRefId, rref),
            fork=minted,
            owner=self._worker(owner),
            parent=minted.parent,
            passing=Passing(passing),
            counted=bool(counted),
            name=self._id(RRefId, name) if name else None,
        )

    def _id(self, kind: type[Id], text: Any) -> Id:
        minter, slash, number = str(text).rpartition("/")
        if not slash:
            raise ValueError(f"{text!r} is not an id")
        return kind(self._worker(minter), int(number))


@cache
def _types(kind: type[Part]) -> tuple[tuple[str, Any], ...]:
    return tuple((each.name, each.type) for each in msgspec.structs.fields(kind))
