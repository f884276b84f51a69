"""The comparison of counts, beside Python's own garbage collector, on random heaps."""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farref.actors.cycles import exact, reading
from farref.serialization.contains import namespaces

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator


class Node:
    """An object with attributes."""

    def __init__(self) -> None:
        self.links: list[Any] = []


SHAPES: list[Any] = [
    lambda other: other,
    lambda other: [other],
    lambda other: (other,),
    lambda other: {"key": other},
    lambda other: lambda: other,
    lambda other: other.links.append,
    lambda other: {id(other): [other, other]},
]
LINKS = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 7), st.sampled_from(SHAPES)), max_size=16
)


def heap(links: list[tuple[int, int, Any]]) -> list[Node]:
    nodes = [Node() for _ in range(8)]
    for one, other, shape in links:
        nodes[one].links.append(shape(nodes[other]))
    return nodes


def is_alone(box: list[Any], target: int) -> bool | None:
    """Whether only the value in *box* leads to the object *target*; None if it does not lead there.

    *target* is an id.
    """
    walk = reading.Walk(box[0], namespaces(), 1_000)
    leading = walk.leading([target]) if target in walk.met else {}
    twins = reading.twins_of(leading)
    parts = list(leading.values())
    del walk, leading
    roots = {id(box[0])} & set(map(id, parts))
    found = reading.reached(parts, roots, [range(len(parts))], twins=twins)
    return target not in found if parts else None


@settings(max_examples=300, deadline=None)
@given(links=LINKS, target=st.integers(1, 7), outside=st.none() | st.integers(0, 7))
def test_what_counts_as_alone_is_what_python_would_collect(
    links: list[tuple[int, int, Any]], target: int, outside: int | None
) -> None:
    """A value holds node 0. Something outside holds another node, or nothing does."""
    nodes = heap(links)
    keep = [nodes[outside]] if outside is not None else []
    number = id(nodes[target])
    box = [[nodes[0]]]
    nodes.clear()
    gc.collect()  # garbage of this process that leads to the value would count
    found = is_alone(box, number)
    if found is None:
        return
    box.clear()  # the value goes: does Python's collector take the node?
    gc.collect()
    left = [each for each in gc.get_objects() if id(each) == number and type(each) is Node]
    assert found == (not left)
    assert len(keep) < 2


@pytest.mark.parametrize("shape", SHAPES[:5] + SHAPES[6:])
def test_any_shape_is_seen_through(shape: Any) -> None:
    inner = [Node()]
    number = id(inner[0])
    box = [[shape(inner[0])]]
    inner.clear()
    assert is_alone(box, number)


def test_the_variable_of_another_thread_is_seen() -> None:
    node = [Node()]
    number, box = id(node[0]), [[[node[0]]]]
    begun, end = threading.Event(), threading.Event()

    def hold(nodes: list[Node]) -> None:
        kept = nodes.pop()
        begun.set()
        end.wait(60)
        kept.links.clear()

    thread = threading.Thread(target=hold, args=(node,))
    thread.start()
    begun.wait(60)
    assert not is_alone(box, number)
    end.set()
    thread.join()
    assert is_alone(box, number)


class Holder:
    """An object with one in an attribute."""

    def __init__(self, inner: object) -> None:
        self.inner = inner


class Slotted(Holder):
    """It has a dictionary beside its slot."""

    __slots__ = ("more",)


def _generator(inner: object) -> Iterator[object]:
    yield 1
    yield inner


async def _coroutine(inner: object) -> object:
    await _Never()
    return inner


class _Never:
    def __await__(self) -> Generator[None]:
        yield


async def _async_generator(inner: object) -> AsyncIterator[object]:
    await _Never()
    yield inner


def started(made: Any) -> Any:
    """*made*, suspended."""
    (made if hasattr(made, "send") else made.__anext__()).send(None)
    return made


BESIDE: dict[str, tuple[Any, Any]] = {
    "dictionary of attributes": (Holder, vars),
    "dictionary beside slots": (Slotted, vars),
    "frame of a generator": (lambda x: started(_generator(x)), lambda made: made.gi_frame),
    "frame of a coroutine": (lambda x: started(_coroutine(x)), lambda made: made.cr_frame),
    "frame of an async generator": (
        lambda x: started(_async_generator(x)),
        lambda made: made.ag_frame,
    ),
}
"""Objects that give out what another one holds, and may not tell Python that they refer to it."""


@pytest.mark.parametrize("how", BESIDE)
def test_what_gives_out_the_contents_of_a_part_is_seen(how: str) -> None:
    wrap, beside = BESIDE[how]
    inner = [Node()]
    number = id(inner[0])
    box = [[wrap(inner[0])]]
    inner.clear()
    assert is_alone(box, number)
    kept = beside(box[0][0])
    assert not is_alone(box, number)
    del kept
    assert is_alone(box, number)


def _half_evaluated(inner: object) -> Iterator[Any]:
    yield [inner, (yield)]  # the list is not made yet, but refers to *inner* already


def _with_two_names(inner: object) -> Iterator[Any]:
    same = inner
    yield
    yield same


def _in_a_cell(inner: object) -> Iterator[Any]:
    yield [inner, (yield), lambda: inner]


@pytest.mark.parametrize("suspended", [_half_evaluated, _with_two_names, _in_a_cell])
def test_the_references_of_a_suspended_function_are_counted(suspended: Any) -> None:
    """From Python 3.14 on, an expression may borrow its reference from a variable."""
    inner = [Node()]
    number = id(inner[0])
    box = [[started(suspended(inner[0]))]]
    assert not is_alone(box, number)
    inner.clear()
    assert is_alone(box, number)


def test_this_python_is_exact() -> None:
    assert exact.is_exact()


def test_a_python_without_a_global_lock_is_not_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys._is_gil_enabled", lambda: False, raising=False)
    exact.is_exact.cache_clear()
    try:
        assert not exact.is_exact()
    finally:
        exact.is_exact.cache_clear()
