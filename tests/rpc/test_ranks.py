"""Programs that are started by rank, as PyTorch's are."""

from pathlib import Path

import pytest

from .launch import failed, launch

RANKS = Path(__file__).with_name("ranks.py")


@pytest.mark.parametrize(
    ("part", "failing"),
    [
        ("calls", {("int", 0), ("fail", 1)}),
        ("aliases", {("fail", 0), ("fail", 2)}),
        ("names", {("no_such", 0), ("no_such", 1)}),
    ],
)
def test_all_that_a_rank_calls(part: str, failing: set[tuple[str, int]]) -> None:
    found = set()
    for rank, (code, _, errors) in enumerate(launch(RANKS, 3, part)):
        assert code == 0, errors
        found |= failed(rank, errors)
    assert found == failing


def test_the_end_waits_for_calls_that_nobody_waits_for() -> None:
    ended = launch(RANKS, 3, "chain")
    assert [code for code, _, _ in ended] == [0, 0, 0], ended
    assert [out.strip() for _, out, _ in ended] == ["2", "1", "0"]  # the last of each


def test_one_rank_is_a_world() -> None:
    assert [code for code, _, _ in launch(RANKS, 1, "none")] == [0]


def test_two_ranks_with_one_name() -> None:
    for code, _, errors in launch(RANKS, 2, "same names"):
        assert code == 1
        assert "name 'same' is not unique: ranks 0 and 1 have it" in errors, errors


def test_a_rank_that_does_not_come() -> None:
    [(code, _, errors)] = launch(RANKS, 2, "none", "10", only=(0,))
    assert code == 1
    assert "of 2 ranks 1 did not come to 127.0.0.1:" in errors


def test_rank_0_does_not_come() -> None:
    [(code, _, errors)] = launch(RANKS, 2, "none", "10", only=(1,))
    assert code == 1
    assert "rank 0 did not start at 127.0.0.1:" in errors


@pytest.mark.parametrize("when", ["die", "die early"])
def test_a_rank_that_dies(when: str) -> None:
    ended = launch(RANKS, 3, when, "10")
    assert [code for code, _, _ in ended] == [1, 3, 1], ended
    for rank in (0, 2):
        said = "rank 1: 'worker1' is gone" if when == "die" else "of 3 ranks 1 did not come"
        assert said in ended[rank][2], ended


@pytest.mark.parametrize("failing", [0, 1])
def test_a_rank_that_fails_ends_first(failing: int) -> None:
    """`mp.spawn` and torchrun report the error of the process that ends first."""
    ended = launch(RANKS, 3, "raise", "30", str(failing))
    assert [code for code, _, _ in ended] == [1, 1, 1], ended
    for rank, (_, out, errors) in enumerate(ended):
        if rank == failing:
            assert f"rank {failing} fails" in errors
        else:
            assert f"rank {failing}: 'worker{failing}' is gone" in errors, ended
            assert out.strip() == "False", "its process lives on"


def test_leaving_at_once() -> None:
    for code, _, errors in launch(RANKS, 3, "at once"):
        assert code == 0, errors
