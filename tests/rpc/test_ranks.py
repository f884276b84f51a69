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


TWICE = "name 'same' is not unique: ranks 0 and 1 have it"
GONE, ABSENT = "rank 1: 'worker1' is gone", "of 3 ranks 1 did not come"


@pytest.mark.parametrize(
    ("part", "size", "only", "codes", "said"),
    [
        (("none",), 1, None, [0], [""]),
        (("at once",), 3, None, [0, 0, 0], ["", "", ""]),
        (("same names",), 2, None, [1, 1], [TWICE, TWICE]),
        (("none", "10"), 2, (0,), [1], ["of 2 ranks 1 did not come to 127.0.0.1:"]),
        (("none", "10"), 2, (1,), [1], ["rank 0 did not start at 127.0.0.1:"]),
        (("die", "10"), 3, None, [1, 3, 1], [GONE, "", GONE]),
        (("die early", "10"), 3, None, [1, 3, 1], [ABSENT, "", ABSENT]),
    ],
    ids=["alone", "leave at once", "same names", "no rank 1", "no rank 0", "dies", "dies early"],
)
def test_how_ranks_end(
    part: tuple[str, ...],
    size: int,
    only: tuple[int, ...] | None,
    codes: list[int],
    said: list[str],
) -> None:
    ended = launch(RANKS, size, *part, only=only)
    assert [code for code, _, _ in ended] == codes, ended
    for (_, _, errors), each in zip(ended, said, strict=True):
        assert each in errors, ended


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
            assert out.strip() == "ended"
