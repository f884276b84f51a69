"""Iterations over the object behind a reference: what comes, when, to whom, and what ends them."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import farref
from farref import (
    FetchTimeoutError,
    Future,
    OwnerDiedError,
    RRef,
    SerializationError,
    System,
    WouldBlockError,
)
from farref.testing import Faults, delay, drop, duplicate

from ...waiting import eventually
from ..helpers import assert_nothing_held, hold, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterator
    from pathlib import Path


def count(number: int) -> Generator[int, None, str]:
    yield from range(number)
    return "the end"


async def count_async(number: int) -> AsyncIterator[int]:
    for each in range(number):
        await asyncio.sleep(0)
        yield each


class Numbers:
    """An iterator that is no generator."""

    def __init__(self, number: int) -> None:
        self.left = deque(range(number))

    def __iter__(self) -> Numbers:
        return self

    def __next__(self) -> int:
        if not self.left:
            raise StopIteration
        return self.left.popleft()


class AsyncNumbers:
    """Iterable only by ``async for``, each time anew."""

    def __aiter__(self) -> AsyncIterator[int]:
        return count_async(5)


class Sequence:
    """Iterable by its indices alone."""

    def __getitem__(self, place: int) -> int:
        return range(5)[place]


def make(kind: Callable[..., Any], *args: Any) -> Any:
    return kind(*args)


ITERATORS = [(count, 5), (count_async, 5), (Numbers, 5), (iter, [0, 1, 2, 3, 4])]
ITERABLES = [(list, range(5)), (dict.fromkeys, range(5)), (range, 5), (Sequence,), (AsyncNumbers,)]


def name(made: tuple[Callable[..., Any], Any]) -> str:
    return made[0].__name__


@pytest.mark.parametrize("made", [*ITERATORS, *ITERABLES], ids=name)
def test_an_iteration_brings_every_item_in_order(made: Any, system: System) -> None:
    assert list(farref.remote("B", make, made)) == [0, 1, 2, 3, 4]
    ref = farref.remote("B", make, made)
    assert farref.rpc_sync("C", list, (ref,)) == [0, 1, 2, 3, 4]
    assert farref.rpc_sync("C", collect, (farref.remote("B", make, made),)) == [0, 1, 2, 3, 4]


async def collect(ref: RRef[Any]) -> list[Any]:
    return [item async for item in ref]


@pytest.mark.parametrize("made", ITERATORS, ids=name)
def test_an_iterator_goes_on_where_it_was_left(made: Any, system: System) -> None:
    ref = farref.remote("B", make, made)
    found = list(itertools.islice(ref, 2))
    for item in ref:
        found.append(item)
        break
    assert [*found, *ref] == [0, 1, 2, 3, 4]
    assert list(ref) == []


@pytest.mark.parametrize("made", ITERABLES, ids=name)
def test_an_iterable_begins_anew(made: Any, system: System) -> None:
    ref = farref.remote("B", make, made)
    assert list(itertools.islice(ref, 2)) == [0, 1]
    assert list(zip(ref, ref, strict=True)) == [(each, each) for each in range(5)]


def test_the_value_of_a_generator(system: System) -> None:
    stream = iter(farref.remote("B", count, (3,)))
    assert list(itertools.islice(stream, 3)) == [0, 1, 2]
    with pytest.raises(StopIteration) as end:
        next(stream)
    assert end.value.value == "the end"


def test_thousands_of_items_take_few_messages(system: System) -> None:
    ref = farref.remote("B", count, (10_000,))
    before = system.counters()["B"].served
    assert list(ref) == list(range(10_000))
    assert system.counters()["B"].served - before < 30


def test_a_thousand_streams_at_once(system: System) -> None:
    refs = [farref.remote("B", count, (3,)) for _ in range(1000)]
    assert list(zip(*refs, strict=True)) == [(each,) * 1000 for each in range(3)]


def test_two_holders_share_an_iterator(system: System) -> None:
    """Each item goes to one of them, and each has its own in order."""
    ref = farref.remote("B", count, (2_000,))
    others: Future[list[int]] = farref.rpc_async("C", list, (ref,))
    mine = list(ref)
    theirs = others.result()
    assert sorted(mine + theirs) == list(range(2_000))
    assert mine == sorted(mine)
    assert theirs == sorted(theirs)


# ---- how far ahead


def produce(made: list[int], number: int, size: int) -> Iterator[bytes]:
    for each in range(number):
        made.append(each)
        yield bytes(size)


made_here: list[int] = []


def start(number: int, size: int = 1) -> Iterator[bytes]:
    made_here.clear()
    return produce(made_here, number, size)


def made_so_far() -> int:
    return len(made_here)


@pytest.mark.parametrize(
    ("options", "used", "most"),
    [
        ({"ahead": 0}, 1, 1),
        ({"ahead": 0}, 4, 4),
        ({"ahead": 5}, 3, 8),
        ({"ahead": 100}, 3, 103),
        ({"ahead": 100, "ahead_bytes": 10_000}, 3, 14),  # of 1,000 bytes each
        ({"ahead_bytes": 10_000}, 3, 24),
    ],
)
def test_the_iterator_does_not_run_without_credit(
    options: dict[str, Any], used: int, most: int, system: System
) -> None:
    ref = farref.remote("B", start, (100_000, 1_000))
    stream = ref.stream(**options)
    assert len(list(itertools.islice(stream, used))) == used
    seen = -1
    while seen != (seen := farref.rpc_sync("B", made_so_far)):
        time.sleep(0.2)
    assert used <= seen <= most


def test_a_slow_stage_slows_those_before_it(system: System) -> None:
    source = farref.remote("B", start, (10_000,))
    stage = farref.remote("C", passing_on, (source,))
    del source
    for number, _ in enumerate(stage.stream(ahead=2)):
        if number == 5:
            break
    time.sleep(0.3)
    assert farref.rpc_sync("B", made_so_far) < 40


def passing_on(source: RRef[Any]) -> Iterator[Any]:
    yield from source.stream(ahead=2)


# ---- when


def is_there(file: Path) -> bool:
    return file.exists()


def write(file: Path, text: str) -> None:
    file.write_text(text)


def bursts(gate: Path) -> Iterator[int]:
    yield from range(3)
    hold(gate)
    yield 3


async def bursts_async(gate: Path) -> AsyncIterator[int]:
    for each in range(3):
        yield each
    while not is_there(gate):  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.01)
    yield 3


@pytest.mark.parametrize("function", [bursts, bursts_async])
def test_items_come_while_the_iterator_takes_long(
    function: Any, system: System, gate: Path
) -> None:
    stream = farref.remote("B", function, (gate,)).stream(ahead=100, timeout=10)
    assert list(itertools.islice(stream, 3)) == [0, 1, 2]
    gate.touch()
    assert list(stream) == [3]


def test_an_item_that_comes_late(system: System, gate: Path) -> None:
    stream = farref.remote("B", bursts, (gate,)).stream(timeout=0.3)
    assert list(itertools.islice(stream, 3)) == [0, 1, 2]
    with pytest.raises(
        FetchTimeoutError, match=r"the next item of program/.* within 0\.3 s.*go on"
    ):
        next(stream)
    with pytest.raises(FetchTimeoutError, match="go on with the iteration"):
        asyncio.run(anext_of(stream))
    gate.touch()
    eventually(lambda: nexts(stream) == [3])


async def anext_of(stream: Any) -> Any:
    return await anext(stream)


def nexts(stream: Iterator[Any]) -> list[Any]:
    try:
        return [next(stream)]
    except FetchTimeoutError:
        return []


def test_a_stream_is_seen_as_what_it_is(system: System, gate: Path) -> None:
    """How far it is, and who waits for whom."""
    ref = farref.remote("B", bursts, (gate,))
    stream = ref.stream(ahead=0)
    assert list(itertools.islice(stream, 3)) == [0, 1, 2]
    assert "an iterator: 3 items so far; it waits for credit" in str(system.why(ref))
    late: Future[int] = farref.rpc_async("C", next_of, (ref,))
    says = "an iterator: 3 items so far; it makes an item for C"
    assert until(system, lambda: says in str(system.why(ref)))
    assert "1 request of C that B has not answered" in str(system.why(ref))
    gate.touch()
    assert late.result() == 3
    assert list(ref) == []
    (info,) = (
        each for each in system.overview().endpoints["B"].streams if each.rref == str(ref.id)
    )
    assert (info.items, info.state) == (4, "has ended")
    assert not system.overview().endpoints["C"].streams


def next_of(ref: RRef[Any]) -> Any:
    return next(iter(ref))


# ---- ends


def fails(gate: Path) -> Iterator[int]:
    yield 0
    yield 1
    raise KeyError(gate)


async def fails_async(gate: Path) -> AsyncIterator[int]:
    yield 0
    yield 1
    raise KeyError(gate)


@pytest.mark.parametrize("function", [fails, fails_async])
def test_an_error_comes_at_its_place(function: Any, system: System, gate: Path) -> None:
    found: list[int] = []
    ref = farref.remote("B", function, (gate,))
    with pytest.raises(KeyError, match="gate") as caught:
        found.extend(ref)
    assert found == [0, 1]
    assert "raise KeyError(gate)" in str(caught.value.__cause__)
    assert list(ref) == []


def notes_its_end(file: Path) -> Iterator[int]:
    try:
        yield from itertools.count()
    finally:
        farref.rpc_sync("B", abs, (-1,))  # it runs in its system
        file.write_text("closed")


async def notes_its_end_async(file: Path) -> AsyncIterator[int]:
    try:
        for each in itertools.count():
            await asyncio.sleep(0)
            yield each
    finally:
        write(file, "closed")


@pytest.mark.parametrize("function", [notes_its_end, notes_its_end_async])
def test_close_ends_it_for_all(function: Any, system: System, tmp_path: Path) -> None:
    ref = farref.remote("B", function, (tmp_path / "end",))
    other = farref.remote("C", make, (held_by, ref))
    stream = ref.stream()
    assert next(stream) == 0
    stream.close()
    assert (tmp_path / "end").read_text() == "closed"
    assert list(stream) == list(ref) == []
    assert farref.rpc_sync("C", list, (ref,)) == []
    del other


def held_by(ref: RRef[Any]) -> list[RRef[Any]]:
    return [ref]


@pytest.mark.parametrize("function", [notes_its_end, notes_its_end_async])
def test_a_generator_is_closed_with_its_last_reference(
    function: Any, system: System, tmp_path: Path
) -> None:
    ref = farref.remote("B", function, (tmp_path / "end",))
    for item in ref:
        if item == 10:
            break
    assert not (tmp_path / "end").exists()
    del ref
    assert until(system, (tmp_path / "end").exists)


@pytest.mark.processes
@pytest.mark.parametrize("function", [notes_its_end, notes_its_end_async])
def test_a_generator_is_closed_if_its_holder_is_killed(
    function: Any, process_system: System, tmp_path: Path
) -> None:
    for name in "BC":
        process_system.worker(name)
    ref = farref.remote("B", function, (tmp_path / "end",))
    begun = farref.remote("C", begin, (ref,))
    assert begun.rpc_sync().__len__() == 2
    del ref
    os.kill(farref.rpc_sync("C", os.getpid), signal.SIGKILL)
    assert until(process_system, (tmp_path / "end").exists)
    del begun
    assert_nothing_held(process_system)


def begin(ref: RRef[Any]) -> list[Any]:
    stream = ref.stream()
    next(stream)
    return [ref, stream]


@pytest.mark.processes
def test_items_that_have_come_are_there_after_the_owners_death(process_system: System) -> None:
    process_system.worker("B")
    stream = farref.remote("B", start, (10_000,)).stream(ahead=20)
    assert len(list(itertools.islice(stream, 2))) == 2  # the next 20 have been asked for
    assert until(process_system, lambda: farref.rpc_sync("B", made_so_far) >= 20)
    time.sleep(0.2)
    os.kill(farref.rpc_sync("B", os.getpid), signal.SIGKILL)
    found: list[bytes] = []
    with pytest.raises(OwnerDiedError):
        found.extend(iter(lambda: next(stream), None))
    with pytest.raises(OwnerDiedError):
        next(stream)


# ---- references


def boxes(number: int) -> Iterator[RRef[int]]:
    for each in range(number):
        yield RRef(each)


async def boxes_async(number: int) -> AsyncIterator[RRef[int]]:
    for each in range(number):
        yield RRef(each)


@pytest.mark.parametrize("function", [boxes, boxes_async])
def test_items_are_references(function: Any, system: System) -> None:
    refs = list(farref.remote("B", function, (100,)))
    assert farref.get(refs) == list(range(100))
    assert farref.rpc_sync("C", get_all, (farref.remote("B", function, (10,)),)) == [*range(10)]
    unused = farref.remote("B", function, (100,)).stream(ahead=50)
    next(unused)


def get_all(ref: RRef[Any]) -> list[Any]:
    return [item.to_here() for item in ref]


def test_references_in_place_of_values(system: System) -> None:
    ref = farref.remote("B", make, (map, np.ones, range(5)))
    refs = list(ref.stream(values=False))
    assert [each.owner_name() for each in refs] == ["B"] * 5
    assert [each.rpc_sync().sum() for each in refs] == [0, 1, 2, 3, 4]


def test_a_function_returns_a_reference_to_a_stream(system: System) -> None:
    """The result is an alias, whose owner passes the first request on."""
    ref = farref.remote("C", elsewhere, ("B", 100))
    assert list(ref) == list(range(100))


def elsewhere(to: str, number: int) -> RRef[Any]:
    return farref.remote(to, count, (number,))


# ---- bad input


def cannot_be_sent(file: Path) -> Iterator[Any]:
    try:
        yield 0
        yield threading.Lock()
        yield 1
    except SerializationError as error:
        file.write_text(str(error))


async def cannot_be_sent_async(file: Path) -> AsyncIterator[Any]:
    try:
        yield 0
        yield threading.Lock()
        yield 1
    except SerializationError as error:
        write(file, str(error))


@pytest.mark.parametrize("function", [cannot_be_sent, cannot_be_sent_async])
def test_an_item_that_cannot_be_sent(function: Any, system: System, tmp_path: Path) -> None:
    """It ends the generator, which gets the error, too."""
    stream = farref.remote("B", function, (tmp_path / "error",)).stream(ahead=10)
    assert next(stream) == 0
    with pytest.raises(
        SerializationError, match=r"an item of the iterator, a _thread\.lock, cannot"
    ):
        next(stream)
    assert "a _thread.lock, cannot be sent" in (tmp_path / "error").read_text()
    assert list(stream) == []


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (list, TypeError, "'int' object is not iterable"),
        (lambda ref: 1 in ref, TypeError, r"write `1 in ref\.rpc_sync\(\)`|in ref\.rpc_sync\(\)"),
        (farref.wait, TypeError, "must be a list of RRefs"),
        (lambda ref: farref.rpc_sync("B", abs, ref), TypeError, "args"),
        (lambda ref: ref.stream(ahead=-1), ValueError, "ahead must be 0 or more"),
        (lambda ref: ref.stream(ahead=1.5), TypeError, "ahead must be"),
        (lambda ref: ref.stream(ahead_bytes=0), ValueError, "ahead_bytes must be 1 or more"),
        (lambda ref: ref.stream(timeout=0), ValueError, "timeout"),
        (lambda ref: farref.rpc_sync("C", type, (iter(ref),)), Exception, "pass the reference"),
    ],
)
def test_mistakes(act: Any, error: type[Exception], message: str, system: System) -> None:
    ref = farref.remote("B", int)
    with pytest.raises(error, match=message):
        act(ref)


class Collector(farref.RefActor):
    async def receiveMsg_list(self, message: list[RRef[Any]], sender: Any) -> None:
        (ref,) = message
        self.send(sender, [item async for item in ref])

    def receiveMsg_tuple(self, message: tuple[RRef[Any]], sender: Any) -> None:
        try:
            list(message[0])
        except WouldBlockError as error:
            self.send(sender, str(error))


def test_in_a_handler(system: System) -> None:
    actor = system.create(Collector)
    assert system.ask(actor, [farref.remote("B", count, (5,))]) == [0, 1, 2, 3, 4]
    answer = system.ask(actor, (farref.remote("B", count, (5,)),))
    assert "`async for`" in answer


def test_an_object_whose_methods_run_beside_each_other(system: System) -> None:
    ref = farref.remote("B", count, (2_000,), serial=False)
    others: Future[list[int]] = farref.rpc_async("C", list, (ref,))
    mine = list(ref)
    assert sorted(mine + others.result()) == list(range(2_000))


# ---- faults


@pytest.mark.processes
def test_lost_messages_lose_no_item() -> None:
    """Nor are there two of one, nor another order (G3)."""
    rules = drop(0.1), duplicate(0.1), delay(0.01)
    with System("farrefBase", timeout=60, faults=Faults(*rules, seed=7)) as system:
        system.worker("B")
        ref = farref.remote("B", count, (400,))
        assert list(ref.stream(ahead=50)) == list(range(400))
        refs = list(farref.remote("B", boxes, (100,)).stream(ahead=7))
        assert farref.get(refs) == list(range(100))
        del refs, ref
        assert_nothing_held(system)
