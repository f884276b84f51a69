"""A signal handler may call the library anywhere, and its own error is never taken for another."""

from __future__ import annotations

import functools
import pickle
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import WouldBlockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from farref import RRef, System

pytestmark = pytest.mark.processes
TIMEOUT = 30.0
NUMBER = signal.SIGUSR2


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with farref.System("farrefBase", timeout=TIMEOUT) as system:
        system.worker("B")
        system.worker("C")
        yield system


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = signal.getsignal(NUMBER)
    yield
    signal.signal(NUMBER, before)


CALLS: dict[str, Callable[[RRef[Any]], Any]] = {
    "rpc_sync": lambda _: farref.rpc_sync("B", abs, (-1,)),
    "rpc_async": lambda _: farref.rpc_async("B", abs, (-1,)).result(),
    "remote": lambda _: farref.remote("B", abs, (-1,)).to_here(),
    "method": lambda ref: ref.rpc_sync().bit_length(),
    "to_here": lambda ref: ref.to_here(),
    "get": lambda ref: farref.get([ref]),
    "wait": lambda ref: farref.wait([ref]),
    "a new name": lambda _: farref.rpc_sync("C", abs, (-1,)),
    "with a reference": lambda ref: farref.rpc_sync("B", type, (ref,)),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_in_the_midst_of_a_step_never_waits(system: System, call: str) -> None:
    ref = farref.remote("B", int, ("1",))
    ref.to_here()
    outcomes: list[str] = []

    def handler(*_: object) -> None:
        began = time.monotonic()
        try:
            CALLS[call](ref)
        except WouldBlockError:
            outcomes.append("would block")
        else:
            outcomes.append("worked")
        assert time.monotonic() - began < TIMEOUT / 2, "it sat out its timeout"

    def interrupt(frame: Any, _event: str, _arg: object) -> None:
        """As a signal does that comes when a step has just looked up a name."""
        if frame.f_code.co_filename.endswith("protocol/names.py"):
            sys.settrace(None)
            signal.raise_signal(NUMBER)

    signal.signal(NUMBER, handler)
    sys.settrace(interrupt)
    try:
        assert farref.get([ref]) == [1]
    finally:
        sys.settrace(None)
    assert len(outcomes) == 1
    assert CALLS[call](ref) is not None
    assert system.workers()


def plain(*_: object) -> None:
    raise TimeoutError("time is up")


class Deadline:
    def __call__(self, _number: int, _frame: object) -> None:
        raise TimeoutError("time is up")

    def method(self, _number: int, _frame: object) -> None:
        raise TimeoutError("time is up")


def and_resets(_number: int, _frame: object) -> None:
    signal.signal(NUMBER, signal.SIG_DFL)
    raise TimeoutError("time is up")


HANDLERS: dict[str, Any] = {
    "function": plain,
    "lambda": lambda *_: plain(),
    "object": Deadline(),
    "method": Deadline().method,
    "partial": functools.partial(plain, 1),
    "one that resets itself": and_resets,
}


class Signals:
    """A signal comes while it is pickled, or unpickled."""

    def __init__(self, when: str) -> None:
        self.when = when

    def __reduce__(self) -> Any:
        if self.when == "pickled":
            signal.raise_signal(NUMBER)
        return signals, (self.when, self.when == "unpickled")


class Catches(Signals):
    """The error of a handler meets code that turns errors into others."""

    def __reduce__(self) -> Any:
        try:
            return super().__reduce__()
        except Exception as error:
            raise pickle.PicklingError("something went wrong") from error


def signals(when: str, here: bool) -> Signals:
    if here:
        signal.raise_signal(NUMBER)
    return Signals(when)


def answer() -> Signals:
    return Signals("unpickled")


SIGNALS = Signals("pickled")


@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize(
    "call",
    [
        lambda: farref.rpc_sync("B", type, (Signals("pickled"),)),
        lambda: farref.rpc_async("B", type, ([Signals("pickled")],)),
        lambda: farref.remote("B", type, (Catches("pickled"),)),
        lambda: farref.rpc_sync("B", lambda bound=SIGNALS: bound),
        lambda: farref.rpc_sync("B", answer),
        lambda: farref.rpc_async("B", answer).result(),
        lambda: farref.remote("B", answer).to_here(),
    ],
    ids=["argument", "in a list", "caught", "by value", "result", "future", "fetch"],
)
def test_a_handlers_error_arrives_as_itself(
    system: System, handler: str, call: Callable[[], object]
) -> None:
    signal.signal(NUMBER, HANDLERS[handler])
    with pytest.raises(TimeoutError, match="time is up"):
        call()
    assert system.workers()
    assert farref.rpc_sync("B", abs, (-1,)) == 1
