"""The zoo: a table of values of every kind, and the ways in which a value can be sent.

As a program of its own, this file sends its classes and functions by value. It prints a line of
JSON for each value that arrives in another form than `pickle` gives it.
"""

from __future__ import annotations

import abc
import array
import collections
import contextlib
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import importlib
import json
import operator
import os
import pathlib
import pickle
import re
import sys
import tempfile
import types
import typing
import uuid
import warnings
import zlib
import zoneinfo
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np

import farref
from farref import RefActor, RRef, System

THRESHOLDS = 4096, 1 << 14, 1 << 15, 1 << 17, 1 << 18, 1 << 20
SIZES = 0, *(size + more for size in THRESHOLDS for more in (-16, 0, 16))

# ---- classes


class Plain:
    def __init__(self, *args: object, **more: object) -> None:
        self.args = args
        self.__dict__.update(more)


class Slots:
    __slots__ = ("a", "b")

    def __init__(self) -> None:
        self.a = 1


class SlotsToo(Slots):
    __slots__ = ("__dict__", "c")

    def __init__(self) -> None:
        super().__init__()
        self.c, self.more = 3, 4


class Stated:
    def __init__(self, number: int) -> None:
        self.number, self.lock = number, open

    def __getstate__(self) -> object:
        return {"number": self.number}

    def __setstate__(self, state: Any) -> None:
        self.__init__(state["number"])  # type: ignore[misc]


class Reduced:
    def __init__(self, *args: object) -> None:
        self.args = args

    def __reduce__(self) -> Any:
        return Reduced, self.args, {"state": 1}, iter([1, 2]), iter([("k", "v")])

    def append(self, item: object) -> None:
        self.__dict__.setdefault("items", []).append(item)

    def extend(self, items: Any) -> None:
        for each in items:
            self.append(each)

    def __setitem__(self, key: str, value: object) -> None:
        self.__dict__[key] = value


class KwNew:
    def __new__(cls, *, number: int) -> KwNew:
        self = super().__new__(cls)
        self.number = number  # type: ignore[attr-defined]
        return self

    def __getnewargs_ex__(self) -> Any:
        return (), {"number": self.number}  # type: ignore[attr-defined]


@dataclasses.dataclass
class Data:
    a: int = 1
    b: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlots:
    a: int = 1
    b: tuple[int, ...] = (1, 2)


@dataclasses.dataclass(kw_only=True, order=True)
class KwOnly:
    a: int
    b: str = "x"


T = typing.TypeVar("T")


@dataclasses.dataclass
class Box(typing.Generic[T]):
    content: T


class Color(enum.Enum):
    RED = 1
    ALSO_RED = 1  # noqa: PIE796 - an alias
    LIST = [1, 2]  # noqa: RUF012 - an enum's


class Number(enum.IntEnum):
    ONE = 1


class Bits(enum.Flag):
    A = 1
    B = 2


class Text(enum.StrEnum):
    X = "x"


Point = collections.namedtuple("Point", "x y")


class Typed(typing.NamedTuple):
    a: int
    b: str = "b"


class Base(abc.ABC):
    @abc.abstractmethod
    def method(self) -> int: ...


class Derived(Base):
    def method(self) -> int:
        return 1


@typing.runtime_checkable
class Speaks(typing.Protocol):
    def speak(self) -> str: ...


class Speaker(Speaks):
    def speak(self) -> str:
        return "words"


class Descriptor:
    def __set_name__(self, owner: type, name: str) -> None:
        self.name = "_" + name

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else instance.__dict__.get(self.name, 0)

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.name] = value


class Described:
    field = Descriptor()

    def __init__(self) -> None:
        self.field = 5

    @property
    def twice(self) -> int:
        return 2 * self.field  # type: ignore[no-any-return]

    @classmethod
    def made(cls) -> Described:
        return cls()

    @staticmethod
    def add(a: int, b: int) -> int:
        return a + b

    @functools.cached_property
    def cached(self) -> list[int]:
        return [1]


class Meta(type):
    registry: dict[str, type] = {}  # noqa: RUF012 - a metaclass's

    def __new__(mcs, name: str, bases: Any, space: Any) -> Meta:
        cls = super().__new__(mcs, name, bases, space)
        mcs.registry[name] = cls
        return cls


class OfMeta(metaclass=Meta):
    pass


class Singleton:
    _one: Singleton | None = None

    def __new__(cls) -> Singleton:
        if cls._one is None:
            cls._one = super().__new__(cls)
        return cls._one


class ListToo(list[Any]):
    pass


class DictToo(dict[Any, Any]):
    pass


class SetToo(set[Any]):
    pass


class StrToo(str):
    __slots__ = ("more",)


class IntToo(int):
    pass


class BytesToo(bytes):
    pass


class FloatToo(float):
    pass


class TupleToo(tuple[Any, ...]):
    pass


class Missing(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return key


SENTINEL = object()


class SameHash:
    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameHash) and other.number == self.number


class NoTruth:
    def __eq__(self, other: object) -> Any:
        raise RuntimeError("these cannot be compared")

    def __bool__(self) -> bool:
        raise RuntimeError("this is neither true nor false")

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        raise RuntimeError("this has no length")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


class WrongError(Exception):
    def __init__(self, number: int, text: str) -> None:
        super().__init__(f"{number}: {text}")
        self.number, self.text = number, text

    def __reduce__(self) -> Any:
        return WrongError, (self.number, self.text)


class KeyOnlyError(Exception):
    def __init__(self, *args: object, code: int = 0) -> None:
        super().__init__(*args)
        self.code = code


class CarryingError(Exception):
    """Carries the values of the zoo to who catches it."""


class ArrayToo(np.ndarray):
    def __array_finalize__(self, other: Any) -> None:
        self.more = getattr(other, "more", None)


def plus(a: int, b: int = 1) -> int:
    return a + b


@functools.lru_cache
def cached(a: int) -> int:
    return a + 1


@functools.singledispatch
def dispatched(thing: Any) -> str:
    return "any"


@dispatched.register
def _(thing: int) -> str:
    return "int"


def enclosing(start: int) -> Any:
    """A function and a class that only their enclosing function knows."""
    calls = [start]

    class Local(Base):
        def method(self) -> int:
            calls.append(len(calls))
            return super().method() or sum(calls)  # type: ignore[safe-super]

    def count(step: int = 1, *, again: Any = None) -> Any:
        calls[0] += step
        return again or Local, calls, count

    return count


# ---- the table


def with_more(value: Any) -> Any:
    value.more = 5
    return value


def noted() -> Exception:
    error = ValueError("text")
    error.add_note("a note")
    error.more = [1]  # type: ignore[attr-defined]
    return error


def caused() -> Exception:
    try:
        try:
            dict[str, int]()["inner"]
        except KeyError as inner:
            raise ValueError("outer") from inner
    except ValueError as outer:
        return outer.with_traceback(None)
    raise AssertionError("it was raised")


def circular() -> list[Any]:
    value: list[Any] = [1]
    value.append({"self": value, "tuple": (value,)})
    return value


def twins() -> list[Any]:
    one, text = [1], Plain(5)
    return [one, one, {"a": text, "b": (text, one)}, np.ones(3), Plain(one)]


def deep(depth: int = 60) -> Any:
    value: Any = ()
    for _ in range(depth):
        value = [{"k": (value,)}]
    return value


def large_parts() -> dict[str, Any]:
    shared = np.arange(50_000.0)
    return {
        "a": shared,
        "again": shared,
        "b": bytes(200_000),
        "c": bytearray(150_000),
        "d": [np.full(20_000, number, "u1") for number in range(20)],
        "t": np.zeros(20_000, "M8[s]"),
        "f": np.asfortranarray(np.ones((300, 300))),
    }


PYTHON: dict[str, Callable[[], Any]] = {
    "constants": lambda: [None, True, False, ..., NotImplemented],
    "numbers": lambda: [0, -1, 1 << 70, -(1 << 3000), 0.0, -0.0, float("inf"), 1 + 2j, 1e-320],
    "nan": lambda: float("nan"),
    "texts": lambda: ["", "ä€😀", "\ud800", "\0", "x" * 300_000],
    "a text": lambda: "ä" * 70_000,
    "a surrogate": lambda: "\udcff" * 50_000,
    "buffers": lambda: [b"", b"\0\xff", bytearray(b"ab"), bytearray(), array.array("d", [1, 2])],
    "an array": lambda: array.array("i", range(100_000)),
    "times": lambda: [
        datetime.datetime(2020, 1, 2, 3, 4, 5, 6, zoneinfo.ZoneInfo("UTC"), fold=1),
        datetime.date.min,
        datetime.time(1, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
        datetime.timedelta(-1, 2, 3),
    ],
    "decimals": lambda: [decimal.Decimal("1.10"), decimal.Decimal("NaN"), fractions.Fraction(1, 3)],
    "uuid": lambda: uuid.UUID(int=5),
    "paths": lambda: [
        pathlib.Path("a/b"),
        pathlib.PurePosixPath("/c"),
        pathlib.PureWindowsPath("d"),
    ],
    "patterns": lambda: [re.compile("a+", re.IGNORECASE), re.compile(b"b")],
    "ranges": lambda: [range(3), range(0, 10**30, 7), slice(1, None, 2)],
    "iterators": lambda: [
        iter([1, 2]),
        enumerate("ab"),
        zip([1], "a", strict=True),
        map(abs, [-1]),
    ],
    "containers": lambda: [
        [],
        (),
        {},
        set(),
        frozenset({1}),
        {1, 2},
        {"a": 1, 2: (3,)},
        (((1,),),),
    ],
    "collections": lambda: [
        collections.OrderedDict(b=1, a=2),
        collections.defaultdict(list, a=[1]),
        collections.Counter("aab"),
        collections.deque([1, 2], maxlen=2),
        collections.ChainMap({"a": 1}, {"b": 2}),
        collections.UserDict(a=1),
        types.SimpleNamespace(a=1),
    ],
    "subclasses": lambda: [
        *(ListToo([1]), DictToo(a=1), SetToo({1}), IntToo(5), BytesToo(b"b"), FloatToo(0.5)),
        *(StrToo("s"), TupleToo((1, 2)), Missing(a=1)),
    ],
    "large subclasses": lambda: [BytesToo(b"b" * 200_000), StrToo("s" * 200_000)],
    "bytes of a class": lambda: BytesToo(b"b" * 100_000),
    "a list with state": lambda: with_more(ListToo([1])),
    "twins": twins,
    "circular": circular,
    "deep": deep,
    "large parts": large_parts,
    "many": lambda: {str(number): [number] for number in range(200)},
    "builtins": lambda: [
        len,
        print,
        int,
        type,
        ValueError,
        [].append.__name__,
        str.upper,
        dict.get,
    ],
    "methods": lambda: [[1, 2].append, "text".upper, Plain.__init__, Described.made, Described.add],
    "a bound method": lambda: Derived().method,
    "functions": lambda: [plus, cached, np.sum, functools.reduce],
    "dispatched": lambda: dispatched,
    "partials": lambda: [
        functools.partial(plus, 1, b=2),
        functools.partial(pow),
        operator.itemgetter(1),
    ],
    "getters": lambda: [operator.attrgetter("a.b"), operator.methodcaller("m", 1, k=2)],
    "classes": lambda: [
        Plain,
        Slots,
        Color,
        Point,
        Base,
        Speaks,
        OfMeta,
        Meta,
        Box,
        Data,
        np.ndarray,
    ],
    "generics": lambda: [list[int], dict[str, int], Box[int], typing.Any, T],
    "plain": lambda: Plain(1, x=Plain()),
    "slots": lambda: [Slots(), SlotsToo()],
    "stated": lambda: Stated(3),
    "reduced": lambda: Reduced(1, 2),
    "kwnew": lambda: KwNew(number=3),
    "data": lambda: [Data(), Data(5, [1]), FrozenSlots(), KwOnly(a=1), Box(5), Box([Box(1)])],
    "enums": lambda: [Color.RED, Color.ALSO_RED, Color.LIST, Number.ONE, Text.X],
    "flags": lambda: [Bits.A, Bits.A | Bits.B, re.IGNORECASE | re.DOTALL],
    "an enum": lambda: Color.RED,
    "named": lambda: [Point(1, 2), Typed(1), Point([1], ())],
    "abstract": lambda: [Derived(), Speaker()],
    "described": Described,
    "cached property": lambda: (it := Described(), it.cached)[0],
    "of meta": OfMeta,
    "singleton": lambda: [Singleton(), Singleton()],
    "sentinels": lambda: [dataclasses.MISSING, dataclasses.KW_ONLY],
    "hashes": lambda: {SameHash(1): 1, SameHash(2): 2},
    "no truth": NoTruth,
    "no truths": lambda: [NoTruth(), (NoTruth(),)],
    "an error": lambda: ValueError("text", 2),
    "errors": lambda: [OSError(2, "no", "f"), KeyError("k"), StopIteration(3), SystemExit(4)],
    "decoding": lambda: UnicodeDecodeError("utf8", b"\xff", 0, 1, "why"),
    "noted": noted,
    "caused": caused,
    "group": lambda: ExceptionGroup("many", [ValueError(1), ExceptionGroup("in", [KeyError(2)])]),
    "wrong args": lambda: WrongError(5, "x"),
    "keyword only": lambda: KeyOnlyError("a", code=5),
    "system error of ours": lambda: farref.OwnerDiedError("text"),
}
BY_VALUE: dict[str, Callable[[], Any]] = {
    "lambda": lambda: [lambda: SENTINEL, lambda x=(1, 2): x],
    "closure": lambda: enclosing(1),
    "local class": lambda: [(it := enclosing(1)()[0]), it(), it()],
    "sentinel": lambda: [SENTINEL, (SENTINEL,), lambda: SENTINEL],
    "method": lambda: [Described().add, Derived().method, Described.made],
    "array": lambda: with_more(np.ones(50_000).view(ArrayToo)),
    "named, local": lambda: cast(Any, collections.namedtuple("Local", "a b"))(1, 2),
    "enum, local": lambda: enum.Enum("Local", "A B").A,  # type: ignore[attr-defined]
    "dataclass, local": lambda: dataclasses.make_dataclass("Local", ["a"], slots=True)([1]),
    "error": lambda: [with_more(WrongError(1, "x")), KeyOnlyError("a", code=5)],
    "partial": lambda: functools.partial(cast(Any, plus), b=Point(1, 2)),
    "cached, local": lambda: functools.lru_cache(maxsize=5)(lambda x: x),
}

DTYPES = (
    *("?", "b", "B", "h", "u4", "q", "Q", "e", "f", "d", "g", "F", "D", "G"),
    *("<i4", ">i4", ">f8", "=u2", ">c16", ">M8[ms]"),
    *("M8[s]", "M8[ns]", "M8", "m8[ns]", "m8[D]", "S1", "S7", "U1", "U8", ">U3", "V3", "O"),
)
FIELDS: dict[str, Any] = {
    "fields": [("a", "i4"), ("b", "f8")],
    "times": [("t", "M8[s]"), ("b", "f8")],
    "objects": [("o", "O"), ("b", "i1")],
    "nested": [("a", [("x", ">i2"), ("y", "S3")], (2,))],
    "aligned": np.dtype([("a", "i1"), ("b", "f8")], align=True),
    "offsets": {"names": ["a", "b"], "formats": ["i2", "i2"], "offsets": [1, 7], "itemsize": 16},
    "titled": np.dtype(cast(Any, {"a": ("i4", 0), "b": ("f8", 8)})),
    "metadata": np.dtype("i4", metadata={"a": 1}),
    "empty": [],
}


def filled(size: int, dtype: Any = "u1") -> Any:
    """An array of about *size* bytes."""
    kind = np.dtype(dtype)
    size //= 100 if kind.hasobject else 1  # objects have no buffer
    value = np.zeros(size // max(1, kind.itemsize), kind)
    if kind.hasobject:
        return value
    raw = np.frombuffer(bytes(range(64)) * (value.nbytes // 64 + 1), "u1")[: value.nbytes]
    if kind.kind in "biuSVMm" and value.nbytes:  # any bits are a number; no nan, no wrong letter
        value.view("u1")[:] = raw
    elif kind.kind in "fc" and len(value):
        value[:] = np.arange(len(value)) % 100
    return value


def laid_out(size: int) -> dict[str, Callable[[], Any]]:
    """Arrays of each layout."""
    side = max(2, int((size / 8) ** 0.5))
    made: dict[str, Callable[[], Any]] = {
        "C": lambda: np.arange(float(side * side)).reshape(side, side),
        "F": lambda: np.asfortranarray(np.arange(float(side * side)).reshape(side, side)),
        "strided": lambda: np.arange(float(2 * side * side))[::2],
        "reversed": lambda: np.arange(float(side * side))[::-1],
        "column": lambda: np.arange(float(side * side)).reshape(side, side)[:, 1:],
        "broadcast": lambda: np.broadcast_to(np.arange(float(side)), (side, side)),
        "read-only": lambda: readonly(np.arange(float(side * side))),
        "three": lambda: np.arange(float(side * side)).reshape(side, side, 1).transpose(2, 0, 1),
        "cut": lambda: np.arange(float(side * side + 3))[3:],
        "from bytes": lambda: np.frombuffer(bytes(side * side * 8), "f8"),
        "odd place": lambda: np.frombuffer(bytearray(side * 8 + 1), "u1")[1:].view("f8"),
        "matrix": lambda: np.asmatrix(np.ones((side, side))),
        "masked": lambda: np.ma.masked_array(
            np.arange(float(side * side)), np.arange(side * side) % 2 == 1
        ),
        "masked times": lambda: np.ma.masked_array(np.zeros(side * side, "M8[s]"), mask=True),
        "recarray": lambda: cast(Any, np.rec).fromarrays(
            [np.arange(side * side), np.ones(side * side)], names="a,b"
        ),
        "chararray": lambda: chararray(["ab"] * side),
        "user's": lambda: with_more(np.ones(side * side).view(ArrayToo)),
        "objects": lambda: np.array([[1], None, "x", np.ones(side)], object),
    }
    return made


def chararray(texts: list[str]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # from NumPy 2.5 on
        return np.char.array(texts)


def readonly(value: Any) -> Any:
    value.flags.writeable = False
    return value


def mapped() -> Any:
    with tempfile.TemporaryFile() as file:
        value = np.memmap(file, "f8", "w+", shape=(10_000,))
        value[:] = 7
        return value


NUMPY: dict[str, Callable[[], Any]] = {
    **{f"{size} bytes": functools.partial(filled, size) for size in SIZES},
    **{f"bytes({size})": functools.partial(bytes, size) for size in SIZES},
    **{f"bytearray({size})": functools.partial(bytearray, size) for size in SIZES[::2]},
    **{
        f"{dtype} of {size}": functools.partial(filled, size, dtype)
        for dtype in DTYPES
        for size in (60_000, 140_000)
    },
    # Each by itself, as pickle makes other dtypes of some, and a frozen value need not pickle all.
    **{
        f"small {dtype}": functools.partial(filled, 160, dtype)
        for dtype in (*DTYPES, *map(np.dtype, FIELDS.values()))
    },
    **{
        f"{name} of {size}": functools.partial(filled, size, dtype)
        for name, dtype in FIELDS.items()
        for size in (60_000, 140_000)
    },
    **{
        f"{name}, {size}": make
        for size in (200, 60_000, 150_000)
        for name, make in laid_out(size).items()
    },
    "0-d": lambda: np.array(5.0),
    "0-d time": lambda: np.array("2020", "M8[s]"),
    "0-d object": lambda: np.array({"a": 1}),
    "no rows": lambda: np.empty((0, 5)),
    "no columns": lambda: np.empty((5, 0), "M8[s]"),
    "many axes": lambda: np.ones((1,) * 20),
    "scalars": lambda: [
        np.float64(1),
        np.float16(2),
        np.longdouble(3),
        np.datetime64("2020"),
        np.bool_(1),
    ],
    "a scalar": lambda: np.timedelta64(5, "s"),
    "void": lambda: np.array([(1, 2.0)], "i4,f8")[0],
    "dtypes": lambda: [np.dtype("M8[s]"), np.dtype([("a", "i4")]), np.int32],
    "memmap": mapped,
    "generator": lambda: np.random.default_rng(5),
    "polynomial": lambda: np.polynomial.Polynomial([1, 2]),
    "views": lambda: (it := np.arange(10_000.0), [it, it[5:], it[::-1]])[1],
    "mixed": lambda: [np.zeros(9000, "M8[s]"), np.ones(9000), np.array([None]), b"x" * 50_000],
}
if hasattr(np, "dtypes") and hasattr(np.dtypes, "StringDType"):
    NUMPY |= {
        f"strings, {many}": functools.partial(
            lambda many: np.array(["ab", "x" * 50] * many, np.dtypes.StringDType()), many
        )
        for many in (1, 2_000)
    }


def frames() -> dict[str, Callable[[], Any]]:
    pd: Any = importlib.import_module("pandas")
    return {
        "frame": lambda: pd.DataFrame({"a": range(20_000), "b": 1.0, "c": "x"}),
        "times of a frame": lambda: pd.DataFrame({"t": pd.date_range("2020", periods=20_000)}),
        "series": lambda: pd.Series([1, 2], index=["a", "b"], name="n"),
        "categories": lambda: pd.Series(list("ab") * 20_000, dtype="category"),
        "nullable": lambda: pd.array([1, None] * 9_000, dtype="Int64"),
        "zoned": lambda: pd.date_range("2020", periods=9_000, tz="UTC"),
        "index": lambda: pd.MultiIndex.from_product([range(3), ["a", "b"]]),
        "stamp": lambda: [pd.Timestamp("2020"), pd.NaT, pd.NA, pd.Interval(1, 2)],
    }


def arrow() -> dict[str, Callable[[], Any]]:
    pa: Any = importlib.import_module("pyarrow")
    return {
        "arrow": lambda: pa.array([1, None, 3] * 20_000),
        "arrow texts": lambda: pa.array(["a", None] * 30_000),
        "arrow table": lambda: pa.table({"a": range(20_000), "b": ["x"] * 20_000}),
        "arrow slice": lambda: pa.array(range(90_000)).slice(5, 30_000),
        "arrow schema": lambda: pa.schema([("a", pa.timestamp("ns"))]),
    }


def tensors() -> dict[str, Callable[[], Any]]:
    torch: Any = importlib.import_module("torch")
    nn, base = torch.nn, torch.arange

    def some(dtype: Any, many: int) -> Any:
        raw = (base(many * dtype.itemsize) % 56).to(torch.uint8)
        return raw.bool() if dtype is torch.bool else raw.view(dtype)

    def flat() -> Any:
        module = nn.Module()
        module.flat = nn.Parameter(torch.ones(40_000))
        module.a = nn.Parameter(module.flat.data[:30_000].view(300, 100))
        module.register_buffer("b", module.flat.data[30_000:])
        return module

    def tied() -> Any:
        module = nn.Sequential(nn.Embedding(30, 20), nn.Linear(20, 30, bias=False))
        module[1].weight = module[0].weight
        return module

    def graded() -> Any:
        value = torch.ones(50_000, requires_grad=True)
        (2 * value).sum().backward()
        return [value, value.grad]

    def trained() -> Any:
        module = nn.Linear(3, 4)
        optimizer = torch.optim.Adam(module.parameters())
        module(torch.ones(3)).sum().backward()
        optimizer.step()
        return [module, optimizer.state_dict()]

    names = (
        *("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32"),
        *("float64", "complex32", "complex64", "complex128", "uint16", "uint32", "uint64"),
        *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
    )
    dtypes = [getattr(torch, name) for name in names if hasattr(torch, name)]
    return {
        **{
            f"{dtype} {many}": functools.partial(some, dtype, many)
            for dtype in dtypes
            for many in (10, 50_000)
        },
        "view": lambda: base(100_000.0)[10:20],
        "column": lambda: base(90_000.0).view(300, 300)[:, 5],
        "corner": lambda: base(90_000.0).view(300, 300).t()[:9, :7],
        "transposed": lambda: base(90_000.0).view(300, 300).t(),
        "channels last": lambda: torch.ones(2, 3, 40, 50).to(memory_format=torch.channels_last),
        "expanded": lambda: torch.ones(1).expand(70_000),
        "scalar": lambda: [torch.tensor(5.0), base(9.0)[3]],
        "no rows": lambda: torch.empty(0, 5),
        "conjugate": lambda: torch.ones(40_000, dtype=torch.complex64).conj(),
        "imaginary": lambda: torch.ones(40_000, dtype=torch.complex64).conj().imag,
        "sparse": lambda: torch.eye(50).to_sparse(),
        "csr": lambda: torch.eye(50).to_sparse_csr(),
        "parameter": lambda: nn.Parameter(torch.ones(50_000)),
        "buffer": lambda: nn.Parameter(torch.ones(5), requires_grad=False),
        "requires": lambda: torch.ones(5, requires_grad=True),
        "meta": lambda: torch.empty(5, device="meta"),
        "shared": lambda: (it := base(16.0).view(4, 4), [it[:2], it, it.t(), it[1]])[1],
        "far apart": lambda: (it := base(1_000_000.0), [it[:5], it[-5:], it[3:9], it[::1000]])[1],
        "other type": lambda: (it := base(90_000.0), [it[4:9], it.view(torch.int32)[7:11]])[1],
        "with its storage": lambda: (it := base(100.0), [it[3:5], it.untyped_storage()])[1],
        "gradient": graded,
        "quantized": lambda: torch.quantize_per_tensor(base(50_000.0), 0.5, 3, torch.quint8),
        "small with gaps": lambda: [base(25.0).view(5, 5)[:, 2:4]],
        "linear": lambda: nn.Linear(200, 300),
        "sequence": lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)),
        "recurrent": lambda: [nn.LSTM(10, 20, bidirectional=True), nn.GRU(5, 6)],
        "packed": lambda: nn.utils.rnn.pack_sequence([base(3.0), base(2.0)]),
        "flat": flat,
        "tied": tied,
        "trained": trained,
        "state": lambda: nn.Linear(200, 300).state_dict(),
        "size": lambda: [torch.Size([1, 2]), torch.float32, torch.device("cpu"), torch.strided],
        "mixed tensors": lambda: {
            "t": torch.ones(50_000),
            "n": np.ones(50_000),
            "b": b"x" * 200_000,
        },
    }


TABLES: dict[str, Callable[[], dict[str, Callable[[], Any]]]] = {
    "python": lambda: PYTHON,
    "by value": lambda: BY_VALUE,
    "numpy": lambda: NUMPY,
    "pandas": frames,
    "pyarrow": arrow,
    "torch": tensors,
}


@functools.cache
def table(name: str) -> dict[str, Callable[[], Any]]:
    return TABLES[name]()


def make(of: str, name: str) -> Any:
    if of == "torch":
        importlib.import_module("torch").manual_seed(5)
    return table(of)[name]()


# ---- the image of a value: equal if the values are

KNOWN: dict[tuple[str, str], Any] = {}
"""The classes and functions that this process has seen, by their names: each is one object."""


def image(value: Any) -> str:
    """A text that tells all about *value*: types, content, state, and what is shared in it."""
    return f"image {_image(value, {}, [])}"


def _image(value: Any, seen: dict[int, int], kept: list[Any]) -> Any:
    kind = type(value)
    named = f"{kind.__module__}.{kind.__qualname__}"
    if value is None or kind in (bool, int, str, float, complex, type(...), type(NotImplemented)):
        return kind.__name__, repr(value)
    if kind is bytes or kind is bytearray:
        return kind.__name__, len(value), zlib.crc32(value)
    if kind is object:
        return "object", value is SENTINEL
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        owner = getattr(value, "__self__", None)
        if owner is None or isinstance(owner, types.ModuleType) or isinstance(value, type):
            name = value.__module__, value.__qualname__
            same = "<" in name[1] or KNOWN.setdefault(name, value) is value
            return "name", value.__qualname__, same
    if isinstance(value, types.ModuleType):
        return "module", value.__name__
    if id(value) in seen:
        return "again", seen[id(value)]
    kept.append(value)
    if kind is tuple:
        return "tuple", [_image(each, seen, kept) for each in value]
    seen[id(value)] = len(seen)
    within = functools.partial(_image, seen=seen, kept=kept)
    if kind is list:
        return "list", [within(each) for each in value]
    if kind is dict:
        return "dict", [(within(key), within(each)) for key, each in value.items()]
    if isinstance(value, (set, frozenset)):
        return named, sorted(repr(within(each)) for each in value)
    if isinstance(value, enum.Enum):
        return named, within(kind), value.name, value is kind(value.value)
    if named.startswith("pyarrow."):
        pa = sys.modules["pyarrow"]
        if isinstance(value, pa.Schema):
            return named, str(value)
        whole = value if isinstance(value, pa.Table) else pa.table({"": value})
        with pa.BufferOutputStream() as out:
            with pa.ipc.new_stream(out, whole.schema) as stream:
                stream.write_table(whole)
            return named, str(value)[:500], zlib.crc32(out.getvalue())
    if named.startswith("pandas."):  # before protocol 5 a pickle does not tell what is read-only
        return named, repr(value), zlib.crc32(pickle.dumps(value, 4))
    if named.startswith("torch."):
        known = _image_of_torch(value, seen)
        if known is not None:
            return named, *known
    if isinstance(value, re.Pattern):
        return named, value.pattern, value.flags
    if isinstance(value, np.ndarray | np.generic) and value.dtype.char in "gG":
        plain = np.ascontiguousarray(value, "D")  # there are bytes in it that mean nothing
        return named, value.shape, value.dtype.str, zlib.crc32(plain.tobytes())
    if isinstance(value, types.MethodType):
        return "method", value.__name__, within(value.__self__)
    reduced = value.__reduce_ex__(4)
    if type(reduced) is str:
        return "constant", reduced
    parts = [list(each) if isinstance(each, Iterator) else each for each in reduced]
    return named, within(kind), [within(each) for each in parts]


def _image_of_torch(value: Any, seen: dict[int, int]) -> tuple[Any, ...] | None:
    torch: Any = sys.modules["torch"]
    if isinstance(value, torch.layout | torch.dtype | torch.device):
        return (str(value),)
    if isinstance(value, torch.storage.TypedStorage):
        return str(value.dtype), _image_of_torch(value._untyped_storage, seen)
    if isinstance(value, torch.UntypedStorage):
        data = torch.empty(0, dtype=torch.uint8).set_(value)
        return zlib.crc32(data.numpy()), seen.setdefault(value._cdata, len(seen))
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    plain, data = value.detach(), 0
    if value.is_quantized:
        plain = plain.int_repr()
    if not value.is_meta and value.numel():
        plain = plain.resolve_conj().resolve_neg().contiguous().clone()
        data = zlib.crc32(plain.view(-1).view(torch.uint8).numpy())
    place = seen.setdefault(value.untyped_storage()._cdata, len(seen))
    facts = value.dtype, value.shape, value.stride(), value.requires_grad, value.is_conj()
    return str(facts), value.is_neg(), data, place


def right(of: str, value: Any) -> list[str]:
    """The images of the right values: the same; or as `pickle` returns it, once or twice.

    A masked array, for example, has another state then, and an array of `q` the type `l`. Of
    tensors pickle forgets the sharing; a tensor that shows little of its storage has no gaps then.
    What goes by value is the same: cloudpickle would give this program's classes new methods.
    """
    found = [image(value)]
    if of == "torch":
        torch: Any = sys.modules["torch"]
        strided = type(value) is torch.Tensor and value.layout is torch.strided
        if strided and value.untyped_storage().nbytes() >= 8192 + 2 * value.nbytes:
            found.append(image(value.contiguous()))
    elif __name__ != "__main__":
        for _ in range(2):
            value = pickle.loads(pickle.dumps(value, 5))
            found.append(image(value))
    return found


# ---- the ways

PATIENCE = 300.0
"""Seconds to import PyTorch on a crowded machine."""


def echo(value: Any) -> Any:
    return value


def images(*values: Any, **more: Any) -> list[str]:
    return [image(each) for each in (*values, *more.values())]


def load(of: str) -> None:
    table(of)


def fetched(ref: RRef[Any]) -> list[str]:
    return [image(ref.to_here()), image(ref.to_here())]


def raised(value: Any) -> None:
    error = CarryingError(value)
    error.more = [value]  # type: ignore[attr-defined]
    raise error


def caught(call: Callable[[], Any]) -> list[Any]:
    try:
        call()
    except CarryingError as error:
        more: Any = error
        return [error.args[0], more.more[0]]
    return ["nothing was raised"]


def through(function: Callable[[Any], Any], value: Any) -> Any:
    return farref.rpc_sync("B", function, args=(value,))


class Actor(RefActor):
    """Keeps what it gets in tuples, answers lists with the list, and numbers with an image."""

    def receiveMsg_str(self, of: str, sender: Any) -> None:
        table(of)

    def receiveMsg_list(self, message: Any, sender: Any) -> None:
        self.send(sender, message)

    def receiveMsg_tuple(self, message: Any, sender: Any) -> None:
        (self.got,) = message

    def receiveMsg_int(self, message: Any, sender: Any) -> None:
        self.send(sender, image(self.got))


actor_of = functools.cache(lambda system: system.create(Actor))
Came = Iterator[tuple[str, list[Any], list[str]]]
"""For each way: what came, values or images, and the right images."""


def ways(system: System, of: str) -> dict[str, Callable[[Any], list[Any]]]:
    """Each way returns the values, or the images of the values, that it has led to."""
    sync, begin, remote = farref.rpc_sync, farref.rpc_async, farref.remote
    actor = actor_of(system)
    if __name__ != "__main__":  # all processes import at the same time
        system.tell(actor, of)
        for loaded in [begin(to, load, (of,), timeout=PATIENCE) for to in "BC"]:
            loaded.wait()

    def told(value: Any) -> list[Any]:
        system.tell(actor, (value,))
        return [system.ask(actor, 1, timeout=PATIENCE)]

    def calls(value: Any) -> Any:
        return ("B", image, (value,)), ("C", through, (image, value))

    def at_once(value: Any) -> list[Any]:
        sent = [begin(to, what, more) for _ in range(2) for to, what, more in calls(value)]
        return [each.wait() for each in sent]

    return {
        "there and back": lambda value: [sync("B", echo, (value,))],
        "argument": lambda value: [sync("B", image, (value,))],
        "arguments": lambda value: sync("B", images, (5, value), {"a": value})[1:],
        "item": lambda value: sync("B", echo, ([value, 1, "x"],))[:1],
        "fetch": lambda value: [(ref := remote("B", echo, (value,))).to_here(), ref.to_here()],
        "frozen": lambda value: [
            (ref := remote("B", echo, (value,), frozen=True)).to_here(),
            (farref.wait([ref]), ref.to_here())[1],
        ],
        "own": lambda value: sync("B", fetched, (RRef(value),)),
        "own, frozen": lambda value: [
            (ref := RRef(value, frozen=True)).local_value(),
            *sync("B", fetched, (ref,)),
        ],
        "in an error": lambda value: caught(lambda: sync("B", raised, (value,))),
        "in a kept error": lambda value: caught(remote("B", raised, (value,)).to_here),
        "through a third": lambda value: [sync("C", through, (echo, value))],
        "asked": lambda value: system.ask(actor, [value]),
        "told": told,
        "two senders": at_once,
    }


def change(value: Any) -> None:
    """Change *value* in place, if it can be changed."""
    torch = sys.modules.get("torch")
    if isinstance(value, list | collections.deque):
        value.append("new")
    elif isinstance(value, dict):
        value["new"] = "new"
    elif isinstance(value, bytearray | array.array):
        value[0] ^= 1
    elif type(value) is np.ndarray:
        value.reshape(-1).view("u1")[0] ^= 1
    elif torch is not None and isinstance(value, torch.nn.Module | torch.Tensor):
        some = next(value.parameters()) if isinstance(value, torch.nn.Module) else value
        some.detach().view(-1)[0] = 3
    elif not isinstance(value, type | types.FunctionType):
        value.new = "new"


def changes(of: str, value: Any) -> Came:
    """What comes of a value that is sent, changed, and sent again."""
    old, kept, frozen = right(of, value), RRef(value), RRef(value, frozen=True)
    sent = [farref.rpc_async(to, image, args=(value,)) for to in "BC"]
    first = farref.rpc_sync("B", fetched, args=(kept,))
    with contextlib.suppress(Exception):
        change(value)
    if image(value) == old[0]:
        return
    before = [*first, *(each.wait() for each in sent), image(frozen.to_here())]
    yield "changed later", before, old
    after = farref.rpc_sync("B", fetched, args=(kept,))
    yield "changed before", [*after, farref.rpc_sync("B", image, args=(value,))], right(of, value)


def differences(system: System, of: str, one_in: int) -> Iterator[tuple[str, str, str]]:
    """Each value of a table, and each way in which it arrives in another form: what is different.

    B and C are there. Of the pairs of a value and a way, one of *one_in* is tried, chosen by a hash
    of their names; `make deep` tries all.
    """
    known = ways(system, of)
    for name in table(of):
        value = make(of, name)
        wanted = right(of, value)
        tried: list[tuple[str, Callable[..., Came], tuple[Any, ...]]] = [
            *((way, once, (way, go, value, wanted)) for way, go in known.items()),
            ("changed", changes, (of, value)),  # the last one: it changes the value
        ]
        if __name__ != "__main__":
            tried.insert(0, ("made there", once, ("made there", made_there, of, name, wanted)))
        for way, go, arguments in tried:
            if zlib.crc32(f"{name} {way}".encode()) % one_in == 0:
                yield from compared(name, way, go, *arguments)


def once(way: str, go: Callable[..., list[Any]], *more: Any) -> Came:
    *arguments, wanted = more
    yield way, go(*arguments), wanted


def compared(
    name: str, way: str, go: Callable[..., Came], *arguments: Any
) -> Iterator[tuple[str, str, str]]:
    """What is wrong in what *go* gives."""
    try:
        for which, got, wanted in go(*arguments):
            for each in got:
                came = each if isinstance(each, str) and each[:6] == "image " else image(each)
                if came not in wanted:
                    at = max(0, len(os.path.commonprefix([came, wanted[0]])) - 50)  # noqa: RUF071 - they are texts
                    text = f"{came[at : at + 90]!r} is not {wanted[0][at : at + 90]!r}"
                    yield name, which, text
                    break
    except Exception as error:
        yield name, way, f"{type(error).__name__}: {error!s:.200}"


def made_there(of: str, name: str) -> list[Any]:
    return [
        farref.rpc_sync("B", make, args=(of, name)),
        farref.remote("B", make, args=(of, name)).to_here(),
    ]


def main() -> None:
    with System(timeout=60) as system:
        system.worker("B")
        system.worker("C")
        for name in ("python", "by value"):
            for each in differences(system, name, 1):
                sys.stdout.write(json.dumps(each) + "\n")


if __name__ == "__main__":
    main()
