"""A blocking call that would stop its endpoint is a named error, never a hang (G6)."""

from __future__ import annotations

import gc
import logging
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import ActorAddress

import farref
from farref import FetchTimeoutError, RefActor, RRef, SelfWaitError, WouldBlockError

from ..helpers import hold, idle, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from farref import System

FORMS: dict[str, Callable[[RRef[Any]], object]] = {
    "to_here": lambda ref: ref.to_here(),
    "get": lambda ref: farref.get([ref]),
    "wait": lambda ref: farref.wait([ref]),
    "rpc_sync": lambda ref: farref.rpc_sync("C", pow, (2, 3)),
    "method": lambda ref: ref.rpc_sync().bit_length(),
    "result": lambda ref: farref.rpc_async("C", time.sleep, (5.0,)).result(),
    "future wait": lambda ref: farref.rpc_async("C", time.sleep, (5.0,)).wait(),
    "exception": lambda ref: farref.rpc_async("C", time.sleep, (5.0,)).exception(),
}


class Blocker(RefActor):
    def receiveMsg_tuple(self, message: tuple[str, RRef[Any]], sender: ActorAddress) -> None:
        self._attempt(message, sender)

    async def receiveMsg_list(self, message: list[Any], sender: ActorAddress) -> None:
        self._attempt((message[0], message[1]), sender)

    def _attempt(self, message: tuple[str, RRef[Any]], sender: ActorAddress) -> None:
        form, ref = message
        try:
            FORMS[form](ref)
        except WouldBlockError as error:
            self.send(sender, str(error))


async def attempt(form: str, ref: RRef[Any]) -> str:
    try:
        FORMS[form](ref)
    except WouldBlockError as error:
        return str(error)
    return "it did not raise"


@pytest.mark.parametrize("form", FORMS)
def test_it_names_the_await_form(system: System, form: str) -> None:
    actor = system.create(Blocker)
    ref = farref.remote("B", int, (7,))
    named = re.compile("one handler at a time; write .*await.* instead, in an `async def`$")
    assert named.search(system.ask(actor, (form, ref)))
    assert named.search(system.ask(actor, [form, ref]))
    assert named.search(farref.rpc_sync("C", attempt, (form, ref)))


async def attempt_when_known(form: str, ref: RRef[Any]) -> str:
    """Attempt it where the wait would end at once, as the value is known already."""
    assert await ref == 7
    return await attempt(form, ref)


@pytest.mark.parametrize("form", ["to_here", "get", "wait"])
def test_it_does_not_depend_on_what_is_known(system: System, form: str) -> None:
    ref = farref.remote("B", int, (7,), frozen=True)
    assert "would stop C" in farref.rpc_sync("C", attempt_when_known, (form, ref))


def test_the_result_of_a_future_that_is_done_is_there_for_a_handler(system: System) -> None:
    assert farref.rpc_sync("C", _awaited_then_asked) == 8


async def _awaited_then_asked() -> Any:
    future = farref.rpc_async("B", pow, (2, 3))
    await future
    return future.result()


class Selfish:
    """An object with methods that call it again."""

    def __init__(self) -> None:
        self.me: RRef[Selfish] | None = None

    def keep(self, me: RRef[Selfish]) -> None:
        self.me = me

    def let_go(self) -> None:
        self.me = None

    def again(self, form: str, me: RRef[Selfish]) -> Any:
        match form:
            case "method":
                return me.rpc_sync().again("end", me)
            case "future":
                return me.rpc_async().again("end", me).result()
            case "fetch":
                return me.to_here()
            case "through another":
                return farref.rpc_sync("C", _again, (me,))
            case _:
                return "it ran"

    def give_up(self, me: RRef[Selfish], form: str, gate: Path) -> None:
        with pytest.raises(FetchTimeoutError):
            farref.rpc_sync("C", _again_late, (me, form, gate), timeout=0.1)

    def stay(self, begun: Path, gate: Path) -> None:
        begun.touch()
        hold(gate)


def _again(me: RRef[Selfish]) -> Any:
    return me.rpc_sync().again("end", me)


LATE: list[str] = []
"""What `_again_late` got in this process."""


def _again_late(me: RRef[Selfish], form: str, gate: Path) -> None:
    hold(gate)
    try:
        if form == "method":
            LATE.append(me.rpc_sync().again("end", me))
        else:
            LATE.append(type(me.to_here()).__name__)
    except SelfWaitError as error:
        LATE.append(str(error))


def _is_late() -> bool:
    return bool(LATE)


def _take_late() -> list[str]:
    taken = LATE.copy()
    LATE.clear()
    return taken


@pytest.mark.parametrize("form", ["method", "future", "fetch", "through another"])
def test_a_call_that_would_wait_for_itself_is_refused(system: System, form: str) -> None:
    ref = farref.remote("B", Selfish)
    with pytest.raises(SelfWaitError):
        ref.rpc_sync().again(form, ref)
    assert ref.rpc_sync().again("end", ref) == "it ran"


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("form", ["method", "fetch"])
def test_a_call_that_outlives_the_wait_for_it_may_call_the_object(
    system: System, form: str, busy: bool, gate: Path
) -> None:
    """It waits while another method runs."""
    begun, end = gate.with_name("begun"), gate.with_name("end")
    ref = farref.remote("B", Selfish)
    ref.rpc_sync().give_up(ref, form, gate)
    if busy:
        other = ref.rpc_async().stay(begun, end)
        assert until(system, begun.exists)
        gate.touch()
        assert until(system, lambda: farref.rpc_sync("C", farref.counters).in_flight)
        assert not until(system, lambda: farref.rpc_sync("C", _is_late), 0.3)
        end.touch()
        assert other.result() is None
    gate.touch()
    assert until(system, lambda: farref.rpc_sync("C", _is_late))
    assert farref.rpc_sync("C", _take_late) == ["it ran" if form == "method" else "Selfish"]


class Records(logging.Handler):
    """Keeps the lines of the log of this process."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


RECORDS = Records()


def begin_records() -> None:
    logging.getLogger("farref").addHandler(RECORDS)


def end_records() -> list[str]:
    logging.getLogger("farref").removeHandler(RECORDS)
    lines = RECORDS.lines.copy()
    RECORDS.lines.clear()
    return lines


@pytest.mark.parametrize("form", ["method", "future", "fetch"])
def test_a_call_that_was_refused_to_its_caller_is_in_no_log(system: System, form: str) -> None:
    """Its caller has the error that was raised here; the refusal by the owner comes later."""
    farref.rpc_sync("B", begin_records)
    ref = farref.remote("B", Selfish)
    with pytest.raises(SelfWaitError):
        ref.rpc_sync().again(form, ref)
    farref.rpc_sync("B", gc.collect)
    idle(system, 0.2)
    assert farref.rpc_sync("B", end_records) == []


def test_a_cycle_of_nobody_is_no_self_wait(system: System) -> None:
    first, second = farref.remote("B", Selfish), farref.remote("C", Selfish)
    assert first.rpc_sync().again("end", second) == "it ran"
    assert second.rpc_sync().again("end", first) == "it ran"
