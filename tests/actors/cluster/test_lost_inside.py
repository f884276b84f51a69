"""A value comes although the owner of a reference in it has died; the use of that reference raises.

In every discipline, and with exact counts afterwards.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import OwnerDiedError, RRef, System, WorkerDiedError

from ..helpers import assert_nothing_held, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.processes


@pytest.fixture(params=["lend", "borrow", "fork"])
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    """A system with a worker C, and a worker B that will die."""
    with System(sharing=request.param, timeout=20, orphan_grace=0.2) as system:
        system.worker("B"), system.worker("C"), system.worker("D")
        yield system


KEPT: list[Any] = []


def keep(value: Any) -> None:
    KEPT.append(value)


def kept() -> Any:
    return KEPT[0]


def forget() -> None:
    KEPT.clear()


def same(value: Any) -> Any:
    return value


def kill(system: System, name: str) -> None:
    with pytest.raises(WorkerDiedError):
        farref.rpc_sync(name, os._exit, (1,))
    assert until(system, lambda: name not in [info.name for info in system.workers()])


def check(value: Any) -> None:
    assert value["data"] == 1
    with pytest.raises(OwnerDiedError):
        value["ref"].to_here()
    with pytest.raises(OwnerDiedError):
        value["ref"].rpc_sync().append(1)
    with pytest.raises(OwnerDiedError):
        farref.rpc_sync("D", same, (value["ref"],))


def stored(ref: RRef[Any]) -> RRef[Any]:
    return farref.remote("C", same, ({"ref": ref, "data": 1},))


def frozen(ref: RRef[Any]) -> RRef[Any]:
    return farref.remote("C", same, ({"ref": ref, "data": 1},), frozen=True)


def alias(ref: RRef[Any]) -> RRef[Any]:
    return farref.remote("D", same, (stored(ref),))


@pytest.mark.parametrize("make", [stored, frozen, alias], ids=lambda make: make.__name__)
def test_a_value_with_a_dead_reference_is_fetched(
    system: System, make: Callable[[RRef[Any]], RRef[Any]]
) -> None:
    ref = farref.remote("B", list)
    container = make(ref)
    farref.wait([container])
    kill(system, "B")
    del ref
    check(container.to_here())
    check(container.to_here())
    check(farref.get([container])[0])
    check(farref.rpc_sync("D", RRef.to_here, (container,)))
    del container
    assert_nothing_held(system)


def test_results_with_dead_references_come(system: System) -> None:
    ref = farref.remote("B", list)
    farref.rpc_sync("C", keep, ({"ref": ref, "data": 1},))
    kill(system, "B")
    del ref
    check(farref.rpc_sync("C", kept))
    check(farref.rpc_sync("D", farref.rpc_sync, ("C", kept)))
    check(farref.remote("C", kept).to_here())
    farref.rpc_sync("C", forget)
    assert_nothing_held(system)


def test_it_dies_while_the_value_is_asked_for_again_and_again(system: System) -> None:
    """Whoever learns of the death first: the value comes."""
    ref = farref.remote("B", list)
    container = stored(ref)
    died: farref.Future[None] = farref.rpc_async("B", os._exit, (1,))
    assert all(container.to_here()["data"] == 1 for _ in range(200))
    assert isinstance(died.exception(), WorkerDiedError)
    del ref
    check(container.to_here())
    del container, died
    assert_nothing_held(system)
