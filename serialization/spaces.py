"""Modules that cannot be imported elsewhere, as their sender and as their receivers have them.

The rule: a module of the sender that cannot be imported (``__main__``, a notebook) is one module at
the receiver. A function or class of it goes there once. A changed definition replaces it there, as
an edit in a notebook does. The other globals stay as they are there, except those that the sender
has bound anew.

Such a module is one dict at the receiver: the ``__globals__`` of all its functions there. So one
function finds in ``cache`` what another one put there, a later call finds what an earlier one did,
and a call that still runs sees what the sender has bound meanwhile. A module keeps its key wherever
it goes. So a function that its receiver passes on is in the same module at the next one, and a
function that comes home is in the program's own module, where it binds nothing.

**Each call sees the globals as they were when it was made**, if the called function itself only
reads them, and no function of the module binds them with ``global``. So ``for n in range(3):
rpc_async("w", lambda: n)`` gives 0, 1 and 2, in whatever order the calls run.

The sender gives each binding of a global, and of an attribute of a class, a number when it first
sends it. A receiver takes a binding only if its number is higher than the one that it has. So it
does not matter how often, in which order, or by which way definitions arrive.

What a process has of other modules and classes belongs to the process, as `sys.modules` does. A
module whose sender has died, or that has not been used for long when there are very many, stays as
long as a function of it does.
"""

from __future__ import annotations

import dis
import io
import itertools
import os
import pickle
import sys
import threading
import time
import weakref
from collections import OrderedDict
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from .cached import state_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import CellType

    from ..protocol.ids import WorkerId

    Key = tuple[str, int, int]
    """A module: the name and incarnation of an endpoint of its process, and a number."""

MOST_MODULES = 1000
"""The most modules from elsewhere that a process keeps though nothing else does."""
MARK = "__farref_module__"
"""The name of the `Module` in its own globals."""
_BASE = "__name__", "__package__", "__path__", "__file__"
"""The globals that all functions of a module have: their code imports relatively to them."""
_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})
_WITHOUT_IDENTITY = (*_ATOMS, tuple, frozenset, type, ModuleType)
"""The types of the globals that are the same at a receiver anyway, or need not be."""


class Missing:
    """Stands for the value of a global or an attribute that is not there (any more)."""


class _Function:
    """A function as it is now. It does not keep the function alive."""

    def __init__(self, function: FunctionType) -> None:
        self.ref = weakref.ref(function)
        self._code = function.__code__
        self._defaults = function.__defaults__, function.__kwdefaults__
        self._more = list(map(_weakly, _more_of(function)))

    def is_as(self, function: Any) -> bool:
        """Whether *function* is this one, unchanged."""
        if (
            function is not self.ref()
            or function is None
            or function.__code__ is not self._code
            or function.__defaults__ is not self._defaults[0]
            or function.__kwdefaults__ is not self._defaults[1]
        ):
            return False
        if not function.__closure__ and not function.__dict__:
            return not self._more
        more = _more_of(function)
        return len(more) == len(self._more) and all(map(_is, more, self._more))


def seen(value: Any) -> Any:
    """*value*, to be compared with later; weakly, if possible.

    Lists, dicts and tuples are kept alive, as Python has no weak references to them.
    """
    return _Function(value) if type(value) is FunctionType else _weakly(value)


def is_same(now: Any, before: Any) -> bool:
    """Whether *now* is the object that `seen` got, or an equal number or text.

    A function must not have been changed, either. Changes inside other objects do not count.
    """
    return before.is_as(now) if type(before) is _Function else _is(now, before)


def _weakly(value: Any) -> Any:
    if type(value) in _ATOMS:
        return value
    try:
        return weakref.ref(value)
    except TypeError:
        return value


def _is(now: Any, before: Any) -> bool:
    if type(before) is weakref.ref:
        return before() is now
    kind = type(before)
    return now is before or (kind in _ATOMS and type(now) is kind and bool(now == before))


def _more_of(function: Any) -> list[Any]:
    """The variables of its closure, its attributes, and its implementations if it dispatches."""
    return [*map(content_of, function.__closure__ or ()), *state_of(function).values()]


def bound_in(code: CodeType) -> set[str]:
    """The globals that *code*, or code inside it, binds."""
    steps = dis.get_instructions(code)
    found = {each.argval for each in steps if each.opname in {"STORE_GLOBAL", "DELETE_GLOBAL"}}
    return found.union(*(bound_in(each) for each in code.co_consts if type(each) is CodeType))


def content_of(cell: CellType) -> Any:
    """The variable of a closure; `Missing` if it has no value so far."""
    try:
        return cell.cell_contents
    except ValueError:
        return Missing


def function_in(kind: type, name: str) -> Any:
    """The function that the body of a class has under this name. A pickle calls it."""
    found = vars(kind).get(name)
    return getattr(found, "__func__", found)  # without `staticmethod` or `classmethod` around it


class Space:
    """What the names in a module or class are bound to, and the number of each binding."""

    names: Mapping[str, Any]

    def __init__(self, *, home: bool) -> None:
        """*home*: it comes from this process."""
        self.home = home
        self._numbers: dict[str, int] = {}
        self._sent: dict[str, Any] = {}
        """At home: each value, as `seen` when it was sent."""
        self._coming: dict[str, tuple[int, Any]] = {}
        """Elsewhere: what `once` has returned, with its number, until it is bound."""

    @property
    def values(self) -> Mapping[str, Any]:
        """What to compare, to see that no name has been bound anew by its home."""
        return self.names if self.home else self._numbers

    def sent(self) -> Iterable[str]:
        """The names that have a number."""
        return self._numbers.keys()

    def number(self, name: str) -> int:
        """The number of the present binding of *name*, which is about to be sent."""
        with SPACES.lock:
            value = self.names.get(name, Missing)
            if not self.home or (value is Missing and name not in self._numbers):
                return self._numbers.get(name, 0)
            if name not in self._sent or not is_same(value, self._sent[name]):
                self._numbers[name], self._sent[name] = SPACES.tick(), seen(value)
            return self._numbers[name]

    def bind(self, bindings: Iterable[tuple[str, int, object]]) -> None:
        """Bind each name to its value, unless it has this or a newer binding, in one step."""
        with SPACES.lock:
            for name, number, value in bindings:
                there = name in self.names
                if self.home:  # only what a function of ours has bound elsewhere
                    if number == 0 and value is not Missing and not there:
                        self._set(name, value)
                elif number > self._numbers.get(name, 0 if there else -1):
                    self._numbers[name] = number
                    if number >= self._coming.get(name, (0,))[0]:
                        self._coming.pop(name, None)
                    if there or value is not Missing:
                        self._set(name, value)

    def _set(self, name: str, value: object) -> None:
        raise NotImplementedError

    def is_here(self, name: str, number: int) -> bool:
        """Whether this very binding is here, and the newest."""
        if self._numbers.get(name, number) != number:
            return False
        return not self.home or is_same(self.names.get(name, Missing), self._sent.get(name))

    def once(self, name: str, number: int, value: Any) -> Any:
        """The object of this very binding: the one that is here, or *value* if it is the first."""
        with SPACES.lock:
            if self.home:
                return self.names[name] if self.is_here(name, number) else value
            if number == self._numbers.get(name, 0):
                return self.names.get(name, value)
            known, coming = self._coming.get(name, (0, None))
            if number > known:
                known, coming = self._coming[name] = number, value
            return coming if number == known else value

    def tidy(self) -> list[Any]:
        """Let go of values of the program that are not bound any more; they are returned."""
        sent, names = list(self._sent.items()), self.names
        over = [name for name, value in sent if not is_same(names.get(name, Missing), value)]
        return [self._sent.pop(name) for name in over]


class Module(Space):
    """One module. It is in its own globals, so it goes when they do."""

    names: dict[str, Any]

    def __init__(self, key: Key, names: dict[str, Any], *, home: bool) -> None:
        super().__init__(home=home)
        self.key = key
        self.names = names
        names[MARK] = self
        self._bound: tuple[int, frozenset[str]] = 0, frozenset()

    def __reduce__(self) -> Any:
        """It is one module in each process."""
        return _module_at, (self.key, self.base)

    @property
    def base(self) -> dict[str, Any]:
        """The globals that all its functions have."""
        return {n: self.names[n] for n in _BASE if type(self.names.get(n)) in {str, list}}

    def bound(self) -> frozenset[str]:
        """The globals that its functions and methods bind."""
        if self._bound[0] != len(self.names):  # otherwise nothing new
            found = [*self.names.values()]
            found += [each for kind in found if type(kind) is type for each in vars(kind).values()]
            found = [getattr(each, "__func__", each) for each in found]
            codes = [each.__code__ for each in found if type(each) is FunctionType]
            self._bound = len(self.names), frozenset().union(*map(bound_in, codes))
        return self._bound[1]

    def _set(self, name: str, value: object) -> None:
        if value is Missing:
            del self.names[name]
        else:
            self.names[name] = value


class ClassSpace(Space):
    """The attributes of a class."""

    def __init__(self, kind: type, *, home: bool) -> None:
        super().__init__(home=home)
        self._kind = weakref.ref(kind)

    @property
    def names(self) -> Mapping[str, Any]:  # type: ignore[override]  # nobody sets it
        """The attributes; those of another class if it has gone."""
        return vars(self._kind() or Missing)

    def __reduce__(self) -> Any:
        """It belongs to the class."""
        return _space_of, (self._kind(),)

    def _set(self, name: str, value: object) -> None:
        kind: Any = self._kind()
        if value is Missing:
            type.__delattr__(kind, name)
        else:
            type.__setattr__(kind, name, value)


class Spaces:
    """The modules and classes that this process has sent or got. Thread-safe."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a finalizer of the user's may call something meanwhile
        self._last = 0
        self._keys = itertools.count(1)
        self._all: weakref.WeakValueDictionary[Key, Module] = weakref.WeakValueDictionary()
        self._latest: OrderedDict[Key, Module] = OrderedDict()
        """Those from elsewhere; the one used least recently first."""
        self._classes: weakref.WeakKeyDictionary[type, ClassSpace] = weakref.WeakKeyDictionary()

    def tick(self) -> int:
        """The number of a new binding. Under the lock.

        It follows the clock: a forked process may send what it has from its parent. All are even; a
        class that goes whole in a message has odd ones, see `by_value`.
        """
        self._last = max(self._last + 2, time.time_ns() & ~1)
        return self._last

    def of(self, names: dict[str, Any], me: WorkerId) -> Module:
        """The module with these globals; if it is a new one, then it comes from *me*."""
        with self.lock:
            module: Module | None = names.get(MARK)
            if module is None or module.names is not names:  # they may be copied from another one's
                module = Module((me.name, me.incarnation, next(self._keys)), names, home=True)
                self._all[module.key] = module
            return module

    def at(self, key: Key, base: dict[str, Any]) -> Module:
        """The module with this *key*."""
        with self.lock:
            module = self._all.get(key)
            if module is None:
                names = {**base, "__builtins__": __builtins__}
                module = self._all[key] = Module(key, names, home=False)
            if not module.home:
                self._latest[key] = module
                self._latest.move_to_end(key)
                if len(self._latest) > MOST_MODULES:
                    self._latest.popitem(last=False)
            return module

    def of_class(self, kind: type, *, home: bool = True) -> ClassSpace:
        """The attributes of *kind*; *home*: if it is a new one, then it comes from this process."""
        with self.lock:
            space = self._classes.get(kind)
            if space is None:
                space = self._classes[kind] = ClassSpace(kind, home=home)
            return space

    def place_in_class(self, function: FunctionType) -> tuple[type, str] | None:
        """The class whose body has *function*, and the name of it there."""
        *place, name = function.__qualname__.split(".")
        if not place or place[-1] == "<locals>":
            return None
        named: Any = function.__globals__.get(place[0])
        for each in place[1:]:
            named = vars(named).get(each) if isinstance(named, type) else None
        if isinstance(named, type) and function_in(named, name) is function:
            return named, name
        qualname = ".".join(place)
        with self.lock:  # one from elsewhere may be no global here
            kinds = list(self._classes)
        for kind in kinds:
            if kind.__qualname__ == qualname and function_in(kind, name) is function:
                return kind, name
        return None

    def shared(self, me: WorkerId) -> dict[int, tuple[Module, str]]:
        """By `id`: the globals of modules by value that have an identity, with their places."""
        self.of(vars(sys.modules["__main__"]), me)
        with self.lock:
            modules = list(self._all.values())
        return {
            id(value): (module, name)
            for module in modules
            for name, value in list(module.names.items())
            if not isinstance(value, _WITHOUT_IDENTITY) and not name.startswith("__")
        }

    def has(self, thing: object, name: str) -> bool:
        """Whether *thing* is a global of a module by value, of this *name* unless it is empty."""
        with self.lock:
            spaces = [vars(sys.modules["__main__"]), *(each.names for each in self._all.values())]
        if name:
            return any(names.get(name) is thing for names in spaces)
        return any(value is thing for names in spaces for value in list(names.values()))

    def forget(self, origins: Iterable[WorkerId]) -> list[Module]:
        """Let go of the modules of dead senders; the caller drops them, without any lock."""
        dead = {(each.name, each.incarnation) for each in origins}
        with self.lock:
            return [self._latest.pop(key) for key in list(self._latest) if key[:2] in dead]

    def tidy(self) -> list[Any]:
        """Let go of what the program does not use any more; the caller drops it, without lock."""
        with self.lock:
            spaces = [*self._all.values(), *self._classes.values()]
            return [gone for space in spaces for gone in space.tidy()]

    def renew(self) -> None:
        """This process is another one than its parent: it has sent nothing so far."""
        self.lock = threading.RLock()  # a thread of the parent may have held it
        for kind in [kind for kind, space in self._classes.items() if space.home]:
            del self._classes[kind]
        for module in [module for module in self._all.values() if module.home]:
            del self._all[module.key], module.names[MARK]


SPACES = Spaces()
os.register_at_fork(after_in_child=SPACES.renew)


def _module_at(key: Key, base: dict[str, Any]) -> Module:
    return SPACES.at(key, base)


def _space_of(kind: type) -> ClassSpace:
    return SPACES.of_class(kind, home=False)


class NewGlobals:
    """Binds globals that the module does not have yet, at once."""

    def extend(self, rows: Iterable[tuple[Module, str, int, Any]]) -> None:
        """Pickle's way to put several things into it."""
        with SPACES.lock:
            for module, name, number, value in rows:
                if name not in module.names:
                    module.bind([(name, number, value)])

    def append(self, row: tuple[Module, str, int, Any]) -> None:
        """The same for one."""
        self.extend([row])


class DefinitionUnpickler(pickle.Unpickler):
    """Unpickles one definition."""

    def persistent_load(self, at: Any) -> Any:
        """A global, which is one object however often it comes."""
        module, name, number, value = at
        return module.once(name, number, value)


def load(data: bytes) -> tuple[Any, tuple[Module, list[Any]] | None]:
    """Unpickle a definition: the thing itself, and the globals for `called`.

    All bindings that it needs are bound in one step. Code that runs meanwhile takes no lock, so new
    globals come first, then those that may use them, then classes, and names that are no more.
    Unpickling runs the user's code, so it is done without the lock.
    """
    unpickler = DefinitionUnpickler(io.BytesIO(data))
    (made, reads), rows = unpickler.load(), []
    while (row := unpickler.load()) is not None:
        rows.append(row)
    rows.sort(key=_when)
    with SPACES.lock:
        for space, name, number, value in rows:
            space.bind([(name, number, value)])
    module = getattr(made, "__globals__", {}).get(MARK)
    if reads is None or module is None:
        return made, None
    return made, (module, [row for space, *row in rows if space is module and row[0] in reads])


def _when(row: tuple[Space, str, int, object]) -> tuple[bool, bool, bool]:
    """The place of a binding among those that are bound in one step."""
    space, name, _, value = row
    return value is Missing, isinstance(space, ClassSpace), name in space.names


def called(function: Any, module: Module, reads: list[tuple[str, int, Any]]) -> Any:
    """*function* for one call, with the globals that it *reads* as they were when it was sent."""
    names = {**module.base, MARK: module, "__builtins__": __builtins__}
    for name, number, value in reads:
        now = module.names.get(name, Missing) if module.is_here(name, number) else value
        if now is not Missing:
            names[name] = now
    made = FunctionType(function.__code__, names, None, function.__defaults__, function.__closure__)
    made.__kwdefaults__, made.__dict__ = function.__kwdefaults__, function.__dict__
    made.__qualname__ = function.__qualname__
    return made
