"""Large buffers between processes of one host: shared memory that the kernel frees.

A buffer of `THRESHOLD` bytes or more, for a receiver that sees our process, is not in the message.
It is copied, once, into a *segment*: an anonymous file in memory (``memfd_create``), sealed when
it is written, so that nobody else can change it any more, and nobody shorten it. The message says
where the segment is: which descriptor of which process, which is a name in ``/proc``, and the
segment's own name, which is written at the end of the file, with the size.

============================  ==================================================================
the sender                    has the segment open until the message has been acknowledged: the
                              channel keeps the message that long, to send it again, and the
                              message the segment. A frozen value keeps its own besides.
the message arrives           the receiver opens ``/proc/PID/fd/N`` before it acknowledges
somebody wants the value      it is mapped, privately, and the descriptor is closed; that is done
                              at once, if too many have arrived that nobody wanted so far
the message is acknowledged   the sender keeps it for a moment, for another value (`recycling`),
                              or closes it
the last array is let go      it is unmapped
============================  ==================================================================

**Nothing can be left behind.** A segment never has a name in any folder. It is memory for as long
as a process has it open or mapped, and no longer: that is the kernel's count, not ours, and
``kill -9`` of anybody, or of everybody, only makes it smaller. No message is needed for freeing.

**Nobody sees a change of another's.** What a message brings to be written to is mapped copy on
write: pages are copied as they are written to. What is frozen is mapped for reading only, and so
costs nothing, however large, until it is read. A segment is written to again only when the kernel
says that nobody has it open or mapped, and a frozen value's never.

**The sender may die** when the message is on its way. Then the segment is gone before the receiver
could open it, and whoever unpickles the message gets a `SenderDiedError`; references that came with
it are settled as ever. Something else that has come to bear the same number is recognised by
the name in it, and the kernel's seal, and is never taken for the segment.

**Where it does not work** (another operating system, no descriptor to be had, a limit on the size
of files) buffers are in the message, as they are between hosts. ``/dev/shm`` and its size
play no part. If there is not enough memory, that is a `SharedMemoryFullError` before a reference
has been shared or a byte sent, rather than a process that the kernel kills.

A process that forks passes on what it reads, like all its memory, but not what it has sent.
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import fcntl
import mmap
import os
import resource
import secrets
from typing import Any

from ..features import has
from ..protocol.errors import (
    FarrefError,
    ProtocolError,
    SenderDiedError,
    SerializationError,
    SharedMemoryFullError,
)
from .mapping import copy_into, mapped, mapped_to_write
from .memory import available
from .recycling import MOST_BYTES, Recycler

THRESHOLD = 128 << 10
"""Bytes of a buffer from which on it is shared. Of smaller ones, copies cost less than mappings."""
LOOKED_AT = 16 << 20
"""Bytes of one message from which on it is asked first whether there is memory for them."""
KEPT_SHARE, KEPT_SHARE_ALONE = 4, 16
"""A segment is kept only where so many times its size is free; the latter beyond `MOST_BYTES`."""
MOST_PASSING = 512
"""Segments of messages that this process has open; what more it sends goes in the message."""
MOST_UNREAD = 256
"""Segments of messages that it keeps open until somebody wants the value; more are mapped."""
MOST_MAPPED = 16_384
"""Segments that it maps before somebody wants the value, as a process has 65,530 mappings; of more
it reads a copy."""
SLOW_TO_FREE = 4 << 20
"""Bytes of a segment that is closed in a thread of its own: freeing a gigabyte takes 0.5 s."""

Row = tuple[int, int, str, int, bool]
"""Where a segment is, what it is called, its size, and whether its reader may write to a copy."""
SEALS = (
    fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | 0x10
    if hasattr(fcntl, "F_SEAL_SEAL")
    else 0
)
"""The last is F_SEAL_FUTURE_WRITE: nobody writes, or maps to be written, any more."""
_GONE = frozenset({errno.ENOENT, errno.ESRCH, errno.ENXIO})
_ANOTHER = frozenset({errno.EWOULDBLOCK, errno.EINVAL})
"""It is being written to, for another; it is no such file, which has no seals."""
_FULL = frozenset({errno.ENOSPC, errno.ENOMEM})
_open: dict[int, str] = {}
"""The descriptors of this process that are segments', with their names."""
_written: dict[int, mmap.mmap] = {}
"""Those of them that may be written to again, mapped for that."""
unread: set[int] = set()
"""Those of segments that came in messages which nobody has unpickled (an alias relays some)."""
early: set[int] = set()
"""The segments, by their `id`, that came in such messages too, and have no descriptor any more."""
_passing: set[int] = set()
"""The descriptors of segments that are for one message each."""


class Segment:
    """A buffer in shared memory: of this process, or one that a message told of.

    Pickled, it is only told of. Never changes, once it is `of` a buffer or has been `taken`.
    """

    __slots__ = (
        *("__weakref__", "_content", "_descriptor", "_source", "_trouble"),
        *("name", "size", "writable"),
    )

    def __init__(self, source: tuple[int, int], name: str, size: int, *, writable: bool) -> None:
        self._source = source
        """A process, and which of its descriptors it is."""
        self._descriptor = -1
        """Ours, while it is open here."""
        self._content: memoryview | None = None
        """Its bytes, if it has been given its memory before anybody wanted it."""
        self._trouble: FarrefError | None = None
        self.name = name
        self.size = size
        self.writable = writable
        """Whether whoever gets it may write to a copy of its own."""

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"<segment {self.name} of {self.size} bytes>"

    # ---- at the sender

    @classmethod
    def of(cls, view: memoryview, *, writable: bool, passing: bool = False) -> Segment | None:
        """A copy of *view*; None if there are no segments here, or no more.

        *passing*: it is for one message, and may be made of one that is read no more, and become
        another; of these there are `MOST_PASSING` at most. Lets other threads run while it copies.
        Raises `SharedMemoryFullError`.
        """
        name = f"farref-{secrets.token_hex(12)}"
        label = _label(name, view.nbytes)
        kept = recycler.find(view.nbytes + len(label)) if passing else None
        if passing and kept is None and len(_passing) >= MOST_PASSING:
            return None
        descriptor = _made() if kept is None else kept.descriptor
        if descriptor is None:
            return None
        if passing:
            _passing.add(descriptor)
        self = cls((os.getpid(), descriptor), name, view.nbytes, writable=writable)
        self._hold(descriptor)
        if kept is not None:
            self._rewrite(view)
            return self
        try:
            _write(descriptor, view)
            _write(descriptor, memoryview(label))
            memory = _again(descriptor, view.nbytes + len(label)) if passing else None
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
        except OSError as error:
            if error.errno in _FULL:
                raise SharedMemoryFullError(_no_room(view.nbytes)) from error
            return None
        if memory is not None:
            _written[descriptor] = memory
        return self

    def _rewrite(self, view: memoryview) -> None:
        """It was another's, and is locked: its pages are there."""
        memory, label = _written[self._descriptor], _label(self.name, self.size)
        try:
            memory[-len(label) :] = label  # first: nobody shall find the old one with other bytes
            copy_into(memory, view)
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def told(self) -> Segment:
        """What a message says of it: it is to be opened anew, by each message for itself."""
        source = self._source if self._descriptor < 0 else (os.getpid(), self._descriptor)
        return Segment(source, self.name, self.size, writable=self.writable)

    def row(self) -> Row:
        """What a message says of it, as plain data; `Segment.said` is the inverse."""
        process, number = self.told()._source
        return process, number, self.name, self.size, self.writable

    @classmethod
    def said(cls, process: int, number: int, name: str, size: int, writable: bool) -> Segment:
        """What a message tells of."""
        return cls((process, number), name, size, writable=writable)

    def __reduce__(self) -> Any:
        return Segment.said, self.row()

    # ---- at the receiver

    @property
    def foreign(self) -> bool:
        """Whether it came in a message; if it goes on in another, its reader may be anywhere."""
        return self._source != (os.getpid(), self._descriptor)

    @property
    def early(self) -> bool:
        """Whether it came, and is here with no descriptor: nobody can be told where it is."""
        return self._content is not None

    def take(self) -> None:
        """Open it here, if it is not: from now on its sender may let go of it.

        Raises `ProtocolError` for what is no segment; that it is gone shows in `buffer`.
        """
        if self._descriptor >= 0 or self._trouble is not None or self._content is not None:
            return
        numbers = all(type(number) is int and number >= 0 for number in (*self._source, self.size))
        if not numbers or type(self.name) is not str or type(self.writable) is not bool:
            raise ProtocolError("a segment whose fields are not what belongs there")
        process, number = self._source
        path = f"/proc/{process}/fd/{number}"
        try:
            self._hold(_with_descriptors(lambda: os.open(path, os.O_RDONLY | os.O_NONBLOCK)))
            unread.add(self._descriptor)
        except OSError as error:
            self._trouble = self._gone() if error.errno in _GONE else self._refused(error)
            return
        try:
            if not self._is_it():
                self._trouble = self._gone()
        except OSError as error:
            self._trouble = self._refused(error)
        if self._trouble is not None:
            self.close()
        elif len(unread) > MOST_UNREAD:
            self._take_content()

    def _take_content(self) -> None:
        """Give back its descriptor, before anybody wants the value: too many are open."""
        try:
            if len(early) < MOST_MAPPED:
                content = mapped(self._descriptor, self.size, writable=self.writable)
            else:
                content = memoryview(self.content())
        except (OSError, OverflowError, MemoryError):
            return  # it stays open
        self.close()
        self._content = content
        early.add(id(self))

    def buffer(self, *, copy: bool = True) -> memoryview:
        """Its bytes, mapped for this process alone. One that came in a message is closed then.

        Raises:
            SenderDiedError: the process that sent it ended before it was taken.
            SerializationError: it cannot be opened here.
            MemoryError: it cannot be mapped, and is not to be copied instead.
        """
        self._check()
        if self._content is not None:
            content, self._content = self._content, None
            early.discard(id(self))
            return content
        if not self.foreign:  # who maps what we opened ourselves is no reader who can be told of
            _written.pop(self._descriptor, None)
        try:
            return mapped(self._descriptor, self.size, writable=self.writable)
        except (OSError, OverflowError, MemoryError) as error:  # vm.max_map_count, or RLIMIT_AS
            if not copy:
                raise MemoryError(f"no mapping of {self.size} bytes is to be had") from error
            recycler.empty()  # which has some
            return memoryview(self.content())
        finally:
            if self.foreign:
                self.close()

    def content(self) -> bytes | bytearray:
        """Its bytes, copied; it stays open. Raises what `buffer` raises."""
        self._check()
        if self._content is not None:
            return bytearray(self._content) if self.writable else bytes(self._content)
        copy = bytearray(self.size)
        view, done = memoryview(copy), 0
        while done < self.size:
            done += os.preadv(self._descriptor, [view[done:]], done)
        return copy if self.writable else bytes(copy)

    def _check(self) -> None:
        if self._trouble is not None:
            raise type(self._trouble)(str(self._trouble))  # a new one: it would collect frames
        if self._descriptor < 0 and self._content is None:
            raise AssertionError(f"{self!r} is not open: a message is unpickled once")

    def _is_it(self) -> bool:
        """Whether what was opened is the segment, and not what came after it in its place.

        From now on it is not written to, until nobody has it open or mapped (see `recycling`).
        """
        label = _label(self.name, self.size)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            end = os.fstat(self._descriptor).st_size - len(label)  # it was another's, maybe longer
            return (
                fcntl.fcntl(self._descriptor, fcntl.F_GET_SEALS) == SEALS
                and end >= self.size
                and os.pread(self._descriptor, len(label), end) == label
            )
        except OSError as error:
            if error.errno in _ANOTHER:
                return False
            raise

    def _gone(self) -> SenderDiedError:
        return SenderDiedError(
            f"process {self._source[0]} ended, or gave this one up, when a message of its was on "
            f"the way, and {self.size} bytes that it had left in shared memory are gone; create "
            "the value again, or call another one if doing it twice does no harm"
        )

    def _refused(self, error: OSError) -> SerializationError:
        return SerializationError(
            f"{self.size} bytes that process {self._source[0]} left in shared memory cannot be "
            f"opened here: {error}; raise `ulimit -n` if descriptors are short, or set "
            "farref.serialization.shared.THRESHOLD so high that nothing is shared"
        )

    # ---- the end

    def close(self) -> None:
        """Let go of it here. What has been mapped stays mapped."""
        descriptor, self._descriptor = self._descriptor, -1
        if self._content is not None:
            self._content = None
            early.discard(id(self))
        # A forked child has closed what it inherited, and may have given the number to another.
        if descriptor >= 0 and _open.get(descriptor) == self.name:
            unread.discard(descriptor)
            memory = _written.get(descriptor)
            if memory is None or not recycler.keep(descriptor, len(memory)):
                _close(descriptor, self.size)

    def __del__(self) -> None:
        self.close()

    def _hold(self, descriptor: int) -> None:
        _open[descriptor] = self.name
        self._descriptor = descriptor


def check_room(size: int) -> None:
    """Raise `SharedMemoryFullError` unless there is memory for *size* more bytes."""
    if size >= LOOKED_AT and size > available():
        recycler.empty()
        if size > available():
            raise SharedMemoryFullError(_no_room(size))


def _no_room(size: int) -> str:
    return (
        f"{size} bytes are to go into shared memory, and of this machine's, or of the control "
        f"group's, {available()} bytes are left; nothing was sent: free some, send it in parts, or "
        "pass an RRef to it"
    )


def _label(name: str, size: int) -> bytes:
    """What a segment ends with."""
    return f" {name} {size}".encode(errors="replace")


def _made() -> int | None:
    """A new segment's descriptor; None if there can be none."""
    if not SEALS or not (has("memfd") and has("procfs")):
        return None
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return _with_descriptors(lambda: os.memfd_create("farref", flags))
    except OSError:
        return None


def _with_descriptors(opening: Any) -> int:
    """What *opening* returns; if descriptors are short, with as many as this process may have."""
    try:
        descriptor: int = opening()
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        recycler.empty()
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        descriptor = opening()
    return descriptor


def _again(descriptor: int, size: int) -> mmap.mmap | None:
    """The segment's bytes, to be written to when it is sealed, if it is to be kept for that."""
    share = KEPT_SHARE if size <= MOST_BYTES else KEPT_SHARE_ALONE
    if size >= LOOKED_AT and size > available() // share:
        return None
    try:
        return mapped_to_write(descriptor, size)
    except (OSError, OverflowError, MemoryError):  # as of `mapped`
        return None


def _write(descriptor: int, view: memoryview) -> None:
    done = 0
    while done < view.nbytes:
        done += os.write(descriptor, view[done:])


def _close(descriptor: int, size: int) -> None:
    """Close it; if we are the last, the kernel frees it meanwhile, and others may wait for us."""
    if size >= SLOW_TO_FREE:
        with contextlib.suppress(RuntimeError):  # no more threads
            # Not `threading`'s: this is called by finalizers, which must not wait for its lock.
            _thread.start_new_thread(_close_now, (descriptor,))
            return
    _close_now(descriptor)


def _close_now(descriptor: int) -> None:
    del _open[descriptor]
    _passing.discard(descriptor)
    memory = _written.pop(descriptor, None)
    os.close(descriptor)  # first: who forks just now passes on what is open
    if memory is not None:
        memory.close()


recycler = Recycler(_close_now, _close)
"""What this process has sent, and may write to again."""


def _close_inherited() -> None:
    """In a forked child: what its parent sends is none of its business, and would not be freed."""
    for descriptor in list(_open):
        os.close(descriptor)
    for memory in list(_written.values()):
        with contextlib.suppress(BufferError):  # it was being written to
            memory.close()
    recycler.forget()
    _written.clear()
    _open.clear()
    _passing.clear()
    unread.clear()


os.register_at_fork(after_in_child=_close_inherited)
