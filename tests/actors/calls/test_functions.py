"""Functions and classes that are pickled by value: each goes once, and its globals stay there."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from farref import RRef, SerializationError, rpc_sync

from ..helpers import until

if TYPE_CHECKING:
    from farref import System


def main(code: str, **names: Any) -> Any:
    """A namespace like that of a program or a notebook, which has run *code*."""
    namespace: dict[str, Any] = {"__name__": "__main__", **names}
    exec(dedent(code), namespace)
    return _Names(namespace)


class _Names:
    def __init__(self, names: dict[str, Any]) -> None:
        self.__dict__["names"] = names

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["names"][name]

    def __setattr__(self, name: str, value: object) -> None:
        self.__dict__["names"][name] = value

    def run(self, code: str) -> None:
        exec(dedent(code), self.__dict__["names"])


def call(function: Any, *args: Any, to: str = "B") -> Any:
    return rpc_sync(to, function, args)


CACHE = """
cache = {}
counter = 0

def put(k, v):
    cache[k] = v
    return len(cache)

def keys():
    return sorted(cache)

def count():
    global counter
    counter += 1
    return counter

def read():
    return counter
"""


def test_two_programs_with_the_same_code_share_nothing(system: System) -> None:
    one, other = main(CACHE), main(CACHE)
    assert [call(one.put, 1, 1), call(one.put, 2, 2), call(other.put, 3, 3)] == [1, 2, 1]


def test_none_in_place_of_an_object_that_is_gone(system: System) -> None:
    it = main("def f():\n    return thing is None, f.extra is None\n", thing=Thing())
    it.f.extra = Thing()
    assert call(it.f) == (False, False)
    it.thing = it.f.extra = None
    assert call(it.f) == (True, True)


def test_long_chains_of_helpers_and_of_classes(system: System) -> None:
    """Longer than the stack of pickle."""
    many = 1500
    helpers = [f"def f{n}(down):\n    return down and f{n + 1}(0)\n" for n in range(many)]
    classes = [f"class C{n}:\n    def next(self):\n        return C{n + 1}\n" for n in range(many)]
    ends = f"def f{many}(down):\n    return 0\nclass C{many}:\n    pass\n"
    it = main("\n".join([*helpers, *classes, ends, "def name():\n    return C0().next().__name__"]))
    assert call(it.f0, 1) == 0
    assert call(it.name) == "C1"


def test_closures_defaults_and_attributes(system: System) -> None:
    it = main(
        """
        def make(n, seen=[]):
            def next():
                nonlocal n
                n += 1
                next.calls += 1
                return n, next.calls
            next.calls = 0
            def set(new):
                nonlocal n
                n = new
            return next, set

        def keep(x, kept=[]):
            kept.append(x)
            return len(kept)
        """
    )
    first, set_first = it.make(0)
    second, _ = it.make(0)
    assert [call(first), call(first), call(second)] == [(1, 1), (2, 2), (1, 1)]
    set_first(10)
    assert call(first) == (11, 1), "a closure that has changed is a new one"
    assert [call(it.keep, 1), call(it.keep, 1)] == [1, 2]
    it.keep.__defaults__ = ([1, 2, 3],)
    assert call(it.keep, 1) == 4


@pytest.fixture
def apart(system: System) -> System:
    """The system, if its workers are processes of their own: else a class is the program's own."""
    if call(os.getpid) == os.getpid():
        pytest.skip("in one process, a class is one")
    return system


def test_a_function_with_a_reference_goes_each_time_and_is_counted(system: System) -> None:
    it = main("def f():\n    return ref.to_here()\n")
    it.ref = RRef([1])
    free = RRef([2])
    assert [call(it.f), call(it.f)] == [[1], [1]]
    assert call(lambda: free.to_here()[0]) == 2
    it.ref = None
    with pytest.raises(AttributeError):
        call(it.f)
    # The fixture checks that nothing is held any more.


def test_what_cannot_be_pickled_is_named(system: System) -> None:
    it = main(
        """
        import threading
        lock = threading.Lock()

        def locked():
            with lock:
                return 1

        def uses():
            return locked()

        def make():
            mine = threading.Lock()
            def inner():
                return mine
            return inner
        """
    )
    with pytest.raises(SerializationError, match=r"locked\(\) uses the global `lock`, a _thread"):
        call(it.uses)
    with pytest.raises(SerializationError, match=r"inner\(\) uses `mine`, a variable of the func"):
        call(it.make())
    it.ref = RRef(1)
    it.run("def with_both():\n    return ref, lock\n")
    with pytest.raises(SerializationError, match=r"with_both\(\) uses the global `lock`"):
        call(it.with_both)
    del it.names["ref"]


def test_many_functions_in_many_threads(system: System) -> None:
    it = main(CACHE)
    functions = [
        main(f"seen = []\ndef f(x):\n    seen.append(x)\n    return {n}, x\n").f for n in range(300)
    ]
    results: list[Any] = []

    def work(start: int) -> None:
        for n in range(start, 700, 4):
            results.append((n, call(functions[n % 300], n)))
            call(it.put, n, 1)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [(n, (n % 300, n)) for n in range(700)]
    assert call(it.put, -1, 1) == 701


class Thing:
    """Something that can be watched."""


def naming(thing: object) -> Any:
    return lambda: type(thing).__name__


def test_nothing_that_was_sent_is_kept_alive(apart: System) -> None:
    it = main("items = []\ndef many():\n    return len(items)\n")
    alone = main("thing = Thing()\ndef f():\n    return thing is not None\n", Thing=Thing)
    thing, inside = Thing(), Thing()
    gone = [weakref.ref(thing), weakref.ref(inside), weakref.ref(alone.thing)]
    assert call(naming(thing)) == "Thing"
    assert call(it.many) == 0
    assert call(alone.f)
    it.items.append(inside)
    it.items = None  # the next look of the library at its tables lets go of the list
    del thing, inside, alone
    assert until(apart, lambda: gc.collect() is not None and not any(ref() for ref in gone))


def test_a_large_function_goes_with_each_message(system: System) -> None:
    it = main(
        """
        large = bytes(9 << 20)
        seen = []

        def f():
            seen.append(len(large))
            return seen
        """
    )
    assert [call(it.f), call(it.f)] == [[9 << 20]] * 2, "it has new globals each time"
    it.large = b""
    assert [call(it.f), call(it.f)] == [[0], [0, 0]]


def test_a_function_that_could_not_be_pickled_can_be_mended(system: System) -> None:
    it = main("import threading\ncache = {}\ndef f(x=1):\n    return len(cache)\n")
    it.f.__defaults__ = (threading.Lock(),)
    with pytest.raises(SerializationError, match="cannot pickle"):
        call(it.f)
    it.f.__defaults__ = (1,)
    it.cache["lock"] = threading.Lock()
    with pytest.raises(SerializationError, match=r"f\(\) uses the global `cache`, a dict"):
        call(it.f)
    it.cache.clear()
    assert call(it.f) == 0
