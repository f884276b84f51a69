"""G4 and G5: a value is freed when no reference to it is left, and never before."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import farref
from farref import RRef

from ..helpers import Box, idle, make_box, until

if TYPE_CHECKING:
    from farref import System

_kept: dict[str, list[Any]] = {}
"""Values that functions of these tests keep, for each endpoint (several may share a process)."""


def kept() -> list[Any]:
    return _kept.setdefault(farref.get_worker_info().name, [])


def keep(value: Any) -> None:
    kept().append(value)


def let_go() -> int:
    count = len(kept())
    kept().clear()
    gc.collect()
    return count


def use_kept() -> Any:
    return kept()[0].to_here()


def test_a_value_nobody_holds_is_freed(system: System) -> None:
    box = Box()
    watch = weakref.ref(box)
    ref = RRef(box)
    del box
    assert watch() is not None
    del ref
    assert until(system, lambda: watch() is None)


def test_a_value_that_another_holds_is_kept(system: System) -> None:
    box = Box(1)
    watch = weakref.ref(box)
    ref = RRef(box)
    farref.rpc_sync("B", keep, (ref,))
    del ref, box
    idle(system, 0.1)
    gc.collect()
    assert watch() is not None
    assert farref.rpc_sync("B", use_kept).content == 1
    assert farref.rpc_sync("B", let_go) == 1
    assert until(system, lambda: watch() is None)


def test_a_value_lives_while_it_is_only_on_its_way(system: System) -> None:
    farref.rpc_sync("C", keep, (farref.remote("B", make_box, (5,)),))
    idle(system, 0.1)
    assert farref.rpc_sync("C", use_kept).content == 5
    assert farref.rpc_sync("C", let_go) == 1


def test_on_delete_is_called_once_with_the_value(system: System) -> None:
    calls: list[tuple[Any, bool]] = []
    main = threading.get_ident()
    box = Box()
    ref = RRef(box, on_delete=lambda value: calls.append((value, threading.get_ident() == main)))
    farref.rpc_sync("B", keep, (ref,))
    del ref
    idle(system, 0.05)
    assert calls == []
    farref.rpc_sync("B", let_go)
    assert until(system, lambda: calls)
    assert calls == [(box, False)]


def test_an_on_delete_that_raises_harms_nothing(system: System) -> None:
    RRef(1, on_delete=lambda _: 1 / 0)
    seen: list[int] = []
    RRef(2, on_delete=seen.append)
    assert until(system, lambda: seen == [2])


def test_references_in_closures_are_counted(system: System) -> None:
    box = Box(3)
    watch = weakref.ref(box)
    ref = RRef(box)
    farref.rpc_sync("B", keep, (_closure(ref),))
    del ref, box
    idle(system, 0.1)
    assert watch() is not None
    assert farref.rpc_sync("B", let_go) == 1
    assert until(system, lambda: watch() is None)


def _closure(ref: RRef[Any]) -> Any:
    return lambda: ref


def test_references_inside_values_hold_what_they_refer_to(system: System) -> None:
    box = Box(3)
    watch = weakref.ref(box)
    outer = farref.remote("B", make_box, ([RRef(box)],))
    outer.rpc_sync().get()
    del box
    idle(system, 0.05)
    assert watch() is not None
    del outer
    assert until(system, lambda: watch() is None)


def test_a_chain_through_several_endpoints_is_freed(system: System) -> None:
    box = Box(3)
    watch = weakref.ref(box)
    ref: RRef[Any] = RRef(box)
    del box
    for name in ("B", "C", "B", "C"):
        ref = farref.remote(name, make_box, (ref,))
    assert ref.to_here().content.to_here().content.to_here().content.to_here() is not None
    del ref
    assert until(system, lambda: watch() is None)


def test_a_value_in_a_cycle_of_python_objects_is_freed_by_the_collector(system: System) -> None:
    box = Box()
    watch = weakref.ref(box)
    holder: list[Any] = [RRef(box)]
    holder.append(holder)
    del box, holder
    gc.collect()
    assert until(system, lambda: watch() is None)


def test_a_stored_exception_pins_nothing(system: System) -> None:
    box = Box(1)
    watch = weakref.ref(box)
    failed = farref.remote("B", _fail_with, (RRef(box),))
    del box
    assert isinstance(failed.future().exception(), ValueError)
    assert until(system, lambda: watch() is None)


def _fail_with(ref: RRef[Box]) -> None:
    local = ref  # in the frame of the exception's traceback
    raise ValueError(f"failed with {local.id}")


def test_an_exception_that_carries_a_reference_pins_nothing(system: System) -> None:
    box = Box(1)
    watch = weakref.ref(box)
    failed = farref.remote("B", _raise_carrying, (RRef(box),))
    del box
    assert type(failed.future().exception()) is Carrying
    assert watch() is not None, "the error has it"
    del failed
    assert until(system, lambda: watch() is None)


class Carrying(Exception):
    pass


def _raise_carrying(ref: RRef[Box]) -> None:
    raise Carrying(ref)


def test_a_thousand_references_in_one_call(system: System) -> None:
    boxes = [Box(n) for n in range(1000)]
    watches = [weakref.ref(box) for box in boxes]
    refs = [RRef(box) for box in boxes]
    farref.rpc_sync("B", keep, (refs,))
    del boxes, refs
    idle(system, 0.1)
    assert sum(watch() is not None for watch in watches) == 1000
    farref.rpc_sync("C", _take_over, (farref.rpc_sync("B", _hand_out),))
    assert farref.rpc_sync("B", let_go) == 1
    idle(system, 0.1)
    assert sum(watch() is not None for watch in watches) == 1000
    assert farref.rpc_sync("C", let_go) == 1
    assert until(system, lambda: not any(watch() for watch in watches))


def _hand_out() -> Any:
    return kept()[0]


def _take_over(refs: Any) -> None:
    kept().append(refs)


def test_the_finalizer_of_a_value_may_use_the_library(system: System) -> None:
    seen: list[int] = []
    RRef(1, on_delete=lambda _: seen.append(farref.rpc_async("B", pow, (2, 3)).result()))
    assert until(system, lambda: seen == [8])


def fail(ref: Any) -> None:
    raise ValueError("on purpose")


def swallow(ref: Any) -> None:
    with contextlib.suppress(ValueError):
        farref.rpc_sync("B", fail, (ref,))


def test_an_exception_pins_nothing_of_the_caller(system: System) -> None:
    gc.collect()
    gc.disable()
    try:
        swallow(RRef([1]))
        assert until(system, lambda: not farref.references())
    finally:
        gc.enable()
