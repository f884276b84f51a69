"""References in messages to and from actors: anywhere, in any number, and exactly once."""

from __future__ import annotations

import asyncio
import enum
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from thespian.actors import ActorAddress

import farref
from farref import FetchTimeoutError, RefActor, RRef

from ..helpers import Box, until

if TYPE_CHECKING:
    from farref import System


@dataclass
class Bundle:
    refs: list[RRef[Any]] = field(default_factory=list)
    named: dict[Any, Any] = field(default_factory=dict)
    box: Box | None = None


@dataclass(frozen=True, slots=True)
class FrozenBundle:
    ref: RRef[Any]


class Pair(NamedTuple):
    left: Any
    right: Any


class Colour(enum.Enum):
    RED = 1


class Keeper(RefActor):
    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Any] = []

    def receiveMsg_Bundle(self, message: Bundle, sender: ActorAddress) -> None:
        self.kept.append(message)

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        if message == "give":
            self.send(sender, self.kept.pop())
        elif message == "drop":
            self.kept.clear()
            self.send(sender, "dropped")

    def receiveMsg_Pair(self, message: Pair, sender: ActorAddress) -> None:
        """Pass it on."""
        self.send(message.left, message.right)

    def receiveUnrecognizedMessage(self, message: Any, sender: ActorAddress) -> None:
        if isinstance(message, FrozenBundle | tuple | set | OrderedDict | deque | Box | RRef):
            self.send(sender, message)


SHAPES: dict[str, tuple[Any, Any]] = {
    "itself": (lambda ref: ref, lambda value: value),
    "tuple": (lambda ref: (1, (ref, [ref])), lambda value: _same(value[1][0], value[1][1][0])),
    "set": (lambda ref: {ref}, lambda value: next(iter(value))),
    "ordered dict": (lambda ref: OrderedDict(a=ref), lambda value: value["a"]),
    "key": (lambda ref: OrderedDict({ref: 1}), lambda value: next(iter(value))),
    "deque": (lambda ref: deque([ref]), lambda value: value[0]),
    "frozen dataclass": (FrozenBundle, lambda value: value.ref),
    "attribute": (lambda ref: Box(Box(ref)), lambda value: value.content.content),
    "closure": (lambda ref: Box(lambda: ref), lambda value: value.content()),
}
"""Ways to put a reference into a message, and to take it out."""


def _same(one: object, other: object) -> object:
    assert one is other
    return one


@pytest.mark.parametrize("shape", SHAPES)
def test_there_and_back_in_any_container(system: System, shape: str) -> None:
    wrap, unwrap = SHAPES[shape]
    actor, value = system.create(Keeper), Box(shape)
    ref, other = RRef(value), farref.remote("B", list, ((1,),))
    assert unwrap(system.ask(actor, wrap(ref))).local_value() is value
    assert unwrap(system.ask(actor, wrap(other))).to_here() == [1]


def test_an_actor_keeps_and_gives_back(system: System) -> None:
    actor = system.create(Keeper)
    ref = RRef([1])
    system.tell(actor, Bundle(refs=[ref, ref], named={"a": {"b": (ref, Colour.RED)}}))
    key = ref.id
    del ref
    back = system.ask(actor, "give")
    assert back.refs[0] is back.refs[1] is back.named["a"]["b"][0]
    assert back.refs[0].id == key
    assert back.refs[0].local_value() == [1]


def test_actors_pass_references_on(system: System) -> None:
    actors = [system.create(Keeper) for _ in range(4)]
    message: Any = Bundle(refs=[farref.remote("B", list, ((1, 2),))])
    for actor in reversed(actors):
        message = Pair(actor, message) if actor is not actors[-1] else Pair(actors[-1], message)
    system.tell(actors[0], message)
    assert until(system, lambda: _gives(system, actors[-1]))


def _gives(system: System, actor: ActorAddress) -> bool:
    try:
        return bool(system.ask(actor, "give").refs[0].to_here() == [1, 2])
    except IndexError:
        return False  # it has not come yet


@pytest.mark.parametrize("owner", ["program", "B"])
def test_many_references_in_one_message(system: System, owner: str) -> None:
    actor = system.create(Keeper)
    refs = _own_many(1000) if owner == "program" else farref.rpc_sync("B", _own_many, (1000,))
    system.tell(actor, Bundle(refs=refs))
    del refs
    back = system.ask(actor, "give")
    assert len(set(back.refs)) == 1000
    assert farref.get(back.refs[::100]) == [[n] for n in range(0, 1000, 100)]


def _own_many(count: int) -> list[RRef[list[int]]]:
    return [RRef([n]) for n in range(count)]


def test_a_late_answer_never_answers_the_next_ask(system: System) -> None:
    actor = system.create(Sluggish)
    with pytest.raises(FetchTimeoutError):
        system.ask(actor, "late", timeout=0.05)
    assert system.ask(actor, "next") == "next"
    with pytest.raises(FetchTimeoutError):
        system.listen(timeout=0.05)


class Sluggish(RefActor):
    """Answers each question only when the next one has come."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answered = asyncio.Event(), asyncio.Event()

    async def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        if message == "late":
            await self.asked.wait()
        else:
            self.asked.set()
            await self.answered.wait()
        self.send(sender, message)
        self.send(sender, "a second answer to the same question")
        self.answered.set()
