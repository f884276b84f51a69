"""Addresses and endpoints are equal by what they name, also for `!=`."""

from __future__ import annotations

from typing import Any

import pytest
from thespian.actors import ActorAddress

from farref.actors.base.addresses import Address
from farref.actors.wire.messages import WorkerInfo
from farref.protocol.ids import WorkerId

HERE, THERE = ActorAddress("here"), ActorAddress("there")
A, B = WorkerId("A", 1), WorkerId("B", 2)


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        (WorkerInfo(A, HERE), WorkerInfo(A, THERE), WorkerInfo(B, HERE)),
        (Address("a", "/here"), Address("a", "/there"), Address("b", "/here")),
    ],
)
def test_equal_by_the_name(one: Any, same: Any, other: Any) -> None:
    assert one == same
    assert not one != same  # noqa: SIM202 - `!=` is a method of its own
    assert one != other
    assert not one == other  # noqa: SIM201
    assert hash(one) == hash(same)
