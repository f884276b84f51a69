"""Many control messages as one: all that goes in comes out, and nothing else goes in.

`tests/model/together.py` checks in every state that they take effect as single ones do.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from farref.protocol.bulk import KINDS, MOST, TOO_LARGE, apart, together
from farref.protocol.columns import MANY
from farref.protocol.context import Context
from farref.protocol.delivery import Packet
from farref.protocol.effects import Confirmed, Effect, Send
from farref.protocol.errors import ProtocolError
from farref.protocol.ids import ForkId, RRefId, WorkerId
from farref.protocol.messages import BY_NAME, Ack, Bulk, Delete, ForkRequest, InBulk

from ..packets import carried, written

WORKERS = [WorkerId(name, number) for name, number in (("A", 1), ("B", 2), ("C", 1 << 61))]
A, B, C = WORKERS
workers = st.sampled_from(WORKERS)
numbers = st.one_of(st.integers(0, 300), st.integers(0, (1 << 63) - 1))


def made(kind: type, rref: RRefId, fork: ForkId) -> InBulk:
    message: InBulk = kind(rref=rref, **({"forks": (fork,)} if kind is Delete else {"fork": fork}))
    return message


def opened(effects: list[Effect]) -> list[tuple[WorkerId, Any]]:
    """The single messages that *effects* send, with their receivers, after a journey."""
    found: list[tuple[WorkerId, Any]] = []
    for each in effects:
        assert isinstance(each, Send)
        (came,) = carried(each.message)
        parts = apart(came) if isinstance(came, Bulk) else [came]
        found += [(each.to, part) for part in parts]
    return found


@given(
    st.lists(
        st.builds(
            Send,
            workers,
            st.builds(
                made,
                st.sampled_from(list(KINDS)),
                st.builds(RRefId, workers, numbers),
                st.builds(ForkId, workers, numbers),
            ),
        ),
        max_size=100,
    )
)
def test_what_goes_in_comes_out(sends: list[Effect]) -> None:
    left = [(each.to, each.message) for each in sends if isinstance(each, Send)]
    assert sorted(map(repr, opened(together(sends, WorkerId("me", 3))))) == sorted(map(repr, left))


def requests(number: int) -> list[Effect]:
    return [
        Send(B, ForkRequest(rref=RRefId(B, n), fork=ForkId(A, n))) for n in range(1, number + 1)
    ]


def test_many_are_one_message_of_few_bytes() -> None:
    (only,) = together(requests(1_000), C)
    assert isinstance(only, Send)
    assert len(written(Packet(1, (only.message,), 0))[0]) < 6_100
    assert len(together(requests(MANY), C)) == 1


def test_few_stay_single() -> None:
    few = requests(MANY - 1)
    assert together(few, C) == few


def test_a_bulk_has_a_limit() -> None:
    effects = together(requests(2 * MOST + 1), C)
    assert len(effects) == 3
    assert len(opened(effects)) == 2 * MOST + 1


def test_what_is_no_single_fork_of_another_endpoint_stays_as_it_is() -> None:
    rref, forks = RRefId(B, 1), (ForkId(A, 1), ForkId(A, 2))
    others: list[Effect] = [
        *[Send(B, Delete(rref=rref, forks=forks))] * MANY,
        *[Send(B, Delete(rref=rref, forks=forks[:1], borrowers=((forks[1], C),)))] * MANY,
        *[Send(C, Ack(rref=rref, fork=forks[0]))] * MANY,  # to itself
        *[Confirmed(rref)] * MANY,
    ]
    assert together(others, C) == others


@pytest.mark.parametrize(
    "wrong",
    [
        {"forks": (1,)},
        {"numbers": (), "forks": ()},
        {"number": TOO_LARGE - 1},
        {"fork": TOO_LARGE - 1},
        {"numbers": (1,) * (MOST + 1), "forks": (1,) * (MOST + 1)},
    ],
    ids=["lengths", "none", "large", "large fork", "many"],
)
def test_no_correct_peer_sends_it(wrong: dict[str, Any]) -> None:
    right = Bulk(
        kind="Ack", creator=A, fork_parent=A, number=1, fork=1, numbers=(0, 1), forks=(0, 1)
    )
    assert len(apart(right)) == 2
    with pytest.raises(ProtocolError):
        apart(replace(right, **wrong))


def test_the_kinds_have_the_names_of_their_classes() -> None:
    assert {BY_NAME[name] for name in KINDS.values()} == set(KINDS)


def test_one_that_is_refused_spoils_no_other() -> None:
    owner = Context(B)
    known = [owner.own() for _ in range(3)]
    forks = [ForkId(A, n) for n in range(3)]
    wrong = ForkRequest(rref=RRefId(B, 99), fork=forks[2])
    asked = [ForkRequest(rref=it, fork=fork) for it, fork in zip(known, forks, strict=True)]
    effects, errors = owner.take_all(A, [asked[0], asked[0], wrong, asked[1]])
    assert len(errors) == 2
    assert effects == [Send(A, Ack(rref=it.rref, fork=it.fork)) for it in asked[:2]]
