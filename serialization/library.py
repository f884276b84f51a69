"""The definitions that an endpoint makes of its program's functions, and when it makes them anew.

**When one is made anew.** The library remembers, by identity, the things that went into a
definition: code, defaults and closure of each function in it, the attributes of each class, the
value of each global. If one of them is another object by now (for numbers and texts: has another
value), the function is defined anew. Changes *inside* such an object, as in ``cache["a"] = 1``, are
not seen: the other process has a copy, which goes its own way (as in Ray and in PyTorch).

**Globals.** The functions of one module share one namespace in each endpoint that they are sent to.
A definition gives each global a number, its *since*: the generation of the namespace in which the
sender bound the global to its present value. If the receiver has that very binding already, it
keeps its own object, with all that has happened to it there. When the program binds a global anew,
the next definition begins a new generation; `spaces` says what the receiver makes of that.

**What has no definition.** A function that refers to an `RRef` or to an actor's address, itself or
by a global, goes with each message anew, as part of it: the reference is counted for each message,
and released with it. So does a function that is too large (`LARGEST`).
"""

from __future__ import annotations

import dis
import io
import itertools
import pickle
import threading
import weakref
from collections import OrderedDict
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import cloudpickle

from ..protocol.errors import SerializationError
from .cached import REDUCERS
from .classes import set_class, version_of
from .definitions import SPACE, Definition, Missing, bounded
from .failures import CAUGHT, name_of, pass_on, text_of
from .ingredients import Ingredients, Space, content_of
from .plain import is_shared_main
from .sameness import seen

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.ids import WorkerId

LARGEST = 8 << 20
"""The most bytes of a definition."""
MOST_KNOWN = 1000
"""The most functions and classes that one endpoint remembers to have defined."""
MOST_SPACES = 100
"""The most namespaces of functions that one endpoint remembers to have sent."""


class Library:
    """The definitions that one endpoint has made of its program's functions. Thread-safe."""

    def __init__(self, me: WorkerId, special: tuple[type, ...]) -> None:
        """Objects of the *special* types, references and addresses, cannot be in a definition."""
        self._me = me
        self._special = special
        self._lock = threading.RLock()  # a finalizer of the user's may call something meanwhile
        self._numbers = itertools.count(1)
        self._known: OrderedDict[int, tuple[weakref.ref[Any], Ingredients]] = OrderedDict()
        self._by_code: OrderedDict[tuple[int, int], Ingredients] = OrderedDict()
        """Functions without any state of their own, by code and globals: a lambda in a loop."""
        self._spaces: OrderedDict[int, Space] = OrderedDict()

    def define(self, thing: Any) -> Definition | None:
        """The definition of *thing*, a function or a class; None if it goes in another way.

        Raises `SerializationError` if it uses a variable or a global that cannot be pickled.
        """
        known = self._known.get(id(thing))
        if known is not None and known[0]() is thing and known[1].holds():
            return known[1].definition
        return self._define(thing)

    def _define(self, thing: Any) -> Definition | None:
        key = _code_of(thing)
        if key is not None:
            ingredients = self._by_code.get(key)
            known = ingredients is not None and ingredients.functions[0][1] is thing.__code__
            if ingredients is not None and known and ingredients.holds():
                return ingredients.definition
        ingredients = self._pickled(thing)
        if ingredients is None:
            return None
        with self._lock:
            if key is not None and ingredients.functions:
                self._by_code[key] = ingredients
                bounded(self._by_code, MOST_KNOWN)
            place = id(thing)
            self._known[place] = (
                weakref.ref(thing, lambda _: self._known.pop(place, None)),
                ingredients,
            )
            self._known.move_to_end(place)
            bounded(self._known, MOST_KNOWN)
        return ingredients.definition

    def _pickled(self, thing: Any) -> Ingredients | None:
        """*thing*, pickled as far as possible; None if something in it cannot be pickled."""
        file = io.BytesIO()
        pickler = _Definer(file, self._special, self.space)
        ingredients = pickler.ingredients
        try:
            pickler.dump(thing)
            pickler.free = True
        except _NoDefinitionError:
            pass
        except CAUGHT as error:
            pass_on(error)
            self._blame_variables(ingredients, error)
            return None  # the attempt to pickle it in the message will explain the error
        if not ingredients.functions and not ingredients.classes:
            return ingredients  # it goes by its name
        free = pickler.globals_too()
        headers: list[tuple[Any, ...]] = []
        for space, (function, values) in pickler.used.items():
            with self._lock:
                since, generation = space.bind(values), space.generation
            headers.append((space.number, generation, _base(function.__globals__), since))
            before = {name: seen(value) for name, value in values.items()}
            names = space.names if space.names is not None else weakref.ref(function)
            ingredients.globals.append((space, generation, names, before))
        data = file.getvalue()
        if free and pickler.free and len(data) <= LARGEST:
            data = pickle.dumps((headers, data), 5)
            ingredients.definition = Definition(self._me, next(self._numbers), data)
        return ingredients

    def _blame_variables(self, ingredients: Ingredients, error: BaseException) -> None:
        """Raise an error that names the closure's variable that could not be pickled, if it is one.

        Otherwise return.
        """
        for ref, code, *_, cells, _ in ingredients.functions:
            for name, (cell, _) in zip(code.co_freevars, cells, strict=True):
                try:
                    _Definer(io.BytesIO(), self._special, self.space).dump(content_of(cell))
                except _NoDefinitionError:
                    continue
                except CAUGHT:
                    function = getattr(ref(), "__qualname__", code.co_name)
                    raise _unpicklable(
                        f"{function}() uses `{name}`, a variable of the function around it",
                        content_of(cell),
                        error,
                    ) from error

    def space(self, function: FunctionType) -> Space:
        """The record of the globals of *function*."""
        names = function.__globals__
        with self._lock:
            space = self._spaces.get(id(names))
            if space is None or not space.is_of(names):
                space = self._spaces[id(names)] = Space(next(self._numbers))
            space.meet(function)
            self._spaces.move_to_end(id(names))
            bounded(self._spaces, MOST_SPACES)
            return space

    def tidy(self) -> list[Any]:
        """Let go of objects that the program does not use any more; they are returned.

        The caller drops them, without any lock: their finalizers are code of the user's.
        """
        gone: list[Any] = []
        with self._lock:
            # Python's collector may run anywhere here, and a finalizer change these tables.
            for space in list(self._spaces.values()):
                gone += space.tidy()
            for place in list(self._known):  # no tuples of items: making them calls the collector
                known = self._known.get(place)
                if known is not None and not known[1].holds():
                    gone.append(self._known.pop(place, None))
            for code in list(self._by_code):
                ingredients = self._by_code.get(code)
                if ingredients is not None and not ingredients.holds():
                    gone.append(self._by_code.pop(code, None))
        return gone


class _NoDefinitionError(Exception):
    """The thing contains a reference or an address."""


class _Definer(cloudpickle.Pickler):  # type: ignore[misc] # cloudpickle has no types
    """Pickles one definition: the thing itself, then its globals, name by name."""

    dispatch_table = REDUCERS

    def __init__(
        self, file: io.BytesIO, special: tuple[type, ...], space_of: Callable[[FunctionType], Space]
    ) -> None:
        super().__init__(file, protocol=5)
        self._special = (Space, *special)
        self._space_of = space_of
        self.ingredients = Ingredients(None)
        self.used: dict[Space, tuple[FunctionType, dict[str, Any]]] = {}
        """The globals that its functions use, with their values; and one of these functions."""
        self.free = False
        """Whether the thing itself is free of references and addresses."""
        self._news: list[tuple[Space, str, str]] = []
        """Those of them that are not pickled yet, each with the function that uses it."""

    def globals_too(self) -> bool:
        """Pickle the globals; whether they are free of references and addresses.

        Raises `SerializationError` with the name of one that cannot be pickled.
        """
        free = True
        while self._news:
            space, name, function = self._news.pop()
            value = self.used[space][1][name]
            try:
                self.dump((space.number, name, value))
            except _NoDefinitionError:
                free = False
            except CAUGHT as error:
                pass_on(error)
                what = f"{function}() uses the global `{name}`"
                raise _unpicklable(what, value, error) from error
        self.dump(None)
        return free

    def persistent_id(self, obj: object) -> tuple[str, int] | None:
        """The number of a namespace; None for what goes into the bytes."""
        if not isinstance(obj, self._special):
            return None
        if isinstance(obj, Space):
            return SPACE, obj.number
        raise _NoDefinitionError

    def reducer_override(self, obj: Any) -> Any:
        """Namespaces become numbers, and classes are set only if they are new to the receiver."""
        if isinstance(obj, FunctionType | type) and is_shared_main(obj):
            return NotImplemented  # it goes by its name
        reduced = super().reducer_override(obj)
        if type(reduced) is not tuple or len(reduced) != 6:
            return reduced
        make, args, state, *_, setter = reduced
        if isinstance(obj, type):
            self.ingredients.add_class(obj)
            return make, args, (version_of(obj), state, setter), None, None, set_class
        self.ingredients.add_function(obj)
        (code, _, *others), (attributes, slots) = args, state
        space = self._space_of(obj)
        _, values = self.used.setdefault(space, (obj, {}))
        for name in _globals_of(code):
            if name not in values:
                values[name] = obj.__globals__.get(name, Missing)
                self._news.append((space, name, obj.__qualname__))
        state = attributes, {**slots, "__globals__": {}}
        return make, (code, space, *others), state, None, None, setter


def _unpicklable(what: str, value: object, error: BaseException) -> SerializationError:
    return SerializationError(
        f"{what}, {_a(name_of(type(value)))}, which cannot be pickled ({text_of(error)}); create "
        "it inside the function, pass something else as an argument, or define the function and it "
        "in a module that the other process can import"
    )


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _globals_of(code: CodeType) -> dict[str, None]:
    """The names of the globals, and of the builtins, that *code*, or code inside it, uses."""
    found = {
        each.argval: None
        for each in dis.get_instructions(code)
        if each.opname.endswith(("_GLOBAL", "_GLOBALS"))
    }
    for const in code.co_consts:
        if type(const) is CodeType:
            found |= _globals_of(const)
    return found


def _base(names: dict[str, Any]) -> dict[str, Any]:
    """The names by which the code of a module imports relatively."""
    kept = ("__name__", "__package__", "__path__", "__file__")
    return {name: names[name] for name in kept if type(names.get(name)) in {str, list}}


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
