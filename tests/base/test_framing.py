"""Frames survive every way of cutting a stream into pieces."""

from __future__ import annotations

import pickle
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farref.actors.base import FrameError
from farref.actors.base.framing import (
    ACK_REQUEST,
    DATA,
    DATA_ACK_NOW,
    DIRECT,
    HEADER,
    Encoder,
    Frame,
    FrameDecoder,
    control,
    decode,
)

LIMIT = 1 << 24


def on_the_wire(*messages: object, kind: int = DATA) -> bytes:
    encoder = Encoder()
    return b"".join(bytes(p) for m in messages for p in encoder.encode(m, kind))


def received(decoder: FrameDecoder, data: bytes, sizes: list[int]) -> list[Frame]:
    """Feed *data* in pieces of *sizes*, directly into the decoder's memory if it asks for that."""
    frames: list[Frame] = []
    rest = memoryview(data)
    pieces = iter(sizes)
    while rest:
        piece = rest[: next(pieces, len(rest))]
        target = decoder.destination()
        if target is None:
            frames += decoder.feed(piece)
        else:
            piece = piece[: len(target)]
            target[: len(piece)] = piece
            frames += decoder.advance(len(piece))
        rest = rest[len(piece) :]
    return frames


def test_every_byte_boundary_of_several_frames() -> None:
    messages: list[Any] = ["", b"x" * 100, {"a": [1, 2]}, np.arange(1000)]
    wire = on_the_wire(*messages) + control(ACK_REQUEST)
    for cut in range(len(wire) + 1):
        frames = received(FrameDecoder(LIMIT), wire, [cut] if cut else [])
        assert [f[0] for f in frames] == [DATA] * 4 + [ACK_REQUEST], cut
        assert [decode(f) for f in frames[:3]] == messages[:3]
        assert (decode(frames[3]) == messages[3]).all()


@given(
    messages=st.lists(
        st.one_of(
            st.binary(max_size=200),
            st.text(max_size=50),
            st.integers(1, 3 * DIRECT).map(bytes),
            st.integers(1, 3 * DIRECT).map(lambda n: np.zeros(n, np.uint8)),
        ),
        max_size=6,
    ),
    sizes=st.lists(st.integers(1, 2 * DIRECT), max_size=30),
)
@settings(max_examples=150)
def test_any_messages_in_any_pieces(messages: list[object], sizes: list[int]) -> None:
    frames = received(FrameDecoder(LIMIT), on_the_wire(*messages), sizes)
    assert len(frames) == len(messages)
    for frame, message in zip(frames, messages, strict=True):
        assert pickle.dumps(decode(frame)) == pickle.dumps(message)


@given(garbage=st.binary(max_size=300), sizes=st.lists(st.integers(1, 50), max_size=20))
@settings(max_examples=200)
def test_garbage_is_refused_or_waits_for_more(garbage: bytes, sizes: list[int]) -> None:
    decoder = FrameDecoder(1000)
    try:
        frames = received(decoder, garbage, sizes)
    except FrameError:
        return
    assert all(kind in {DATA, DATA_ACK_NOW, ACK_REQUEST} for kind, _, _ in frames)


def test_oversized_lengths_are_refused_before_memory_is_taken() -> None:
    with pytest.raises(FrameError):
        FrameDecoder(LIMIT).feed(HEADER.pack(1 << 62, 0, DATA))
    with pytest.raises(FrameError):
        FrameDecoder(LIMIT).feed(HEADER.pack(10, 2, DATA) + struct.pack("<2Q", 5, 1 << 62))
    with pytest.raises(FrameError):
        FrameDecoder(LIMIT).feed(HEADER.pack(10, 1 << 31, DATA))


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(FrameError):
        FrameDecoder(LIMIT).feed(HEADER.pack(1, 0, 77))


def test_what_was_sent_is_a_snapshot_of_mutable_memory() -> None:
    array = np.zeros(100_000, np.uint8)
    parts = Encoder().encode(array)
    array[:] = 7
    (frame,) = received(FrameDecoder(LIMIT), b"".join(map(bytes, parts)), [])
    assert not decode(frame).any()  # type: ignore[attr-defined]  # it is an array


def test_read_only_memory_is_not_copied() -> None:
    array = np.zeros(100_000, np.uint8)
    array.flags.writeable = False
    parts = Encoder().encode(array)
    shared = np.frombuffer(parts[-1], np.uint8)
    assert np.shares_memory(shared, array)


def test_large_bytes_are_not_copied_from_the_second_message_of_a_type_on() -> None:
    encoder = Encoder()
    payload = bytes(1 << 20)
    encoder.encode(payload)
    assert any(part is payload for part in encoder.encode(payload))
    encoder.encode(b"small")  # and the type is forgotten when it gets small again
    assert len(encoder.encode(b"small")) == 1


def test_received_arrays_can_be_written() -> None:
    (frame,) = received(FrameDecoder(LIMIT), on_the_wire(np.arange(10_000)), [])
    array = decode(frame)
    array[0] = 5  # type: ignore[index]  # it is an array


def test_a_large_frame_is_received_in_place() -> None:
    wire = on_the_wire(np.zeros(10 * DIRECT, np.uint8))
    decoder = FrameDecoder(LIMIT)
    assert decoder.feed(wire[:5000]) == []
    assert decoder.destination() is not None
    (frame,) = received(decoder, wire[5000:], [])
    assert decode(frame).shape == (10 * DIRECT,)  # type: ignore[attr-defined]  # it is an array
