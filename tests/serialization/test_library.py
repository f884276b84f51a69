"""The definitions of functions: when one is made anew, and what it keeps alive."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from farref.protocol.errors import SerializationError
from farref.protocol.ids import WorkerId
from farref.serialization import library as module
from farref.serialization.definitions import Definition
from farref.serialization.library import Library
from farref.serialization.pickling import Reference
from farref.serialization.spaces import Spaces

if TYPE_CHECKING:
    from collections.abc import Callable

ME = WorkerId("A", 1)
CODE = """
n = 1000
cache = {}
def helper(): return n
def f(x=(1, 2)): return helper(), len(cache)
class C:
    lr = 0.5
    def get(self): return helper()
def make(c):
    def g(): return c
    return g
"""


@pytest.fixture
def library() -> Library:
    return Library(ME, (Reference,))


@pytest.fixture
def names() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(CODE, names)
    return names


def there(definition: Definition) -> Definition:
    return Definition(definition.origin, definition.number, definition.data)


def changes() -> dict[str, tuple[bool, Callable[[dict[str, Any]], object]]]:
    """Changes by name, and whether `f` or `C` has to be defined anew after each."""
    return {
        "nothing": (False, lambda _: None),
        "an equal number": (False, lambda names: names.update(n=int("1000"))),
        "another number": (True, lambda names: names.update(n=2)),
        "an equal number of another type": (True, lambda names: names.update(n=1000.0)),
        "inside a dict": (False, lambda names: names["cache"].update(a=1)),
        "another dict": (True, lambda names: names.update(cache={})),
        "an equal dict, twice": (
            True,
            lambda names: (names.update(cache=[]), names.update(cache={})),
        ),
        "a helper": (True, lambda names: exec("def helper(): return 2", names)),
        "the helper's code": (
            True,
            lambda names: setattr(names["helper"], "__code__", (lambda: 2).__code__),
        ),
        "its defaults": (True, lambda names: setattr(names["f"], "__defaults__", ((1, 2),))),
        "an attribute": (True, lambda names: setattr(names["f"], "a", 1)),
        "a name that nobody uses": (False, lambda names: names.update(other=1)),
        "a builtin name": (True, lambda names: names.update(len=lambda _: 0)),
    }


@pytest.mark.parametrize("change", changes())
def test_when_a_function_is_defined_anew(
    change: str, library: Library, names: dict[str, Any]
) -> None:
    before = library.define(names["f"])
    assert before is not None
    anew, make = changes()[change]
    make(names)
    assert (library.define(names["f"]) is not before) == anew


def test_when_a_class_is_defined_anew(library: Library, names: dict[str, Any]) -> None:
    kind = names["C"]
    first = library.define(kind)
    assert library.define(kind) is first
    kind.lr = 0.25
    second = library.define(kind)
    assert second is not first
    names["n"] = 3
    assert library.define(kind) is not second


def test_a_change_of_one_global_is_seen_by_all_functions_of_the_module(
    library: Library, names: dict[str, Any]
) -> None:
    exec("def other(): return cache\ndef apart(): pass", names)
    other, apart = library.define(names["other"]), library.define(names["apart"])
    library.define(names["f"])
    names["n"] = 2
    library.define(names["f"])
    assert library.define(names["other"]) is not other, "it goes on in the new generation"
    assert library.define(names["apart"]) is not apart


def test_one_definition_for_the_functions_of_one_lambda(
    library: Library, names: dict[str, Any]
) -> None:
    functions = eval("[lambda x: x + n for _ in range(3)]", names)
    assert len({library.define(each) for each in functions}) == 1
    functions[1].calls = 0
    assert len({library.define(each) for each in functions}) == 2
    closures = [names["make"](1) for _ in range(3)]
    assert len({library.define(each) for each in closures}) == 3, "each may have a state"


def test_a_late_definition_of_an_old_generation_keeps_its_globals(
    library: Library, names: dict[str, Any]
) -> None:
    exec("def put(k): cache[k] = n; return n, len(cache)", names)
    old = library.define(names["put"])
    names["n"] = 2
    new = library.define(names["put"])
    assert old is not None
    assert new is not None
    spaces = Spaces()
    latest = spaces.make(there(new))
    assert latest("a") == (2, 1)
    late = spaces.make(there(old))
    assert late("b") == (1000, 2), "the old number, and the same dict"
    assert latest("c") == (2, 3)


def test_nothing_keeps_a_function_or_its_objects_alive(library: Library) -> None:
    class Thing:
        pass

    def make(thing: object) -> Callable[[], object]:
        return lambda: thing

    thing = Thing()
    function = make(thing)
    assert library.define(function) is not None
    gone: list[Any] = [weakref.ref(thing), weakref.ref(function)]
    del thing, function
    gc.collect()
    assert [ref() for ref in gone] == [None, None]
    assert not library._known


def test_a_list_that_was_sent_is_let_go_of_when_the_program_does(
    library: Library, names: dict[str, Any]
) -> None:
    class Thing:
        pass

    exec("refs = []\ndef g(): return refs", names)
    assert library.define(names["g"]) is not None
    thing = Thing()
    names["refs"].append(thing)
    gone = weakref.ref(thing)
    del thing
    assert not library.tidy()
    names["refs"] = None
    assert gone() is not None
    assert library.tidy()
    assert gone() is None
    definition = library.define(names["g"])
    assert definition is not None
    assert Spaces().make(there(definition))() is None


def test_globals_of_no_module_are_not_kept_alive(library: Library) -> None:
    class Thing:
        pass

    space: dict[str, Any] = {"__name__": "__main__", "thing": Thing(), "list": [Thing()]}
    exec("def f(): return list, thing", space)
    gone: list[Any] = [weakref.ref(space["thing"]), weakref.ref(space["list"][0])]
    assert library.define(space["f"]) is not None
    del space
    gc.collect()
    library.tidy()
    assert [ref() for ref in gone] == [None, None]


def test_what_is_remembered_is_bounded(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_KNOWN", 10)
    monkeypatch.setattr(module, "MOST_SPACES", 5)
    functions: list[Any] = []
    for n in range(30):
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(f"def f(): return {n}", names)
        functions.append(names["f"])
    for each in functions * 2:
        definition = library.define(each)
        assert definition is not None
        assert Spaces().make(there(definition))() == each()
    assert len(library._known) == len(library._by_code) == 10
    assert len(library._spaces) == 5


def test_a_large_function_goes_with_each_message(
    library: Library, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST", 5000)
    names["cache"]["large"] = bytes(5000)
    assert library.define(names["f"]) is None
    names["cache"] = {}
    assert library.define(names["f"]) is not None


def test_a_name_is_enough(library: Library) -> None:
    assert library.define(gc.collect.__class__) is None
    assert library.define(weakref.WeakValueDictionary) is None


def test_a_function_that_could_not_be_pickled_can_be_mended(
    library: Library, names: dict[str, Any]
) -> None:
    lock = threading.Lock()
    names["f"].__defaults__ = (lock,)
    assert library.define(names["f"]) is None
    names["cache"]["lock"] = lock
    names["f"].__defaults__ = (1,)
    with pytest.raises(SerializationError, match=r"f\(\) uses the global `cache`, a dict"):
        library.define(names["f"])
    names["cache"].clear()
    assert library.define(names["f"]) is not None


@pytest.mark.parametrize("after", range(1, 150, 7))
def test_the_collector_may_run_while_it_tidies(
    library: Library, names: dict[str, Any], after: int
) -> None:
    """*after* so many new objects. It finds functions, and their entries end then."""
    made = [names["make"](number) for number in range(100)]
    for each in made:
        each.myself = each
        assert library.define(each) is not None
    thresholds = gc.get_threshold()
    gc.collect(0)
    gc.set_threshold(after, 0, 1000)
    try:
        each = None
        made.clear()
        library.tidy()
    finally:
        gc.set_threshold(*thresholds)
        gc.collect()
    assert not library._known
