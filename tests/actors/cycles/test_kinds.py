"""Rings through values of many types: what Python's own collector sees goes, the rest stays."""

from __future__ import annotations

import asyncio
import collections
import contextvars
import ctypes
import dataclasses
import functools
import gc
import itertools
import threading
import types
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from farref import RRef, System, remote, rpc_async, rpc_sync

from ...waiting import eventually
from ..helpers import PATIENCE
from .rings import HELD, Node, assert_goes, assert_stays, ids, release, same

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterator

    Work = Callable[[list[Any], threading.Event, threading.Event], object]

pytestmark = pytest.mark.processes


# ---- objects that hold a reference


class Holder:
    def __init__(self, ref: Any) -> None:
        self.ref = ref

    def method(self) -> Any:
        return self.ref


class Slots:
    __slots__ = ("beside", "ref")

    def __init__(self, ref: Any) -> None:
        self.ref = ref
        self.beside = np.zeros(1_000)


class Slotted(Holder):
    """It has a dictionary beside its slot."""

    __slots__ = ("more",)


class Pair(NamedTuple):
    one: Any
    other: Any


@dataclasses.dataclass(slots=True)
class Data:
    ref: Any


class Tagged(np.random.Generator):
    """An object that C code of a package makes, with an attribute."""

    ref: Any


class Final:
    """Its finalizer counts its runs."""

    def __init__(self, ref: Any) -> None:
        self.ref = ref

    def __del__(self) -> None:
        HELD["final"] = HELD.get("final", 0) + 1


def with_ref(made: Any, ref: Any) -> Any:
    made.ref = ref
    return made


def _in_context(ref: Any) -> Any:
    context = contextvars.copy_context()
    context.run(contextvars.ContextVar("ref").set, ref)
    return context


def _error(ref: Any) -> Exception:
    def fail(_: Any) -> None:
        raise KeyError("here")

    try:
        fail(ref)
    except KeyError as error:
        return error  # its traceback holds the frame
    raise AssertionError


def _in_cache(ref: Any) -> Any:
    made = functools.lru_cache(maxsize=8)(same)
    made(ref)
    return made


def _in_attribute_of_function(ref: Any) -> Any:
    def made() -> None:
        pass

    return with_ref(made, ref)


def _in_future(ref: Any) -> Any:
    future = rpc_async("D", same, args=(ref,))
    future.result()
    return future


def generator(inner: object) -> Iterator[object]:
    yield 1
    yield inner


def _half_evaluated(inner: object) -> Iterator[Any]:
    yield [inner, (yield)]  # the list is not made yet, but refers to *inner* already


def _with_two_names(inner: object) -> Iterator[Any]:
    again = inner
    yield
    yield again


def _in_a_cell(inner: object) -> Iterator[Any]:
    yield [inner, (yield), lambda: inner]


async def coroutine(inner: object) -> object:
    await _Never()
    return inner


class _Never:
    def __await__(self) -> Generator[None]:
        yield


async def _async_generator(inner: object) -> AsyncIterator[object]:
    await _Never()
    yield inner


def suspended(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Makes a suspended call of *function*."""

    def make(ref: Any) -> Any:
        made = function(ref)
        (made if hasattr(made, "send") else made.__anext__()).send(None)
        return made

    return make


SEEN: dict[str, Any] = {
    "container": lambda ref: {"key": (ref, {"more": [ref]})},
    "closure": lambda ref: lambda: ref,
    "bound method": lambda ref: Holder(ref).method,
    "partial": lambda ref: functools.partial(print, ref),
    "set": lambda ref: {ref},
    "slots beside an array": Slots,
    "deque": lambda ref: collections.deque([ref]),
    "ordered dictionary": lambda ref: collections.OrderedDict(a=ref),
    "iterator": lambda ref: itertools.chain([ref], [1]),
    "context": _in_context,
    "named tuple": lambda ref: Pair(ref, 1),
    "finalizer": Final,
    "data class with slots": Data,
    "cache": _in_cache,
    "attribute of a function": _in_attribute_of_function,
    "future of a call, and its result": _in_future,
    "proxy": lambda ref: ref.rpc_sync(),
    "method of a proxy": lambda ref: ref.rpc_async().count,
    "pointer": lambda ref: (ctypes.py_object(ref), ref),
}
UNSEEN: dict[str, Any] = {
    "array of objects": lambda ref: np.array([ref, None], dtype=object),
    "error with a frame": _error,
    "thread": lambda ref: threading.Thread(target=print, args=(ref,)),
    "future that nobody has asked": lambda ref: rpc_async("D", same, args=(ref,)),
    "class": lambda ref: type("Made", (), {"ref": ref}),
    "module": lambda ref: with_ref(types.ModuleType("made"), ref),
    "thread's own attributes": lambda ref: with_ref(threading.local(), ref),
    "weak reference to a part": lambda ref: (made := Holder(ref), weakref.ref(made)),
    "object that a package makes in C": lambda ref: with_ref(Tagged(np.random.PCG64(1)), ref),
}
"""The collector does not look into these, or the search does not, or does not trust them."""


# ---- code that reaches a value, or a reference in it


def busy(work: Work) -> Callable[[Node], threading.Event]:
    """A thread does *work* with a handle of the value's. Returns the event that ends it."""

    def begin(node: Node) -> threading.Event:
        node.links *= 2
        found = [node.links.pop()]  # the value has the handle, too
        begun, ended = threading.Event(), threading.Event()
        threading.Thread(target=work, args=(found, begun, ended), daemon=True).start()
        begun.wait(PATIENCE)
        return ended

    return begin


def _in_variable(_: list[Any], begun: threading.Event, ended: threading.Event) -> None:
    begun.set()
    ended.wait(PATIENCE)


def _in_generator(found: list[Any], begun: threading.Event, ended: threading.Event) -> None:
    def running(ref: Any) -> Iterator[Any]:
        begun.set()
        ended.wait(PATIENCE)
        yield ref

    next(running(found.pop()))


def _in_coroutine(found: list[Any], begun: threading.Event, ended: threading.Event) -> None:
    async def waiting(ref: Any) -> Any:
        begun.set()
        await asyncio.to_thread(ended.wait, PATIENCE)
        return ref

    asyncio.run(waiting(found.pop()))


def _in_construction(found: list[Any], begun: threading.Event, ended: threading.Event) -> None:
    """Only the interpreter's stack has the handle: a list is being made."""

    def wait() -> bool:
        begun.set()
        return ended.wait(PATIENCE)

    _ = [found.pop(), wait()]


def _in_c(found: list[Any], begun: threading.Event, ended: threading.Event) -> None:
    """Only C code has the handle: `sorted` calls the key function."""

    def key(_: Any) -> int:
        begun.set()
        ended.wait(PATIENCE)
        return 0

    sorted(map(list.pop, [found, [1]]), key=key)


def part(node: Node) -> Any:
    return node.links[-1]


def handle(node: Node) -> Any:
    return next(each for each in gc.get_referents(part(node)) if isinstance(each, RRef))


REACHED: dict[str, tuple[Any, Any]] = {
    "variable": (same, same),
    "weak reference": (same, weakref.ref),
    "finalizer of weakref": (same, lambda node: weakref.finalize(node, print)),
    "variable of a thread": (same, busy(_in_variable)),
    "running generator": (same, busy(_in_generator)),
    "running coroutine": (same, busy(_in_coroutine)),
    "construction": (same, busy(_in_construction)),
    "C code": (same, busy(_in_c)),
    # Some objects give out what another one holds, and may not tell Python that they refer to it.
    "dictionary of attributes": (Holder, lambda node: vars(part(node))),
    "dictionary beside slots": (Slotted, lambda node: vars(part(node))),
    "frame of a generator": (suspended(generator), lambda node: part(node).gi_frame),
    "frame of a coroutine": (suspended(coroutine), lambda node: part(node).cr_frame),
    "frame of an async generator": (suspended(_async_generator), lambda node: part(node).ag_frame),
    # From Python 3.14 on, an expression may borrow its reference from a variable.
    "half evaluated expression": (suspended(_half_evaluated), handle),
    "two variables of one": (suspended(_with_two_names), handle),
    "cell": (suspended(_in_a_cell), handle),
}
"""What encloses the reference in the value, and what code then makes of the value, and keeps."""
WRAPS = SEEN | UNSEEN | {how: wrap for how, (wrap, _) in REACHED.items()}


class Enclosing(Node):
    """A node that holds its neighbour in a value of some type."""

    def enclose(self, how: str, ref: Any) -> None:
        self.links.append(WRAPS[how](ref))

    def reach(self, how: str) -> None:
        HELD["reached"] = REACHED[how][1](self)


def ring(how: str) -> list[Any]:
    nodes: list[Any] = [remote("B", Enclosing), remote("C", Node)]
    nodes[0].rpc_sync().enclose(how, nodes[1])
    nodes[1].rpc_sync().link(nodes[0])
    return nodes


def finals() -> int:
    return int(HELD.pop("final", 0))


@pytest.mark.parametrize("how", SEEN)
def test_a_ring_that_the_collector_sees_goes(system: System, how: str) -> None:
    names = ids(nodes := ring(how))
    assert_stays(system, names)
    nodes.clear()
    assert_goes(system, names)
    if how == "finalizer":
        eventually(lambda: rpc_sync("B", finals))
    assert not rpc_sync("B", finals)  # once


def open_all() -> None:
    """Open the rings that no program reaches."""
    for each in gc.get_objects():
        if issubclass(type(each), Node):
            each.links.clear()


@pytest.mark.parametrize("how", UNSEEN)
def test_a_ring_that_the_collector_does_not_see_stays_until_it_is_opened(
    system: System, how: str
) -> None:
    names = ids(ring(how))
    assert_stays(system, names)
    rpc_sync("B", open_all)
    assert_goes(system, names)


@pytest.mark.parametrize("how", REACHED)
def test_a_ring_that_code_reaches_stays(system: System, how: str) -> None:
    """No program has a reference of the ring in a variable."""
    nodes = ring(how)
    names = ids(nodes)
    nodes[0].rpc_sync().reach(how)
    nodes.clear()
    assert_stays(system, names)
    rpc_sync("B", release, args=("reached",))
    assert_goes(system, names)
