"""The variables of a process that hold a reference, and the path from each to its handle.

The search goes forward, as the garbage collector would, so each handle is found with a path that
has names, also through containers made before ``gc.freeze``, which `gc.get_referrers` does not see.
docs/inspect.md tells where it begins, and that a path goes through libraries only for a handle that
no other path leads to. It holds no lock, and runs none of the user's code.
"""

from __future__ import annotations

import functools
import gc
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import CoroutineType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from ...protocol.ids import RRefId
from ..core.core import Core, Internal
from ..core.sites import is_ours
from ..handles.rref import RRef
from ..serving.turns import method_of
from ..values.objects import Objects
from . import paths

if TYPE_CHECKING:
    import asyncio

OBJECTS = 2_000_000
"""The most objects that one search visits."""
SECONDS = 3.0
"""The most CPU time of one search."""
WAYS = 8
"""The most paths reported for one handle."""
UNNAMED = 5
"""The most handles without a path for which the collector gives the referrers."""
_namespace_of: Any = vars(ModuleType)["__dict__"].__get__
_module_of: Any = vars(type)["__module__"].__get__
"""The module of a class, without a look at its metaclass, which is the user's code."""


class Root(msgspec.Struct, frozen=True, eq=False):
    """An object that lives by itself, and may lead to a handle."""

    kind: str
    """``object``, ``attribute``, ``local``, ``task``, ``global`` or ``internal``."""
    thing: object
    name: str = ""
    """The beginning of the path."""
    where: str = ""
    owned: RRefId | None = None
    """For a value: the id of its object."""


class RetainingPath(msgspec.Struct, frozen=True):
    """One chain of Python objects that keeps a handle alive."""

    root: Root
    text: str


class SearchResult(msgspec.Struct, frozen=True):
    ways: tuple[RetainingPath, ...]
    unnamed: tuple[str, ...]
    """The referrers of each handle to which no known root leads."""
    missing: int
    """The number of handles about which nothing was found."""
    complete: bool
    """False if the search reached its limits."""


def retaining(
    core: Core, objects: Objects, wanted: Callable[[RRef[Any]], bool], count: int
) -> SearchResult:
    """The ways to the *wanted* handles of an endpoint. There are *count* of them."""
    search = _Search(core, wanted)
    search.through(_own(core, objects))
    search.through(_variables(ours=False))
    search.through(_modules(libraries=False))
    for group in (_modules(libraries=True), _variables(ours=True)):  # large, and mostly unrelated
        if len(search.ways) < count:
            search.through(group, libraries=True)
    ways = tuple(way for each in search.ways.values() for way in each)
    left = search.left() if len(search.ways) < count else ()
    missing = count - len(search.ways) - len(left)
    search.forget()
    return SearchResult(ways, left, missing, search.complete)


class _Search:
    """A breadth-first search, group of roots by group."""

    def __init__(self, core: Core, wanted: Callable[[RRef[Any]], bool]) -> None:
        self._front = core.front
        self._wanted = wanted
        self._end = time.thread_time() + SECONDS
        self.ways: dict[int, list[RetainingPath]] = {}
        """By the id of the handle."""
        self.complete = True
        self._libraries = False
        """Whether the search goes through libraries now."""
        self._told: frozenset[int] = frozenset()
        """Handles that have ways enough."""
        # Objects are kept, not only their ids: a dead object's id may be used again.
        self._met: dict[int, tuple[object, int | None]] = {}
        """By id: the object, and the id of the object that led to it."""
        self._roots: dict[int, Root] = {}
        self._closed = [*sys.modules.values(), *map(_namespace_of, _loaded()), self, self.__dict__]
        self._closed += [self._met, self._roots, self._closed]

    def through(self, roots: Iterator[Root], *, libraries: bool = False) -> None:
        """Search from *roots* on. Each group starts anew, and reports its own ways.

        Through *libraries* it reports only ways to handles that have none so far.
        """
        self._libraries = libraries
        self._told = frozenset(self.ways if libraries else ())
        self._met.clear()
        self._roots.clear()
        self._met.update((id(thing), (thing, None)) for thing in self._closed)
        ahead: deque[object] = deque()
        for root in roots:
            if id(root.thing) in self._roots and not issubclass(type(root.thing), RRef):
                continue
            self._roots[id(root.thing)] = root
            self._met[id(root.thing)] = root.thing, None
            if not self._handle(root.thing, None) and gc.is_tracked(root.thing):
                ahead.append(root.thing)
        while ahead:
            if len(self._met) > OBJECTS or time.thread_time() > self._end:
                self.complete = False
                return
            for _ in range(min(1000, len(ahead))):
                self._enter(ahead.popleft(), ahead)

    def _enter(self, one: object, ahead: deque[object]) -> None:
        for each in gc.get_referents(one):
            if id(each) in self._met:
                if issubclass(type(each), RRef):
                    self._handle(each, one)
                continue
            self._met[id(each)] = each, id(one)
            if not self._handle(each, one) and gc.is_tracked(each) and not self._is_closed(each):
                ahead.append(each)

    def _handle(self, one: object, by: object) -> bool:
        """Whether *one*, which *by* refers to, is a handle. If it is wanted, note the way."""
        if not issubclass(type(one), RRef):
            return False
        ref: RRef[Any] = one  # type: ignore[assignment]  # issubclass, as `__class__` may lie
        if ref._front is self._front and id(one) not in self._told and self._wanted(ref):
            ways = self.ways.setdefault(id(one), [])
            way = self._way(one, by)
            if len(ways) < WAYS and way not in ways:
                ways.append(way)
        return True

    def _is_closed(self, one: object) -> bool:
        kind = type(one)
        if kind is FrameType or issubclass(kind, (ModuleType, Internal)):
            return True
        try:
            return not self._libraries and _is_thespian(_module_of(kind))
        except AttributeError:
            return False  # the class has no module

    def _way(self, one: object, by: object) -> RetainingPath:
        chain = [one]
        number = None if by is None else id(by)
        while number is not None:
            chain.append(self._met[number][0])
            number = None if number in self._roots else self._met[number][1]
        root = self._roots[id(chain[-1])]
        text = paths.path(chain[::-1], namespace=root.kind == "global")
        return RetainingPath(root, (root.name + text).lstrip())  # a value has no name

    def forget(self) -> None:
        """Drop everything that was met, at once: the search refers to itself."""
        self._met.clear()
        self._roots.clear()
        self._closed.clear()
        self.ways.clear()

    def left(self) -> tuple[str, ...]:
        """The referrers of the handles that have not been met."""
        handles: list[object] = [
            each
            for each in gc.get_objects()
            if issubclass(type(each), RRef)
            and each._front is self._front
            and id(each) not in self.ways
            and self._wanted(each)
        ]
        self._met.clear()
        self._roots.clear()  # else they would be among the referrers
        ours = {id(handles)}
        for innermost in sys._current_frames().values():
            frame: FrameType | None = innermost
            while frame is not None:
                ours.add(id(frame))
                frame = frame.f_back
        return tuple([_referrers(handles[n], ours) for n in range(min(UNNAMED, len(handles)))])


def _referrers(handle: object, ours: set[int]) -> str:
    """The types of the referrers of *handle*, a few levels up."""
    ours.add(id(sys._getframe()))
    steps, at = [], handle
    for _ in range(4):
        above = [each for each in gc.get_referrers(at) if id(each) not in ours]
        ours.add(id(above))
        if not above:
            break
        at = above[0]
        ours.add(id(at))  # else a cycle would be followed again and again
        is_frame = type(at) is FrameType
        steps.append(f"frame of {at.f_code.co_qualname}" if is_frame else type(at).__name__)
    return "".join(f" in a {step}" for step in steps).strip()


def _own(core: Core, objects: Objects) -> Iterator[Root]:
    """The endpoint's own roots: the values of its objects, and its actor."""
    with core.lock:
        values = objects.values()
    for rref, value in values:
        yield Root("object", value, owned=rref)
    actor = core.actor
    if actor is not None:
        hidden = ("_mailbox", "receiveMessage", "_myRef")
        for name, value in list((paths.namespace_of(actor) or {}).items()):
            if name not in hidden:
                yield Root("attribute", value, f"self.{name}", f"actor {type(actor).__name__}")


def _variables(*, ours: bool) -> Iterator[Root]:
    """The variables of running functions and waiting tasks. *ours*: those of libraries."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, innermost in list(sys._current_frames().items()):
        frame: FrameType | None = innermost if ident != threading.get_ident() else None
        stack: list[FrameType] = []
        while frame is not None:
            stack.append(frame)
            frame = frame.f_back
        for frame in reversed(stack):  # prefer a variable to the argument that it became
            if _is_library(frame.f_globals) == ours and not _is_of_module(frame):
                where = f"{paths.place_of(frame)}, thread {names.get(ident, ident)}"
                yield from _locals("internal" if ours else "local", frame, where)
    for task in _tasks():
        coroutine: Any = task.get_coro()
        while type(coroutine) is CoroutineType and coroutine.cr_frame is not None:
            frame = coroutine.cr_frame
            if _is_library(frame.f_globals) == ours:
                where = f"{paths.place_of(frame)}, waiting in {task.get_name()}"
                yield from _locals("internal" if ours else "task", frame, where)
            coroutine = method_of(coroutine.cr_await)


def _is_of_module(frame: FrameType) -> bool:
    """Whether *frame* runs the import of a module: its variables are the module's."""
    module = sys.modules.get(str(frame.f_globals.get("__name__")))
    return (
        frame.f_code.co_name == "<module>"
        and module is not None
        and _namespace_of(module) is frame.f_globals
    )


def _locals(kind: str, frame: FrameType, where: str) -> Iterator[Root]:
    for name, value in paths.locals_of(frame).items():
        yield Root(kind, value, name, where)


def _tasks() -> list[asyncio.Task[Any]]:
    """The tasks of every loop of this process.

    They are found among all objects, because asyncio lists the tasks of one loop, but no loops.
    """
    kind = getattr(sys.modules.get("asyncio.tasks"), "Task", None)  # without it there is no task
    return (
        [] if kind is None else [each for each in gc.get_objects() if issubclass(type(each), kind)]
    )


def _modules(*, libraries: bool) -> Iterator[Root]:
    """The modules: the program's own, or those of Python and of packages."""
    for module in _loaded():
        namespace = _namespace_of(module)
        if _is_library(namespace) == libraries and not is_ours(namespace):
            file = namespace.get("__file__")
            name = str(namespace.get("__name__"))
            yield Root("global", namespace, name, file if type(file) is str else "")


PACKAGES = frozenset({"site-packages", "dist-packages"})
"""Folders of packages, also those of the user, of Debian and of another environment."""


def _is_thespian(module: object) -> bool:
    return type(module) is str and (module == "thespian" or module.startswith("thespian."))


@functools.cache
def _libraries() -> tuple[str, ...]:
    import sysconfig  # noqa: PLC0415 - few programs inspect

    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple({sysconfig.get_path(name) for name in names})


def _is_library(namespace: dict[str, Any]) -> bool:
    """Whether these are the globals of a module of Python, of a package, or of farref."""
    file = namespace.get("__file__")
    if is_ours(namespace) or _is_thespian(namespace.get("__name__")):
        return True
    if type(file) is str and (
        file.startswith(_libraries()) or not PACKAGES.isdisjoint(file.split("/"))
    ):
        return True
    return file is None and namespace.get("__name__") != "__main__"


def _loaded() -> list[ModuleType]:
    return [each for each in list(sys.modules.values()) if issubclass(type(each), ModuleType)]
