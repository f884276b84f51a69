"""Messages as frames on a byte stream: a pure machine, no sockets here.

A frame is a header, the sizes of its out-of-band buffers, the pickle, the buffers::

    +------------+---------------+--------+-----+--------------------+--------+---------+
    | body: u64  | buffers: u32  | kind   | pad | sizes: u64 x count | pickle | buffers |
    +------------+---------------+--------+-----+--------------------+--------+---------+

Sending.  Pickle protocol 5 leaves large buffers (NumPy arrays, ``PickleBuffer``) out of the
pickle.  A read-only buffer goes to the socket without a copy.  A *mutable* buffer is copied once:
the program may change it right after ``send`` returns, and the receiver must see the old bytes.
Buffers below 4 KiB are cheaper inside the pickle.

Receiving.  :class:`FrameDecoder` parses many small frames out of one read.  As soon as the
header of a large frame is known it allocates exactly the memory that the frame needs, and
:meth:`FrameDecoder.destination` lets the caller receive straight into it.  So every byte is copied
once, whatever the size, and a frame that arrives in a thousand pieces is parsed only once.
"""

from __future__ import annotations

import pickle
import struct
from typing import Final

import msgspec

from .errors import FrameError

HEADER: Final = struct.Struct("<QIB3x")
MAX_BUFFERS: Final = 1 << 16
OUT_OF_BAND: Final = 4096  # bytes: smaller buffers stay in the pickle
DIRECT: Final = 1 << 16  # bytes: larger incomplete frames get memory of their own
BURST: Final = 64  # messages that are delivered between two looks at the sockets
JOIN: Final = 1 << 14  # bytes: below this, one small copy is cheaper than one more part

DATA: Final = 1  # acknowledge when convenient
DATA_ACK_NOW: Final = 2  # a sender waits for the acknowledgement
ACK_REQUEST: Final = 3  # from now on acknowledge at once: the sender is leaving
RAW: Final = 4  # data that is no pickle, and never acknowledged: its sender takes care of losses
_KINDS: Final = frozenset({DATA, DATA_ACK_NOW, ACK_REQUEST, RAW})

Part = bytes | memoryview
Frame = tuple[int, bytes | bytearray, list[bytearray]]
"""Kind, pickle, out-of-band buffers.  A plain tuple: one is made per message received."""


class Raw(msgspec.Struct, frozen=True):
    """The data of a `RAW` frame, for a receiver that takes these as messages."""

    data: bytes | bytearray


class Encoder:
    """Turns messages into parts to be written one after the other.  Thread-safe."""

    __slots__ = ("_streamed",)

    def __init__(self) -> None:
        # Types whose last message was large: they are pickled piece by piece, which lets
        # large bytes objects travel without a copy but costs small messages 0.7 us.
        self._streamed: set[type] = set()

    def encode(self, message: object, kind: int = DATA) -> list[Part]:
        """*message* as the parts of one frame.  Lets every error of pickling escape."""
        buffers: list[memoryview] = []

        def keep_in_band(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes < OUT_OF_BAND or len(buffers) >= MAX_BUFFERS:
                return True
            buffers.append(raw)
            return False

        if type(message) in self._streamed:
            sink = _Sink()
            pickle.Pickler(sink, 5, buffer_callback=keep_in_band).dump(message)
            body, size = sink.parts, sink.size
            if size < DIRECT:
                self._streamed.discard(type(message))
        else:
            try:
                pickled = pickle.dumps(message, 5, buffer_callback=keep_in_band)
            except MemoryError:  # pickled piece by piece it needs no copy
                self._streamed.add(type(message))
                return self.encode(message, kind)
            size = len(pickled)
            if size >= DIRECT:
                self._streamed.add(type(message))
            if not buffers and size < JOIN:
                return [HEADER.pack(size, 0, kind) + pickled]
            body = [pickled]
        header = HEADER.pack(size, len(buffers), kind) + struct.pack(
            f"<{len(buffers)}Q", *[buffer.nbytes for buffer in buffers]
        )
        return [header, *body, *[each if each.readonly else bytes(each) for each in buffers]]


class _Sink:
    """A file for the pickler that keeps what is written: large bytes objects are parts themselves.

    This is no local class: a local class is a reference cycle, and would keep a message of a
    gigabyte until the next garbage collection.
    """

    __slots__ = ("parts", "size")

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.size = 0

    def write(self, data: bytes | bytearray | memoryview, /) -> int:
        self.parts.append(data if isinstance(data, bytes) else bytes(data))
        self.size += len(data)
        return len(data)


def control(kind: int) -> bytes:
    """A frame that carries nothing but its *kind*."""
    return HEADER.pack(0, 0, kind)


def decode(frame: Frame) -> object:
    """The message of a data *frame*.  Lets every error of unpickling escape."""
    kind, body, buffers = frame
    if kind == RAW:
        return Raw(body)
    return pickle.loads(body, buffers=buffers)  # noqa: S301 (the peer is authenticated)


def frame_bytes(frame: Frame) -> int:
    """The memory that *frame* holds, in bytes (without the overhead of its objects)."""
    _, body, buffers = frame
    return len(body) + sum(map(len, buffers)) if buffers else len(body)


def raw_frames(data: memoryview) -> tuple[list[bytes], int]:
    """The `RAW` frames at the beginning of *data*, a burst at most, and the bytes they take."""
    found: list[bytes] = []
    start, end = 0, len(data)
    while end - start >= HEADER.size and len(found) < BURST:
        size, count, kind = HEADER.unpack_from(data, start)
        stop = start + HEADER.size + size
        if kind != RAW or count or stop > end:
            break
        found.append(bytes(data[start + HEADER.size : stop]))
        start = stop
    return found, start


class FrameDecoder:
    """Parses a stream into frames.

    The caller receives into :meth:`destination` when there is one, and reports with
    :meth:`advance`; otherwise it receives anywhere and passes the bytes to :meth:`feed`.
    """

    __slots__ = ("_filling", "_limit", "_position", "large", "partial")

    def __init__(self, max_message_bytes: int) -> None:
        self._limit = max_message_bytes
        self.partial = bytearray()
        """The beginning of a frame.  If it is empty, and no frame is `large`, the next byte begins
        a frame, and there is no `destination`."""
        self.large: Frame | None = None
        self._filling: list[memoryview] = []  # the missing parts of _large, last part first
        self._position = 0

    def feed(self, data: memoryview | bytes) -> list[Frame]:
        """The frames completed by *data*.  *data* may be reused as soon as this returns.

        Raises :class:`FrameError` for a stream that cannot be ours.
        """
        frames: list[Frame] = []
        view = memoryview(data)
        if self.large is not None:
            view = self._fill(view, frames)
        if self.partial:
            self.partial += view
            view = memoryview(self.partial)
            used = self._parse(view, frames)
            view.release()
            del self.partial[:used]
        else:
            used = self._parse(view, frames)
            if used < len(view):
                self.partial += view[used:]
        return frames

    def destination(self) -> memoryview | None:
        """The memory for the next bytes, or None when :meth:`feed` must get them."""
        return self._filling[-1][self._position :] if self._filling else None

    def advance(self, count: int) -> list[Frame]:
        """*count* bytes were received into :meth:`destination`."""
        self._position += count
        frames: list[Frame] = []
        self._finish_filled(frames)
        return frames

    def _parse(self, view: memoryview, frames: list[Frame]) -> int:
        """Append the complete frames of *view* to *frames*; the number of bytes used."""
        start, end = 0, len(view)
        while end - start >= HEADER.size:
            size, count, kind = HEADER.unpack_from(view, start)
            if kind not in _KINDS or count > MAX_BUFFERS or size > self._limit:
                raise FrameError(f"not a frame: kind {kind}, {size} bytes, {count} buffers")
            body = start + HEADER.size + 8 * count
            sizes: tuple[int, ...] = ()
            stop = body + size
            if count:
                if end < body:
                    break
                sizes = struct.unpack_from(f"<{count}Q", view, start + HEADER.size)
                total = size + sum(sizes)
                if total > self._limit:
                    raise FrameError(f"a message of {total} bytes; the limit is {self._limit}")
                stop = body + total
            if stop > end:
                if stop - start > DIRECT:
                    self._begin_large(kind, size, sizes)
                    self._fill(view[body:end], frames)
                    start = end
                break
            position = body + size
            buffers: list[bytearray] = []
            for length in sizes:
                buffers.append(bytearray(view[position : position + length]))
                position += length
            frames.append((kind, bytes(view[body : body + size]), buffers))
            start = stop
        return start

    def _begin_large(self, kind: int, size: int, sizes: tuple[int, ...]) -> None:
        try:
            body = bytearray(size)
            buffers = [bytearray(length) for length in sizes]
        except (MemoryError, OverflowError) as error:
            raise FrameError(f"no memory for a message of {size + sum(sizes)} bytes") from error
        self.large = (kind, body, buffers)
        self._filling = [memoryview(part) for part in (*reversed(buffers), body) if len(part)]
        self._position = 0

    def _fill(self, view: memoryview, frames: list[Frame]) -> memoryview:
        """Copy from *view* into the large frame. Return the rest of *view*."""
        while self._filling and len(view):
            target = self._filling[-1]
            count = min(len(view), len(target) - self._position)
            target[self._position : self._position + count] = view[:count]
            view = view[count:]
            self._position += count
            self._finish_filled(frames)
        return view

    def _finish_filled(self, frames: list[Frame]) -> None:
        if self._position == len(self._filling[-1]):
            self._filling.pop().release()
            self._position = 0
            if not self._filling:
                if self.large is None:
                    raise AssertionError("memory was filled, but for no frame")
                frames.append(self.large)
                self.large = None
