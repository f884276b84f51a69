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

from ...marks import TORCH
from ..helpers import Box, make_box
from .noting import DISCIPLINES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


WAIT = r"Future.*; a future stays where it was made: wait for it and pass its value, or"


@pytest.fixture(autouse=True)
def goes_on(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "system" in request.fixturenames:
        assert farref.rpc_sync("B", pow, (2, 3)) == 8


CALLS = farref.remote, farref.rpc_sync, farref.rpc_async


def test_an_unknown_worker_and_who_there_is(system: System) -> None:
    for call in CALLS:
        with pytest.raises(WorkerNotFoundError, match=r"'nobody' does not exist.*B, C, program"):
            call("nobody", pow, (2, 3))
    for send in (system.tell, system.ask):
        with pytest.raises(WorkerNotFoundError):
            send("nobody", "hello")


@pytest.mark.parametrize("to", [7, b"B", object()])
def test_whom_it_cannot_mean(system: System, to: Any) -> None:
    with pytest.raises(TypeError, match="worker's name"):
        farref.rpc_sync(to, pow, (2, 3))


def test_a_message_is_not_for_any_worker(system: System) -> None:
    nobody: Any = farref.ANY
    for send in (system.tell, system.ask):
        with pytest.raises(TypeError, match="worker's name"):
            send(nobody, "hello")


def test_what_cannot_be_called(system: System) -> None:
    not_callable: Any = 7
    for call in CALLS:
        with pytest.raises(TypeError, match="needs a function"):
            call("B", not_callable)
    future = farref.rpc_async("B", pow, (2, 3))
    for follow in (future.then, future.add_done_callback):
        with pytest.raises(TypeError, match="7 cannot be called"):
            follow(not_callable)
    assert future.result() == 8


def own_and_lock() -> Any:
    return RRef([1]), threading.Lock()


def test_what_cannot_be_pickled(system: System) -> None:
    """A function, an argument, a result, a fetched value. The references beside it are released."""
    lock, ref = threading.Lock(), RRef([1])
    for call in CALLS:
        for what in ((lambda: (ref, lock), ()), (print, ([ref, threading.Lock()],))):
            with pytest.raises(SerializationError, match=r"cannot pickle.*lock"):
                call("B", *what)
    for send in (system.tell, system.ask):
        with pytest.raises(SerializationError):
            send("B", [ref, threading.Lock()])
    with pytest.raises(SerializationError, match=r"cannot pickle.*lock"):
        farref.rpc_sync("B", own_and_lock)
    there = farref.remote("B", threading.Lock)
    with pytest.raises(SerializationError, match=r"cannot pickle.*lock"):
        there.to_here()
    with pytest.raises(SerializationError):
        farref.get([there])
    assert there.rpc_sync().acquire() is True
    assert farref.wait([there]) == ([there], [])


def test_a_future_of_asyncio_is_told_the_way_out(system: System) -> None:
    with pytest.raises(SerializationError, match=WAIT):
        farref.rpc_sync("B", _own_and_future)


async def _own_and_future() -> Any:
    return RRef([1]), asyncio.get_running_loop().create_future()


@TORCH
def test_a_future_of_torch_is_told_the_way_out(process_system: System) -> None:
    process_system.worker("B")
    with pytest.raises(SerializationError, match=WAIT):
        farref.rpc_sync("B", _future_of_torch)


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
        with pytest.raises(SerializationError, match="broken on arrival"):
            each()


class Exit:
    def __reduce__(self) -> Any:
        raise SystemExit(3)


def test_pickling_that_exits_reaches_the_caller(system: System) -> None:
    with pytest.raises(SerializationError, match=r"cannot pickle .*Exit.*SystemExit: 3"):
        farref.rpc_sync("B", Exit)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    def __reduce__(self) -> Any:
        raise RuntimeError("nor bytes")


def _speechless() -> None:
    raise Unspeakable


def test_an_exception_that_cannot_be_shown_or_rebuilt(system: System) -> None:
    with pytest.raises(farref.RemoteError, match="Unspeakable"):
        farref.rpc_sync("B", _speechless)


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
        with pytest.raises((ValueError, TypeError), match="timeout"):
            WAITS[form](system, ref, bad)


def test_a_system_checks_its_timeouts() -> None:
    for bad in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="timeout"):
            System("simpleSystemBase", timeout=bad)
        with pytest.raises(ValueError, match="timeout"):
            System.attach("nothing", timeout=bad)


def test_names_that_cannot_be_given(system: System) -> None:
    for bad in ("", "\ud800", b"bytes", None):
        with pytest.raises(ValueError, match="non-empty"):
            system.worker(bad)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(NameTakenError, match="taken"):
        system.worker("B")
    with pytest.raises(NameTakenError, match="taken"):
        system.create(Quiet, "B")
    for threads in (0, -1):
        with pytest.raises(ValueError, match="at least 1 thread"):
            system.worker("never", threads=threads)


class Quiet(RefActor):
    pass


def test_a_system_name_is_checked() -> None:
    for bad in ("", "a/b", "../x", "x" * 65, "a\0b"):
        with pytest.raises(ValueError, match="name"):
            System("simpleSystemBase", name=bad)


def test_no_such_system() -> None:
    with pytest.raises(SystemDownError, match="no system named 'nowhere' runs"):
        System.attach("nowhere")


def test_a_dead_address_and_an_address_of_nobody(system: System) -> None:
    nobody = ActorAddress(None)
    with pytest.raises((NotAnEndpointError, WorkerNotFoundError)):
        farref.rpc_sync(nobody, pow, (2, 3))
    with pytest.raises(FetchTimeoutError):
        system.listen(timeout=0.01)


def test_a_reference_of_another_system(system: System) -> None:
    with System("simpleSystemBase"):
        ref = RRef([1])
    with pytest.raises(ForeignReferenceError, match="belongs to another endpoint"):
        farref.rpc_sync("B", print, (ref,))


@pytest.mark.parametrize("sharing", ["LEND", "", None, 1, ["lend"], {"lend": True}])
def test_a_discipline_that_there_is_not(sharing: Any) -> None:
    with pytest.raises(ValueError, match=f"sharing must be one of {', '.join(DISCIPLINES)}, not"):
        System("simpleSystemBase", sharing=sharing)
