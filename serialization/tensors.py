"""PyTorch's tensors in a message: storages stay shared, and what no tensor shows is not sent.

docs/values.md has the rules. Each *storage* of a message, the memory of tensors, is one buffer
beside the pickle, however many tensors show it. If only parts of it are sent, these are its
*ranges*, one behind the other: the bytes from the first to the last one that a tensor shows; ranges
that overlap or touch are one. A tensor that shows less than half of its range, and has it alone, is
sent without its gaps.

This is known when all is pickled. So each tensor has a number in the pickle, and its place in what
is sent stands in a table beside it. The table is empty if all storages are whole.

Other devices, and the kinds of tensors that have no storage, are left to PyTorch's own pickling.
Loading this module loads PyTorch.
"""

from __future__ import annotations

import ctypes
import math
from array import array
from collections.abc import Iterator
from copyreg import dispatch_table
from dataclasses import dataclass
from pickle import PickleBuffer
from typing import Any

import torch
from torch import _utils  # the functions that pickles of tensors name

MAPPED = 128 << 10
"""A storage of so many bytes keeps the memory that it came in. A smaller one is copied: so it can
be resized, like any other."""
WHOLE = 8 << 10
"""A storage of fewer bytes is sent whole, as by PyTorch's RPC: its tensors keep their strides."""
LINE = 64
"""Ranges begin at multiples of this number."""
LARGEST = 16
"""The bytes of the largest number; the beginning of a range is a multiple."""
RAW = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
"""Types that PyTorch can copy, by the bytes of a number."""
_view_of = ctypes.pythonapi.PyMemoryView_FromMemory
_view_of.restype = ctypes.py_object
_view_of.argtypes = ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int
_TO_WRITE = 0x200
_of_subclass = getattr(torch._tensor, "_rebuild_from_type_v2", None)
_makers = [getattr(_utils, f"_rebuild_tensor_v{version}", None) for version in (2, 3)]


@dataclass
class Shown:
    """What a tensor shows of its storage."""

    number: int
    itemsize: int
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def low(self) -> int:
        """The place of its first byte."""
        return self.offset * self.itemsize

    @property
    def high(self) -> int:
        """The place after its last byte."""
        last = sum((many - 1) * step for many, step in zip(self.size, self.stride, strict=True))
        return self.low + (last + 1) * self.itemsize if 0 not in self.size else self.low

    @property
    def nbytes(self) -> int:
        """The bytes of its items."""
        return math.prod(self.size) * self.itemsize


class SentStorage:
    """A storage, in the pickle of one message: a mark, in whose place its bytes are sent."""

    def __init__(self, storage: Any) -> None:
        self.storage = storage
        self.mark = bytearray()
        self.shown: list[Shown] = []
        self.whole = False
        """Whether it is in the message itself."""

    def __reduce__(self) -> tuple[Any, ...]:
        return stored, (PickleBuffer(self.mark),)

    def memory(self, low: int, high: int) -> memoryview:
        view: memoryview = _view_of(self.storage.data_ptr() + low, high - low, _TO_WRITE)
        return view

    def ranges(self) -> Iterator[tuple[int, int, list[Shown]]]:
        """The ranges, in order, with the tensors that show them."""
        low, high, those = 0, 0, list[Shown]()
        for each in sorted(self.shown, key=lambda each: each.low):
            if those and each.low > high:
                yield low, high, those
                those = []
            if not those:
                low, high = each.low - each.low % LARGEST, each.high
            high = max(high, each.high)
            those.append(each)
        if those:
            yield low, high, those

    def chosen(self, table: dict[int, int]) -> memoryview:
        """The bytes to send; if these are not all, the tensors' new places go to *table*."""
        most = self.storage.nbytes()
        ranges = [
            (low, high, those, len(those) == 1 and 2 * those[0].nbytes < high - low)
            for low, high, those in self.ranges()
        ]
        sizes = [those[0].nbytes if gaps else high - low for low, high, those, gaps in ranges]
        if self.whole or most < WHOLE or 2 * sum(sizes) >= most:
            return self.memory(0, most) if most else memoryview(self.mark)
        sent = bytearray()
        for low, high, those, gaps in ranges:
            sent += bytes(-len(sent) % LINE)
            end = len(sent)
            sent += self._closed(those[0]) if gaps else self.memory(low, high)
            for each in those:
                place = (end + (0 if gaps else each.low - low)) // each.itemsize
                table[each.number] = ~place if gaps else place
        return memoryview(sent)

    def _closed(self, shown: Shown) -> memoryview:
        """The bytes of what a tensor shows, without gaps."""
        raw = torch.empty(0, dtype=RAW[shown.itemsize])
        raw = raw.set_(self.storage, shown.offset, shown.size, shown.stride).contiguous()
        return memoryview(bytearray(_view_of(raw.data_ptr(), shown.nbytes, _TO_WRITE)))


class PlaceTable:
    """The new places of tensors in their storages, in the pickle: a mark, as in `SentStorage`."""

    def __init__(self) -> None:
        self.mark = bytearray()

    def __reduce__(self) -> tuple[Any, ...]:
        return places, (PickleBuffer(self.mark),)


class Tensors:
    """The tensors and storages of one message, at its sender."""

    def __init__(self) -> None:
        self._stored: dict[int, SentStorage] = {}
        """By the address of PyTorch's own object, which these keep alive."""
        self._table = PlaceTable()
        self._number = 0

    def reduced(self, thing: Any) -> Any:
        """The reduction of *thing*, a tensor or a storage; `NotImplemented` for PyTorch's own."""
        kind = type(thing)
        if kind in dispatch_table:  # the user's own way
            return NotImplemented
        if issubclass(kind, torch.Tensor):
            reduced = thing.__reduce_ex__(5)
            return self._again(reduced) if type(reduced) is tuple else reduced
        known = kind is torch.UntypedStorage
        storage = thing if known else getattr(thing, "_untyped_storage", None)
        if storage is None or storage.device.type != "cpu":
            return NotImplemented
        found = self._of(storage)
        found.whole = True
        if storage is thing:
            return itself, (found,)
        return typed, (found, thing.dtype)

    def _again(self, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
        """*reduced*, that of a tensor, with ours in the place of the storage."""
        function, arguments, *state = reduced
        if function is _of_subclass and function is not None:
            inner, kind, args, more = arguments
            inner, args = self._again((inner, args))[:2]
            return function, (inner, kind, args, more), *state
        if function not in _makers or function is None:
            return reduced
        storage, offset, size, stride, *others = arguments
        dtype = others[2] if isinstance(storage, torch.UntypedStorage) else storage.dtype
        storage = getattr(storage, "_untyped_storage", storage)
        if storage.device.type != "cpu":
            return reduced
        found, number = self._of(storage), self._number
        self._number += 1
        found.shown.append(Shown(number, dtype.itemsize, offset, tuple(size), tuple(stride)))
        shown = found, dtype, self._table, number, offset
        return tensor, (function, shown, size, stride, *others), *state

    def _of(self, storage: Any) -> SentStorage:
        return self._stored.setdefault(storage._cdata, SentStorage(storage))

    def choose(self, views: list[memoryview]) -> None:
        """Put the bytes to send in the places of the marks among *views*."""
        table: dict[int, int] = {}
        made = {id(each.mark): each.chosen(table) for each in self._stored.values()}
        if table:
            every = array("q", [table.get(number, NOT_MOVED) for number in range(self._number)])
            made[id(self._table.mark)] = memoryview(every.tobytes())
        for place, view in enumerate(views):
            views[place] = made.get(id(view.obj), view)


NOT_MOVED = 1 << 62
"""In the table: the tensor shows a whole storage, from its own place."""


# ---- at the receiver; pickles name these functions


def stored(buffer: Any) -> Any:
    """The storage in *buffer*. It must not be written to by others, and can be, by the receiver."""
    view = memoryview(buffer)
    if not view.nbytes:
        return torch.UntypedStorage(0)
    if view.readonly or view.nbytes < MAPPED:  # that of a frozen value, whose next use has another
        return torch.UntypedStorage.from_buffer(view, dtype=torch.uint8)
    return torch.frombuffer(view, dtype=torch.uint8).untyped_storage()


def places(buffer: Any) -> Any:
    """The table in *buffer*."""
    return memoryview(buffer).cast("B").cast("q")


def itself(storage: Any) -> Any:
    """A storage that is in the message by itself."""
    return storage


def typed(storage: Any, dtype: Any) -> Any:
    """A storage of numbers of one type."""
    return torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def tensor(function: Any, shown: tuple[Any, ...], size: Any, stride: Any, *others: Any) -> Any:
    """The tensor again, made by PyTorch's *function*."""
    storage, dtype, table, number, offset = shown
    if len(table) and table[number] != NOT_MOVED:
        offset = table[number]
        if offset < 0:
            offset = ~offset
            stride = [math.prod(size[place:]) for place in range(1, len(size) + 1)]
    return function(typed(storage, dtype), offset, size, stride, *others)
