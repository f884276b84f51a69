"""A state as bytes, and back: compact, readable, and checked when it is read.

The bytes are JSON: a list of the version, the limits, and the other fields of `State` in their
order. Any program may have written the bytes that a backend returns. So `decode` checks the type of
every field, and every invariant that the transitions rely on.
"""

from __future__ import annotations

import json
from typing import Annotated, Final, Literal

import msgspec

from ..errors import RendezvousStateError
from ..ids import WorkerId
from .limits import RoundLimits
from .state import Member, Seat, State

VERSION: Final = "farref rendezvous 2"

_Number = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Nodes = tuple[tuple[WorkerId, Seat], ...]
_Row = tuple[
    Literal["farref rendezvous 2"],
    _Number,  # the least number of nodes
    _Number,  # the largest
    _Number,  # round
    bool,  # complete
    bool,  # closed
    _Number,  # call
    tuple[Member, ...],
    _Nodes,  # participants
    _Nodes,  # waiting
    _Nodes,  # spares
]


def encode(state: State) -> bytes:
    """*state* as bytes: equal states, with the same order of arrival, give equal bytes."""
    row: _Row = (
        VERSION,
        state.limits.min_nodes,
        state.limits.max_nodes,
        state.round,
        state.complete,
        state.closed,
        state.call,
        state.members,
        tuple(state.participants.items()),
        tuple(state.waiting.items()),
        tuple(state.spares.items()),
    )
    # Not by msgspec's encoder: a name may contain lone surrogates, which `json` escapes.
    return json.dumps(msgspec.to_builtins(row), separators=(",", ":")).encode("ascii")


def decode(data: bytes) -> State:
    """The state that `encode` turned into *data*.

    Raises:
        RendezvousStateError: *data* is not a valid state. No part of it is used.
    """
    try:
        row = msgspec.convert(json.loads(bytes(data).decode("ascii")), _Row)
        _, least, most, number, complete, closed, call, members, *lists = row
        state = State(
            RoundLimits(least, most), number, complete, closed, call, members, *map(dict, lists)
        )
        _check(state, sum(map(len, lists)))
    except RecursionError:
        why = "it is nested too deep"
    except (ValueError, msgspec.ValidationError) as error:
        why = str(error)[:200]
    else:
        return state
    raise RendezvousStateError(
        f"the stored state of the rendezvous is corrupt: {why}. Maybe another program uses the "
        "same key: use another run id, or remove the stored value"
    )


def _check(state: State, rows: int) -> None:
    """Raise `ValueError` if the lists of *state*, of so many *rows*, contradict each other."""
    limits, members = state.limits, [member.node for member in state.members]
    if len(state.seats()) != rows or len(set(members)) != len(members):
        raise ValueError("a node is in it twice")
    if len(members) > limits.max_nodes:
        raise ValueError("it has more members than a round may have")
    present = len(state.participants) + len(state.waiting)
    if present > limits.max_nodes:
        raise ValueError("more nodes are in it than a round may have")
    if state.closed:
        return  # no spare moves up any more
    if state.spares and present < limits.max_nodes:
        raise ValueError("a spare waits though there is room")
    if not state.complete and (state.waiting or present >= limits.max_nodes):
        raise ValueError("the round is not complete, though it could be")
    if state.complete and not state.participants:
        raise ValueError("the round is complete, and nobody is in it")
    if state.complete and (
        len(members) < limits.min_nodes or not set(state.participants) <= set(members)
    ):
        raise ValueError("the participants of the complete round are not its members")
    if state.calling and not state.call:
        raise ValueError("enough nodes are in it, but there is no last call")
