"""What an endpoint records: one kind of row for each kind of step.

A row is a JSON array: the kind, the time in seconds (for people: clocks of several hosts order
nothing), the endpoint that took the step, and then the fields of the class below, in their order.
An endpoint is ``[name, incarnation]``, so that two lives of one name stay two, and an id
``[creator, number]``. A message is the row that it is on the wire (see `packets`), except that its
payload, which is the user's, is replaced by a label::

    ["send",1795290184.76,["C",7936],["B",11793],1,
     ["ForkRequest",[["A",27450],1],[["A",27450],2]],null,null]

A message is named by its sender, its receiver and its number between the two, at both ends; that is
what a reader joins the rows by.

The inputs of the machines that come from the user's code, or from the shell, have a kind each, with
the name of the `Context`'s method, and its arguments. They, `receive`, `died` and `buried`, and
what is sent *by* an input, are everything that a machine was given; so a reader can run the shipped
machines again, and has their tables at each step.

The classes are the reader's: what it reads is checked against them. The tracer writes tuples, with
less to do for each.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, Literal

import msgspec

from ..protocol.ids import CallId, Number, RRefId, WorkerId
from ..protocol.messages import Descriptor, Message, Report

FORMAT = 6
"""Of the rows; written with each `Join`. Up to format 4 endpoints wrote JSON objects."""


class Step(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One step of the endpoint *at*."""

    time: float
    at: WorkerId


class Join(Step, frozen=True, tag="join"):
    """It began to record, from the start or anew after a gap.

    *tables*: what it knew already (see `tables_json`); empty, if it was new; None: too much.
    """

    format: int
    sharing: str
    tables: dict[str, Any] | None


class Leave(Step, frozen=True, tag="leave"):
    """It ended to record. A killed endpoint has none."""


class Send(Step, frozen=True, tag="send"):
    """A message was handed to delivery."""

    peer: WorkerId
    number: Number
    message: Message
    by: str | None
    """It is all that this input came to, which has no row of its own."""
    relays: CallId | None
    """The request on an alias that it passes on."""


class Receive(Step, frozen=True, tag="receive"):
    """A message took effect. A fork that it asks to be counted is counted from now on."""

    peer: WorkerId
    number: Number
    message: Message
    then: tuple[tuple[Literal["confirmed", "free"], RRefId], ...] | None
    """What followed at once: an object was `confirmed`, or is `free`."""


class Run(Step, frozen=True, tag="run"):
    """A method of the user's may start.

    A function may as soon as its message is received, which has no row of its own.
    """

    peer: WorkerId
    label: str


class Confirmed(Step, frozen=True, tag="confirmed"):
    """The owner counts this user."""

    rref: RRefId


class Free(Step, frozen=True, tag="free"):
    """Nobody holds the object any more: its owner dropped the value."""

    rref: RRefId


class Lose(Step, frozen=True, tag="lose"):
    """A value that will never come, and of what why: `creator`, `owner` or `cycle`."""

    rref: RRefId
    why: str


class Fail(Step, frozen=True, tag="fail"):
    """A reply that will never come."""

    call: CallId
    peer: WorkerId


class Died(Step, frozen=True, tag="died"):
    """Another endpoint's death became known here; *lost*: in messages that it may not have got."""

    peer: WorkerId
    lost: tuple[Report, ...]


class Buried(Step, frozen=True, tag="buried"):
    """What the dead held, lent or was owed was released here."""

    peer: WorkerId


# ---- inputs; what each is stands in `Context`


class Input(Step, frozen=True):
    """The user's code, or the shell, did something with references."""


class Own(Input, frozen=True, tag="own"):
    rref: RRefId


class Hold(Input, frozen=True, tag="hold"):
    rref: RRefId


class TakeUp(Input, frozen=True, tag="take_up"):
    carries: tuple[Descriptor, ...]


class Drop(Input, frozen=True, tag="drop"):
    rrefs: tuple[RRefId, ...]


class Fork(Input, frozen=True, tag="fork"):
    rref: RRefId
    to: WorkerId


class Lend(Input, frozen=True, tag="lend"):
    rref: RRefId
    to: WorkerId
    replies: bool


class Abandon(Input, frozen=True, tag="abandon"):
    carries: tuple[Descriptor, ...]


class Release(Input, frozen=True, tag="release"):
    carries: tuple[Descriptor, ...]


class Create(Input, frozen=True, tag="create"):
    to: WorkerId
    carries: tuple[Descriptor, ...]
    target: RRefId | None


class Call(Input, frozen=True, tag="call"):
    to: WorkerId
    carries: tuple[Descriptor, ...]
    chain: tuple[RRefId, ...]


class Invoke(Input, frozen=True, tag="invoke"):
    rref: RRefId
    carries: tuple[Descriptor, ...]
    chain: tuple[RRefId, ...]
    to: WorkerId | None


class Fetch(Input, frozen=True, tag="fetch"):
    rref: RRefId
    chain: tuple[RRefId, ...]
    copy: bool
    direct: bool
    follow: bool


class Cancel(Input, frozen=True, tag="cancel"):
    call: CallId


class Tell(Input, frozen=True, tag="tell"):
    to: WorkerId
    carries: tuple[Descriptor, ...]


class Reply(Input, frozen=True, tag="reply"):
    call: CallId
    carries: tuple[Descriptor, ...]


class Refuse(Input, frozen=True, tag="refuse"):
    call: CallId
    carries: tuple[Descriptor, ...]


class Resolve(Input, frozen=True, tag="resolve"):
    rref: RRefId


class StandFor(Input, frozen=True, tag="stand_for"):
    rref: RRefId
    target: RRefId


class Done(Input, frozen=True, tag="done"):
    rref: RRefId


class Suspect(Input, frozen=True, tag="suspect"):
    rref: RRefId


class Waits(Input, frozen=True, tag="waits"):
    run: CallId
    call: CallId | None
    nth: Number
    what: str


KINDS: tuple[type[Step], ...] = (
    *(Join, Leave, Send, Receive, Run, Confirmed, Free, Lose, Fail, Died, Buried),
    *Input.__subclasses__(),
)
"""All of them."""
encode = msgspec.json.Encoder().encode
"""A step, or the tuple of its kind and its fields, as a row without a newline."""
encode_lines = msgspec.json.Encoder().encode_lines
"""Several of them, each with its newline."""
_rows: msgspec.json.Decoder[Step] = msgspec.json.Decoder(functools.reduce(operator.or_, KINDS))


def kind_of(step: Step | type[Step]) -> str:
    """The first word of its row."""
    return step.__struct_config__.tag  # type: ignore[return-value]  # theirs are words


def decode(row: str | bytes) -> Step:
    """The step that *row* is. Raises `msgspec.DecodeError`, a `ValueError` that says why not."""
    return _rows.decode(row)
