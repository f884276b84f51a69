"""Two threads at once: what each of these orders did before it was mended, made to happen."""

from __future__ import annotations

import concurrent.futures
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import Future, RefActor, System, SystemDownError, WorkerDiedError
from farref.actors import current
from farref.protocol.ids import CallId
from farref.protocol.messages import Call, Cargo

from .helpers import until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def alone() -> Iterator[System]:
    """A system in this process; its program's endpoint is what these tests look at."""
    with System("simpleSystemBase", timeout=20) as system:
        system.worker("B")
        yield system


def test_a_call_that_is_made_while_the_system_ends_ends_too(
    alone: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = alone.endpoint.calls
    step = calls._step

    def closes_first(*arguments: Any) -> None:
        alone.endpoint.close("the test ends it")
        step(*arguments)

    monkeypatch.setattr(calls, "_step", closes_first)
    with pytest.raises(SystemDownError):
        farref.rpc_async("B", pow, (2, 3)).result(1)


def test_an_ask_of_one_who_dies_while_it_is_sent_names_the_death(
    alone: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, info = alone.endpoint.calls, farref.get_worker_info("B")

    def dies_first(*_: object, **__: object) -> None:
        for future in calls.asked(info.id):
            future.failed(WorkerDiedError("dead"))
        raise WorkerDiedError("dead")

    monkeypatch.setattr(calls, "tell", dies_first)
    with pytest.raises(WorkerDiedError):
        alone.ask("B", "hello")


class Late(RefActor):
    """Its handlers take longer than its system lives."""

    async def _nothing(self) -> None:
        pass

    def receiveMsg_tuple(self, message: tuple[threading.Event, ...], sender: object) -> Any:
        started, release = message
        started.set()
        release.wait(30)
        return self._nothing()


def test_a_handler_that_outlives_its_system_ends_quietly(
    alone: System, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    actor = alone.create(Late, "late")
    thread = next(each for each in threading.enumerate() if each.name == "farref loop late")
    started, release = threading.Event(), threading.Event()
    kept[:] = [(started, release), (started, release)]
    for number in range(2):
        alone.tell(actor, Kept(number))
    assert until(alone, started.is_set)
    with caplog.at_level(logging.ERROR):
        alone.shutdown()
        release.set()
        thread.join(30)
    assert not thread.is_alive()
    assert not caplog.records


kept: list[Any] = []


class Kept:
    """Arrives as what this process kept under its number: events cannot be pickled."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> Any:
        return take, (self.number,)


def take(number: int) -> Any:
    return kept[number]


def test_an_actors_finalizers_are_quiet_when_its_system_has_ended(
    alone: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = alone._asys._systemBase.actorRegistry
    endpoint = registry[str(alone.create(Late).addressDetails)].instance._mailbox.endpoint
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(alone._asys, "_systemBase", None)
        endpoint.wake()  # as the last handle of a reference does
