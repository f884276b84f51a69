"""A call whose index is empty in the export cache is refused alone, and the other calls run."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

import farref
from farref import FetchTimeoutError, RRef, System
from farref.actors.wire import codec
from farref.protocol.messages import Call, Cargo
from farref.serialization.definitions import Exported
from farref.testing import assert_nothing_held, until

from ..calls.test_functions import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    from farref.protocol.delivery import Packet
    from farref.protocol.ids import WorkerId

pytestmark = pytest.mark.processes
CALLS = 60
"""So many in flight that most of them leave together."""
EMPTY_INDEX = 99


@pytest.fixture
def system() -> Iterator[System]:
    with System("farrefBase", timeout=20) as system:
        system.worker("B", threads=1)
        yield system
        system.shutdown(graceful=False)  # a call has no answer


_logged: list[str] = []
_ran: list[int] = []
"""Both at B."""


class _Kept(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        _logged.append(record.getMessage())


def watch() -> None:
    logging.getLogger("farref").addHandler(_Kept())


def found() -> tuple[int, list[str], list[int]]:
    """The number of messages that B has refused, what it has logged, and the runs there."""
    return RRef(1)._front.core.refused, _logged, _ran


def note(number: int) -> None:
    _ran.append(number)


class WrongIndex:
    """The program encodes one call with a wrong index: in the middle of at least *least*."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, least: int) -> None:
        self._encode = codec.encode
        self._least = least
        self.wrong: list[Call] = []
        """The call, before it was changed."""
        monkeypatch.setattr(codec, "encode", self)

    def __call__(self, sender: WorkerId, to: WorkerId, packet: Packet, *how: Any) -> Any:
        messages, nth = list(packet.messages), self._least // 2
        call: Any = messages[nth] if len(messages) >= self._least and not self.wrong else None
        kind = type(call)
        if kind is Call and call.cargo.payload.functions:
            self.wrong.append(call)
            payload = replace(call.cargo.payload, functions=(Exported(EMPTY_INDEX),))
            cargo = Cargo(payload=payload, descriptors=call.cargo.descriptors)
            messages[nth] = replace(call, cargo=cargo)
        return self._encode(sender, to, replace(packet, messages=tuple(messages)), *how)


def by_value() -> Any:
    """A function that travels by value, and that B has."""
    function = main(f"""
    from {__name__} import note

    def f(number):
        note(number)
        return number
    """).f
    assert farref.rpc_sync("B", function, (-1,)) == -1
    return function


@pytest.mark.parametrize("least", [3, 1])
def test_a_call_with_an_empty_index_is_refused_alone(
    system: System, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    """Nobody answers what no correct endpoint sends: its caller's wait ends by its timeout."""
    function = by_value()
    farref.rpc_sync("B", watch)
    before, _, _ = farref.rpc_sync("B", found)
    encoder = WrongIndex(monkeypatch, least)
    futures: list[farref.Future[int]] = []

    def went_wrong() -> bool:
        """Whether one was encoded wrongly; if not, more calls leave."""
        more = range(len(futures), len(futures) + CALLS)
        futures.extend(farref.rpc_async("B", function, (number,)) for number in more)
        return bool(encoder.wrong)

    assert until(system, went_wrong)
    assert until(system, lambda: sum(not each.done() for each in futures) == 1)
    (lost,) = (number for number, each in enumerate(futures) if not each.done())
    others = [number for number in range(len(futures)) if number != lost]
    assert [futures[number].result() for number in others] == others
    refused, logged, ran = farref.rpc_sync("B", found)
    assert refused == before + 1
    assert ran == [-1, *others]
    (line,) = (each for each in logged if "refused" in each)
    assert line.startswith("B refused Call of program")
    assert f"index {EMPTY_INDEX}" in line
    with pytest.raises(FetchTimeoutError):
        futures[lost].result(timeout=0.01)
    futures[lost].cancel()
    assert_nothing_held(system)
