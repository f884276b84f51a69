"""Every interleaving of small programs of delivery, the rendezvous, the succession and streams.

Delivery: every loss, repetition, order and delay of short conversations between two channels. The
rendezvous: joining, leaving, dying, closing and time, in small groups of nodes. The succession: the
registrar's role passes on, with requests, deaths and takeovers. Streams: two holders share one.
"""

from __future__ import annotations

from typing import Any

import pytest

from .explorer import Explorations
from .meeting import NEVER_MET, explore_meeting
from .meetings import MEETINGS
from .streaming import NEVER_STREAMED, STREAMINGS, explore_streaming
from .succession import NEVER, State, World, explore_takeover
from .successions import SUCCESSIONS
from .wire import LINKS, NEVER_WIRE, explore_link

FOUND = {
    "delivery": Explorations(LINKS, explore_link, most=150_000),
    "rendezvous": Explorations(MEETINGS, explore_meeting, most=40_000),
    "succession": Explorations(SUCCESSIONS, explore_takeover, most=40_000),
    "streams": Explorations(STREAMINGS, explore_streaming, most=40_000),
}
CLAIMS = (NEVER_WIRE, NEVER_MET, NEVER, NEVER_STREAMED)
SLOW = (pytest.mark.slow, pytest.mark.timeout(3600))


@pytest.mark.parametrize(
    ("of", "program"),
    [
        pytest.param(of, each, id=f"{of}: {each.name}", marks=SLOW if each.slow else ())
        for of, explorations in FOUND.items()
        for each in (*explorations.quick, *explorations.slow)
    ],
)
@pytest.mark.timeout(600)
def test_every_interleaving_of(of: str, program: Any) -> None:
    FOUND[of].check(program)


@pytest.mark.parametrize(
    ("of", "claims"),
    [
        pytest.param(of, claims, id=f"{of}: claims")
        for of, claims in zip(FOUND, CLAIMS, strict=True)
    ],
)
def test_every_negative_property_is_violated(of: str, claims: frozenset[str]) -> None:
    """Otherwise the situations that the machines exist for do not happen."""
    assert FOUND[of].violated() == claims


@pytest.mark.parametrize(
    ("of", "least"),
    [("delivery", 100_000), ("rendezvous", 40_000)],
    ids=["delivery: states", "rendezvous: states"],
)
def test_the_number_of_states_is_plausible(of: str, least: int) -> None:
    """A count that falls shows that a part is no longer explored."""
    assert FOUND[of].states() > least


def test_the_order_of_a_set_is_no_part_of_a_state() -> None:
    """Else the number of states depends on the hashes of the process."""
    one, other = World(SUCCESSIONS[0]), World(SUCCESSIONS[0])
    one.left, other.left = {0, 8}, {8, 0}
    assert [*one.left] != [*other.left]
    assert State(one) == State(other)
