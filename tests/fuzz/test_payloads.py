"""Damaged payloads: bytes, numbers of descriptors, buffers. The forks in them settle."""

from __future__ import annotations

import io
import pickle
import random
import traceback
from typing import Any

import pytest
from msgspec.structs import replace

from farref.protocol.errors import SerializationError
from farref.serialization.errors import Failure
from farref.serialization.payload import Payload

from ..serialization.endpoint import TinyAddress, TinyEndpoint, TinyHandle
from .cases import cases, damaged


class Buffer:
    """Pickles out of band."""

    def __init__(self, data: bytearray) -> None:
        self.data = data

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Buffer, (pickle.PickleBuffer(self.data),)


def value(rng: random.Random, handles: list[TinyHandle]) -> Any:
    parts = [
        *handles,
        [1, 2.5, "text", (None, True)],
        {"a": handles[0], "b": {"c": handles}},
        bytes(50),
        Buffer(bytearray(5000)),
        TinyAddress(),
    ]
    return rng.sample(parts, rng.randint(1, len(parts)))


def spoil(rng: random.Random, payload: Payload) -> Payload:
    match rng.randrange(5):
        case 0:
            return replace(payload, buffers=payload.buffers[1:])
        case 1:
            return replace(payload, inert=())
        case 2:
            other = rng.choice((b"-1", b"99", b"None", b"'0'"))
            return replace(payload, data=_renumber(payload.data, other))
        case 3:
            return replace(payload, buffers=(rng.randbytes(rng.randint(0, 9)),))
        case _:
            return replace(payload, data=damaged(rng, payload.data))


def _renumber(data: bytes, number: bytes) -> bytes:
    """Give the first reference in *data* another number than its descriptor's."""
    return data.replace(b"K\x00\x86\x94Q", b"I" + number + b"\n\x86\x94Q", 1)


def test_payloads(little_memory: None) -> None:
    """It unpickles, or raises a `SerializationError`; in the end the owner frees everything."""
    failed = 0
    for case in cases("payloads"):
        with case as rng:
            owner, user = TinyEndpoint("owner"), TinyEndpoint("user")
            handles = [owner.own() for _ in range(3)]
            payload, descriptors = owner.pack(value(rng, handles), user)
            if rng.random() < 0.3:
                descriptors_there = descriptors[: rng.randint(0, len(descriptors))]
            else:
                descriptors_there = descriptors
            held = {each.rref for each in descriptors_there}
            try:
                user.unpack(owner, spoil(rng, payload), descriptors_there)
            except SerializationError:
                failed += 1
            kept = {rref for rref, entry in user.context.users.items() if entry.handles}
            assert kept <= held
            assert all(not entry.messages for entry in user.context.users.values())
    assert failed


@pytest.mark.parametrize(
    "number", [-1, 99, "0", 1.0, True, ("i", 0), ("i", -1), ("f", 0), ("f", None)]
)
def test_a_number_of_no_descriptor(number: Any) -> None:
    """A negative number does not mean the last descriptor, as it would in Python."""
    owner, user = TinyEndpoint("owner"), TinyEndpoint("user")
    payload, descriptors = owner.pack([owner.own(), owner.own()], user)

    class Forger(pickle.Pickler):
        def persistent_id(self, obj: Any) -> Any:
            return number if obj is forged else None

    forged, file = object(), io.BytesIO()
    Forger(file, 5).dump([forged])
    payload = replace(payload, data=file.getvalue())
    with pytest.raises(SerializationError):
        user.unpack(owner, payload, descriptors)


def test_failures(little_memory: None) -> None:
    """A failure with damaged bytes is still an exception, with all its other information."""
    for case in cases("payloads"):
        with case as rng:
            try:
                raise ValueError("unlucky", rng.random())  # noqa: TRY301 - the user's code
            except ValueError as error:
                failure = Failure.of(error, "B", "there()")
            assert failure.pickled is not None
            failure = replace(failure, pickled=damaged(rng, failure.pickled))
            rebuilt = failure.rebuild()
            assert isinstance(rebuilt, Exception)
            text = "".join(traceback.format_exception(rebuilt))
            assert "unlucky" in text
            assert "raised on worker B by there()" in text
