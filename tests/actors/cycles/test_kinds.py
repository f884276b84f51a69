"""Rings through values of many types: what Python's own collector sees goes, the rest stays."""

from __future__ import annotations

import asyncio
import collections
import contextlib
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

from farref import System, remote, rpc_async, rpc_sync

from ...waiting import eventually
from ..helpers import PATIENCE
from .test_collecting import (
    HELD,
    NAMES,
    Holder,
    Node,
    assert_goes,
    assert_stays,
    closed,
    ids,
    release,
    there,
)
from .test_scan import BESIDE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = pytest.mark.processes


class Slots:
    __slots__ = ("beside", "ref")

    def __init__(self, ref: Any) -> None:
        self.ref = ref
        self.beside = np.zeros(1_000)


class Pair(NamedTuple):
    one: Any
    other: Any


@dataclasses.dataclass(slots=True)
class Data:
    ref: Any


class Tagged(np.random.Generator):
    """An object that C code of a package makes, with an attribute."""

    ref: Any


def _tagged(ref: Any) -> Tagged:
    made = Tagged(np.random.PCG64(1))
    made.ref = ref
    return made


class Final:
    """Its finalizer counts its runs."""

    def __init__(self, ref: Any) -> None:
        self.ref = ref

    def __del__(self) -> None:
        HELD["final"] = HELD.get("final", 0) + 1


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


def same(value: Any) -> Any:
    return value


def _in_cache(ref: Any) -> Any:
    made = functools.lru_cache(maxsize=8)(same)
    made(ref)
    return made


def _in_attribute_of_function(ref: Any) -> Any:
    def made() -> None:
        pass

    made.ref = ref  # type: ignore[attr-defined]  # any function has attributes
    return made


def _in_async_generator(ref: Any) -> Any:
    async def suspended(ref: Any) -> AsyncIterator[Any]:
        yield 1
        yield ref

    made = suspended(ref)
    with contextlib.suppress(StopIteration):
        made.__anext__().send(None)  # type: ignore[attr-defined]  # it runs without a loop
    return made


def _in_future(ref: Any) -> Any:
    future = rpc_async("D", same, args=(ref,))
    future.result()
    return future


def _in_thread(ref: Any) -> Any:
    """The thread that runs this has the attributes of the object."""
    made = threading.local()
    made.ref = ref
    return made


def _in_module(ref: Any) -> Any:
    module = types.ModuleType("made")
    module.ref = ref  # type: ignore[attr-defined]  # any module has attributes
    return module


SEEN: dict[str, Any] = {
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
    "asynchronous generator": _in_async_generator,
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
    "module": _in_module,
    "thread's own attributes": _in_thread,
    "weak reference to a part": lambda ref: (made := Holder(ref), weakref.ref(made)),
    "object that a package makes in C": _tagged,
}
"""The collector does not look into these, or the search does not, or does not trust them."""


class Enclosing(Node):
    """A node that holds its neighbour in a value of some type."""

    def enclose(self, how: str, ref: Any) -> None:
        self.links.append((BESIDE[how][0] if how in BESIDE else (SEEN | UNSEEN)[how])(ref))

    def beside(self, name: str, how: str) -> None:
        """Code has what gives out the contents of a part of the value; see `BESIDE`."""
        HELD[name] = BESIDE[how][1](self.links[-1])

    def busy(self, name: str, how: str) -> None:
        """Code that runs has a handle of the neighbour: it is in no value any more."""
        found = [self.links.pop()]
        HELD[name] = (ended := threading.Event())
        begun = threading.Event()
        threading.Thread(target=BUSY[how], args=(found, begun, ended), daemon=True).start()
        begun.wait(PATIENCE)


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


BUSY: dict[str, Any] = {
    "generator": _in_generator,
    "coroutine": _in_coroutine,
    "construction": _in_construction,
    "C code": _in_c,
}


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System(timeout=20) as made:
        for name in NAMES:
            made.worker(name)
        yield made


def open_all() -> None:
    """Open the rings that no program reaches."""
    for each in gc.get_objects():
        if issubclass(type(each), Node):
            each.links.clear()


def finals() -> int:
    return int(HELD.pop("final", 0))


def ring(how: str) -> list[Any]:
    nodes = [remote("B", Enclosing), remote("C", Enclosing)]
    nodes[0].rpc_sync().enclose(how, nodes[1])
    nodes[1].rpc_sync().link(nodes[0])
    return nodes


@pytest.mark.parametrize("how", SEEN)
def test_a_ring_that_the_collector_sees_goes(system: System, how: str) -> None:
    names = ids(nodes := ring(how))
    assert_stays(system, names)
    nodes.clear()
    assert_goes(system, names)
    if how == "finalizer":
        eventually(lambda: rpc_sync("B", finals))
    assert not rpc_sync("B", finals)  # once


@pytest.mark.parametrize("how", UNSEEN)
def test_a_ring_that_the_collector_does_not_see_stays_until_it_is_opened(
    system: System, how: str
) -> None:
    names = ids(nodes := ring(how))
    nodes.clear()
    assert_stays(system, names)
    rpc_sync("B", open_all)
    assert_goes(system, names)


@pytest.mark.parametrize("how", BESIDE)
def test_what_gives_out_the_contents_of_a_part_keeps_a_ring(system: System, how: str) -> None:
    """The ring stays, though no count of Python's may tell of it."""
    nodes = [remote("B", Enclosing), remote("C", Enclosing)]
    nodes[0].rpc_sync().enclose(how, nodes[1])
    nodes[1].rpc_sync().link(nodes[0])
    names = ids(nodes)
    nodes[0].rpc_sync().beside("beside", how)
    nodes.clear()
    assert_stays(system, names)
    rpc_sync("B", release, args=("beside",))
    assert_goes(system, names)


@pytest.mark.parametrize("how", BUSY)
def test_what_running_code_reaches_stays(system: System, how: str) -> None:
    nodes = [remote("B", Enclosing), *closed([remote("C", Enclosing), remote("D", Enclosing)])]
    nodes[0].rpc_sync().link(nodes[1])
    names = ids(nodes[1:])  # a ring, and before it an object on B with a thread that has a handle
    nodes[0].rpc_sync().busy("busy", how)
    nodes.clear()
    assert_stays(system, names)
    rpc_sync("B", finish, args=("busy",))
    assert_goes(system, names)


def finish(name: str) -> None:
    HELD.pop(name).set()


def watch(name: str) -> None:
    """A finalizer of the user's is a weak reference: it keeps the ring."""
    HELD[f"{name} finalizer"] = weakref.finalize(HELD.pop(name), print)


def unwatch(name: str) -> None:
    HELD.pop(f"{name} finalizer").detach()


def test_a_weak_reference_keeps_a_ring(system: System) -> None:
    names = ids(nodes := ring("deque"))
    nodes[0].rpc_sync().hold("watched")
    rpc_sync("B", watch, args=("watched",))
    nodes.clear()
    assert_stays(system, names)
    rpc_sync("B", unwatch, args=("watched",))
    assert_goes(system, names)
    assert not there(system, names)
