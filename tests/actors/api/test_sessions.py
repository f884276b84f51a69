"""A second system at a prompt or in a notebook: the first one is named, and can be ended."""

from __future__ import annotations

import sys
import warnings

import pytest

from farref import System


def test_a_second_system_at_a_prompt_warns_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    before = System.running()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        lost = System("simpleSystemBase", name="lost")
    try:
        assert System.running() == [*before, lost]
        with pytest.warns(RuntimeWarning, match=r"still runs .*'lost'.*shutdown\(\)"):
            System("simpleSystemBase", name="found")
        for old in System.running()[len(before) : -1]:
            old.shutdown()
        (found,) = System.running()[len(before) :]
        assert found.name == "found"
        found.shutdown()
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            System("simpleSystemBase").shutdown()
    finally:
        for left in System.running()[len(before) :]:
            left.shutdown()
    assert System.running() == before


def test_a_program_may_have_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys, "ps1", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with System("simpleSystemBase") as one, System("simpleSystemBase") as two:
            assert System.running()[-2:] == [one, two]
