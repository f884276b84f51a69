"""Modules that cannot be imported elsewhere, as their sender and as their receivers have them.

docs/functions.md has the rules. Such a module (``__main__``, a notebook) is one dict at a receiver:
the ``__globals__`` of all its functions there. It keeps its key wherever it goes. So a function
that its receiver passes on is in the same module at the next one, and a function that comes home is
in the program's own module, where it binds nothing.

The sender gives each binding of a global, and of an attribute of a class, a number when it first
sends it. A receiver takes a binding only if its number is higher than the one that it has. So it
does not matter how often, in which order, or by which way definitions arrive.

What a process has of other modules and classes belongs to the process, as `sys.modules` does. A
module whose sender has died, or that has not been used for long when there are very many, stays as
long as a function of it does.
"""

from __future__ import annotations

import dis
import functools
import os
import sys
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

from cloudpickle import cloudpickle as cp

from ..protocol.ids import WorkerId

Key = tuple[str, int, int]
"""A module: the name and incarnation of an endpoint of its process, and a number."""
Binding = tuple["Space", str, int, Any]
"""A name in its module or class, the number of this binding of it, and the value."""


class Missing:
    """Stands for the value of a global or an attribute that is not there (any more)."""


MOST_MODULES = 1000
"""The most modules from elsewhere that a process keeps though nothing else does."""
MARK = "__farref_module__"
"""The name of the `Space` of a module in its own globals."""
_BASE = "__name__", "__package__", "__path__", "__file__"
"""The globals that all functions of a module have: their code imports relatively to them."""
_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})
_WITHOUT_IDENTITY = (*_ATOMS, tuple, frozenset, type, ModuleType)
"""The types of the globals that are the same at a receiver anyway, or need not be."""
_NEVER: tuple[int, Any] = 0, Missing
"""What is known of a name that has not been sent."""
_DISPATCHING = functools.singledispatch(len).__code__  # type: ignore[attr-defined]  # it is a function


class _Function:
    """A function as it is now. It does not keep the function alive."""

    def __init__(self, function: FunctionType) -> None:
        self.ref: Any = weakref.ref(function)
        self._own = function.__code__, function.__defaults__, function.__kwdefaults__
        self._others = list(map(weakly, _others(function)))

    def is_as(self, function: Any) -> bool:
        """Whether *function* is this one, unchanged."""
        code, defaults, kwdefaults = self._own
        if function is None or function is not self.ref() or function.__code__ is not code:
            return False
        if function.__defaults__ is not defaults or function.__kwdefaults__ is not kwdefaults:
            return False
        if not function.__closure__ and not function.__dict__:  # mostly
            return not self._others
        others = _others(function)
        return len(others) == len(self._others) and all(map(is_same, others, self._others))


def weakly(value: Any) -> Any:
    """A weak reference to *value*; itself if there is none, as for lists, dicts and tuples."""
    return weakref.ref(value) if type(value).__weakrefoffset__ else value


def seen(value: Any) -> Any:
    """*value*, to be compared with later; weakly, if possible."""
    return _Function(value) if type(value) is FunctionType else weakly(value)


def is_same(now: Any, before: Any) -> bool:
    """Whether *now* is the object that `seen` got, or an equal number or text.

    A function must not have been changed, either. Changes inside other objects do not count.
    """
    if type(before) is _Function:
        return before.is_as(now)
    kind = type(before)
    if kind is weakref.ref:
        return now is not None and before() is now  # None may also stand for one that has gone
    return now is before or (kind in _ATOMS and type(now) is kind and bool(now == before))


def _others(function: Any) -> list[Any]:
    """The variables of its closure, its attributes, and its implementations if it dispatches."""
    found = [*map(cp._get_cell_contents, function.__closure__ or ()), *vars(function).values()]
    return [*found, *function.registry.values()] if dispatches(function) else found


def dispatches(function: FunctionType) -> bool:
    """Whether it is a function of `functools.singledispatch`."""
    return function.__code__ is _DISPATCHING


@functools.lru_cache(10_000)
def bound_in(code: CodeType) -> frozenset[str]:
    """The globals that *code*, or code inside it, binds. Slow, unless it is remembered."""
    steps = dis.get_instructions(code)
    found = [each.argval for each in steps if each.opname in {"STORE_GLOBAL", "DELETE_GLOBAL"}]
    inside = [bound_in(each) for each in code.co_consts if type(each) is CodeType]
    return frozenset(found).union(*inside)


def function_in(kind: type, name: str) -> Any:
    """The function that the body of a class has under this name. A pickle calls it."""
    found = vars(kind).get(name)
    return getattr(found, "__func__", found)  # without `staticmethod` or `classmethod` around it


class Space:
    """What the names in a module or a class are bound to, and the number of each binding.

    A module is in its own globals, so it goes when they do. A class is not kept alive.
    """

    def __init__(self, owner: Any, key: Key | None = None, *, home: bool) -> None:
        """*owner*: the globals of the module with this *key*, or a class.

        *home*: it comes from this process.
        """
        self.key, self.home = key, home
        self._owner: Any = owner if key else weakref.ref(owner)
        if key:
            owner[MARK] = SPACES.modules[key] = self
        self.known: dict[str, tuple[int, Any]] = {}
        """The number of each binding; at home with the value, as `seen` when it got the number."""
        self._coming: dict[str, tuple[int, Any]] = {}
        """Elsewhere: what `once` has returned, with its number, until it is bound."""
        # Not as the class itself does it: its metaclass may refuse.
        self._set: Any = dict.__setitem__ if key else type.__setattr__
        self._delete: Any = dict.__delitem__ if key else type.__delattr__

    def __reduce__(self) -> Any:
        """It is one in each process."""
        return _space_of, (self.key, self.base) if self.key else (self._owner(), None)

    @property
    def names(self) -> Any:
        """The globals, or the attributes; those of another class if the class has gone."""
        return self._owner if self.key else vars(self._owner() or Missing)

    @property
    def base(self) -> dict[str, Any]:
        """The globals that all functions of the module have."""
        names = self.names
        return {n: names[n] for n in _BASE if type(names.get(n)) in {str, list}}

    def bound(self) -> frozenset[str]:
        """The globals that functions and methods of the module bind."""
        found = list(self.names.values())
        found += [each for kind in found if type(kind) is type for each in vars(kind).values()]
        functions = [getattr(each, "__func__", each) for each in found]
        codes = [each.__code__ for each in functions if type(each) is FunctionType]
        return frozenset().union(*map(bound_in, codes))

    def has(self, bindings: Mapping[str, int], size: int = 0) -> bool:
        """Whether each of these names still has the binding with its number. Asked at each call.

        With *size*, a class must also have that many attributes: another one may be new.
        """
        names, known, home = self.names, self.known, self.home
        if size and len(names) != size:
            return False
        for name, number in bindings.items():
            latest, before = known.get(name, _NEVER)
            if latest != number:
                return False
            if home:
                now = names.get(name, Missing)
                if now is not before and not is_same(now, before):
                    return False
        return True

    def number(self, name: str) -> int:
        """The number of the present binding of *name*; at home a new binding gets its number."""
        with SPACES.lock:
            if not self.has({name: self.known.get(name, _NEVER)[0]}):
                self.known[name] = SPACES.tick(), seen(self.names.get(name, Missing))
            return self.known.get(name, _NEVER)[0]

    def binding(self, name: str) -> Binding:
        """The present binding of *name*, which is about to be sent."""
        number = self.number(name)  # first: another thread may bind it anew
        return self, name, number, self.names.get(name, Missing)

    def bind(self, name: str, number: int, value: object) -> None:
        """Bind *name* to *value*, unless it has this or a newer binding. Under the lock.

        The numbers of names from this process are never newer elsewhere. So at home this binds only
        a name that is not there at all, because a function of the module has bound it elsewhere.
        """
        there = name in self.names
        if number > self.known.get(name, (0 if there else -1,))[0]:
            self.known[name] = number, Missing
            if number >= self._coming.get(name, (0,))[0]:
                self._coming.pop(name, None)
            owner = self._owner if self.key else self._owner()
            if value is not Missing:
                self._set(owner, name, value)
            elif there:
                self._delete(owner, name)

    def once(self, name: str, number: int, value: Any) -> Any:
        """The object of this very binding: the one that is here, or *value* if it is the first."""
        with SPACES.lock:
            here = self.number(name)
            if number == here:
                return self.names.get(name, value)
            known = self._coming.get(name, (here, None))
            if number > known[0] and not self.home:
                known = self._coming[name] = number, value
            return known[1] if number == known[0] else value

    def tidy(self) -> list[Any]:
        """Let go of values of the program that are not bound any more; they are returned."""
        names, known = self.names, list(self.known.items()) if self.home else []
        gone = [item for item in known if not is_same(names.get(item[0], Missing), item[1][1])]
        for name, _ in gone:
            self.number(name)  # the value that is bound now takes the place of the old one
        return gone


class Spaces:
    """The modules and classes that this process has sent or got. Thread-safe."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a finalizer of the user's may call something meanwhile
        self._last = 0
        self.modules: weakref.WeakValueDictionary[Key, Space] = weakref.WeakValueDictionary()
        self._latest: OrderedDict[Key, Space] = OrderedDict()
        """Those from elsewhere; the one used least recently first."""
        self._classes: weakref.WeakKeyDictionary[type, Space] = weakref.WeakKeyDictionary()

    def tick(self) -> int:
        """The number of a new binding. Under the lock.

        It follows the clock: a forked process may send what it has from its parent. All are even; a
        class that goes whole in a message has odd ones, see `by_value`.
        """
        self._last = max(self._last + 2, time.time_ns() & ~1)
        return self._last

    def of(self, names: dict[str, Any], me: WorkerId) -> Space:
        """The module with these globals; if it is a new one, then it comes from *me*."""
        with self.lock:
            module: Space | None = names.get(MARK)
            if module is None or module.names is not names:  # they may be copied from another one's
                module = Space(names, (me.name, me.incarnation, self.tick()), home=True)
            return module

    def at(self, key: Key, base: dict[str, Any]) -> Space:
        """The module with this *key*."""
        with self.lock:
            names = {**base, "__builtins__": __builtins__}
            module = self.modules.get(key) or Space(names, key, home=False)
            if not module.home:
                self._latest[key] = module
                self._latest.move_to_end(key)
                if len(self._latest) > MOST_MODULES:
                    self._latest.popitem(last=False)
            return module

    def of_class(self, kind: type, *, home: bool = True) -> Space:
        """The attributes of *kind*; *home*: if it is a new one, then it comes from this process."""
        with self.lock:
            return self._classes.get(kind) or self._classes.setdefault(kind, Space(kind, home=home))

    def place_in_class(self, function: FunctionType) -> tuple[type, str] | None:
        """The class whose body has *function*, and the name of it there."""
        *outer, name = function.__qualname__.split(".")
        if not outer or outer[-1] == "<locals>":
            return None
        found: Any = function.__globals__.get(outer[0])
        for each in outer[1:]:
            found = vars(found).get(each) if isinstance(found, type) else None
        for some in (found,), self._classes:  # one from elsewhere may be no global here
            with self.lock:
                kinds = [kind for kind in some if isinstance(kind, type)]
            for kind in kinds:
                if kind.__qualname__ == ".".join(outer) and function_in(kind, name) is function:
                    return kind, name
        return None

    def shared(self, me: WorkerId) -> dict[int, tuple[Space, str]]:
        """By `id`: the globals of modules by value that have an identity, with their places."""
        self.of(vars(sys.modules["__main__"]), me)
        with self.lock:
            modules = list(self.modules.values())
        return {
            id(value): (module, name)
            for module in modules
            for name, value in list(module.names.items())
            if not isinstance(value, _WITHOUT_IDENTITY) and not name.startswith("__")
        }

    def forget(self, origins: Iterable[WorkerId]) -> list[Space]:
        """Let go of the modules of dead senders; the caller drops them, without any lock."""
        dead = {(each.name, each.incarnation) for each in origins}
        with self.lock:
            return [self._latest.pop(key) for key in list(self._latest) if key[:2] in dead]

    def tidy(self) -> list[Any]:
        """Let go of what the program does not use any more; the caller drops it, without lock."""
        if not self.lock.acquire(blocking=False):
            return []  # a signal handler may have interrupted its holder, and wait for this thread
        try:
            spaces = [*self.modules.values(), *self._classes.values()]
            return [gone for space in spaces for gone in space.tidy()]
        finally:
            self.lock.release()

    def renew(self) -> None:
        """This process is another one than its parent: it has sent nothing so far."""
        self.lock = threading.RLock()  # a thread of the parent may have held it
        for kind in [kind for kind, space in self._classes.items() if space.home]:
            del self._classes[kind]
        for key, module in [each for each in self.modules.items() if each[1].home]:
            del self.modules[key], module.names[MARK]


SPACES = Spaces()
os.register_at_fork(after_in_child=SPACES.renew)


def _space_of(owner: Any, base: dict[str, Any] | None) -> Space:
    """The module with this key, or the space of a class. A pickle calls it."""
    return SPACES.of_class(owner, home=False) if base is None else SPACES.at(owner, base)


def bind(bindings: Iterable[Binding]) -> None:
    """Bind all that is new, in one step.

    Code that runs meanwhile takes no lock, so new globals come first, then those that may use them,
    then classes, and names that are no more.
    """

    def order(binding: Binding) -> tuple[bool, bool, bool]:
        space, name, _, value = binding
        return value is Missing, space.key is None, name in space.names

    with SPACES.lock:
        for space, *rest in sorted(bindings, key=order):
            space.bind(*rest)
