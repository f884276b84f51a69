"""Maps files into the memory of one process; unmaps them when nothing refers to them any more.

Python's own `mmap` keeps a descriptor open for each mapping (before 3.13 this cannot be changed).
So a process with a thousand arrays would run out of descriptors. Here `mmap` makes a mapping
without a file, and removes it in the end; the file is mapped over that very place.
"""

from __future__ import annotations

import _thread
import ctypes
import mmap
import os
from collections import deque
from collections.abc import Callable

Write = Callable[[int, memoryview, int], None]
PIECE = 16 << 20
"""The bytes that one of two writing threads takes at a time. A thread may wait for the interpreter
before each piece."""
_FIXED = 0x10  # MAP_FIXED: `mmap` has no name for it
_POPULATE_READ, _POPULATE_WRITE = 22, 23  # of `madvise`, since Linux 5.14
_FAILED = ctypes.c_void_p(-1).value
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int),
    *(ctypes.c_int, ctypes.c_int, ctypes.c_long),
)
_libc.madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


class Memory(mmap.mmap):
    populated = False
    """Whether `copy_into` has asked for all of its pages."""


def mapped(descriptor: int, size: int, *, writable: bool) -> memoryview:
    """The first *size* bytes of a file as memory of this process alone. The file must have them.

    If it is *writable*, a page is copied before the first write to it (copy on write): neither the
    file nor any other process sees a change. The descriptor may be closed at once.

    Raises:
        OSError, OverflowError, MemoryError: the process can have no more mappings, or memory.
    """
    access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    view = memoryview(_placed(descriptor, size, access, mmap.MAP_PRIVATE))
    return view if writable else view.toreadonly()


def mapped_to_write(descriptor: int, size: int) -> Memory:
    """Map the bytes so that writes go to the file. Raises the errors of `mapped`."""
    return _placed(descriptor, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED)


def copy_into(memory: Memory, view: memoryview, at: int = 0) -> None:
    """Copy the contiguous bytes of *view* to a place of *memory*.

    Lets other threads run meanwhile. The file has its pages already. When the first copy asks for
    them all at once, the kernel gives this process sixteen at a time, and otherwise each by itself.
    """
    if at + view.nbytes > len(memory):
        raise AssertionError(f"{view.nbytes} bytes at {at} do not fit into {len(memory)}")
    target, source = ctypes.c_char.from_buffer(memory), _Buffer()
    address = ctypes.addressof(target)
    if not memory.populated:
        memory.populated = True
        _libc.madvise(address, len(memory), _POPULATE_READ)  # an older kernel refuses
    _get_buffer(view, ctypes.byref(source), 0)
    try:
        ctypes.memmove(address + at, source.buf, view.nbytes)
    finally:
        _release_buffer(ctypes.byref(source))


def write_by_two(descriptor: int, view: memoryview, write: Write) -> None:
    """Write the contiguous bytes of *view* to the start of a new file, in two threads.

    To make the pages takes longer than to copy, and the kernel lets one thread at a time write to a
    file. So this thread writes from the start, and a helper copies to mapped pages from the end,
    until they meet. What the helper cannot do, this thread does. The file must have its size.
    *write* writes to the file, at a place.

    Raises:
        OSError: it cannot be written.
    """
    pieces, ended = deque(range(0, view.nbytes, PIECE)), _thread.allocate_lock()
    ended.acquire()
    try:
        memory = mapped_to_write(descriptor, view.nbytes)
        # Not a `threading.Thread`: finalizers send values, too, and must not wait for its lock.
        _thread.start_new_thread(_help, (memory, view, pieces, ended))
    except (OSError, OverflowError, MemoryError, RuntimeError):  # no more mappings, or threads
        ended.release()
    try:
        _write_pieces(descriptor, view, pieces, write)
    except BaseException:
        pieces.clear()  # the helper is to end
        raise
    finally:
        ended.acquire()
    _write_pieces(descriptor, view, pieces, write)  # the helper may have given one back


def _write_pieces(descriptor: int, view: memoryview, pieces: deque[int], write: Write) -> None:
    while pieces:
        try:
            start = pieces.popleft()
        except IndexError:  # the helper has just taken it
            return
        write(descriptor, view[start : start + PIECE], start)


def _help(memory: Memory, view: memoryview, pieces: deque[int], ended: _thread.LockType) -> None:
    """Copy pieces of *view* from the end, until there are none or a page cannot be made."""
    try:
        memory.populated = True  # not by `copy_into`
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        while pieces:
            start = pieces.pop()
            piece = view[start : start + PIECE]
            if _libc.madvise(address + start, piece.nbytes, _POPULATE_WRITE):
                pieces.append(start)  # to touch the page would kill this process
                return
            copy_into(memory, piece, start)
    except IndexError:  # the other has just taken it
        return
    finally:
        ended.release()


def _placed(descriptor: int, size: int, access: int, kind: int) -> Memory:
    memory = Memory(-1, size, flags=mmap.MAP_PRIVATE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if _libc.mmap(address, size, access, kind | _FIXED, descriptor, 0) == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return memory


class _Buffer(ctypes.Structure):
    """``Py_buffer``: gives the address of read-only bytes, too."""

    _fields_ = (
        *(("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t)),
        *(("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int)),
        *(("format", ctypes.c_void_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p)),
        *(("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)),
    )


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = (ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = (ctypes.c_void_p,)
