"""User code may raise anything while a reply is made: a reply goes out, and the worker lives.

This is not only about `Exception`: `sys.exit()` in a `__str__` is another one. A handler that
raises runs once, its sender is told, and no control message is lost (G3).
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import ActorAddress, PoisonMessage

import farref
from farref import FetchTimeoutError, RefActor, RRef, System, WorkerDiedError
from farref.testing import references_everywhere

from ..helpers import assert_nothing_held, until

if TYPE_CHECKING:
    from collections.abc import Callable

RAISED = (
    SystemExit,
    KeyboardInterrupt,
    GeneratorExit,
    RecursionError,
    MemoryError,
    StopIteration,
    asyncio.CancelledError,
)


def _evil(base: type, name: str, kind: type[BaseException]) -> Any:
    """An object of a subclass of *base* whose *name* raises *kind*."""

    def fail(*_: object) -> Any:
        raise kind("on purpose")

    members: dict[str, Any] = {name: property(fail) if name in PROPERTIES else fail}
    return type("Evil", (base,), members)()


PROPERTIES = ("__notes__", "args", "__class__", "__dict__")
OF_ERRORS = ("__str__", "__repr__", "__reduce__", "__reduce_ex__", "__notes__", "args", "__dict__")
OF_VALUES = ("__reduce__", "__reduce_ex__", "__getstate__", "__class__", "__del__", "__repr__")


def raise_evil(name: str, kind: type[BaseException]) -> None:
    raise _evil(Exception, name, kind)


def return_evil(name: str, kind: type[BaseException]) -> Any:
    return _evil(object, name, kind)


def just_raise(kind: type[BaseException]) -> None:
    raise kind("on purpose")


async def later(function: Callable[..., object], *args: object) -> None:
    await asyncio.sleep(0)
    function(*args)


class Unhappy:
    """Cannot be unpickled."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def __reduce__(self) -> Any:
        return just_raise, (self.kind,)


def ignore(*_: object) -> None:
    pass


def outcome(function: Any, *args: Any, remote: bool = False, **options: Any) -> object:
    """The result or the error of a call; fails if there is none."""
    try:
        if remote:
            return farref.remote("B", function, args=args, **options).to_here()
        return farref.rpc_sync("B", function, args=args)
    except FetchTimeoutError:
        raise
    except Exception as error:  # as the call's error, which ends no program
        return error


def test_an_error_that_cannot_say_what_it_is(system: System) -> None:
    for name in OF_ERRORS:
        for kind in RAISED:
            error = outcome(raise_evil, name, kind)
            assert isinstance(error, Exception), (name, kind)
            assert "raise_evil" in str(error.__cause__), (name, kind)
    assert isinstance(outcome(later, raise_evil, "__str__", SystemExit), Exception)
    assert isinstance(outcome(raise_evil, "__notes__", SystemExit, remote=True), Exception)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_result_that_cannot_be_sent(system: System) -> None:
    for name in OF_VALUES:
        for kind in RAISED:
            outcome(return_evil, name, kind)
    for options in ({}, {"frozen": True}):
        error = outcome(return_evil, "__reduce_ex__", SystemExit, remote=True, **options)
        assert isinstance(error, Exception)
    assert isinstance(outcome(return_evil, "__class__", SystemExit, remote=True), object)


def test_an_object_that_cannot_say_its_class_is_stored_listed_and_freed(system: System) -> None:
    ref = farref.remote("B", return_evil, ("__class__", SystemExit))
    farref.wait([ref])
    (row,) = references_everywhere(system)["B"]
    assert (row.type, row.frozen) == ("Evil", False)
    assert ref.rpc_sync().__sizeof__() > 0


@pytest.mark.parametrize("kind", RAISED)
def test_a_function_that_raises_anything(system: System, kind: type[BaseException]) -> None:
    for remote in (False, True):
        assert isinstance(outcome(just_raise, kind, remote=remote), Exception)
        assert isinstance(outcome(later, just_raise, kind, remote=remote), Exception)
    assert isinstance(outcome(ignore, Unhappy(kind)), Exception)
    assert farref.rpc_sync("B", pow, (2, 3)) == 8


class Picky(RefActor):
    """Its handlers raise, and return, the messages that they get."""

    def receiveMsg_tuple(self, message: tuple[str, type[BaseException]], _: object) -> Any:
        if message[0] == "return":
            return _evil(object, "__class__", message[1])
        raise _evil(Exception, *message)

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(sender, message)


def test_a_handler_that_raises_what_cannot_be_told(system: System) -> None:
    actor = system.create(Picky)
    for name in OF_ERRORS:
        for kind in (SystemExit, KeyboardInterrupt):
            try:
                system.ask(actor, (name, kind))
            except Exception as error:  # not `pytest.raises`, which looks at its text
                assert not isinstance(error, FetchTimeoutError), (name, kind)  # noqa: PT017 - in a loop over errors
            else:
                pytest.fail(f"no error for {name}, {kind}")
    system.tell(actor, ("return", SystemExit))
    assert system.ask(actor, "hello") == "hello"


def give_with_evil_on_delete(name: str, kind: type[BaseException]) -> RRef[Any]:
    def tell(_: object) -> None:
        raise _evil(Exception, name, kind)

    return RRef([1], on_delete=tell)


noted: list[object] = []


def give_with_note() -> RRef[list[int]]:
    noted.clear()
    return RRef([1], on_delete=noted.append)


def take_notes() -> list[object]:
    return noted


def test_an_on_delete_that_raises_takes_no_thread_along(system: System) -> None:
    for _ in range(20):  # more than there are threads for it
        farref.rpc_sync("B", give_with_evil_on_delete, ("__notes__", SystemExit))
    assert_nothing_held(system)
    ref = farref.rpc_sync("B", give_with_note)
    del ref
    assert until(system, lambda: farref.rpc_sync("B", take_notes) == [[1]])
    assert farref.remote("B", list).to_here() == []


class Unlucky(RefActor):
    def __init__(self) -> None:
        super().__init__()
        self.runs = 0
        self.poisoned: list[str] = []

    def receiveMsg_tuple(self, message: tuple[str, RRef[Any]], sender: ActorAddress) -> None:
        self.runs += 1
        ENDS[message[0]]()

    async def receiveMsg_list(self, message: list[Any], sender: ActorAddress) -> None:
        self.runs += 1
        await asyncio.sleep(0)
        if message[0] == "cancelled":
            await _cancelled()
        ENDS[message[0]]()

    def receiveMsg_PoisonMessage(self, message: PoisonMessage, sender: ActorAddress) -> None:
        self.poisoned.append(message.details)

    def receiveMsg_dict(self, message: dict[str, Any], sender: ActorAddress) -> None:
        self.send(message["to"], message["what"])

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(sender, self.runs if message == "runs" else self.poisoned)


def _raise(error: BaseException) -> None:
    raise error


ENDS: dict[str, Callable[[], object]] = {
    "error": lambda: _raise(KeyError("unlucky")),
    "exit": lambda: sys.exit(3),
    "interrupt": lambda: _raise(KeyboardInterrupt()),
    "cancelled": lambda: _raise(asyncio.CancelledError()),
}


async def _cancelled() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", [tuple, list], ids=["plain", "async"])
def test_it_runs_once_and_the_actor_goes_on(system: System, end: str, kind: type) -> None:
    actor = system.create(Unlucky)
    for _ in range(3):
        system.tell(actor, kind([end, RRef([1])]))
    assert until(system, lambda: system.ask(actor, "runs") == 3)


@pytest.mark.parametrize("kind", [tuple, list], ids=["plain", "async"])
def test_who_asks_gets_the_exception(system: System, kind: type) -> None:
    actor = system.create(Unlucky)
    with pytest.raises(KeyError, match="unlucky") as caught:
        system.ask(actor, kind(["error", None]))
    assert "unlucky" in str(caught.value.__cause__)


def test_who_tells_gets_a_poison_message(system: System) -> None:
    actor, other = system.create(Unlucky), system.create(Unlucky)
    system.tell(other, {"to": actor, "what": ("error", RRef([2]))})
    assert until(system, lambda: system.ask(other, "poisoned"))
    assert "KeyError: 'unlucky'" in system.ask(other, "poisoned")[0]
    assert system.ask(actor, "runs") == 1


class Spoiler(RefActor):
    """It raises when the message that it handles can no longer be sent."""

    async def receiveMsg_list(self, message: list[Any], sender: ActorAddress) -> None:
        if message:
            os.kill(await farref.rpc_async("D", os.getpid), signal.SIGKILL)
            with pytest.raises(WorkerDiedError):
                await farref.rpc_async("D", time.sleep, (20,))
        else:
            message.append(threading.Lock())
        raise KeyError("unlucky")


@pytest.mark.parametrize("change", ["the owner of a reference dies", "a lock comes into it"])
def test_who_tells_is_told_even_if_the_message_cannot_go_back(change: str) -> None:
    with System("farrefBase", timeout=20) as system:
        system.worker("D")
        message = [farref.remote("D", list)] if change.startswith("the owner") else []
        system.tell(system.create(Spoiler), message)
        poison = system.listen()
        assert poison.poisonMessage is None
        assert "KeyError: 'unlucky'" in poison.details


def test_no_control_message_is_lost(system: System) -> None:
    actor = system.create(Unlucky)
    refs = [farref.remote("B", list) for _ in range(20)]
    for ref in refs:
        system.tell(actor, ("error", ref))
        system.tell(actor, ["error", ref])
    assert until(system, lambda: system.ask(actor, "runs") == 40)
    for _ in range(40):
        assert "unlucky" in system.listen().details
    del refs, ref
    assert_nothing_held(system)
