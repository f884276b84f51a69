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
    Busy,
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
    give = _Give(fields, worker)
    match fields.get("do") or fields["by"]:
        case "own":
            made = context.own(serial=bool(fields.get("serial", True)))
            if "rref" in fields and made != give.rref("rref"):
                raise TraceInputError(f"the next object would be {made}, and not {fields['rref']}")
            return []
        case "hold":
            context.hold(give.rref("rref"))
            return []
        case "take_up":
            return context.take_up(give.cargo().descriptors[0])
        case "drop":
            return context.drop(*give.rrefs("rrefs"))
        case "fork":
            # A fork that was refused is not in the trace.
            context.fork_all((give.rref("rref"),), give.worker("to"), lost=True)
            return []
        case "lend":
            replies = bool(fields.get("replies", True))
            context.lend_all((give.rref("rref"),), give.worker("to"), replies=replies)
            return []
        case "abandon":
            return context.abandon(give.cargo().descriptors)
        case "release":
            return context.release(give.cargo().descriptors)
        case "create":
            target = give.maybe_rref("target")
            return context.create(give.to(), give.cargo(), target)[1]
        case "call":
            return context.call(give.to(), give.cargo(), give.chain())[1]
        case "invoke":
            chain = give.chain()
            return context.invoke(give.rref("rref"), give.cargo(), chain, give.maybe_to())[1]
        case "fetch":
            return context.fetch(
                give.rref("rref"),
                give.chain(),
                copy=bool(fields.get("copy", True)),
                direct=bool(fields.get("direct", False)),
                follow=bool(fields.get("follow", True)),
            )[1]
        case "cancel":
            return context.cancel(give.call(), interrupt=bool(fields.get("interrupt", False)))
        case "tell":
            return context.tell(give.to(), give.cargo())
        case "reply":
            return context.reply(give.call(), give.cargo())
        case "refuse":
            return context.refuse(give.call(), give.cargo())
        case "resolve":
            serial = bool(fields.get("serial", True))
            return context.resolve(give.rref("rref"), serial=serial)
        case "waits":
            run, nth = give.call("run"), int(fields["nth"])
            return context.waits(run, give.maybe_call(), nth, str(fields.get("what", "")))
        case "suspect_cycle":
            return context.suspect_cycle(give.rrefs("rrefs"), cuts=bool(fields.get("cuts", True)))
        case (
            "done" | "give_up_cycle" | "pause" | "refuse_cancel" | "resume" | "scanned"
            | "stand_for" | "suspect" | "weigh_cycle"
        ) as method:  # fmt: skip
            arguments = [give.field(name, kind) for name, kind in INPUTS[method].items()]
            effects: list[Effect] = getattr(context, method)(*arguments)
            return effects
        case "receive":
            return context.receive(give.worker("peer"), message_of(fields, worker))
        case "died":
            return context.died(give.worker("peer"), _lost(fields, give))
        case "buried":
            return context.bury(give.worker("peer"))
        case other:
            raise TraceInputError(f"no machine has an input {other!r}")


def message_of(fields: Fields, worker: Worker) -> Message:
    """The message that a line is about; its payload is only a label. Raises `TraceInputError`."""
    give = _Give(fields, worker)
    try:
        kind = BY_NAME[fields["message"]]
        given: dict[str, Any] = {
            name: give.cargo() if type_ is Cargo else give.value(type_, fields[name])
            for name, type_ in _types(kind)
            if type_ is Cargo or name in fields
        }
        return kind(**given)
    except (KeyError, TypeError, ValueError) as error:
        raise TraceInputError(f"{fields.get('message')} with wrong fields: {error}") from error


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


def _lost(fields: Fields, give: _Give) -> list[Message]:
    """Of a death: one message with all reports that the dead endpoint may not have got, if any."""
    return (
        [Returned(loans=give.value(tuple[Report, ...], fields["lost"]))]
        if fields.get("lost")
        else []
    )


class _Give:
    """The fields of a line, converted to the machines' types."""

    def __init__(self, fields: Fields, worker: Worker) -> None:
        self._fields = fields
        self._worker = worker

    def field(self, name: str, kind: Any) -> Any:
        """The field *name*; an empty list is left out in a line."""
        is_list = get_origin(kind) is tuple
        return self.value(kind, self._fields.get(name) if is_list else self._fields[name])

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
            types = _types(kind)
            return kind(
                **{name: self.value(it, value[name]) for name, it in types if name in value}
            )
        return value

    def to(self) -> WorkerId:
        """The endpoint to ask; of a sent message the receiver."""
        return self.worker("to" if self._fields.get("to") else "peer")

    def maybe_to(self) -> WorkerId | None:
        return self.to() if self._fields.get("to") or "peer" in self._fields else None

    def worker(self, name: str) -> WorkerId:
        return self._worker(self._fields[name])

    def rref(self, name: str) -> RRefId:
        return self._id(RRefId, self._fields[name])

    def maybe_rref(self, name: str) -> RRefId | None:
        return self.rref(name) if self._fields.get(name) else None

    def rrefs(self, name: str) -> tuple[RRefId, ...]:
        found: tuple[RRefId, ...] = self.value(tuple[RRefId, ...], self._fields.get(name))
        return found

    def chain(self) -> tuple[Busy, ...]:
        found: tuple[Busy, ...] = self.value(tuple[Busy, ...], self._fields.get("chain"))
        return found

    def call(self, name: str = "call") -> CallId:
        return self._id(CallId, self._fields[name])

    def maybe_call(self) -> CallId | None:
        return self.call() if self._fields.get("call") else None

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
