"""Beats on our own base: frames that nobody acknowledges.

An acknowledgement would wake both ends once more for each beat, and a system at rest does nothing
else. A lost beat does no harm: the next one says the same.
"""

from __future__ import annotations

import msgspec

from ...protocol.errors import ProtocolError
from .messages import Heartbeat

frame_of = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Heartbeat)


def beat_in(data: bytes | bytearray) -> Heartbeat:
    """The beat in a frame. Raises `ProtocolError`."""
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"a frame that is no beat: {error}") from None
