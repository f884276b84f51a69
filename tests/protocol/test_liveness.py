"""Endpoints given up for silence, and endpoints never given up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farref.protocol.ids import WorkerId
from farref.protocol.liveness import Liveness

A, B = WorkerId("A", 1), WorkerId("B", 1)


def test_who_left_is_not_expected() -> None:
    liveness = Liveness(1)
    liveness.watch(A)
    liveness.forget(A)
    assert liveness.tick() == []
    assert not liveness.heard(A)


def test_a_second_watch_changes_nothing() -> None:
    liveness = Liveness(2)
    liveness.watch(A)
    liveness.tick()
    liveness.watch(A)
    assert liveness.tick() == [A]


def test_patience_is_at_least_one_turn() -> None:
    with pytest.raises(ValueError, match="patience must be at least 1 tick, not 0"):
        Liveness(0)


@given(st.integers(1, 5), st.lists(st.sampled_from([None, A, B]), max_size=40))
def test_it_is_given_up_after_exactly_that_many_turns_without_a_word(
    patience: int, history: list[WorkerId | None]
) -> None:
    """None is a tick; a worker is a sign of its life. Compared with the history itself."""
    liveness = Liveness(patience)
    liveness.watch(A)
    liveness.watch(B)
    silent, gone = {A: 0, B: 0}, set[WorkerId]()
    for event in history:
        if event is None:
            expected = []
            for worker in (A, B):
                silent[worker] += 1
                if worker not in gone and silent[worker] == patience:
                    expected.append(worker)
            gone.update(expected)
            assert liveness.tick() == expected
        else:
            assert liveness.heard(event) == (event not in gone)
            silent[event] = 0 if event not in gone else silent[event]
