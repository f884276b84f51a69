"""Actors with constructor arguments, and workers created from workers."""

from __future__ import annotations

import asyncio
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import NameTakenError, RefActor, RRef, WorkerDiedError, WouldBlockError

from ..helpers import Box, hold, make_box, until

if TYPE_CHECKING:
    from pathlib import Path

    from thespian.actors import ActorAddress

    from farref import System


class Greeter(RefActor):
    def __init__(self, greeting: str, *, ref: RRef[Any] | None = None) -> None:
        super().__init__()
        self.greeting = greeting
        self.ref = ref
        self.address = self.myAddress
        if greeting == "bad":
            raise KeyError("a bad greeting")

    async def receiveMsg_str(self, name: str, sender: ActorAddress) -> None:
        kept = await self.ref if self.ref is not None else None
        kind = type(self).__name__
        self.send(sender, (f"{self.greeting}, {name}", kind, self.address == self.myAddress, kept))

    def receiveMsg_int(self, _: int, sender: ActorAddress) -> None:
        self.ref = None
        self.send(sender, "dropped")


def test_constructor_arguments(system: System) -> None:
    address = system.create(Greeter, "greeter", args=("hello",))
    assert system.ask(address, "you") == ("hello, you", "Greeter", True, None)
    assert system.ask("greeter", "you")[0] == "hello, you"
    other = system.create(Greeter, kwargs={"greeting": "bye"})
    assert system.ask(other, "you")[0] == "bye, you"


def test_a_reference_among_the_arguments_is_held(system: System) -> None:
    ref = farref.remote("B", int, ("7",))
    address = system.create(Greeter, args=("hello",), kwargs={"ref": ref})
    del ref
    assert system.ask(address, "you")[3] == 7
    assert system.ask(address, 0) == "dropped"


def test_an_error_of_the_constructor_is_raised_and_ends_the_actor(system: System) -> None:
    with pytest.raises(KeyError, match="a bad greeting") as caught:
        system.create(Greeter, "bad", args=("bad",))
    assert "__init__" in str(caught.value.__cause__)
    assert until(system, lambda: "bad" not in {info.name for info in system.workers()})
    address = system.create(Greeter, "bad", args=("good",))
    assert system.ask(address, "you")[0] == "good, you"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, r"missing a required argument: 'greeting'; pass its arguments .* args=\(...\)"),
        ({"args": ("a", "b")}, "too many positional"),
        ({"kwargs": {"name": "a"}}, "missing a required argument"),
        ({"args": "hello"}, "args must be a tuple"),
        ({"args": ("a",), "kwargs": ["b"]}, "kwargs a dict"),
    ],
)
def test_wrong_arguments_are_refused_at_once(
    system: System, options: dict[str, Any], words: str
) -> None:
    before = system.workers()
    with pytest.raises(TypeError, match=words):
        system.create(Greeter, **options)
    assert system.workers() == before


class Silent(RefActor):
    def __init__(self) -> None:
        super().__init__()
        raise ValueError


class Speaking(RefActor):
    def __init__(self, capabilities: Any = None) -> None:
        super().__init__()
        raise KeyError(sorted(capabilities)[:0])


@pytest.mark.parametrize(
    ("actor_class", "text"),
    [
        (Silent, "__init__ raised ValueError$"),
        (Speaking, r"__init__ raised KeyError: \[\]$"),
    ],
)
def test_an_error_of_init_without_arguments_is_the_cause(
    system: System, actor_class: type, text: str
) -> None:
    """It may have Thespian's own arguments. Thespian itself would only log its error."""
    before = system.workers()
    with pytest.raises(farref.CreationError, match=text) as caught:
        system.create(actor_class, "broken")
    assert "in __init__" in str(caught.value.__cause__.__cause__)  # type: ignore[union-attr]
    assert until(system, lambda: system.workers() == before)


class Owning(RefActor):
    """It tries to own an object, and to send itself a message, in its ``__init__``."""

    def __init__(self) -> None:
        super().__init__()
        self.tried: Any
        try:
            self.tried = RRef(["owned"])
            self.send(self.myAddress, 1)
        except farref.FarrefError as error:
            self.tried = str(error)
        self.got: list[int] = []

    def receiveMsg_int(self, number: int, sender: ActorAddress) -> None:
        self.got.append(number)

    def receiveMsg_str(self, _: str, sender: ActorAddress) -> None:
        self.send(sender, (self.tried, self.got))
        del self.tried


class Nest(RefActor):
    asker: ActorAddress

    def receiveMsg_str(self, question: str, sender: ActorAddress) -> None:
        self.asker = sender
        self.send(self.createActor(Owning), question)

    def receiveMsg_tuple(self, answer: tuple[Any, Any], _: ActorAddress) -> None:
        self.send(self.asker, answer[0])


def test_init_without_arguments_may_own_objects_and_send(system: System) -> None:
    owned, got = system.ask(system.create(Owning, "owning"), "what?")
    assert (owned.owner_name(), owned.to_here(), got) == ("owning", ["owned"], [1])


def test_an_init_that_thespian_runs_is_told_what_to_do(process_system: System) -> None:
    text = process_system.ask(process_system.create(Nest), "what?")
    assert "`createActor` runs is in none yet: use references in handlers" in text
    assert "create the actor with `farref.create`" in text


class Slow(RefActor):
    def __init__(self, word: str) -> None:
        self.word = word

    def receiveMsg_str(self, _: str, sender: ActorAddress) -> None:
        self.send(sender, self.word)


class SlowWord:
    """It is unpickled when *gate* opens, so the constructor runs late."""

    def __init__(self, gate: Path) -> None:
        self.gate = gate

    def __reduce__(self) -> Any:
        return hold, (self.gate, "made")


def test_messages_that_come_before_the_constructor_wait(system: System, gate: Path) -> None:
    """Others may know the name as soon as the actor has joined."""

    def is_there() -> bool:
        return "slow" in [info.name for info in system.workers()]

    def ask_early() -> Any:
        assert until(system, is_there)
        answer = system.ask_async("slow", "word")
        assert farref.rpc_sync("slow", bool) is False  # the question has come before
        assert not answer.done()
        gate.touch()
        return answer.result()

    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(ask_early)
        system.create(Slow, "slow", args=(SlowWord(gate),))
        assert asked.result() == "made"


# ---- created by functions and handlers


def _create_worker(name: str) -> str:
    made = farref.worker(name, threads=2)
    return f"{made.name} {farref.rpc_sync(name, pow, (2, 5))}"


def test_a_worker_creates_a_worker(system: System) -> None:
    assert farref.rpc_sync("B", _create_worker, ("made by B",)) == "made by B 32"
    assert farref.rpc_sync("made by B", pow, (2, 3)) == 8
    with pytest.raises(NameTakenError, match="taken"):
        farref.rpc_sync("C", _create_worker, ("made by B",))
    assert _create_worker("made by the program") == "made by the program 32"


def _create_actor(ref: RRef[Any]) -> ActorAddress:
    return farref.create(Greeter, args=("hello",), kwargs={"ref": ref})


def test_a_worker_creates_an_actor(system: System) -> None:
    ref = farref.remote("C", make_box, (1,))
    for address in (farref.rpc_sync("B", _create_actor, (ref,)), _create_actor(ref)):
        assert isinstance(system.ask(address, "you")[3], Box)
        assert system.ask(address, 0) == "dropped"


async def _create_on_the_loop(name: str) -> str:
    with pytest.raises(WouldBlockError, match=r"asyncio\.to_thread\(farref\.worker, name\)"):
        farref.worker(name)
    with pytest.raises(WouldBlockError, match=r"asyncio\.to_thread\(farref\.create, "):
        farref.create(Greeter, args=("hello",))
    return (await asyncio.to_thread(farref.worker, name)).name


def test_an_async_function_creates_a_worker_beside_its_loop(process_system: System) -> None:
    process_system.worker("B")
    assert farref.rpc_sync("B", _create_on_the_loop, ("later",)) == "later"
    assert farref.rpc_sync("later", pow, (2, 3)) == 8


def test_a_worker_outlives_the_worker_that_created_it(process_system: System) -> None:
    process_system.worker("B")
    farref.rpc_sync("B", _create_worker, ("child",))
    os.kill(farref.rpc_sync("B", os.getpid), signal.SIGKILL)
    with pytest.raises(WorkerDiedError):
        until(process_system, lambda: farref.rpc_sync("B", pow, (2, 3)) is None)
    assert farref.rpc_sync("child", pow, (2, 3)) == 8
