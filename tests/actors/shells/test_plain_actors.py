"""Plain Thespian actors interoperate, and Thespian's own features work with `RefActor`."""

from __future__ import annotations

import gc
import os
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psutil
import pytest
from thespian.actors import (
    Actor,
    ActorAddress,
    ActorExitRequest,
    ActorTypeDispatcher,
    requireCapability,
)
from thespian.troupe import troupe

import farref
from farref import CreationError, FetchTimeoutError, NotAnEndpointError, RefActor, RRef, System

from ...bases import BASES
from ..helpers import until


@dataclass
class Text:
    text: str


class Plain(Actor):
    """Knows nothing of farref."""

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        if isinstance(message, Text):
            self.send(sender, Text(message.text.upper()))
        elif isinstance(message, tuple):
            self.send(*message)


class PlainParent(ActorTypeDispatcher):
    """Creates an endpoint, and is none itself."""

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(sender, self.createActor(Friend))


class Friend(RefActor):
    """An endpoint that has a plain actor as a friend."""

    def __init__(self) -> None:
        super().__init__()
        self.got: list[Any] = []
        self.friend: ActorAddress | None = None

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        match message:
            case "create":
                self.friend = self.createActor(Plain)
                self.send(sender, self.friend)
            case "got":
                self.send(sender, list(self.got))
            case "refused":
                try:
                    self.send(self.friend, [RRef(1)])
                except NotAnEndpointError as error:
                    self.send(sender, str(error))
            case _:
                self.send(self.friend, Text(message))

    def receiveMsg_Text(self, message: Text, sender: ActorAddress) -> None:
        self.got.append((type(message) is Text, message.text, sender == self.friend))

    def receiveMsg_RRef(self, message: RRef[Any], sender: ActorAddress) -> None:
        self.send(sender, [message, os.getpid()])


def test_messages_go_both_ways_unchanged(system: System) -> None:
    actor = system.create(Friend)
    plain = system.ask(actor, "create")
    system.tell(actor, "hello")
    assert until(system, lambda: system.ask(actor, "got") == [(True, "HELLO", True)])
    system.tell(plain, (actor, Text("passed on")))
    assert until(system, lambda: (True, "passed on", True) in system.ask(actor, "got"))


def test_a_reference_to_a_plain_actor_is_refused(system: System) -> None:
    actor = system.create(Friend)
    plain = system.ask(actor, "create")
    assert "plain Thespian actor" in system.ask(actor, "refused")
    ref = RRef(1)
    for send in (system.tell, system.ask):
        with pytest.raises(NotAnEndpointError, match="make it a RefActor"):
            send(plain, {"deep": [ref]})
        for both in ([ref, threading.Lock()], [threading.Lock(), ref]):
            with pytest.raises(NotAnEndpointError):
                send(plain, both)
    for call in (farref.remote, farref.rpc_sync, farref.rpc_async):
        with pytest.raises(NotAnEndpointError):
            call(plain, pow, (2, 3))


def test_the_program_tells_and_asks_a_plain_actor(system: System) -> None:
    mine = system.create(Plain)
    for plain in (mine, system.ask(system.create(Friend), "create")):
        assert system.ask(plain, Text("loud"), timedelta(seconds=20)) == Text("LOUD")
        with pytest.raises(FetchTimeoutError):
            system.ask(plain, 7, timedelta(milliseconds=100))
    system.tell(mine, ActorExitRequest())


def test_an_endpoint_that_a_plain_actor_creates(system: System) -> None:
    parent = system._asys.createActor(PlainParent)
    child = system.ask(parent, "create")
    assert system.ask(child, "got") == []  # it is an endpoint from its first message on
    ref = RRef([1])
    assert until(system, lambda: _is_endpoint(child))
    back, _ = system.ask(child, ref)
    assert back == ref
    assert farref.rpc_sync(child, pow, (2, 3)) == 8


def _is_endpoint(address: ActorAddress) -> bool:
    try:
        return bool(farref.rpc_sync(address, pow, (2, 3)) == 8)
    except NotAnEndpointError:
        return False


@troupe(max_count=3)
class Team(RefActor):
    def receiveMsg_RRef(self, message: RRef[Any], sender: ActorAddress) -> None:
        self.send(sender, message)


def test_a_troupe_passes_references(system: System) -> None:
    team = system.create(Team)
    refs = [RRef([n]) for n in range(12)]
    assert [system.ask(team, ref) for ref in refs] == refs


class Named(RefActor):
    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(sender, message)

    async def receiveMsg_RRef(self, message: RRef[Any], sender: ActorAddress) -> None:
        self.send(sender, await message)


class Namer(RefActor):
    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(sender, self.createActor(Named, globalName=message))

    def receiveMsg_tuple(self, message: tuple[()], sender: ActorAddress) -> None:
        gc.collect()
        self.send(sender, sum(isinstance(each, ActorAddress) for each in gc.get_objects()))


def test_global_names_work(system: System) -> None:
    first = system.ask(system.create(Namer), "the one")
    second = system.ask(system.create(Namer), "the one")
    assert system.ask(first, "an endpoint from its first message on")
    assert until(system, lambda: _is_endpoint(first) and _is_endpoint(second))
    assert system.ask(first, RRef([1])) == [1]
    assert system.ask(second, RRef([2])) == [2]
    assert farref.rpc_sync(first, farref.get_worker_info) == farref.rpc_sync(
        second, farref.get_worker_info
    )


def test_looking_a_global_name_up_keeps_nothing(system: System) -> None:
    """Thespian keeps an address for each."""
    namer = system.create(Namer)

    def addresses_after(lookups: int) -> Any:
        for _ in range(lookups):
            assert system.ask(namer, "the one") is not None
        return system.ask(namer, ())

    few = addresses_after(10)
    many = addresses_after(200)
    assert many < few + 100


@requireCapability("farref test")
class Capable(RefActor):
    def receiveMsg_RRef(self, message: RRef[Any], sender: ActorAddress) -> None:
        self.send(sender, message)


class Picky(Capable):
    @staticmethod
    def actorSystemCapabilityCheck(capabilities: Any, requirements: Any) -> bool:
        return bool((requirements or {}).get("colour") == capabilities.get("colour"))


@pytest.mark.parametrize("base", BASES)
def test_capability_requirements_work(base: str) -> None:
    capabilities = {"farref test": True, "colour": "red"}
    with System(base, capabilities=capabilities, timeout=20) as system:
        ref = RRef(1)
        assert system.ask(system.create(Capable), ref) == ref
        assert system.ask(system.create(Picky, requirements={"colour": "red"}), ref) == ref
        with pytest.raises(CreationError, match="could not be created"):
            system.create(Picky, requirements={"colour": "blue"})


class Undertaker(RefActor):
    def __init__(self) -> None:
        super().__init__()
        self.letters: list[str] = []

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        if message == "register":
            self.handleDeadLetters()
        self.send(sender, list(self.letters))

    def receiveMsg_DeadEnvelope(self, message: Any, sender: ActorAddress) -> None:
        self.letters.append(message.deadMessage)


@pytest.mark.processes
def test_thespians_other_methods_work_in_handlers(process_system: System) -> None:
    system = process_system
    undertaker = system.create(Undertaker)
    assert system.ask(undertaker, "register") == []
    plain = system._asys.createActor(Whoami)
    pid = system.ask(plain, "who")
    system.tell(plain, ActorExitRequest())
    assert until(system, lambda: not psutil.pid_exists(pid))
    system.tell(plain, "too late")
    assert until(system, lambda: system.ask(undertaker, "letters") == ["too late"])


class Whoami(Actor):
    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        self.send(sender, os.getpid())


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "a name": (lambda system: system.create(Plain, name="x"), TypeError, "only these take name="),
    "requirements": (lambda system: system.create(Plain, requirements={}), TypeError, "only these"),
    "a host": (lambda system: system.create(Plain, on="127.0.0.1"), TypeError, "only these take"),
    "no actors": (lambda system: system.create(dict), TypeError, "needs a class of actors"),
    "no class": (lambda system: system.create("Plain"), TypeError, "needs a class of actors"),
    "an actor": (lambda system: system.create(Plain()), TypeError, "needs a class of actors"),
    "no time": (lambda system: system.listen(timedelta(0)), ValueError, "more than 0 seconds"),
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_wrong_arguments_are_refused(system: System, wrong: str) -> None:
    call, error, words = REFUSED[wrong]
    with pytest.raises(error, match=words):
        call(system)
