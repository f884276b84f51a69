"""A state as bytes, and back: compact, readable, and validated on decode.

It is JSON, a list without names: ``[VERSION, min, max, round, complete, closed, call, members,
participants, waiting, spares]``. Any program may have written the bytes that a backend returns: so
every field is checked, and every invariant that the transitions rely on.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..errors import RendezvousStateError
from ..ids import WorkerId
from ..wellformed import LARGEST
from .limits import RoundLimits
from .state import Member, Seat, State

if TYPE_CHECKING:
    from .state import Seats

VERSION = "farref rendezvous 1"


def encode(state: State) -> bytes:
    """*state* as bytes: equal states, with the same order of arrival, give equal bytes."""
    row = [
        VERSION,
        state.limits.min_nodes,
        state.limits.max_nodes,
        state.round,
        state.complete,
        state.closed,
        state.call,
        [[member.node.name, member.node.incarnation, member.address] for member in state.members],
        _rows(state.participants),
        _rows(state.waiting),
        _rows(state.spares),
    ]
    return json.dumps(row, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def _rows(seats: Seats) -> list[list[object]]:
    return [
        [node.name, node.incarnation, seat.address, seat.order, seat.beat]
        for node, seat in seats.items()
    ]


def decode(data: bytes) -> State:
    """The state that `encode` turned into *data*.

    Raises:
        RendezvousStateError: *data* is no valid state, and no part of it can be used.
    """
    try:
        return _state(json.loads(bytes(data).decode("ascii")))
    except RecursionError:
        why = "it is nested too deep"
    except (ValueError, TypeError, KeyError) as error:
        why = str(error)[:200]
    raise RendezvousStateError(
        f"the stored state of the rendezvous is corrupt: {why}. Maybe another program uses the "
        "same key: use another run id, or remove the stored value"
    )


def _state(row: Any) -> State:
    if type(row) is not list or len(row) != 11 or row[0] != VERSION:
        raise ValueError(f"it does not begin with {VERSION!r}, or lacks fields")
    _, least, most, number, complete, closed, call, members, *lists = row
    state = State(
        RoundLimits(_number(least), _number(most)),
        _number(number),
        _flag(complete),
        _flag(closed),
        _number(call),
        tuple(_member(each) for each in _list(members)),
        *({WorkerId(*_node(each)): _seat(each) for each in _list(rows)} for rows in lists),
    )
    _check(state, sum(len(rows) for rows in lists))
    return state


def _check(state: State, rows: int) -> None:
    limits, members = state.limits, [member.node for member in state.members]
    if len(state.seats()) != rows or len(set(members)) != len(members):
        raise ValueError("a node is there twice")
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


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError(f"a {type(value).__name__} is no list")
    return value


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise TypeError("a field is no whole number")
    return value


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError("a field is neither true nor false")
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("a field is no text")
    return value


def _node(row: Any) -> tuple[str, int]:
    if type(row) is not list or len(row) not in (3, 5):
        raise TypeError("a node has no valid description")
    return _text(row[0]), _number(row[1])


def _member(row: Any) -> Member:
    node = WorkerId(*_node(row))
    (address,) = row[2:]
    return Member(node, _text(address))


def _seat(row: Any) -> Seat:
    address, order, beat = row[2:]
    if order is not None and (type(order) is not int or abs(order) > LARGEST):
        raise TypeError("an order is no whole number")
    return Seat(_text(address), order, _number(beat))
