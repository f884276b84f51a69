"""Pickling to any depth: the nesting is on a list, not on the stack.

A pickler calls itself for each part of a value, and so ends at a depth that is not ours to
choose. Python 3.11 counts its calls against ``sys.setrecursionlimit`` (a list in a list: 498
levels); 3.12.1 and 3.13.0 have a limit of their own for C code, compiled in (749 and 4,999
levels), which no setting and no larger stack lifts. Unpickling never had the problem: a pickle
is a program for a stack machine, and runs in a loop. So does what is here: whatever a value
consists of is an iterator of its parts, which writes what belongs between them, and the
iterators that are not finished are in a list. It needs no thread, no larger stack and no
setting of the process, and an endless value ends as an error.

It is many times slower than the pickler in C, so that one goes first (`dumps`, and `dumps` in
`pickling`), and this one where it gives up. What both ask of a value, ``__reduce_ex__`` and its
kin, is then asked twice.

The bytes are ordinary pickle protocol 5: the opcodes and their order are those of CPython's
``pickle._Pickler``, of which this is a subclass. It takes over all that has no parts.
"""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

import cloudpickle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MAX_DEPTH = 500_000
"""Objects that may be unfinished at once; an instance counts twice, with its ``__dict__``.

At 700 bytes each, an endless value ends when it has taken a third of a gigabyte.
"""


def too_deep(error: BaseException) -> bool:
    """Whether a pickler in C gave up for the depth of the value. cloudpickle renames that error."""
    return isinstance(error, RecursionError) or isinstance(error.__cause__, RecursionError)


def dumps(value: object) -> bytes:
    """``cloudpickle.dumps``, to a depth of `MAX_DEPTH`. Raises what it raises."""
    try:
        return cloudpickle.dumps(value, protocol=5)  # type: ignore[no-any-return]
    except Exception as error:
        if not too_deep(error):
            raise
    file = io.BytesIO()
    DeepPickler(file).dump(value)
    return file.getvalue()


_CPythonPickler: Any = pickle._Pickler
"""The pickler in Python, whose inside the type checker does not know."""


class DeepPickler(_CPythonPickler):  # type: ignore[misc]
    """cloudpickle's choices of what to write, written without recursion.

    ``dump(value)`` raises `RecursionError` at `MAX_DEPTH`, and whatever the value raises.
    """

    dispatch_table = cloudpickle.Pickler.dispatch_table

    def __init__(self, file: io.BytesIO, protocol: int = 5, **options: Any) -> None:
        super().__init__(file, protocol, **options)
        self._cloudpickle = cloudpickle.Pickler(io.BytesIO(), protocol)

    def reducer_override(self, obj: Any) -> Any:
        """cloudpickle's, for functions and classes."""
        return self._cloudpickle.reducer_override(obj)

    def save(self, obj: object, save_persistent_id: bool = True) -> None:  # noqa: ARG002 - the base's
        """Write *obj* and all its parts; the base calls it for the value, and for names."""
        unfinished = [self._parts(obj)]
        while unfinished:
            for part in unfinished[-1]:
                if len(unfinished) >= MAX_DEPTH:
                    raise RecursionError(f"it is nested deeper than {MAX_DEPTH:,} objects")
                unfinished.append(self._parts(part))
                break
            else:
                unfinished.pop()

    def _parts(self, obj: Any) -> Iterator[Any]:
        """Begin *obj*. Its parts are to be written as they are yielded, each before the next."""
        self.framer.commit_frame()
        pid = self.persistent_id(obj)
        if pid is not None:
            return self._persistent(pid)
        if id(obj) in self.memo:
            self._again(obj)
            return iter(())
        kind = type(obj)
        container = _CONTAINERS.get(kind)
        if container is not None:
            return container(self, obj)
        reduced = self.reducer_override(obj)
        if reduced is NotImplemented:
            atom = self.dispatch.get(kind)
            if atom is not None:
                atom(self, obj)
                return iter(())
            reduce = self.dispatch_table.get(kind)
            if reduce is None and issubclass(kind, type):
                reduced = obj.__qualname__
            else:
                reduced = reduce(obj) if reduce is not None else obj.__reduce_ex__(self.proto)
        if isinstance(reduced, str):
            self.save_global(obj, reduced)
            return iter(())
        if not isinstance(reduced, tuple) or not 2 <= len(reduced) <= 6:
            raise pickle.PicklingError(f"a {kind.__name__} reduces to no tuple of 2 to 6")
        return self._reduced(obj, reduced)

    def _again(self, obj: object, undo: bytes = b"") -> None:
        """It is written already: refer to it, in place of what *undo* takes off the stack."""
        self.write(undo + self.get(self.memo[id(obj)][0]))

    # ---- what consists of parts

    def _persistent(self, pid: object) -> Iterator[Any]:
        yield pid
        self.write(pickle.BINPERSID)

    def _list(self, obj: list[Any]) -> Iterator[Any]:
        self.write(pickle.EMPTY_LIST)
        self.memoize(obj)
        yield from self._appended(obj)

    def _dict(self, obj: dict[Any, Any]) -> Iterator[Any]:
        self.write(pickle.EMPTY_DICT)
        self.memoize(obj)
        yield from self._stored(obj.items())

    def _set(self, obj: set[Any]) -> Iterator[Any]:
        self.write(pickle.EMPTY_SET)
        self.memoize(obj)
        self.write(pickle.MARK)
        yield from obj
        self.write(pickle.ADDITEMS)

    def _tuple(self, obj: tuple[Any, ...]) -> Iterator[Any]:
        return self._immutable(obj, pickle.TUPLE) if obj else self._empty_tuple()

    def _empty_tuple(self) -> Iterator[Any]:
        self.write(pickle.EMPTY_TUPLE)
        return iter(())

    def _frozenset(self, obj: frozenset[Any]) -> Iterator[Any]:
        return self._immutable(obj, pickle.FROZENSET)

    def _immutable(self, obj: Iterable[Any], make: bytes) -> Iterator[Any]:
        self.write(pickle.MARK)
        yield from obj
        if id(obj) in self.memo:  # one of its parts contains it, and has written it meanwhile
            self._again(obj, undo=pickle.POP_MARK)
        else:
            self.write(make)
            self.memoize(obj)

    def _appended(self, items: Iterable[Any]) -> Iterator[Any]:
        self.write(pickle.MARK)
        yield from items
        self.write(pickle.APPENDS)

    def _stored(self, items: Iterable[tuple[Any, Any]]) -> Iterator[Any]:
        self.write(pickle.MARK)
        for key, value in items:
            yield key
            yield value
        self.write(pickle.SETITEMS)

    def _reduced(self, obj: object, reduced: tuple[Any, ...]) -> Iterator[Any]:
        """An object as ``__reduce_ex__`` describes it: how it is made, then what is put into it."""
        function, args, state, items, pairs, set_state = (*reduced, None, None, None, None)[:6]
        if not isinstance(args, tuple) or not callable(function):
            raise pickle.PicklingError(f"a {type(obj).__name__} reduces to no function and tuple")
        name = getattr(function, "__name__", "")
        if name in {"__newobj__", "__newobj_ex__"}:
            if args[0] is not obj.__class__:
                raise pickle.PicklingError(f"{name} is to make a {args[0]!r} of a {type(obj)!r}")
            first, *others = (args[0], args[1:]) if name == "__newobj__" else args
            make = pickle.NEWOBJ if name == "__newobj__" else pickle.NEWOBJ_EX
        else:
            first, others, make = function, [args], pickle.REDUCE
        yield first
        yield from others
        self.write(make)
        if id(obj) in self.memo:  # one of its parts contains it, and has written it meanwhile
            self._again(obj, undo=pickle.POP)
        else:
            self.memoize(obj)
        if items is not None:
            yield from self._appended(items)
        if pairs is not None:
            yield from self._stored(pairs)
        if state is None:
            return
        if set_state is None:
            yield state
            self.write(pickle.BUILD)
        else:
            yield set_state
            yield obj
            yield state
            self.write(pickle.TUPLE2 + pickle.REDUCE + pickle.POP)


_CONTAINERS: dict[type, Callable[[DeepPickler, Any], Iterator[Any]]] = {
    list: DeepPickler._list,
    dict: DeepPickler._dict,
    set: DeepPickler._set,
    tuple: DeepPickler._tuple,
    frozenset: DeepPickler._frozenset,
}
