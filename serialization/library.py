"""The definitions that an endpoint makes of its program's functions, and when it makes them anew.

A `Definition` brings all that a function or class needs: the pickles of the globals that it uses,
of those that these use, and so on. So a receiver never has to ask for more. The first message to an
endpoint brings it, later ones only name it (`protocol.shelves`).

**When one is made anew.** The library remembers the things that went into a definition: each global
that it uses, each attribute of its classes, and code, defaults, closure and attributes of its
functions. If one of them is another object by now (for numbers and texts: has another value), the
function is defined anew. Changes *inside* such an object, as in ``cache["a"] = 1``, are not seen:
the other process has a copy, which goes its own way (as in Ray and in PyTorch).

**What has no definition.** A function that refers to an `RRef` or to an actor's address, itself or
by a global, goes with each message anew, as part of it: the reference is counted for each message,
and released with it. So does a function that is too large (`LARGEST`).
"""

from __future__ import annotations

import io
import itertools
import threading
import weakref
from collections import OrderedDict
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from cloudpickle import cloudpickle as cp

from ..protocol.errors import SerializationError
from .by_value import ByValuePickler, is_by_value, parts_of
from .definitions import Definition
from .failures import CAUGHT, name_of, pass_on, text_of
from .spaces import SPACES, Missing, Module, NewGlobals, Space, bound_in, content_of, is_same, seen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..protocol.ids import WorkerId

LARGEST = 8 << 20
"""The most bytes of a definition."""
MOST_KNOWN = 1000
"""The most functions and classes that one endpoint remembers to have defined."""
DEEPEST = 20
"""How deep classes may be in each other's pickles."""
_MADE_WITH_IT = frozenset({"__globals__", "__closure__"})
_LIVE = frozenset({"globals", "exec", "eval", "vars"})
_INSIDE = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


class _Known:
    """A definition, None if there can be none, and what went into it, which it does not keep."""

    def __init__(self, thing: Any, definition: Definition | None, definer: _Definer) -> None:
        self.thing = seen(_itself(thing))
        self.definition = definition
        self._spaces = [(weakref.ref(space), used) for space, used in definer.used.items()]
        self._classes = [(weakref.ref(kind), many) for kind, many in definer.classes.items()]
        self._functions = definer.functions

    def holds(self, thing: Any) -> bool:
        """Whether it is the definition of *thing*, and still right."""
        return is_same(_itself(thing), self.thing) and self.is_right()

    def is_right(self) -> bool:
        """Whether all that went into it is as it was. Asked at each call: loops, few functions."""
        for ref, used in self._spaces:
            space = ref()
            if space is None:
                return False
            values: Mapping[str, Any] = space.values
            for name, before in used.items():
                now = values.get(name, Missing)
                if now is not before and not is_same(now, before):
                    return False
        for each in self._functions:
            function = each.ref()
            if function is not None and not each.is_as(function):
                return False
        for kind, many in self._classes:
            there = kind()
            if there is not None and len(vars(there)) != many:
                return False
        return True

    def has_gone(self) -> bool:
        """Whether the thing is not in use any more."""
        ref = getattr(self.thing, "ref", self.thing)
        return type(ref) is weakref.ref and ref() is None


def _itself(thing: Any) -> Any:
    """*thing*; for a function without any state of its own, like a lambda in a loop, its code."""
    if (
        type(thing) is FunctionType
        and not (thing.__closure__ or thing.__defaults__ or thing.__kwdefaults__ or thing.__dict__)
        and thing.__qualname__ == thing.__code__.co_qualname
    ):
        return thing.__code__
    return thing


class Library:
    """The definitions that one endpoint has made of its program's functions. Thread-safe."""

    def __init__(self, me: WorkerId, special: tuple[type, ...]) -> None:
        """Objects of the *special* types, references and addresses, cannot be in a definition."""
        self._me, self._special = me, special
        self._lock = threading.RLock()  # a finalizer of the user's may call something meanwhile
        self._numbers = itertools.count(1)
        self._known: OrderedDict[tuple[int, int], _Known] = OrderedDict()

    def define(self, thing: Any) -> Definition | None:
        """The definition of *thing*; None if it goes in another way.

        Raises `SerializationError` if it uses a variable or a global that cannot be pickled.
        """
        key = id(_itself(thing)), id(getattr(thing, "__globals__", None))
        known = self._known.get(key)
        if known is not None and known.holds(thing):
            return known.definition
        definer = _Definer(self._me, self._special)
        try:
            data = definer.pickled(thing)
        except SerializationError:
            raise
        except CAUGHT as error:
            pass_on(error)
            return None  # the attempt to pickle it in the message will explain the error
        definition = None
        by_value = definer.used or definer.functions  # otherwise it goes by its name
        if definer.is_possible and by_value and len(data) <= LARGEST:
            definition = Definition(self._me, next(self._numbers), data)
        known = _Known(thing, definition, definer)
        with self._lock:
            self._known[key] = known
            self._known.move_to_end(key)
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return definition

    def tidy(self) -> list[Any]:
        """Let go of objects that the program does not use any more; they are returned.

        The caller drops them, without any lock: their finalizers are code of the user's.
        """
        gone: list[Any] = SPACES.tidy()
        with self._lock:
            # Python's collector may run anywhere here, and a finalizer change these tables.
            for key in list(self._known):
                known = self._known.get(key)
                if known is not None and (known.has_gone() or not known.is_right()):
                    gone.append(self._known.pop(key, None))
        return gone


def whole(thing: Any, me: WorkerId) -> bytes:
    """A definition of *thing*, even if it has addresses. Raises the errors of pickling."""
    return _Definer(me, ()).pickled(thing)


class _NoDefinitionError(Exception):
    """The thing contains a reference or an address."""


class _Definer(ByValuePickler):
    """Pickles one definition: the thing itself, then the bindings that it needs, one by one."""

    def __init__(self, me: WorkerId, special: tuple[type, ...]) -> None:
        self._file = io.BytesIO()
        super().__init__(self._file, protocol=5)
        self._me, self._special = me, special
        self.used: dict[Space, dict[str, Any]] = {}
        """The bindings that went into it: what `Space.values` has for each, as `seen`."""
        self.functions: list[Any] = []
        """The functions in it that are no globals, as `seen`."""
        self.classes: dict[type, int] = {}
        """The classes in it, each with the number of its attributes."""
        self._shared = SPACES.shared(me)
        self._inside: object = None
        """The global whose place has been pickled: it is next."""
        self._left: list[tuple[Space, str, str]] = []
        """The bindings that are not pickled yet, each with the function that uses it."""
        self._early: list[tuple[Space, str, int, Any]] = []
        self._depth = 0
        self._row: tuple[tuple[Space, str, int, Any], str] | None = None
        """The binding that is pickled now, and the function that uses it."""
        self.is_possible = True
        """Whether there was no reference and no address in it so far."""

    def pickled(self, thing: Any) -> bytes:
        """The definition of *thing*, if it `is_possible`.

        Raises the errors of pickling; `SerializationError` with the name of a variable or global.
        """
        self._dump((thing, self._reads(thing)))
        while self._left:
            self._dump(next(self._rows()))
        for row in self._early:
            self._dump(row)
        self._dump(None)
        return self._file.getvalue()

    def _dump(self, row: object) -> None:
        try:
            self.dump(row)
        except _NoDefinitionError:
            self.is_possible = False
        except CAUGHT as error:
            pass_on(error)
            if self._row is not None:
                (_, name, _, value), user = self._row
                raise _unpicklable(f"{user}() uses the global `{name}`", value, error) from error
            self._blame_variables(error)
            raise

    def _rows(self, start: int = 0) -> Iterator[tuple[Space, str, int, Any]]:
        """The bindings that are left, from this one on."""
        while len(self._left) > start:
            space, name, user = self._left.pop()
            number = space.number(name)  # first: another thread may bind it anew
            row = space, name, number, space.names.get(name, Missing)
            self._row = row, user
            yield row

    def rows_of_class(self, start: int) -> Iterator[tuple[Space, str, int, Any]]:
        """The globals that are left since a class was begun. They are pickled again at the end."""
        outer, attributes = self._row, []
        if self._depth < DEEPEST:
            self._depth += 1
            for row in self._rows(start):
                if isinstance(row[0], Module):
                    self._early.append(row)
                    yield row
                else:
                    attributes.append((*row[:2], ""))
            self._depth -= 1
        self._left += attributes
        self._row = outer

    def _reads(self, thing: Any) -> list[str] | None:
        """The globals that *thing* names, if it is a function for `spaces.called`.

        It and its module bind none of them, and it leaves no function behind.
        """
        if type(thing) is not FunctionType or not is_by_value(thing):
            return None
        names = list(cp._extract_code_globals(thing.__code__))
        inside = {each.co_name for each in thing.__code__.co_consts if type(each) is CodeType}
        bound = SPACES.of(thing.__globals__, self._me).bound() | bound_in(thing.__code__)
        possible = bound.isdisjoint(names) and _LIVE.isdisjoint(names) and inside <= _INSIDE
        return names if possible else None

    def _use(self, space: Space, name: str, function: str) -> None:
        """The binding of *name* is needed, too."""
        used = self.used.setdefault(space, {})
        if name not in used:
            used[name] = seen(space.values.get(name, Missing))
            self._left.append((space, name, function))

    def persistent_id(self, obj: object) -> tuple[Module, str, int, object] | None:
        """A global of a module by value goes with its place; references and addresses do not."""
        if isinstance(obj, self._special):
            raise _NoDefinitionError
        if obj is self._inside:
            self._inside = None
            return None
        module, name = self._shared.get(id(obj), (None, ""))
        if module is None or module.names.get(name) is not obj:  # it may be bound anew by now
            return None
        self._use(module, name, name)
        number, self._inside = module.number(name), obj
        return module, name, number, obj

    def reducer_override(self, obj: Any) -> Any:
        """A variable of a closure may refer to the function, so it is filled after it is made."""
        if type(obj) is CellType and (content := content_of(obj)) is not Missing:
            return CellType, (), (content,), None, None, _fill
        return super().reducer_override(obj)

    def reduce_function(self, function: FunctionType) -> Any:
        """A function finds its globals in its module."""
        reduced = super().reduce_function(function)
        if type(reduced) is not tuple:
            return reduced
        if id(function) not in self._shared:
            self.functions.append(seen(function))
        make, args, (attributes, slots), *_ = reduced
        if make is not cp._make_function:  # it dispatches
            return reduced
        module = SPACES.of(function.__globals__, self._me)
        for name in cp._extract_code_globals(args[0]):
            self._use(module, name, function.__qualname__)
        submodules = slots.pop("_cloudpickle_submodules")  # which are imported with it
        slots = {name: value for name, value in slots.items() if name not in _MADE_WITH_IT}
        args = args[0], module, function.__closure__, submodules
        # No function sets the state: pickle would name it once more, and it may be another one by
        # then, see `persistent_id`.
        return _make_function, args, (attributes, slots)

    def reduce_class(self, kind: type) -> Any:
        """If the class is there already, its attributes are bound at the end.

        If not, code of the class may run before that, for instance when a subclass is made. It
        finds the globals that are new there.
        """
        early = _Early(self, len(self._left))
        make, args, state, set_state = parts_of(kind)
        self.classes[kind] = len(vars(kind))
        space = SPACES.of_class(kind)
        for name in state[0]:
            self._use(space, name, kind.__qualname__)
        return make, args, (*state, early), None, None, set_state

    def reduce_single(self, obj: Any, name: str) -> Any:
        """It is one at the receiver, too, if it is a global."""
        if id(obj) not in self._shared:
            return super().reduce_single(obj, name)
        return object.__new__, (type(obj),), object.__getstate__(obj)

    def _blame_variables(self, error: BaseException) -> None:
        """Raise an error that names the closure's variable that could not be pickled, if it is one.

        Otherwise return.
        """
        for function in filter(None, [each.ref() for each in self.functions]):
            for name, cell in zip(
                function.__code__.co_freevars, function.__closure__ or (), strict=True
            ):
                try:
                    ByValuePickler(io.BytesIO(), protocol=5).dump(content_of(cell))
                except CAUGHT:
                    what = f"{function.__qualname__}() uses `{name}`"
                    what += ", a variable of the function around it"
                    raise _unpicklable(what, content_of(cell), error) from error


class _Early:
    """The globals that a class needs, in a pickle."""

    def __init__(self, definer: _Definer, start: int) -> None:
        self._definer, self._start = definer, start

    def __reduce__(self) -> Any:
        """A list, which binds what is put into it."""
        return NewGlobals, (), None, self._definer.rows_of_class(self._start)


def _make_function(code: Any, module: Module, closure: Any, _submodules: object) -> FunctionType:
    """A function in its module. A pickle calls it."""
    return FunctionType(code, module.names, None, None, closure)


def _fill(cell: CellType, content: tuple[Any]) -> None:
    cell.cell_contents = content[0]


def _unpicklable(what: str, value: object, error: BaseException) -> SerializationError:
    return SerializationError(
        f"{what}, {_a(name_of(type(value)))}, which cannot be pickled ({text_of(error)}); create "
        "it inside the function, pass something else as an argument, or define the function and it "
        "in a module that the other process can import"
    )


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
