"""Large buffers between processes of one host: shared memory that the kernel frees.

docs/values.md has the rules. Such a buffer is copied, once, into a *segment*: an anonymous file in
memory (``memfd_create``), sealed after it is written. The message names a process and one of its
descriptors, a path in ``/proc``. It also gives the segment's own name, which is written at the end
of the file, with the size: another file may have that descriptor by now, and then the segment is
gone (`SenderDiedError`).

============================  ==================================================================
the sender                    has the segment open until the message has been acknowledged: the
                              channel keeps the message that long, to send it again, and the
                              message the segment. A frozen value keeps its own besides.
the message arrives           the receiver opens ``/proc/PID/fd/N`` before it acknowledges
the value is first used       it is mapped, privately, and the descriptor is closed; this happens
                              earlier, if too many unused segments have arrived. An interrupt of
                              the unpickling loses nothing: it begins anew with the mapping
the message is acknowledged   the sender keeps it for a moment, for another value (`recycling`),
                              or closes it
the last array is dropped     it is unmapped
============================  ==================================================================

**Nothing can be left behind**: a segment has no name in any folder, and is memory only as long as a
process has it open or mapped. The kernel counts this, not farref.

Where no segment can be made, buffers go in the message. Too little memory is a
`SharedMemoryFullError` before anything is sent: otherwise the kernel would kill a process.
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import fcntl
import os
import resource
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import starmap, tee
from struct import Struct
from typing import TYPE_CHECKING, Any

from ..features import cores, has
from ..protocol.errors import (
    FarrefError,
    ProtocolError,
    SenderDiedError,
    SerializationError,
    SharedMemoryFullError,
    SystemDownError,
)
from .failures import pass_on
from .memory import available
from .recycling import KeptSegment, Recycler

if TYPE_CHECKING:
    from .mapping import Memory

THRESHOLD = 128 << 10
"""Buffers of so many bytes or more are shared. To copy smaller ones costs less than to map them.
The only buffer of a frozen value is shared from `frozen.ALONE` bytes on: it is copied just once."""
LOOKED_AT = 16 << 20
"""For so many bytes in one message or more, the free memory is checked first."""
KEPT_SHARE = 4
"""A segment is kept only if so many times its size is free."""
BY_TWO = 64 << 20
"""Two threads write a new segment of so many bytes or more, if there are two cores."""
TOGETHER = range(1 << 14, 1 << 24)
"""The sizes of buffers of one message that share a segment, if there are several, and together they
have `THRESHOLD` bytes. Their memory is freed together. To copy fewer bytes costs less than to map
them; larger ones are worth a segment each."""
MOST_PASSING = 512
"""Segments of messages that this process has open; further buffers go in the message."""
MOST_UNREAD = 256
"""Arrived segments that stay open until the value is used; further ones are mapped at once."""
MOST_MAPPED = 16_384
"""Segments that are mapped before the value is used; further ones are copied. A process has only
65,530 mappings."""
SLOW_TO_FREE = 4 << 20
"""Bytes of a segment that is closed in a thread of its own: freeing a gigabyte takes 0.5 s."""

IN_SLOT = range(1 << 15, (1 << 18) + 1)
"""The sizes of the values that cross in a slot (`slots`), if they are a buffer and nothing else. To
copy fewer bytes costs less than to name a slot; from some 500 KB on, mapping costs less. None
crosses in a slot if `THRESHOLD` is larger than these sizes."""

Fields = tuple[int, int, str, int, bool, int]
"""A segment's process, descriptor, name, size, and whether its reader may write to a copy. The last
one is the number of a buffer in a slot (`slots`), or 0; or -n for n buffers in one segment."""
_TYPES = int, int, str, int, bool, int
LINE = 64
"""Each buffer of several in one segment begins at a multiple of this number."""
_part = Struct("<QQ")
"""The place of a buffer among all those of its message; and twice its size, plus 1 if its reader
may write to a copy. One for each buffer is at the end of a segment of several."""
SEALS = (
    fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | 0x10
    if hasattr(fcntl, "F_SEAL_SEAL")
    else 0
)
"""The last is F_SEAL_FUTURE_WRITE: no process can write, or map it for writing, any more."""
USABLE = bool(SEALS) and has("memfd") and has("procfs")
"""Whether this machine has such memory. Without it all buffers travel in messages."""
_GONE = frozenset({errno.ENOENT, errno.ESRCH, errno.ENXIO})
_ANOTHER = frozenset({errno.EWOULDBLOCK, errno.EINVAL})
"""The file is being written to for another segment; or it is of another kind, without seals."""
_FULL = frozenset({errno.ENOSPC, errno.ENOMEM})
CANNOT_MAP = OSError, ImportError, OverflowError, MemoryError
"""Errors of `mapping`: by ``vm.max_map_count``, RLIMIT_AS, or if it cannot be loaded for want of
descriptors."""
_open: dict[int, str] = {}
"""This process's descriptors of segments, with the segments' names."""
_written: dict[int, Memory] = {}
"""Writable mappings of the segments that may be written to again, by descriptor."""
unread: set[int] = set()
"""Descriptors of segments in messages that are not unpickled yet (an alias relays some)."""
early: set[int] = set()
"""Segments in such messages, by their `id`, that have no descriptor any more."""
_passing: set[int] = set()
"""The descriptors of segments that are for one message each."""


class Segment:
    """A buffer in shared memory: of this process, or one that a message names.

    Its bytes never change, once it is `of` a buffer or has been `taken`. A message has only its
    `fields`.
    """

    __slots__ = (
        *("__weakref__", "_content", "_descriptor", "_last", "_source", "_trouble"),
        *("name", "parts", "size", "writable"),
    )

    def __init__(
        self, source: tuple[int, int], name: str, size: int, *, writable: bool, parts: int = 0
    ) -> None:
        self._source = source
        """A process, and the number of the descriptor there."""
        self._content: memoryview | bytes | bytearray | None = None
        """Its bytes, if they are here before the value is used."""
        self._trouble: FarrefError | MemoryError | None = None
        """The reason why it cannot be read."""
        self.name = name
        self.size = size
        self.writable = writable
        """Whether the receiver may write to a copy of its own."""
        self.parts = parts
        """The number of its buffers, if it has several."""
        self._last: weakref.ref[Segment] | None = None
        """Closes it if a signal handler has ended `__del__` as that began."""
        self._descriptor = -1
        """Our descriptor, while it is open here. It is set last: `__del__` looks for it."""

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"<segment {self.name} of {self.size} bytes>"

    # ---- at the sender

    @classmethod
    def of(
        cls,
        view: memoryview,
        *,
        writable: bool,
        passing: bool = False,
        more: Sequence[tuple[int, memoryview]] = (),
    ) -> Segment | None:
        """A copy of *view*; None if no segment can be made here, or no more.

        With *more*, of several (`together`): then *view* is the end of the segment.
        *passing*: the segment is for one message. It may reuse an old segment, and be reused later;
        there are `MOST_PASSING` of these at most. The others leave a quarter of this process's
        descriptors for sockets and files. Lets other threads run while it copies.
        Raises `SharedMemoryFullError`.
        """
        name = f"farref-{os.urandom(12).hex()}"
        views = [*more, (_end(*more[-1]) if more else 0, view)]
        size = views[-1][0] + view.nbytes
        label = _label(name, size)
        # First: the descriptor has an owner from the next step on.
        self = cls((os.getpid(), -1), name, size, writable=writable, parts=len(more))
        kept = recycler.find(size + len(label)) if passing else None
        if kept is None:
            if passing and len(_passing) >= MOST_PASSING:
                return None
            check_room(size)
        if kept is not None:
            _open[kept.descriptor], self._descriptor = name, kept.descriptor
        elif not _made(self) or not (passing or _leaves_some(self._descriptor)):
            return None
        descriptor = self._descriptor
        self._watch()
        self._source = os.getpid(), descriptor
        if passing:
            _passing.add(descriptor)
        if kept is not None:
            self._rewrite(views, label)
            return self
        try:
            if more:
                for at, each in views:
                    _write(descriptor, each, at)
            else:
                _write_new(descriptor, view)
            _write(descriptor, memoryview(label), size)
            memory = _again(descriptor, size + len(label)) if passing else None
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
        except (OSError, ImportError) as error:
            pass_on(error)  # a `TimeoutError`, for example
            if isinstance(error, OSError) and error.errno in _FULL:
                raise SharedMemoryFullError(_no_room(size)) from error
            return None
        if memory is not None:
            _written[descriptor] = memory
        return self

    @classmethod
    def together(
        cls, views: Iterable[tuple[int, memoryview]], *, writable: bool, passing: bool = False
    ) -> Segment | None:
        """A copy of each of *views*, with its place in the message, in one segment. As `of`."""
        end, laid, parts = 0, list[tuple[int, memoryview]](), bytearray()
        for place, view in views:
            laid.append((end, view))
            parts += _part.pack(place, 2 * view.nbytes + (writable and not view.readonly))
            end = _end(end, view)
        return cls.of(memoryview(parts), writable=writable, passing=passing, more=laid)

    def _rewrite(self, views: Sequence[tuple[int, memoryview]], label: bytes) -> None:
        """Write to a reused segment, which is locked and has its pages already."""
        memory = _written[self._descriptor]
        try:
            memory[-len(label) :] = label  # first: an old name with new bytes would be wrong
            from .mapping import copy_into  # noqa: PLC0415 - few programs share memory

            for at, view in views:
                copy_into(memory, view, at)
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def fields(self) -> Fields:
        """What a message says of it, as plain data; `said` is the inverse."""
        own = self._descriptor >= 0
        process, descriptor = (os.getpid(), self._descriptor) if own else self._source
        return process, descriptor, self.name, self.size, self.writable, -self.parts

    @classmethod
    def said(cls, fields: Fields) -> Segment:
        """The segment that a message names."""
        process, descriptor, name, size, writable, number = fields
        return cls((process, descriptor), name, size, writable=writable, parts=-number)

    # ---- at the receiver

    @property
    def early(self) -> bool:
        """Whether it has arrived but has no descriptor any more: no message can name its place."""
        return self._content is not None

    def take(self) -> None:
        """Open it here, if it is not open: from now on its sender may close it.

        Raises `ProtocolError` for malformed fields. If the segment is gone, `buffer` raises.
        """
        if self._descriptor >= 0 or self._trouble is not None or self._content is not None:
            return
        self.open()
        if self._descriptor >= 0 and len(unread) > MOST_UNREAD:
            self._take_content()

    def open(self) -> None:
        """Open it here. Raises `ProtocolError`. If it cannot be opened, `buffer` says why."""
        process, number = self._source
        fields = process, number, self.name, self.size, self.writable, self.parts
        if (
            tuple(map(type, fields)) != _TYPES
            or min(process, number, self.size, self.parts) < 0
            or self.parts * _part.size > self.size
        ):
            raise ProtocolError("a segment with malformed fields")
        path = f"/proc/{process}/fd/{number}"
        try:
            _opened(self, os.open, path, os.O_RDONLY | os.O_NONBLOCK)
            self._watch()
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

    def _take_content(self) -> None:
        """Map it and close its descriptor before the value is used: too many are open."""
        is_mapped = len(early) < MOST_MAPPED
        try:
            if is_mapped:
                from .mapping import mapped  # noqa: PLC0415 - as above

                content = mapped(self._descriptor, self.size, writable=self.writable)
            else:
                content = memoryview(self.content())
        except CANNOT_MAP:
            return  # it stays open
        self._content = content  # first: an interrupt here must lose nothing
        early.add(id(self))
        self._let_go(is_mapped=is_mapped)

    def buffer(self, *, copy: bool = True) -> memoryview | bytes | bytearray:
        """Its bytes, mapped for this process alone.

        If it came in a message, its descriptor is then closed, and it keeps the bytes until they
        are `used`: an interrupted unpickling begins anew with them.

        Raises:
            SenderDiedError: its sender ended before it was taken.
            SerializationError: it cannot be opened here.
            SystemDownError: this process was forked after it was opened.
            MemoryError: it cannot be mapped, and *copy* is false.
        """
        content: memoryview | bytes | bytearray | None = self._content
        if content is not None:
            return content
        self._check()
        foreign = self._source != (os.getpid(), self._descriptor)  # it came in a message
        is_mapped = True
        if not foreign:  # a mapping of our own segment cannot be named in a message
            _written.pop(self._descriptor, None)
        try:
            from .mapping import mapped  # noqa: PLC0415 - as above

            content = mapped(self._descriptor, self.size, writable=self.writable)
        except CANNOT_MAP as error:
            if not copy:
                if foreign:
                    self.close()
                raise MemoryError(f"cannot map {self.size} bytes of memory") from error
            recycler.empty()  # the kept segments have mappings too
            content, is_mapped = memoryview(self.content()), False
        if foreign:
            self._content = content  # first: an interrupt here must lose nothing
            self._let_go(is_mapped=is_mapped)
        return content

    def content(self) -> bytes | bytearray:
        """Its bytes, copied; it stays open. Raises the same errors as `buffer`."""
        self._check()
        if self._content is not None:
            return bytearray(self._content) if self.writable else bytes(self._content)
        copy = bytearray(self.size)
        view, done = memoryview(copy), 0
        while done < self.size:
            done += os.preadv(self._descriptor, [view[done:]], done)
        return copy if self.writable else bytes(copy)

    def buffers(self, content: memoryview | bytes | bytearray) -> dict[int, memoryview]:
        """By its place in the message: each of the several buffers in *content*, its bytes."""
        view, at, made = memoryview(content), 0, dict[int, memoryview]()
        for place, double in _part.iter_unpack(view[self.size - self.parts * _part.size :]):
            part = view[at : at + double // 2]
            made[place] = part if double % 2 else part.toreadonly()
            at = _end(at, part)
        return made

    def _check(self) -> None:
        if self._trouble is not None:
            raise type(self._trouble)(str(self._trouble))  # new: the old would collect frames
        if self._content is not None or _open.get(self._descriptor) == self.name:
            return
        if self._descriptor < 0:
            raise AssertionError(f"{self!r} is not open: a message is unpickled once")
        # Another file may have the number of the descriptor by now.
        raise SystemDownError(
            f"this process was forked from one that had {self.size} bytes in shared memory, and "
            "cannot read them itself; use the value before the fork, or start the system after it"
        )

    def _is_it(self) -> bool:
        """Whether the opened file is the segment, and not a later file in its place.

        From now on no process writes to it until none has it open or mapped (see `recycling`).
        """
        label = _label(self.name, self.size)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            end = os.fstat(self._descriptor).st_size - len(label)  # a reused file may be longer
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
            f"{self.size} bytes of a message are lost: process {self._source[0]} had put them into "
            "shared memory, and ended, or gave this process up for dead, before they were read; "
            "create the value again, or call again if a second run does no harm"
        )

    def _refused(self, error: Exception) -> SerializationError:
        return SerializationError(
            f"cannot open {self.size} bytes of shared memory from process {self._source[0]}: "
            f"{error}; raise `ulimit -n` if file descriptors are short, or set "
            "farref.serialization.shared.THRESHOLD so high that nothing is shared"
        )

    # ---- the end

    def close(self) -> None:
        """Close it here. Mappings of it stay."""
        if self._content is not None:
            early.discard(id(self))
            self._content = None
        self._let_go()

    def _let_go(self, *, is_mapped: bool = False) -> None:
        """Close its descriptor.

        If it *is_mapped* here, closing frees no memory, so no other thread has to do it. The
        sender can reuse the segment as soon as the mapping is dropped, too.
        """
        descriptor = self._descriptor
        # A forked child has closed inherited descriptors, and may have reused the number.
        if descriptor >= 0 and _open.get(descriptor) == self.name:
            unread.discard(descriptor)
            memory = _written.get(descriptor)
            if memory is not None:
                one = KeptSegment(descriptor, len(memory), time.monotonic())
                self._last = None
                self._descriptor = -1  # no interrupt comes between this step and the next
                recycler.keep(one)
                recycler.look_after(one)
                return
            size = 0 if is_mapped else self.size
            if size >= SLOW_TO_FREE:
                self._last = None
                self._descriptor = -1  # a thread closes it
            _close(descriptor, size)
        self._descriptor = -1

    def __del__(self) -> None:
        try:
            if hasattr(self, "_descriptor"):  # else an interrupt has ended `__init__`
                self.close()
        except BaseException:  # a signal handler has raised in `close`, which can be called again
            self.close()
            raise
        self._last = None

    def _watch(self) -> None:
        closing = partial(_close_last, self._descriptor, self.name, self.size, id(self))
        self._last = weakref.ref(self, closing)


def _close_last(descriptor: int, name: str, size: int, place: int, _: object) -> None:
    early.discard(place)
    if _open.get(descriptor) == name:
        unread.discard(descriptor)
        _close(descriptor, size)


def opened(
    buffers: Sequence[bytes | bytearray | Segment], content: Callable[[Segment], Any]
) -> list[Any]:
    """All buffers of a message, in order, of which *content* gives a segment's bytes.

    Raises the errors of *content*.
    """
    made = list[Any]()
    several: dict[int, memoryview] = {}
    for each in buffers:
        if not isinstance(each, Segment):
            made.append(each)
        elif each.parts:
            several = each.buffers(content(each))
        else:
            made.append(content(each))
    for place in sorted(several):
        made.insert(place, several[place])
    return made


def copied(view: memoryview) -> bytes | bytearray:
    """A copy for the message itself; an immutable object needs no copy."""
    if type(view.obj) is bytes and len(view.obj) == view.nbytes:
        return view.obj
    return bytes(view) if view.readonly else bytearray(view)


def copies(
    views: list[memoryview],
    copied: Callable[[memoryview], bytes | bytearray] = copied,
    *,
    least: int,
    passing: bool,
) -> tuple[bytes | bytearray | Segment, ...]:
    """A copy of each of *views*, in as few segments as are worth it: that of several is the first.

    One of *least* bytes or more has a segment of its own, unless several share one (`TOGETHER`).
    Those without a segment are *copied*. Raises `SharedMemoryFullError`.
    """
    sizes = [view.nbytes for view in views]
    some = {place: view for place, view in enumerate(views) if sizes[place] in TOGETHER}
    if len(some) < 2 or sum([sizes[place] for place in some]) < THRESHOLD:
        some = {}
    large = [size for place, size in enumerate(sizes) if place in some or size >= least]
    if len(large) > 1:
        check_room(sum(large))
    made: list[bytes | bytearray | Segment] = []
    one = Segment.together(some.items(), writable=passing, passing=passing) if some else None
    if one is not None:
        made.append(one)
        views = [view for place, view in enumerate(views) if place not in some]
    for view in views:
        segment = None
        if view.nbytes >= least:
            segment = Segment.of(view, writable=passing and not view.readonly, passing=passing)
        made.append(copied(view) if segment is None else segment)
    return tuple(made)


def used(buffers: Iterable[object]) -> None:
    """Their value has been unpickled: from now on only the value has their memory."""
    for each in buffers:
        if isinstance(each, Segment):
            early.discard(id(each))
            each._content = None


def few_are_open() -> bool:
    """Whether segments have less than a quarter of this process's descriptors."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit == resource.RLIM_INFINITY or 4 * len(_open) < limit


def check_room(size: int) -> None:
    """Raise `SharedMemoryFullError` unless there is memory for *size* more bytes."""
    if USABLE and size >= LOOKED_AT and size > available():
        recycler.empty()
        if size > available():
            raise SharedMemoryFullError(_no_room(size))


def _no_room(size: int) -> str:
    return (
        f"this message needs {size} bytes of shared memory, but this machine, or the control "
        f"group, has only {available()} bytes left; nothing was sent: free memory, send the value "
        "in parts, or pass an RRef to it"
    )


def _end(at: int, view: memoryview) -> int:
    """The place after *view*, which is at a place of a segment."""
    end = at + view.nbytes
    return end + -end % LINE


def _label(name: str, size: int) -> bytes:
    """The end of a segment: its name and size."""
    return f" {name} {size}".encode(errors="replace")


def _made(owner: Segment) -> bool:
    """Whether *owner* could get a new file in memory."""
    if not USABLE:
        return False
    try:
        _opened(owner, os.memfd_create, "farref", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError:
        return False
    return True


def _opened(owner: Segment, opening: Callable[..., int], *arguments: object) -> None:
    """Give *owner* the descriptor that *opening* returns.

    If descriptors run out, raise the soft limit and call *opening* again.
    """
    try:
        _owned(owner, opening, arguments)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        recycler.empty()
        _raise_limit()
        _owned(owner, opening, arguments)


def _raise_limit() -> int:
    """Raise the soft limit of descriptors to the hard one, and return it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _leaves_some(descriptor: int) -> bool:
    """Whether *descriptor* is not in the last quarter: the kernel gives the lowest free number."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit != resource.RLIM_INFINITY and 4 * descriptor >= 3 * limit:
        limit = _raise_limit()
    return limit == resource.RLIM_INFINITY or 4 * descriptor < 3 * limit


def _owned(owner: Segment, opening: Callable[..., int], arguments: tuple[object, ...]) -> None:
    """``owner._descriptor = descriptor = opening(*arguments)``; ``_open[descriptor] = owner.name``.

    All of it is one call of C, so no interrupt comes before the descriptor has its owner.
    """
    descriptor, again = tee(starmap(opening, (arguments,)))
    stored = map(setattr, (owner,), ("_descriptor",), descriptor)
    deque(zip(stored, map(_open.__setitem__, again, (owner.name,)), strict=False), maxlen=0)


def memory_of(segment: Segment) -> Memory | None:
    """The mapping by which this process can write to its own *segment*, if there is one."""
    return _written.get(segment._descriptor)


def _again(descriptor: int, size: int) -> Memory | None:
    """A mapping to write to the sealed segment again; None if the segment will not be kept."""
    if size >= LOOKED_AT and size > available() // KEPT_SHARE:
        return None
    try:
        from .mapping import mapped_to_write  # noqa: PLC0415 - as above

        return mapped_to_write(descriptor, size)
    except CANNOT_MAP:
        return None


def _write_new(descriptor: int, view: memoryview) -> None:
    """Write *view* to the start of a new segment; by two threads, if it is large."""
    if view.nbytes >= BY_TWO and cores() > 1:
        from .mapping import write_by_two  # noqa: PLC0415 - as above

        os.ftruncate(descriptor, view.nbytes)
        write_by_two(descriptor, view, _write)
    else:
        _write(descriptor, view, 0)


def _write(descriptor: int, view: memoryview, at: int) -> None:
    """Write all of *view* to place *at* and the following ones."""
    done = 0
    while done < view.nbytes:
        done += os.pwrite(descriptor, view[done:], at + done)


def _close(descriptor: int, size: int) -> None:
    """Close it. If the kernel then frees a large file, that takes long: use a thread."""
    if size >= SLOW_TO_FREE:
        with contextlib.suppress(RuntimeError):  # no more threads
            # Not a `threading.Thread`: finalizers call this, and must not wait for its lock.
            _thread.start_new_thread(_close_now, (descriptor,))
            return
    _close_now(descriptor)


def _close_now(descriptor: int) -> None:
    memory = None
    try:
        _passing.discard(descriptor)
        memory = _written.pop(descriptor, None)
    finally:  # also after an interrupt, and none comes between the next two steps
        del _open[descriptor]
        os.close(descriptor)  # first: a fork at this moment would pass an open descriptor on
        if memory is not None:
            memory.close()


recycler = Recycler(_close_now, _close)
"""The segments that this process has sent, and may write to again."""


def _close_inherited() -> None:
    """In a forked child: close the segments that the parent sends, else they would not be freed."""
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
