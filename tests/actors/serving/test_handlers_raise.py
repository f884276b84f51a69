"""A handler that raises runs once, its sender is told, and no control message is lost (G3)."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import ActorAddress, PoisonMessage

import farref
from farref import RefActor, RRef

from ..helpers import assert_nothing_held, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from farref import System


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
    task = asyncio.ensure_future(asyncio.sleep(10))
    await asyncio.sleep(0)
    task.cancel()
    await task


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


def test_a_message_nobody_handles_is_an_error_at_a_worker(system: System) -> None:
    with pytest.raises(TypeError, match="a Worker handles no messages, and got a str"):
        system.ask("B", "hello")
    assert farref.rpc_sync("B", pow, (2, 2)) == 4
