"""The definitions that an endpoint makes of its program's functions, and when it makes them anew.

**When one is made anew.** The library remembers, by identity, the things that went into a
definition: code, defaults and closure of each function in it, the attributes of each class, the
value of each global. If one of them is another object by now (for numbers and texts: has another
value), the function is defined anew. Changes *inside* such an object, as in ``cache["a"] = 1``, are
not seen: the other process has a copy, which goes its own way (as in Ray and in PyTorch).

**What has no definition.** A function that refers to an `RRef` or to an actor's address, itself or
by a global, goes with each message anew, as part of it: the reference is counted for each message,
and released with it. So does a function that is too large (`LARGEST`).
"""

from __future__ import annotations

import io
import itertools
import pickle
import weakref
from collections import OrderedDict
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from ..protocol.errors import SerializationError
from .cached import CachedFunction, state_of
from .classes import ByValuePickler, TheUnpickler, arrived, attributes_of, reduce_class
from .definitions import Definition, Missing, are_same, is_same, names_in, seen
from .failures import CAUGHT, name_of, pass_on, text_of
from .spaces import Space, make_function, make_global, set_once

if TYPE_CHECKING:
    from types import CellType

    from ..protocol.ids import WorkerId
    from .spaces import Spaces

LARGEST = 8 << 20
"""The most bytes of a definition."""
MOST_KNOWN = 1000
"""The most functions and classes that one endpoint remembers to have defined."""
_LIVE = frozenset({"globals", "exec", "eval", "vars"})
_INSIDE = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


class _Known:
    """A definition, and all that went into it, to see whether it is still right."""

    def __init__(self, thing: Any) -> None:
        self.thing = seen(thing)
        self.definition: Definition | None = None
        """None if there can be none, as long as these things stay the same."""
        self.functions: list[tuple[Any, Any, Any, Any, tuple[tuple[CellType, Any], ...], Any]] = []
        self.classes: list[tuple[Any, Any]] = []
        self.globals: dict[Space, dict[str, Any]] = {}
        """By module: each global as `seen`; for a module from elsewhere its number."""
        self.live: Any = None
        """The module, and its `live` names, if they matter."""

    def add_function(self, function: FunctionType) -> None:
        """*function* is in it."""
        self.functions.append(_row(function))

    def add_class(self, kind: type) -> None:
        """*kind* is in it."""
        attributes = {name: seen(value) for name, value in _state_of(kind).items()}
        self.classes.append((weakref.ref(kind), attributes))

    def holds(self) -> bool:
        """Whether all of them are the same objects as they were.

        Loops without calls: it is asked before each call of the function.
        """
        for space, values in self.globals.items():
            get = space.since.get if space.came else space.names.get
            for name, before in values.items():
                now = get(name, Missing)
                if (
                    now is not before
                    and not (type(before) is weakref.ref and before() is now)
                    and not is_same(now, before)
                ):
                    return False
        if self.live is not None and self.live[0].live is not self.live[1]:
            return False
        for row in self.functions:
            if not _is_as(row):
                return False
        for ref, attributes in self.classes:
            kind = ref()
            if kind is not None and not are_same(_state_of(kind), attributes):
                return False
        return True


def _state_of(kind: type) -> dict[str, Any]:
    """The attributes of a class; the numbers of one that came from another process.

    That this process has changed such a class is its own matter.
    """
    return arrived.get(kind) or attributes_of(kind)


def _row(function: FunctionType) -> Any:
    """*function* as it is now."""
    cells = tuple((cell, seen(content_of(cell))) for cell in function.__closure__ or ())
    attributes = {name: seen(value) for name, value in state_of(function).items()}
    defaults = function.__defaults__, function.__kwdefaults__
    return weakref.ref(function), function.__code__, *defaults, cells, attributes or None


def _is_as(row: Any) -> bool:
    """Whether a function is as it was. True for one that has gone."""
    ref, code, defaults, kwdefaults, cells, attributes = row
    function = ref()
    if function is None:
        return True
    if (
        function.__code__ is not code
        or function.__defaults__ is not defaults
        or function.__kwdefaults__ is not kwdefaults
    ):
        return False
    for cell, before in cells:
        if not is_same(content_of(cell), before):
            return False
    if not attributes and not function.__dict__:
        return True
    return are_same(state_of(function), attributes or {})


class Library:
    """The definitions that one endpoint has made of its program's functions. Thread-safe."""

    def __init__(self, me: WorkerId, special: tuple[type, ...], spaces: Spaces) -> None:
        """Objects of the *special* types, references and addresses, cannot be in a definition."""
        self._me = me
        self._special = special
        self.spaces = spaces
        self._lock = spaces.lock
        self._numbers = itertools.count(1)
        self._known: OrderedDict[int, _Known] = OrderedDict()
        self._by_code: OrderedDict[tuple[int, int], _Known] = OrderedDict()
        """Functions without any state of their own, by code and globals: a lambda in a loop."""
        self._rows: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        """The functions that are globals, as they were sent."""

    def define(self, thing: Any) -> Definition | None:
        """The definition of *thing*, a function or a class; None if it goes in another way.

        Raises `SerializationError` if it uses a variable or a global that cannot be pickled.
        """
        known = self._known.get(id(thing))
        if known is not None and is_same(thing, known.thing) and known.holds():
            return known.definition
        key = _code_of(thing)
        if key is not None:
            known = self._by_code.get(key)
            if known is not None and known.functions[0][1] is thing.__code__ and known.holds():
                return known.definition
        known = self._defined(thing)
        if known is None:
            return None
        with self._lock:
            if key is not None and known.functions:
                self._by_code[key] = known
                _bounded(self._by_code)
            place = id(thing)
            if type(known.thing) is weakref.ref:  # so that nothing stays when it has gone
                known.thing = weakref.ref(thing, lambda _: self._known.pop(place, None))
            self._known[place] = known
            self._known.move_to_end(place)
            _bounded(self._known)
        return known.definition

    def _defined(self, thing: Any) -> _Known | None:
        """*thing*, pickled as far as possible; None if something in it cannot be pickled."""
        file = io.BytesIO()
        known = _Known(thing)
        pickler = _Definer(file, self, known)
        free = False
        try:
            pickler.dump(thing)
            free = True
        except _NoDefinitionError:
            pass
        except CAUGHT as error:
            pass_on(error)
            self._blame_variables(known, error)
            return None  # the attempt to pickle it in the message will explain the error
        free = pickler.globals_too() and free
        if not free or (not pickler.spaces and not known.classes):  # it goes by its name
            return known
        bases = {space.key: space.base for space in pickler.spaces}
        data = pickle.dumps((bases, self._reads(thing, known), file.getvalue()), 5)
        if len(data) <= LARGEST:
            known.definition = Definition(self._me, next(self._numbers), data)
        return known

    def _reads(self, thing: Any, known: _Known) -> list[str] | None:
        """The globals that *thing* names, if it is a function that only reads them.

        It binds none, leaves no function behind, and no function of the module binds one of them.
        """
        if type(thing) is not FunctionType:
            return None
        code, names = thing.__code__, names_in(thing.__code__)
        inside = {each.co_name for each in code.co_consts if type(each) is CodeType}
        if names_in(code, stored=True) or not _LIVE.isdisjoint(names) or not inside <= _INSIDE:
            return None
        space = self.spaces.of(thing.__globals__, thing)
        known.live = space, space.look_for_live()
        return list(names) if space.live.isdisjoint(names) else None

    def number(self, space: Space, name: str) -> int:
        """The number of a global that is about to be sent."""
        value = space.names.get(name, Missing)
        changed = False
        if type(value) in (FunctionType, CachedFunction) and not space.came:
            function = value if type(value) is FunctionType else value.__wrapped__
            if type(function) is FunctionType:
                row = self._rows.get(function)
                changed = row is not None and not _is_as(row)
                if row is None or changed:
                    self._rows[function] = _row(function)
        with self._lock:
            return space.number(name, changed=changed)

    def _blame_variables(self, known: _Known, error: BaseException) -> None:
        """Raise an error that names the closure's variable that could not be pickled, if it is one.

        Otherwise return.
        """
        for ref, code, *_, cells, _ in known.functions:
            for name, (cell, _) in zip(code.co_freevars, cells, strict=True):
                try:
                    _Definer(io.BytesIO(), self, _Known(None)).dump(content_of(cell))
                except _NoDefinitionError:
                    continue
                except CAUGHT:
                    function = getattr(ref(), "__qualname__", code.co_name)
                    raise _unpicklable(
                        f"{function}() uses `{name}`, a variable of the function around it",
                        content_of(cell),
                        error,
                    ) from error

    def tidy(self) -> list[Any]:
        """Let go of objects that the program does not use any more; they are returned.

        The caller drops them, without any lock: their finalizers are code of the user's.
        """
        with self._lock:
            # Python's collector may run anywhere here, and a finalizer change these tables.
            gone = self.spaces.tidy()
            tables: Any = self._known, self._by_code
            for table in tables:
                for key in list(table):  # no tuples of items: making them calls the collector
                    known = table.get(key)
                    dead = type(known.thing) is weakref.ref and known.thing() is None
                    if dead or not known.holds():
                        gone.append(table.pop(key, None))
        return gone


class _NoDefinitionError(Exception):
    """The thing contains a reference or an address."""


class _Definer(ByValuePickler):
    """Pickles one definition: the thing itself, then its globals, name by name."""

    def __init__(self, file: io.BytesIO, library: Library, known: _Known) -> None:
        super().__init__(file, protocol=5)
        self._library = library
        self._special = (Space, *library._special)
        self._known = known
        self.spaces: dict[Space, None] = {}
        self._news: list[tuple[Space, str, str]] = []
        """The globals that are not pickled yet, each with the function that uses it."""

    def globals_too(self) -> bool:
        """Pickle the globals; whether they are free of references and addresses.

        Raises `SerializationError` with the name of one that cannot be pickled.
        """
        free = True
        while self._news:
            space, name, function = self._news.pop()
            number = self._library.number(space, name)  # first: another thread may bind it anew
            value = space.names.get(name, Missing)
            try:
                self.dump((space, name, number, value))
            except _NoDefinitionError:
                free = False
            except CAUGHT as error:
                pass_on(error)
                what = f"{function}() uses the global `{name}`"
                raise _unpicklable(what, value, error) from error
        self.dump(None)
        return free

    def _use(self, space: Space, name: str, function: str) -> None:
        """The global *name* is needed, too."""
        values = self._known.globals.setdefault(space, {})
        if name not in values:
            value = space.names.get(name, Missing)
            values[name] = space.since.get(name, Missing) if space.came else seen(value)
            self._news.append((space, name, function))

    def _at(self, space: Space, name: str, thing: object) -> Any:
        """The place of *thing*, if it is this global."""
        if space.names.get(name) is not thing:
            return None
        self._use(space, name, name)
        return space, name, self._library.number(space, name)

    def persistent_id(self, obj: object) -> Any:
        """The key of a module, or `()` for the unpickler; None for what goes into the bytes."""
        if not isinstance(obj, self._special):
            return () if obj is TheUnpickler else None
        if not isinstance(obj, Space):
            raise _NoDefinitionError
        self.spaces[obj] = None
        return obj.key

    def reduce_class(self, kind: type) -> Any:
        """A class, which the receiver does not set again."""
        self._known.add_class(kind)
        return reduce_class(kind, TheUnpickler)

    def reduce_function(self, function: FunctionType) -> Any:
        """A function in its module."""
        reduced = super().reduce_function(function)
        if type(reduced) is not tuple:
            return reduced
        self._known.add_function(function)
        _, args, state, *_, setter = reduced
        space = self._library.spaces.of(function.__globals__, function)
        if len(args) != 5:  # it dispatches
            return reduced
        at = self._at(space, function.__name__, function)
        for name in names_in(args[0]):
            self._use(space, name, function.__qualname__)
        attributes, slots = state
        state = attributes, {**slots, "__globals__": {}}
        return self._once(make_function, (at, args[0], space, args[4]), setter, state)

    def reduce_global(self, obj: Any, reduced: str | None) -> Any:
        """An object that is one of its kind, if it is a global of a module."""
        found = self._library.spaces.global_of(obj)
        if found is None:
            return super().reduce_global(obj, reduced)
        at = self._at(*found, obj)
        return self._once(make_global, (at, type(obj)), set_attributes_of, object.__getstate__(obj))

    @staticmethod
    def _once(make: Any, args: tuple[Any, ...], setter: Any, state: Any) -> Any:
        return make, (TheUnpickler, *args), (TheUnpickler, setter, state), None, None, set_once


def set_attributes_of(obj: Any, state: Any) -> None:
    """What pickle does with the state of an object that has no `__setstate__`."""
    for values in state if type(state) is tuple else (state,):
        for name, value in (values or {}).items():
            object.__setattr__(obj, name, value)


def content_of(cell: CellType) -> Any:
    """The variable of a closure; `Missing` if it has no value so far."""
    try:
        return cell.cell_contents
    except ValueError:  # it is empty so far
        return Missing


def _unpicklable(what: str, value: object, error: BaseException) -> SerializationError:
    return SerializationError(
        f"{what}, {_a(name_of(type(value)))}, which cannot be pickled ({text_of(error)}); create "
        "it inside the function, pass something else as an argument, or define the function and it "
        "in a module that the other process can import"
    )


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _code_of(thing: Any) -> tuple[int, int] | None:
    """The code and globals of a function without any state of its own; else None."""
    if (
        type(thing) is not FunctionType
        or thing.__closure__
        or thing.__defaults__
        or thing.__kwdefaults__
        or thing.__dict__
        or thing.__qualname__ != thing.__code__.co_qualname
    ):
        return None
    return id(thing.__code__), id(thing.__globals__)


def _bounded(known: OrderedDict[Any, Any]) -> None:
    """Let go of the oldest entries of *known*."""
    while len(known) > MOST_KNOWN:
        known.popitem(last=False)
