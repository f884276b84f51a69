"""Maps files into the memory of one process; unmaps them when nothing refers to them any more.

Python's own `mmap` keeps a descriptor open for each mapping (before 3.13 this cannot be changed).
So a process with a thousand arrays would run out of descriptors. Here `mmap` makes a mapping
without a file, and removes it in the end; the file is mapped over that very place.
"""

from __future__ import annotations

import ctypes
import mmap
import os

_FIXED = 0x10  # MAP_FIXED: `mmap` has no name for it
_POPULATE_READ = 22  # MADV_POPULATE_READ, since Linux 5.14
_FAILED = ctypes.c_void_p(-1).value
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int),
    *(ctypes.c_int, ctypes.c_int, ctypes.c_long),
)
_libc.madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


class Memory(mmap.mmap):
    """Mapped memory."""

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


def copy_into(memory: Memory, view: memoryview) -> None:
    """Copy the contiguous bytes of *view* to the start of *memory*.

    Lets other threads run meanwhile. The file has its pages already. When the first copy asks for
    them all at once, the kernel gives this process sixteen at a time, and otherwise each by itself.
    """
    if view.nbytes > len(memory):
        raise AssertionError(f"{view.nbytes} bytes do not fit into {len(memory)}")
    target, source = ctypes.c_char.from_buffer(memory), _Buffer()
    address = ctypes.addressof(target)
    if not memory.populated:
        memory.populated = True
        _libc.madvise(address, len(memory), _POPULATE_READ)  # an older kernel refuses
    _get_buffer(view, ctypes.byref(source), 0)
    try:
        ctypes.memmove(address, source.buf, view.nbytes)
    finally:
        _release_buffer(ctypes.byref(source))


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
