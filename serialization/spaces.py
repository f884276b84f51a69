"""Modules that cannot be imported elsewhere, at both ends, and the functions made in them.

Such a module is one dict at the receiver: the ``__globals__`` of all its functions there. So one
function finds in ``cache`` what another one put there, a later call finds what an earlier one did,
and a method of an object sees what the sender has bound anew. A module keeps the name of the
endpoint that it comes from, wherever it goes. So a function that its receiver passes on is in the
same module at the next one, and a function that comes home is in the program's own module, where it
binds nothing.

**Each call sees the globals as they were when it was made**: a called function that only reads
globals has a copy of those that it names, with the values that its call was sent with. So
``for n in range(3): rpc_async("w", lambda: n)`` gives 0, 1 and 2, in whatever order the calls run.

Unpickling runs the user's code, so it is done without any lock. All that a definition brings is
bound in one step, before anything else can see a function or a changed class that needs it.

A module whose sender has died, or that has not been used for long when there are very many, stays
as long as a function of it does.
"""

from __future__ import annotations

import io
import itertools
import pickle
import sys
import threading
import weakref
from collections import OrderedDict
from types import FunctionType
from typing import TYPE_CHECKING, Any

from .classes import set_attributes
from .definitions import Missing, is_same, names_in, seen, tick

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType

    from ..protocol.ids import WorkerId
    from .definitions import Definition

    Key = tuple[str, int, int]
    """A module: the name and the incarnation of the endpoint that it comes from, and its number."""

MOST_SPACES = 1000
"""The most modules from elsewhere that one endpoint keeps though nothing else does."""
MARK = "__farref_module__"
"""The name of the `Space` in the globals of functions from elsewhere."""
_CHANGED: Any = object()
"""In the place of a value that was let go of: equal to none."""
_KEPT = "__name__", "__package__", "__path__", "__file__"
"""The names by which the code of a module imports relatively."""


class Space:
    """One module. It does not keep the globals of its own program alive, unless a module does.

    So whoever runs code in a dict of its own (`exec`) is rid of the objects in it when the last
    function is gone.
    """

    def __init__(self, key: Key, base: dict[str, Any] | None = None) -> None:
        """*base*, for a module from elsewhere: the names by which its code imports."""
        self.key = key
        self.came = base is not None
        self.since: dict[str, int] = {}
        """The number of each binding."""
        self.live: frozenset[str] = frozenset()
        """The names that its functions bind, and its program has bound once only: a call that runs
        sees the present values."""
        self._anew: set[str] = set()
        self._sent: dict[str, Any] = {}
        """Each global of the program as `seen`."""
        self._names = None if base is None else {**base, MARK: self, "__builtins__": __builtins__}
        self._user: Callable[[], FunctionType | None] = lambda: None
        self._users: weakref.WeakSet[FunctionType] = weakref.WeakSet()
        """Functions of the program with these globals, if there is no module."""
        self._looked_at = 0

    def meet(self, names: dict[str, Any], user: FunctionType | None) -> None:
        """*names* are the globals, and *user* is a function with them."""
        module = sys.modules.get(names.get("__name__", ""))
        if getattr(module, "__dict__", None) is names:
            self._names = names
        elif user is not None:
            self._users.add(user)

    @property
    def names(self) -> dict[str, Any]:
        """The globals; empty if they are gone."""
        if self._names is not None:
            return self._names
        user = self._user()
        if user is None:
            user = next(iter(self._users), None)
            if user is None:
                return {}
            self._user = weakref.ref(user)
        return user.__globals__

    @property
    def base(self) -> dict[str, Any]:
        """The globals that each of its functions has."""
        names = self.names
        return {name: names[name] for name in _KEPT if type(names.get(name)) in {str, list}}

    def find(self, name: str, number: int) -> Any:
        """The value of this very binding; `Missing` if it is not here, or not any more."""
        if self.since.get(name) != number:
            return Missing
        value = self.names.get(name, Missing)
        return value if self.came or is_same(value, self._sent[name]) else Missing

    def number(self, name: str, *, changed: bool) -> int:
        """The number of the present binding of *name*, which is about to be sent.

        *changed*: the function that it is has been changed in place. Under the lock.
        """
        value = self.names.get(name, Missing)
        if self.came or (value is Missing and name not in self.since):
            return self.since.get(name, 0)
        if changed or name not in self.since or not is_same(value, self._sent[name]):
            if name in self.since:
                self._anew.add(name)
                self.live -= {name}
            self.since[name], self._sent[name] = tick(), seen(value)
        return self.since[name]

    def bind(self, name: str, number: int, value: object) -> None:
        """Bind *name*, unless it has a newer binding. Under the lock."""
        names = self.names
        if not self.came:  # a function of ours bound it elsewhere
            if number == 0 and value is not Missing and names:
                names.setdefault(name, value)
        elif number > self.since.get(name, 0 if name in names else -1):
            self.since[name] = number
            if value is Missing:
                names.pop(name, None)
            else:
                names[name] = value

    def row(self, name: str, number: int = 0, value: Any = Missing) -> tuple[str, int, Any]:
        """A global as a call sees it. Not another copy of the value that is bound here."""
        bound = self.names.get(name, Missing) if self.since.get(name) == number else value
        return name, number, bound

    def look_for_live(self) -> frozenset[str]:
        """`live`, anew if there are more names by now."""
        names = self.names
        if len(names) != self._looked_at:
            self._looked_at = len(names)
            found: set[str] = set()
            for value in list(names.values()):
                inside = list(vars(value).values()) if isinstance(value, type) else []
                for each in (value, *inside):
                    function = each.__func__ if type(each) in {classmethod, staticmethod} else each
                    if type(function) is FunctionType:
                        found.update(names_in(function.__code__, stored=True))
            found -= self._anew
            if not found <= self.live:
                self.live |= found
        return self.live

    def tidy(self) -> list[Any]:
        """Let go of values that are not bound any more; they are returned."""
        names, gone = self.names, []
        for name, value in list(self._sent.items()):
            if not is_same(names.get(name, Missing), value):
                gone.append(value)
                self._sent[name] = _CHANGED
        return gone


class Spaces:
    """The modules that one endpoint has sent or got. Thread-safe."""

    def __init__(self, me: WorkerId) -> None:
        self._me = me
        self.lock = threading.RLock()  # a finalizer of the user's may call something meanwhile
        self._numbers = itertools.count(1)
        self._own: dict[int, Space] = {}
        """The program's, by the `id` of the globals."""
        self._latest: OrderedDict[Key, Space] = OrderedDict()
        """Those from elsewhere; the one used least recently first."""
        self._all: weakref.WeakValueDictionary[Key, Space] = weakref.WeakValueDictionary()

    def of(self, names: dict[str, Any], user: FunctionType | None = None) -> Space:
        """The module with these globals; *user* is a function with them."""
        came: Space | None = names.get(MARK)
        if came is not None:
            return came
        with self.lock:
            own = self._own.get(id(names))
            if own is None or own.names is not names:
                key = self._me.name, self._me.incarnation, next(self._numbers)
                own = self._own[id(names)] = self._all[key] = Space(key)
            own.meet(names, user)
            return own

    def global_of(self, thing: object) -> tuple[Space, str] | None:
        """The module and the name of which *thing* is the value."""
        self.of(vars(sys.modules["__main__"]))
        with self.lock:
            spaces = list(self._all.values())
        for space in spaces:
            for name, value in list(space.names.items()):
                if value is thing:
                    return space, name
        return None

    def called(self, definition: Definition) -> Any:
        """The function or class of *definition*, for one call. Raises the errors of unpickling."""
        made = definition.made if definition.is_made else self.make(definition)
        if definition.view is None:
            return made
        space, rows = definition.view
        try:
            self._latest.move_to_end(space.key)
        except KeyError:
            self._enter(space.key, {})
        if rows is None:
            return made
        names, since = space.names, space.since
        view = {**space.base, MARK: space, "__builtins__": __builtins__}
        for name, number, value in rows:
            found = names.get(name, Missing) if since.get(name, number) == number else value
            if found is not Missing:
                view[name] = found
        function = FunctionType(
            made.__code__, view, made.__name__, made.__defaults__, made.__closure__
        )
        function.__kwdefaults__ = made.__kwdefaults__
        function.__qualname__ = made.__qualname__
        function.__dict__ = made.__dict__
        return function

    def make(self, definition: Definition) -> Any:
        """The function, class or other global of *definition*, made at its first use.

        Raises the errors of unpickling.
        """
        if not definition.is_made:
            bases, reads, data = pickle.loads(definition.data)  # noqa: S301 - peers are trusted
            making = DefinitionUnpickler(
                data, {key: self._enter(key, base) for key, base in bases.items()}
            )
            made = making.load()
            values = {}
            while (each := making.load()) is not None:
                space, name, number, value = each
                values[space, name] = number, value
            with self.lock:
                for (space, name), (number, value) in values.items():
                    space.bind(name, number, value)
                for kind, attributes in making.later:
                    set_attributes(kind, attributes)
                if not definition.is_made:  # another thread may have been faster
                    space = getattr(made, "__globals__", {}).get(MARK)
                    if space is not None:
                        rows = reads and [space.row(n, *values.get((space, n), ())) for n in reads]
                        definition.view = space, rows
                    definition.made = made
        return definition.made

    def _enter(self, key: Key, base: dict[str, Any]) -> Space:
        with self.lock:
            space = self._all.get(key)
            if space is None or not (space.came or space.names):
                space = self._all[key] = Space(key, base)
            if space.came:
                self._latest[key] = space
                self._latest.move_to_end(key)
                if len(self._latest) > MOST_SPACES:
                    self._latest.popitem(last=False)
            return space

    def forget(self, origins: Iterable[WorkerId]) -> list[Space]:
        """Let go of the modules of dead senders; the caller drops them, without any lock."""
        dead = {(each.name, each.incarnation) for each in origins}
        with self.lock:
            return [self._latest.pop(key) for key in list(self._latest) if key[:2] in dead]

    def tidy(self) -> list[Any]:
        """Let go of what the program does not use any more; the caller drops it. Under the lock."""
        gone: list[Any] = []
        for place, space in list(self._own.items()):
            gone += space.tidy()
            if not space.names:
                gone.append(self._own.pop(place, None))
        return gone


class DefinitionUnpickler(pickle.Unpickler):
    """Unpickles one definition."""

    def __init__(self, data: bytes, spaces: dict[Key, Space]) -> None:
        super().__init__(io.BytesIO(data))
        self._spaces = spaces
        self._new: dict[int, Any] = {}
        """The objects that were not here before, by `id`."""
        self.later: list[tuple[type, dict[str, Any]]] = []
        """Classes that others use already, and their new attributes."""

    def persistent_load(self, pid: Any) -> Any:
        """A module, or this object itself."""
        return self._spaces[pid] if pid else self

    def once(self, at: Any, make: Callable[[], Any]) -> Any:
        """The global *at* this place, if that very binding is here; else a new object."""
        if at is not None and (found := at[0].find(*at[1:])) is not Missing:
            return found
        made = make()
        self._new[id(made)] = made
        return made

    def is_new(self, made: object) -> bool:
        """Whether `once` has made it."""
        return id(made) in self._new


def make_function(
    making: DefinitionUnpickler, at: Any, code: CodeType, space: Space, closure: Any
) -> Any:
    """A function in its module. A pickle calls it."""
    return making.once(at, lambda: FunctionType(code, space.names, None, None, closure))


def make_global(making: DefinitionUnpickler, at: Any, kind: type) -> Any:
    """An object that is a global, and only one. A pickle calls it."""
    return making.once(at, lambda: object.__new__(kind))


def set_once(made: object, state: tuple[DefinitionUnpickler, Callable[..., object], Any]) -> None:
    """Give *made* its state, unless it has been here before. A pickle calls it."""
    making, setter, given = state
    if making.is_new(made):
        setter(made, given)
