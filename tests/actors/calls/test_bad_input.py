"""Bad input: the caller gets a clear named error, and the system goes on working."""

from __future__ import annotations

import asyncio
import importlib
import threading
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import ActorAddress

import farref
from farref import (
    FetchTimeoutError,
    ForeignReferenceError,
    NameTakenError,
    NotAnEndpointError,
    RefActor,
    RRef,
    SerializationError,
    System,
    SystemDownError,
    WorkerNotFoundError,
)
from farref.protocol.sharing import DISCIPLINES

from ...marks import TORCH
from ..helpers import Box, make_box

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


WAIT = r"Future.*; a future stays where it was made: wait for it and pass its value, or"


@pytest.fixture(autouse=True)
def goes_on(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "system" in request.fixturenames:
        assert farref.rpc_sync("B", pow, (2, 3)) == 8


CALLS = farref.remote, farref.rpc_sync, farref.rpc_async


def refused(kind: Any, match: str, call: Callable[..., object], *args: Any, **options: Any) -> None:
    with pytest.raises(kind, match=match or None):
        call(*args, **options)


def test_wrong_names_functions_and_numbers(system: System) -> None:
    for call in CALLS:
        there = r"'nobody' does not exist.*B, C, program"
        refused(WorkerNotFoundError, there, call, "nobody", pow, (2, 3))
        refused(TypeError, "needs a function", call, "B", 7)
    for send in (system.tell, system.ask):
        refused(WorkerNotFoundError, "nobody", send, "nobody", "hello")
        refused(TypeError, "worker's name", send, farref.ANY, "hello")
    for to in (7, b"B", object()):
        refused(TypeError, "worker's name", farref.rpc_sync, to, pow, (2, 3))
    future = farref.rpc_async("B", pow, (2, 3))
    for follow in (future.then, future.add_done_callback):
        refused(TypeError, "7 cannot be called", follow, 7)
    assert future.result() == 8
    for name in ("", "\ud800", b"bytes", None):
        refused(ValueError, "non-empty", system.worker, name)
    refused(NameTakenError, "taken", system.worker, "B")
    refused(NameTakenError, "taken", system.create, RefActor, "B")
    for threads in (0, -1):
        refused(ValueError, "at least 1 thread", system.worker, "never", threads=threads)
    nobody = ActorAddress(None)
    unknown = NotAnEndpointError, WorkerNotFoundError
    refused(unknown, "", farref.rpc_sync, nobody, pow, (2, 3))
    refused(FetchTimeoutError, "", system.listen, timeout=0.01)


def test_wrong_systems() -> None:
    for bad in (0, -1, float("nan")):
        refused(ValueError, "timeout", System, "simpleSystemBase", timeout=bad)
        refused(ValueError, "timeout", System.attach, "nothing", timeout=bad)
    for name in ("", "a/b", "../x", "x" * 65, "a\0b"):
        refused(ValueError, "name", System, "simpleSystemBase", name=name)
    for sharing in ("LEND", "", None, 1, ["lend"], {"lend": True}):
        there = f"sharing must be one of {', '.join(DISCIPLINES)}, not"
        refused(ValueError, there, System, "simpleSystemBase", sharing=sharing)
    refused(SystemDownError, "no system named 'nowhere' runs", System.attach, "nowhere")


def own_and_lock() -> Any:
    return RRef([1]), threading.Lock()


def test_what_cannot_be_pickled(system: System) -> None:
    """A function, an argument, a result, a fetched value. The references beside it are released."""
    lock, ref, why = threading.Lock(), RRef([1]), r"cannot pickle.*lock"
    for call in CALLS:
        for what in ((lambda: (ref, lock), ()), (print, ([ref, threading.Lock()],))):
            refused(SerializationError, why, call, "B", *what)
    for send in (system.tell, system.ask):
        refused(SerializationError, "", send, "B", [ref, threading.Lock()])
    refused(SerializationError, why, farref.rpc_sync, "B", own_and_lock)
    there = farref.remote("B", threading.Lock)
    refused(SerializationError, why, there.to_here)
    refused(SerializationError, "", farref.get, [there])
    assert there.rpc_sync().acquire() is True
    assert farref.wait([there]) == ([there], [])


def test_a_future_of_asyncio_is_told_the_way_out(system: System) -> None:
    refused(SerializationError, WAIT, farref.rpc_sync, "B", _own_and_future)


async def _own_and_future() -> Any:
    return RRef([1]), asyncio.get_running_loop().create_future()


@TORCH
def test_a_future_of_torch_is_told_the_way_out(process_system: System) -> None:
    process_system.worker("B")
    refused(SerializationError, WAIT, farref.rpc_sync, "B", _future_of_torch)


def _future_of_torch() -> Any:
    torch = importlib.import_module("torch")  # not in the process of the tests
    return torch.futures.Future()


class Breaks:
    """Can be pickled, but not unpickled."""

    def __init__(self, ref: Any = None) -> None:
        self.ref = ref

    def __getstate__(self) -> dict[str, Any]:
        return {"ref": self.ref}

    def __setstate__(self, state: dict[str, Any]) -> None:
        raise RuntimeError("broken on arrival")


def make_broken(ref: Any) -> Breaks:
    return Breaks([ref, RRef([2])])


def test_what_cannot_be_unpickled(system: System) -> None:
    """Arguments and results, with references in them."""
    ref, box = RRef(Box()), farref.remote("B", make_box)
    bad: list[Callable[[], object]] = [
        lambda: farref.rpc_sync("B", print, (ref, Breaks(ref))),
        lambda: farref.remote("B", print, (ref, Breaks(ref))).to_here(),
        lambda: box.rpc_sync().put(Breaks(ref)),
        lambda: system.ask("B", [ref, Breaks(ref)]),
        lambda: farref.rpc_sync("B", make_broken, (RRef([1]),)),
        lambda: farref.remote("B", make_broken, (RRef([1]),)).to_here(),
    ]
    for each in bad:
        refused(SerializationError, "broken on arrival", each)


class Exit:
    def __reduce__(self) -> Any:
        raise SystemExit(3)


def test_pickling_that_exits_reaches_the_caller(system: System) -> None:
    why = r"cannot pickle .*Exit.*SystemExit: 3"
    refused(SerializationError, why, farref.rpc_sync, "B", Exit)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    def __reduce__(self) -> Any:
        raise RuntimeError("nor bytes")


def _speechless() -> None:
    raise Unspeakable


def test_an_exception_that_cannot_be_shown_or_rebuilt(system: System) -> None:
    refused(farref.RemoteError, "Unspeakable", farref.rpc_sync, "B", _speechless)


BAD_TIMEOUTS = [0, -1, 0.0, -0.5, float("nan"), float("-inf"), True, "5", b"5", [1]]
WAITS: dict[str, Callable[[System, RRef[Any], Any], object]] = {
    "to_here": lambda _, ref, t: ref.to_here(timeout=t),
    "future": lambda _, ref, t: ref.future(timeout=t),
    "remote": lambda _, ref, t: farref.remote("B", pow, (2, 3), timeout=t),
    "rpc_sync": lambda _, ref, t: farref.rpc_sync("B", pow, (2, 3), timeout=t),
    "rpc_async": lambda _, ref, t: farref.rpc_async("B", pow, (2, 3), timeout=t),
    "method": lambda _, ref, t: ref.rpc_sync(timeout=t).get(),
    "get": lambda _, ref, t: farref.get([ref], timeout=t),
    "ask": lambda system, _, t: system.ask("B", "hello", timeout=t),
    "listen": lambda system, _, t: system.listen(timeout=t),
}


@pytest.mark.parametrize("form", WAITS)
def test_a_timeout_that_is_none(system: System, form: str) -> None:
    ref = RRef(Box())
    for bad in BAD_TIMEOUTS:
        refused((ValueError, TypeError), "timeout", WAITS[form], system, ref, bad)


def test_a_reference_of_another_system(system: System) -> None:
    with System("simpleSystemBase"):
        ref = RRef([1])
    why = "belongs to another endpoint"
    refused(ForeignReferenceError, why, farref.rpc_sync, "B", print, (ref,))
