"""An `Exception` of a signal handler comes as it is, and not as an error of the value."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from farref import SerializationError
from farref.protocol.ids import WorkerId
from farref.serialization import shared
from farref.serialization.errors import Failure
from farref.serialization.frozen import Frozen
from farref.serialization.library import Library
from farref.serialization.pickling import Reference
from farref.serialization.shared import Segment

from ..pressing import Ringing, rung
from .endpoint import TinyAddress
from .passing import arrived, opened, packed

OURS = "a deadline of ours"


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError(OURS)

    before = signal.signal(signal.SIGALRM, late)
    yield
    rung.clear()
    signal.signal(signal.SIGALRM, before)


class RingsFirst:
    """A signal comes while it is pickled."""

    def __reduce__(self) -> Any:
        signal.raise_signal(signal.SIGALRM)
        return int, ()


class FailsItself:
    def __reduce__(self) -> Any:
        return fail, ()


def fail() -> None:
    raise TimeoutError("of the value")


def thaw() -> object:
    return Frozen.of(Ringing(), TinyAddress).thaw()


def unpickle() -> object:
    return opened(arrived(packed(Ringing())))


def rebuild() -> object:
    rung.clear()
    failure = Failure.of(ValueError(Ringing()), "B", "there()")
    rung.append(None)
    return failure.rebuild()


def library() -> Library:
    return Library(WorkerId("A", 1), (Reference,))


def define_with_a_variable() -> object:
    inside = RingsFirst()
    return library().define(lambda: inside)


def define_with_a_global() -> object:
    names = {"inside": RingsFirst(), "__name__": "__main__"}
    return library().define(eval("lambda: inside", names))


@pytest.mark.parametrize(
    "work",
    [
        thaw,
        unpickle,
        rebuild,
        define_with_a_variable,
        define_with_a_global,
        lambda: packed(RingsFirst()),
    ],
)
def test_it_comes_as_it_is(work: Callable[[], object]) -> None:
    rung.append(None)
    with pytest.raises(TimeoutError, match=OURS):
        work()


def test_it_ends_the_copy_to_shared_memory() -> None:
    def ring(_frame: object, event: str, function: object) -> None:
        if event == "c_call" and function is os.pwrite:
            signal.raise_signal(signal.SIGALRM)

    view = memoryview(bytes(shared.THRESHOLD))
    sys.setprofile(ring)
    try:
        with pytest.raises(TimeoutError, match=OURS):
            Segment.of(view, writable=False)
    finally:
        sys.setprofile(None)


def test_an_error_of_the_value_is_told_as_one() -> None:
    with pytest.raises(SerializationError, match="of the value"):
        opened(arrived(packed(FailsItself())))
