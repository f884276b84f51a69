"""What is pickled by a short way of its own arrives with every field."""

from __future__ import annotations

import pickle
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import msgspec
import pytest
from thespian.actors import ActorAddress

from farref.actors.wire import Envelope, WorkerInfo
from farref.protocol.ids import WorkerId
from farref.serialization.payload import Origin, Payload
from farref.serialization.shared import Segment

ME = WorkerInfo(WorkerId("A", 1), ActorAddress("there"))
SEGMENT = Segment((1, 2), "farref-name", 3, writable=True)
ORIGIN = Origin("a.py:1", (("traceparent", "00-1-2-01"),))
WHOLE = [
    ME,
    Payload(b"data", (b"one", bytearray(b"two")), ("inert",), (ME,), "tag", True, ORIGIN),
    Envelope(ME, WorkerId("B", 2), b"packet", (Payload(b"data"),), (ME,)),
]


@pytest.mark.parametrize("thing", WHOLE, ids=lambda thing: type(thing).__name__)
def test_every_field_arrives(thing: Any) -> None:
    names, defaults = _fields(thing)
    same = [name for name, default in defaults.items() if getattr(thing, name) == default]
    assert not same, "a field that this test says nothing about"
    came = pickle.loads(pickle.dumps(thing, 5))
    assert [getattr(came, name) for name in names] == [getattr(thing, name) for name in names]


def _fields(thing: Any) -> tuple[list[str], dict[str, Any]]:
    """The names of all, and the defaults of those that have one."""
    every = fields(thing) if is_dataclass(thing) else msgspec.structs.fields(thing)
    none = (MISSING, msgspec.NODEFAULT)
    defaults = {each.name: each.default for each in every if each.default not in none}
    return [each.name for each in every], defaults


def test_a_segment_is_told_of() -> None:
    came = pickle.loads(pickle.dumps(Payload(b"", (SEGMENT,)), 5)).buffers[0]
    told = (came._source, came.name, came.size, came.writable)
    assert told == ((1, 2), "farref-name", 3, True)


def test_messages_of_one_packet_each_open_what_they_share() -> None:
    """A frozen value, fetched twice: whoever has read one reply closes what is that reply's."""
    segment = Segment.of(memoryview(b"frozen" * 1000), writable=False)
    if segment is None:
        pytest.skip("no shared memory here")
    payloads = tuple(Payload(b"", (segment,), frozen=True) for _ in range(2))
    came = pickle.loads(pickle.dumps(Envelope(ME, WorkerId("B", 2), b"packet", payloads), 5))
    for payload in came.payloads:
        payload.take()
    for payload in came.payloads:
        assert bytes(payload.buffers[0].buffer()) == b"frozen" * 1000
