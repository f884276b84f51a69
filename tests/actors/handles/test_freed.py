"""G4 and G5: a value is freed when no reference to it is left, and never before."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RRef

from ..helpers import Box, come_to_rest, make_box, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from farref import System

    Holder = tuple[Any, Callable[[Any], Any]]

LEVELS = 1_000
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
    it = kept()[0]
    return (it if isinstance(it, RRef) else it()).to_here()


# ---- what keeps a value


def in_a_worker(ref: RRef[Any]) -> Holder:
    farref.rpc_sync("B", keep, (ref,))
    return None, lambda _: farref.rpc_sync("B", use_kept)


def in_a_closure(ref: RRef[Any]) -> Holder:
    farref.rpc_sync("B", keep, (lambda: ref,))
    return None, lambda _: farref.rpc_sync("B", use_kept)


def in_a_value(ref: RRef[Any]) -> Holder:
    outer = farref.remote("B", make_box, ([ref],))
    return outer, lambda outer: outer.to_here().content[0].to_here()


def in_one_of_two_values(ref: RRef[Any]) -> Holder:
    both = [farref.remote(name, make_box, (ref,)) for name in "BC"]
    farref.wait(both, 2)
    return both.pop(), lambda outer: walk(outer, 1)


def by_two_paths(ref: RRef[Any]) -> Holder:
    first = farref.remote("B", make_box, (ref,))
    second = farref.remote("C", make_box, ([ref, first],))
    first_id = first.id

    def read(second: RRef[Any]) -> Any:
        inner, again = second.to_here().content
        assert again.id == first_id
        assert again.to_here().content == inner
        return inner.to_here()

    return second, read


def in_what_was_fetched(ref: RRef[Any]) -> Holder:
    """The outer object is gone."""
    outer = farref.remote("B", make_box, ([ref],))
    return outer.to_here().content, lambda content: content[0].to_here()


def in_an_error(ref: RRef[Any]) -> Holder:
    failed = farref.remote("B", _raise_carrying, (ref,))
    return failed, lambda failed: failed.future().exception().args[0].to_here()


class Carrying(Exception):
    pass


def _raise_carrying(ref: RRef[Box]) -> None:
    raise Carrying(ref)


def chain(ref: RRef[Any], levels: int) -> RRef[Any]:
    for _ in range(levels):
        ref = RRef(Box(ref))
    return ref


def chain_of_calls(ref: RRef[Any], levels: int) -> RRef[Any]:
    for _ in range(levels):
        ref = farref.remote(farref.get_worker_info(), make_box, (ref,))
    return ref


def walk(ref: RRef[Any], levels: int) -> Any:
    """The value *levels* down; fetches each level's value from its owner."""
    for _ in range(levels):
        ref = (ref.local_value() if ref.is_owner() else ref.to_here()).content
    return ref.to_here()


def in_a_chain_here(ref: RRef[Any]) -> Holder:
    return chain(ref, LEVELS), lambda outer: walk(outer, LEVELS)


def in_a_chain_there(ref: RRef[Any]) -> Holder:
    outer = farref.rpc_sync("B", chain, (ref, LEVELS))
    return outer, lambda outer: farref.rpc_sync("B", walk, (outer, LEVELS))


def in_a_chain_of_calls_there(ref: RRef[Any]) -> Holder:
    outer = farref.rpc_sync("B", chain_of_calls, (ref, LEVELS))
    return outer, lambda outer: farref.rpc_sync("B", walk, (outer, LEVELS))


def in_a_chain_that_alternates_between_workers(ref: RRef[Any]) -> Holder:
    """Of which the first third is gone."""
    for level in range(300):
        ref = farref.remote("BC"[level % 2], make_box, (ref,))
    return walk(ref, 100), lambda box: walk(box.content, 199)


@pytest.mark.parametrize(
    "hold",
    [
        *(in_a_worker, in_a_closure, in_a_value, in_one_of_two_values, by_two_paths),
        *(in_what_was_fetched, in_an_error, in_a_chain_here, in_a_chain_there),
        *(in_a_chain_of_calls_there, in_a_chain_that_alternates_between_workers),
    ],
)
def test_a_value_lives_while_something_holds_it_and_no_longer(
    system: System, hold: Callable[[RRef[Any]], Holder]
) -> None:
    box = Box(7)
    watch = weakref.ref(box)
    holder, read = hold(RRef(box))
    del box
    come_to_rest(system)
    gc.collect()
    assert watch() is not None
    assert read(holder).content == 7
    del holder
    farref.rpc_sync("B", let_go)
    assert until(system, lambda: watch() is None)


def test_a_value_releases_what_it_no_longer_refers_to(system: System) -> None:
    box = Box()
    watch = weakref.ref(box)
    outer = farref.remote("B", make_box, (RRef(box),))
    del box
    farref.wait([outer])
    come_to_rest(system)
    assert watch() is not None
    outer.rpc_sync().put(None)
    assert until(system, lambda: watch() is None)


def test_a_value_lives_while_it_is_only_on_its_way(system: System) -> None:
    farref.rpc_sync("C", keep, (farref.remote("B", make_box, (5,)),))
    come_to_rest(system)
    assert farref.rpc_sync("C", use_kept).content == 5
    assert farref.rpc_sync("C", let_go) == 1


def hand_out() -> Any:
    return kept()[0]


def test_a_thousand_references_in_one_call(system: System) -> None:
    boxes = [Box(n) for n in range(1000)]
    watches = [weakref.ref(box) for box in boxes]
    refs = [RRef(box) for box in boxes]
    farref.rpc_sync("B", keep, (refs,))
    del boxes, refs
    come_to_rest(system)
    assert all(watch() is not None for watch in watches)
    farref.rpc_sync("C", keep, (farref.rpc_sync("B", hand_out),))
    assert farref.rpc_sync("B", let_go) == 1
    come_to_rest(system)
    assert all(watch() is not None for watch in watches)
    assert farref.rpc_sync("C", let_go) == 1
    assert until(system, lambda: not any(watch() for watch in watches))


# ---- what keeps nothing


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


def swallow(ref: Any) -> None:
    with contextlib.suppress(ValueError):
        farref.rpc_sync("B", _fail_with, (ref,))


def test_an_exception_pins_nothing_of_the_caller(system: System) -> None:
    gc.collect()
    gc.disable()
    try:
        swallow(RRef([1]))
        assert until(system, lambda: not farref.references())
    finally:
        gc.enable()


# ---- on_delete


def test_on_delete_is_called_once_with_the_value(system: System) -> None:
    calls: list[tuple[Any, bool]] = []
    main = threading.get_ident()
    box = Box()
    ref = RRef(box, on_delete=lambda value: calls.append((value, threading.get_ident() == main)))
    farref.rpc_sync("B", keep, (ref,))
    del ref
    come_to_rest(system)
    assert calls == []
    farref.rpc_sync("B", let_go)
    assert until(system, lambda: calls)
    assert calls == [(box, False)]


def test_an_on_delete_may_raise_and_use_the_library(system: System) -> None:
    seen: list[int] = []
    RRef(1, on_delete=lambda _: 1 / 0)
    RRef(2, on_delete=seen.append)
    assert until(system, lambda: seen == [2])
    RRef(1, on_delete=lambda _: seen.append(farref.rpc_async("B", pow, (2, 3)).result()))
    assert until(system, lambda: seen == [2, 8])
