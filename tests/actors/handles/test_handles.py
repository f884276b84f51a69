"""`RRef`: identity, owner, equality, and its own texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RRef

from ..helpers import Box, make_box, until

if TYPE_CHECKING:
    from farref import System


def test_the_owner_has_the_identical_object_wherever_the_reference_has_been(system: System) -> None:
    box = Box(1)
    ref = RRef(box)
    assert ref.local_value() is box
    assert ref.is_owner()
    assert ref.confirmed_by_owner()
    assert ref.owner_name() == "program"
    back = farref.rpc_sync("B", _echo, (ref,))
    assert back == ref
    assert back.is_owner()
    assert back.local_value() is box


def _echo(value: Any) -> Any:
    return value


def test_the_owner_is_known_at_once_and_confirms_soon(system: System) -> None:
    ref = farref.remote("B", make_box)
    assert ref.owner() == farref.get_worker_info("B")
    assert ref.owner_name() == "B"
    assert until(system, ref.confirmed_by_owner)


def test_references_of_one_object_are_equal_and_hash_alike(system: System) -> None:
    ref = farref.remote("B", make_box)
    copy = farref.rpc_sync("C", _echo, (ref,))
    other = farref.remote("B", make_box)
    assert copy == ref
    assert copy.id == ref.id
    assert hash(copy) == hash(ref)
    assert len({ref, copy}) == 1
    assert other != ref
    assert ref != ref.id


def test_a_reference_cannot_be_changed_or_shown_wrong(system: System) -> None:
    ref = RRef(1)
    assert repr(ref).startswith("RRef(program/")
    with pytest.raises(AttributeError):
        ref.extra = 1  # type: ignore[attr-defined]  # wrong on purpose
