"""References that Python has collected with their cycle, before its objects' `__del__` runs."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RefLostError, RRef

from ..helpers import make_box, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from farref import System


class Cycle:
    """An object that refers to itself; its `__del__` uses and keeps its reference."""

    def __init__(self, ref: RRef[Any], use: Callable[[RRef[Any]], object] = repr) -> None:
        self.ref, self.use, self.itself = ref, use, self

    def __del__(self) -> None:
        farref.references()  # one step: the count of the collected reference ends in it
        KEPT.append(self.ref)
        try:
            self.use(self.ref)
        except BaseException as error:
            ERRORS.append(error)


KEPT: list[RRef[Any]] = []
ERRORS: list[BaseException] = []


@pytest.fixture(autouse=True)
def _nothing_kept() -> Any:
    yield
    KEPT.clear()
    ERRORS.clear()


def far(system: System) -> RRef[Any]:
    """A reference to an object on B that no message keeps any more."""
    ref = farref.remote("B", make_box)
    assert until(system, ref.confirmed_by_owner)
    return ref


def mine(_: System) -> RRef[Any]:
    return RRef(0)


def echo(value: Any) -> Any:
    return value


USES: dict[str, Callable[[RRef[Any]], object]] = {
    "call": lambda ref: ref.rpc_sync().get(),
    "create": lambda ref: ref.remote().get(),
    "fetch": lambda ref: ref.to_here(),
    "future": lambda ref: ref.future(),
    "owner": lambda ref: ref.owner(),
    "value": lambda ref: ref.local_value(),
    "argument": lambda ref: farref.rpc_sync("B", echo, (ref,)),
    "many arguments": lambda ref: farref.rpc_sync("B", echo, ([ref] * 9,)),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("make", [mine, far])
def test_a_finalizer_that_uses_one_gets_an_error_that_names_the_cycle(
    system: System, make: Callable[[System], RRef[Any]], use: str
) -> None:
    cycle = Cycle(make(system), USES[use])
    rref = cycle.ref.id
    del cycle
    gc.collect()
    (error,) = ERRORS
    assert type(error) is RefLostError
    assert f"the reference to {rref} was collected with its cycle of Python objects" in str(error)


def test_a_saved_one_is_an_error_from_then_on(system: System) -> None:
    cycle = Cycle(far(system))
    del cycle
    gc.collect()
    (ref,) = KEPT
    assert ERRORS == []
    assert repr(ref) == f"RRef({ref.id}, collected)"
    assert farref.wait([ref]) == ([ref], [])
    with pytest.raises(RefLostError, match="was collected with its cycle"):
        ref.rpc_sync().get()


def test_another_reference_to_the_object_stays_good(system: System) -> None:
    outside = farref.remote("B", make_box, (7,))
    cycle = Cycle(farref.rpc_sync("C", echo, (outside,)), lambda ref: ref.rpc_sync().put(8))
    del cycle
    gc.collect()
    assert ERRORS == []
    assert outside.rpc_sync().get() == 8


def collected() -> RRef[Any]:
    cycle = Cycle(RRef(0))
    del cycle
    gc.collect()
    return KEPT.pop()


def test_a_function_that_returns_one_has_the_error_for_its_result(system: System) -> None:
    with pytest.raises(RefLostError, match="was collected with its cycle"):
        farref.remote("B", collected).to_here()
    with pytest.raises(RefLostError, match="was collected with its cycle"):
        farref.rpc_sync("B", collected)
