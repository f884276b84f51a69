"""The cases themselves: enough of them, and each one made by its number alone."""

from __future__ import annotations

import pytest

from .cases import COUNTS, Case


def test_there_are_ten_thousand() -> None:
    assert sum(COUNTS.values()) >= 10_000


def test_a_case_is_the_same_again_and_says_how_to_replay_it() -> None:
    case = Case("sockets", 17)
    assert case.source().random() == case.source().random()
    assert case.source().random() != Case("sockets", 18).source().random()
    with pytest.raises(ValueError, match="on purpose") as caught, case:
        raise ValueError("on purpose")
    assert "FARREF_FUZZ='sockets/17'" in caught.value.__notes__[0]
