"""Tensors in a message: what is shared stays shared, and what no tensor shows is not sent."""

from __future__ import annotations

from typing import Any

import pytest

from farref.serialization.frozen import Frozen

from .endpoint import TinyAddress
from .passing import arrived, opened, packed

LITTLE = 2_000


@pytest.fixture(scope="module")
def torch() -> Any:
    """Imported here, as the processes that other files' tests start are forks of pytest's."""
    return pytest.importorskip("torch", reason="torch is not installed here")


def test_storages_stay_shared(torch: Any) -> None:
    whole = torch.ones(100_000)
    came = opened(arrived(packed([whole[:10], whole, {"a": whole.view(100, 1000).t()}])))
    came[0].zero_()
    assert came[1][:12].tolist() == [0] * 10 + [1] * 2
    assert came[2]["a"][:12, 0].tolist() == came[1][:12].tolist()
    assert whole.sum() == 100_000


def test_parameters_that_are_views_of_one_buffer(torch: Any) -> None:
    module = torch.nn.Module()
    module.flat = torch.nn.Parameter(torch.ones(8))
    module.part = torch.nn.Parameter(module.flat.data[2:4])
    came = opened(arrived(packed(module)))
    came.flat.data.zero_()
    assert came.part.sum() == 0
    assert isinstance(came.part, torch.nn.Parameter)


@pytest.mark.parametrize("frozen", [False, True])
def test_only_what_is_shown_is_sent(frozen: bool, torch: Any) -> None:
    came: list[Any] = []
    whole = torch.arange(1_000_000.0)
    square = whole.view(1000, 1000)
    for value in (
        [whole[5:15]],
        [square[:100, 3]],
        [whole[7]],
        [whole[:0]],
        [whole[:10], whole[5:20], whole[-10:], whole[500_000:500_003].view(torch.int32)],
    ):
        pickled = Frozen.of(value, TinyAddress) if frozen else None
        payload: Any = pickled.pickled if pickled else packed(value)
        assert payload.size < LITTLE
        came = pickled.thaw() if pickled else opened(arrived(payload))
        assert all(map(torch.equal, came, value))
        assert sum({each.untyped_storage().nbytes() for each in came}) < LITTLE
        assert len({each.untyped_storage().data_ptr() for each in came}) == 1
    came[0].zero_()
    assert came[1][:6].tolist() == [0] * 5 + [10]


def test_whole_storages_keep_strides_and_places(torch: Any) -> None:
    whole = torch.arange(90_000.0).view(300, 300)
    small = torch.arange(25.0).view(5, 5)
    for value in whole.t(), whole[:, 5:], whole[100:], whole.t()[None], small[:, 2:4], small[:, 3]:
        came = opened(arrived(packed(value)))
        assert torch.equal(came, value)
        assert (came.stride(), came.storage_offset()) == (value.stride(), value.storage_offset())


def test_frozen_tensors_are_copies(torch: Any) -> None:
    frozen = Frozen.of({"a": torch.ones(100_000)}, TinyAddress)
    frozen.thaw()["a"].zero_()
    assert frozen.thaw()["a"].sum() == 100_000
