"""The definitions that an endpoint makes of its program's functions, and when it makes them anew.

A `Definition` brings all that a function or class needs: the pickles of the globals that it uses,
of those that these use, and so on. So a receiver never has to ask for more. The first message to an
endpoint brings it, later ones only have its index (`protocol.exports`).

The library remembers what went into a definition: each global that it uses, each attribute of its
classes, and code, defaults, closure and attributes of its functions. If one of them is another
object by now (for numbers and texts: has another value), the function is defined anew.

A function that refers to an `RRef` or to an actor's address, itself or by a global, has no
definition: it goes with each message, which counts the reference. So does one that is too large.
"""

from __future__ import annotations

import io
import itertools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, GeneratorType
from typing import Any

from cloudpickle import cloudpickle as cp

from ..protocol.errors import SerializationError
from ..protocol.ids import WorkerId
from .by_value import ByValuePickler, dumps, is_by_value
from .definitions import Definition
from .failures import CAUGHT, name_of, pass_on, text_of
from .sources import Sources, lines_of
from .spaces import SPACES, Binding, Space, bound_in, dispatches, is_same, seen, weakly

LARGEST = 8 << 20
"""The most bytes of a definition."""
MOST_KNOWN = 1000
"""The most functions and classes that one endpoint remembers to have defined."""
DEEPEST = 20
"""How deep classes may be in each other's pickles."""
_LIVE = frozenset({"globals", "exec", "eval", "vars"})
_INSIDE = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


class _Known:
    """A definition, or None for a thing that cannot have one, and what it was made of.

    It keeps nothing of the program alive.
    """

    def __init__(self, thing: Any, definition: Definition | None, definer: _Definer) -> None:
        self.thing, self.definition = weakly(thing), definition
        self._functions = definer.functions
        self._spaces: list[tuple[weakref.ref[Space], dict[str, int], int]] = []
        for space, used in definer.used.items():
            numbers = {name: number for _, name, number, _ in used.values()}
            self._spaces.append((weakref.ref(space), numbers, definer.sizes.get(space, 0)))

    def is_right(self) -> bool:
        """Whether the thing is still there, and everything that went into it is unchanged.

        This is asked at each call, so it has loops where functions would be shorter.
        """
        if type(self.thing) is weakref.ref and self.thing() is None:
            return False
        for ref, numbers, size in self._spaces:
            space = ref()
            if space is None or not space.has(numbers, size):
                return False
        for each in self._functions:
            function = each.ref()
            if function is not None and not each.is_as(function):
                return False
        return True


def _itself(thing: Any) -> Any:
    """*thing*; for a function without any state of its own, like a lambda in a loop, its code."""
    if type(thing) is not FunctionType or thing.__qualname__ != thing.__code__.co_qualname:
        return thing
    own = thing.__closure__ or thing.__defaults__ or thing.__kwdefaults__ or thing.__dict__
    return thing if own else thing.__code__


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
        itself = _itself(thing)
        key = id(itself), id(getattr(thing, "__globals__", None))
        known = self._known.get(key)
        if known is not None and is_same(itself, known.thing) and known.is_right():
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
        with self._lock:
            self._known[key] = _Known(itself, definition, definer)
            self._known.move_to_end(key)
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return definition

    def has_global(self, thing: object) -> bool:
        """Whether *thing* is a global of a module by value, and has an identity."""
        module, name = SPACES.shared(self._me).get(id(thing), (None, ""))
        return module is not None and module.names.get(name) is thing

    def tidy(self) -> list[Any]:
        """Let go of objects that the program does not use any more; they are returned.

        The caller drops them, without any lock: their finalizers are code of the user's.
        """
        gone: list[Any] = SPACES.tidy()
        if not self._lock.acquire(blocking=False):
            return gone  # as in `Spaces.tidy`
        try:
            # Python's collector may run anywhere here, and a finalizer change these tables.
            for key in list(self._known):
                known = self._known.get(key)
                if known is not None and not known.is_right():
                    gone.append(self._known.pop(key, None))
        finally:
            self._lock.release()
        return gone


def whole(thing: Any, me: WorkerId) -> bytes:
    """A definition of *thing*, even if it has addresses. Raises the errors of pickling."""
    return _Definer(me, ()).pickled(thing)


class _Definer(ByValuePickler):
    """Pickles one definition: the thing itself, and the bindings that it needs."""

    entire = False

    def __init__(self, me: WorkerId, special: tuple[type, ...]) -> None:
        self._file = io.BytesIO()
        super().__init__(self._file, protocol=5)
        self._me, self._special = me, special
        self.used: dict[Space, dict[str, Binding]] = {}
        """The bindings that went into it."""
        self.functions: list[Any] = []
        """The functions in it that are not globals, as `seen`."""
        self.sizes: dict[Space, int] = {}
        """How many attributes each class in it has."""
        self._shared = SPACES.shared(me)
        self._inside: object = None
        """The global whose place has been pickled: it is next."""
        self._left: list[tuple[Binding, str]] = []
        """The globals that are not pickled yet, each with the function that uses it."""
        self._depth = 0
        self._current: tuple[Binding, str] | None = None
        """The global that is pickled now, and the function that uses it."""
        self._sources: Sources = {}
        self.is_possible = True
        """Whether there was no reference and no address in it so far."""

    def pickled(self, thing: Any) -> bytes:
        """The definition of *thing*, if it `is_possible`.

        Raises the errors of pickling; `SerializationError` with the name of a variable or global.
        """
        try:
            self.dump((thing, self._reads(thing), self._left_from(0)))
            bindings = [each for used in self.used.values() for each in used.values()]
            self.dump((bindings, self._sources))
        except CAUGHT as error:
            pass_on(error)
            if self._current is not None:
                (_, name, _, value), user = self._current
                raise _unpicklable(f"{user}() uses the global `{name}`", value, error) from error
            self._blame_variables(error)
            raise
        return self._file.getvalue()

    def _left_from(self, start: int, attributes: Iterable[Binding] = ()) -> Iterator[Binding]:
        """The *attributes* of a class, then all globals left since *start*.

        A function leaves the globals that it uses, since a long chain of helpers would be too deep
        for pickle. Each one comes twice: pickle asks for the next one before it pickles the first,
        which may leave more.
        """
        outer = self._current
        self._depth += 1
        for binding in attributes:
            yield from (binding, binding)
        while self._depth <= DEEPEST and len(self._left) > start:
            self._current = binding, _ = self._left.pop()
            yield from (binding, binding)
        self._depth -= 1
        self._current = outer

    def _reads(self, thing: Any) -> tuple[Space, list[str]] | None:
        """The module of *thing*, and the globals that it names, if it is for `Definition.called`.

        That is a function that leaves none behind. It and its module bind none of the globals.
        """
        if type(thing) is not FunctionType or dispatches(thing) or not is_by_value(thing):
            return None
        names = list(cp._extract_code_globals(thing.__code__))
        inside = {each.co_name for each in thing.__code__.co_consts if type(each) is CodeType}
        module = SPACES.of(thing.__globals__, self._me)
        bound = module.bound() | bound_in(thing.__code__)
        possible = bound.isdisjoint(names) and _LIVE.isdisjoint(names) and inside <= _INSIDE
        return (module, names) if possible else None

    def _use(self, space: Any, name: str, user: str = "") -> Binding:
        """The binding of *name* is needed, too; *user*: the function that uses it, if a global."""
        used = self.used.setdefault(space, {})
        if name not in used:
            used[name] = space.binding(name)
            if user:
                self._left.append((used[name], user))
        return used[name]

    def persistent_id(self, obj: object) -> tuple[Any, ...] | None:
        """A global of a module by value goes with its place; references and addresses do not."""
        if isinstance(obj, self._special):
            self.is_possible = False
            return ()
        if obj is self._inside:
            self._inside = None
            return None
        module, name = self._shared.get(id(obj), (None, ""))
        if module is None or module.names.get(name) is not obj:  # it may be bound anew by now
            return None
        *place, value = self._use(module, name, name)
        if value is not obj:
            return None
        self._inside = obj
        return *place, obj

    def reducer_override(self, obj: Any) -> Any:
        """The bindings that are left become a list. They are found while it is pickled."""
        is_ours = type(obj) is GeneratorType and obj.gi_code is _Definer._left_from.__code__
        return (list, (), None, obj) if is_ours else super().reducer_override(obj)

    def reduce_function(self, function: FunctionType) -> Any:
        """A function finds its globals in its module."""
        if id(function) not in self._shared:
            self.functions.append(seen(function))
        if dispatches(function):
            return super().reduce_function(function)
        module = SPACES.of(function.__globals__, self._me)
        for name in cp._extract_code_globals(function.__code__):
            self._use(module, name, function.__qualname__)
        attributes, slots = cp._function_getstate(function)
        submodules = slots.pop("_cloudpickle_submodules")  # which are imported with it
        del slots["__globals__"], slots["__closure__"]
        # No function sets the state: pickle would name it once more, and it may be another one by
        # then, see `persistent_id`.
        self._sources |= lines_of(function.__code__)
        args = function.__code__, module, function.__closure__, submodules
        return _make_function, args, (attributes, slots)

    def bindings(self, space: Space, names: list[str]) -> Any:
        """The attributes of a class, and the globals that they need.

        Code of the class may run before the rest is unpickled, for instance when a subclass is
        made. It finds the globals that are new there.
        """
        self.sizes[space] = len(space.names)
        return self._left_from(len(self._left), [self._use(space, name) for name in names])

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
            cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
            for name, content in [(name, cp._get_cell_contents(cell)) for name, cell in cells]:
                try:
                    dumps(content)
                except CAUGHT:
                    what = f"{function.__qualname__}() uses `{name}`, a variable of the function"
                    raise _unpicklable(f"{what} around it", content, error) from error


def _make_function(code: Any, module: Space, closure: Any, _submodules: object) -> FunctionType:
    """A function in its module. A pickle calls it."""
    return FunctionType(code, module.names, None, None, closure)


def _unpicklable(what: str, value: object, error: BaseException) -> SerializationError:
    name = name_of(type(value))
    article = "an" if name[0] in "aeiouAEIOU" else "a"
    return SerializationError(
        f"{what}, {article} {name}, which cannot be pickled ({text_of(error)}); create "
        "it inside the function, pass something else as an argument, or define the function and it "
        "in a module that the other process can import"
    )
