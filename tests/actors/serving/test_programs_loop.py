"""The program has one loop for all `async def` functions that others call there."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from farref import RRef, System, SystemDownError

from ...bases import BASES
from ..helpers import until


def loops() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "farref loop program"]


class Patient:
    def __init__(self) -> None:
        self.log: list[Any] = []

    async def wait(self) -> None:
        self.log.append(threading.current_thread().name)
        try:
            await asyncio.Event().wait()
        finally:
            self.log.append("finally")

    async def never_ends(self) -> None:
        self.log.append("stubborn")
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.log.append("cancelled")

    def nothing(self) -> None:
        pass


@pytest.mark.parametrize("base", BASES)
def test_the_loop_begins_with_its_first_use_and_ends_with_the_system(base: str) -> None:
    value = Patient()
    with System(base) as system:
        patient = RRef(value)
        patient.rpc_sync().nothing()
        assert loops() == []
        futures = [patient.rpc_async().wait() for _ in range(3)]
        assert until(system, lambda: len(value.log) == 3)
        assert loops() == ["farref loop program"]
        system.shutdown(graceful=False)
    assert loops() == []
    assert value.log == ["farref loop program"] * 3 + ["finally"] * 3
    for future in futures:
        with pytest.raises(SystemDownError):
            future.result()


def test_a_function_that_ignores_its_cancellation_does_not_hold_up_the_end() -> None:
    value = Patient()
    with System("simpleSystemBase") as system:
        future = RRef(value).rpc_async().never_ends()
        assert until(system, lambda: value.log == ["stubborn"])
        system.shutdown(graceful=False)
    assert loops() == []
    assert value.log == ["stubborn", "cancelled"]
    assert future.done()
