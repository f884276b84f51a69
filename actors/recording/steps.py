"""The rows that an endpoint records: one kind for each kind of step.

A row is a JSON array: the kind, the time in seconds (for people: clocks of several hosts order
nothing), the endpoint that took the step, and then the fields below, in their order.
An endpoint is ``[name, incarnation]``, so that two lives of one name stay two, and an id
``[creator, number]``. A message is the row that it is on the wire (see `codec`), except that its
payload, which is the user's, is replaced by a label::

    ["send",1795290184.76,["C",7936],["B",11793],1,
     ["ForkRequest",[["A",27450],1],[["A",27450],2]],null,null]

A message is named by its sender, its receiver and its number between the two, at both ends. A
reader joins the rows by these.

Each input of the machines from the user's code, or from the shell, has a kind of its own, with the
name of the `Context`'s method, and its arguments. A machine gets no other inputs than these,
`receive`, `died`, `buried`, and those in the `by` of a sent message. So a reader can run the
shipped machines again, and has their tables at each step.

A saved trace begins with a row that is not a step, its `Head`.

The kinds are for the reader, which checks rows against them. The tracer writes tuples (see
`tracing`), which are faster to make, and never imports this module.
"""

from __future__ import annotations

import functools
import operator
from typing import Annotated, Any, Literal

import msgspec

from ...protocol.ids import CallId, Number, RRefId, WorkerId
from ...protocol.messages import Busy, Descriptor, Grip, Message, Report
from .tracing import FORMAT


class Head(msgspec.Struct, frozen=True, array_like=True, tag="trace"):
    """What a saved trace is about, and the steps of a published example to find in it."""

    format: int
    title: str
    notes: str


class Step(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One step of the endpoint *at*."""

    time: Annotated[float, msgspec.Meta(ge=0, lt=2**63)]
    at: WorkerId


class JoinStep(Step, frozen=True, tag="join"):
    """The endpoint began recording, from the start or anew after a gap.

    *tables*: its knowledge at that time (see `tables_json`); empty if it was new; None if too much.
    """

    format: int
    sharing: str
    tables: dict[str, Any] | None


class SendStep(Step, frozen=True, tag="send"):
    """A message was handed to delivery."""

    peer: WorkerId
    number: Number
    message: Message
    by: str | None
    """The input that made only this message, and so has no row of its own."""
    relays: CallId | None
    """The request on an alias that this message passes on."""


class ReceiveStep(Step, frozen=True, tag="receive"):
    """A message took effect. If it asks the owner to count a fork, the fork counts from now on."""

    peer: WorkerId
    number: Number
    message: Message
    then: tuple[tuple[Literal["confirmed", "free"], RRefId], ...] | None
    """The immediate consequences: an object is `confirmed` or `free`."""


class Input(Step, frozen=True):
    """The user's code, or the shell, did something with references."""


_RREF = {"rref": RRefId}
_CARRIES = {"carries": tuple[Descriptor, ...]}
_CHAIN = {"chain": tuple[Busy, ...]}
_TO = {"to": WorkerId}
_CALL = {"call": CallId}
_SERIAL = {"serial": (bool, True)}
EVENTS: dict[str, dict[str, Any]] = {
    # The endpoint stopped recording. A killed endpoint has no such row.
    "leave": {},
    # A method of the user's may start. A plain function may start as soon as its message is
    # received, so it has no such row.
    "run": {"peer": WorkerId, "label": str},
    # The owner now counts this user.
    "confirmed": _RREF,
    # No reference to the object is left: its owner dropped the value.
    "free": _RREF,
    # A value that will never arrive, and the reason (`Loss`): `creator`, `owner` or `cycle`.
    "lose": _RREF | {"why": str},
    # A reply that will never arrive.
    "fail": _CALL | {"peer": WorkerId},
    # The death of another endpoint became known here. *lost*: loans in messages that the dead
    # endpoint may not have got.
    "died": {"peer": WorkerId, "lost": tuple[Report, ...]},
    # The endpoint released the dead one's references, loans and claims.
    "buried": {"peer": WorkerId},
}
"""The other steps, and the fields of each."""
INPUTS: dict[str, dict[str, Any]] = {
    "own": _RREF | _SERIAL,
    "hold": _RREF,
    "take_up": _CARRIES,
    "drop": {"rrefs": tuple[RRefId, ...]},
    "fork": _RREF | _TO,
    "lend": _RREF | _TO | {"replies": bool},
    "abandon": _CARRIES,
    "release": _CARRIES,
    "create": _TO | _CARRIES | {"target": RRefId | None},
    "call": _TO | _CARRIES | _CHAIN,
    "invoke": _RREF | _CARRIES | _CHAIN | {"to": WorkerId | None},
    "fetch": _RREF | _CHAIN | {"copy": bool, "direct": bool, "follow": bool},
    "cancel": _CALL | {"interrupt": (bool, False)},
    "refuse_cancel": _CALL,
    "tell": _TO | _CARRIES,
    "reply": _CALL | _CARRIES,
    "refuse": _CALL | _CARRIES,
    "resolve": _RREF | _SERIAL,
    "stand_for": _RREF | {"target": RRefId},
    "pause": _RREF | _CALL,
    "resume": _RREF | _CALL,
    "done": _RREF | _CALL,
    "suspect": _RREF,
    "waits": {"run": CallId, "call": CallId | None, "nth": Number, "what": str},
    "suspect_cycle": {"rrefs": tuple[RRefId, ...], "cuts": bool},
    "scanned": {"asker": WorkerId, "look": Number, "grips": tuple[Grip, ...]},
    "weigh_cycle": _RREF,
    "give_up_cycle": _RREF,
}
"""The inputs, which `Context` describes, and the fields of each: a type, or also a default."""
KINDS: tuple[type[Step], ...] = (
    *(JoinStep, SendStep, ReceiveStep),
    *(  # type: ignore[arg-type] # defstruct does not tell that they are `Step`s
        msgspec.defstruct(
            name,
            [(each, *(of if type(of) is tuple else (of,))) for each, of in fields.items()],
            bases=(base,),
            tag=name,
        )
        for base, table in ((Step, EVENTS), (Input, INPUTS))
        for name, fields in table.items()
    ),
)
"""All kinds of steps."""
_rows: msgspec.json.Decoder[Step | Head] = msgspec.json.Decoder(
    functools.reduce(operator.or_, (*KINDS, Head))
)


def kind_of(step: Step | type[Step]) -> str:
    """The first word of the step's row."""
    return step.__struct_config__.tag  # type: ignore[return-value]  # theirs are words


def decode(row: str | bytes) -> Step | Head:
    """The step, or the head, in *row*. Raises `ValueError` with the reason for a wrong row."""
    try:
        return _decode(row)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def _decode(row: str | bytes) -> Step | Head:
    try:
        step = _rows.decode(row)
    except msgspec.ValidationError:
        match msgspec.json.decode(row):  # the rows of another format may have other fields
            case ["trace", int(number), *_] | ["join", _, _, int(number), *_]:
                _check_format(number)
            case {"format": int(number)}:
                _check_format(number)
            case _:
                pass
        raise
    if isinstance(step, JoinStep | Head):
        _check_format(step.format)
    return step


def _check_format(number: int) -> None:
    if number != FORMAT:
        raise ValueError(
            f"it has format {number}, and this farref reads only format {FORMAT}: "
            "another version wrote it"
        )
