"""Memory that is a file's: mapped for one process, unmapped when nothing refers to it any more.

Python's own `mmap` keeps a descriptor open for each mapping (before 3.13 nothing can stop it), and
a process that holds a thousand arrays would have no descriptors left. So `mmap` makes a mapping
without a file, which it will remove in the end, and the file is put into that very place.
"""

from __future__ import annotations

import ctypes
import mmap
import os

_FIXED = 0x10  # MAP_FIXED: `mmap` has no name for it
_FAILED = ctypes.c_void_p(-1).value
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int),
    *(ctypes.c_int, ctypes.c_int, ctypes.c_long),
)


def mapped(descriptor: int, size: int, *, writable: bool) -> memoryview:
    """The first *size* bytes of a file, which must have them, as memory of this process alone.

    If it is *writable*, a page that is written to is copied first (copy on write): the file, and
    whoever else maps it, never sees a change. The descriptor may be closed at once.

    Raises:
        OSError, OverflowError, MemoryError: the process can have no more mappings, or memory.
    """
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    placed = _libc.mmap(address, size, access, mmap.MAP_PRIVATE | _FIXED, descriptor, 0)
    if placed == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    view = memoryview(memory)
    return view if writable else view.toreadonly()
