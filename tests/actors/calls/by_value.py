"""A program whose functions and classes are all in ``__main__``, so that they go by value.

Each case is a function that returns pairs of what came, and the right value. `test_by_value` runs
this file, and reads the cases that were wrong.
"""

# mypy: ignore-errors
# ruff: noqa: B023, F821, PLW0603, RUF012, RUF015, T201 - it is a notebook
from __future__ import annotations

import abc
import dataclasses
import functools
import json
import sys
import time
import typing

import farref
from farref import remote, rpc_async, rpc_sync

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


# ---- globals

when = 0

scale = 1
count = 0
cache = {}


def read():
    return scale


def read_by_helper():
    return read()


def read_with(thing):
    return scale, thing() if callable(thing) else thing.who()


def bump():
    global count
    count += 1
    return count


def show():
    return count, scale


def put(key):
    cache[key] = 1
    return len(cache)


class Model:
    def step(self):
        return bump()

    def scale(self):
        return scale


class Kid:
    def who(self):
        return "v1", scale


def is_kid(x):
    return isinstance(x, Kid)


def make_kid():
    return Kid()


@case
def a_global_that_is_bound_anew(on):
    global scale
    for scale in (1, 2, 3):
        yield rpc_sync(on, read), scale
        yield rpc_sync(on, read_by_helper), scale
        yield rpc_sync(on, read_with, (Kid(),)), (scale, ("v1", scale))
        yield rpc_sync(on, read_with, (lambda: scale,)), (scale, scale)
        yield rpc_sync(on, functools.partial(read_with, read)), (scale, scale)
        yield rpc_sync(on, Kid().who), ("v1", scale)
    for scale in (4, 5):
        yield rpc_sync(on, read_by_helper), scale
        yield rpc_sync(on, show)[1], scale


@case
def a_module_is_one(on):
    global scale, count
    count, model = 0, remote(on, Model)
    start = rpc_sync(on, bump)
    for step, scale in enumerate((1, 2, 3)):
        yield model.rpc_sync().step(), start + 1 + 2 * step
        yield rpc_sync(on, bump), start + 2 + 2 * step
        yield rpc_sync(on, show), (start + 2 + 2 * step, scale)
    yield model.rpc_sync().scale(), scale


def make_reader():
    return lambda: (scale, count)


kept = []


def keep(thing):
    kept.append(thing)


def kept_says():
    return kept[-1]()


@case
def what_stays_there_sees_the_present_globals(on):
    global scale
    scale = 1
    made = remote(on, make_reader)
    made.rpc_sync()()
    rpc_sync(on, keep, (lambda: scale,))
    for scale in (2, 3):
        rpc_sync(on, read)
        yield made.rpc_sync()()[0], scale
        yield rpc_sync(on, kept_says), scale


@case
def a_call_of_a_lambda_sees_the_globals_of_its_time(on):
    futures = []
    for n in range(5):
        globals()["when"] = n
        futures.append(rpc_async(on, lambda: [when for _ in range(2)][0]))
        futures.append(rpc_async(on, lambda: (time.sleep(0.2), when)[1]))
    yield [future.result() for future in futures], [n for n in range(5) for _ in range(2)]


def is_there():
    try:
        return "passing" in globals(), passing
    except NameError:
        return "passing" in globals()


@case
def a_global_that_comes_and_goes(on):
    global passing
    yield rpc_sync(on, is_there), False
    for passing in (1, 2):
        yield rpc_sync(on, is_there), (True, passing)
        del passing
        yield rpc_sync(on, is_there), False


def begin():
    global begun
    begun = 1
    globals()["going"] = 2


def has_begun():
    return begun, going


@case
def a_global_that_only_a_function_binds(on):
    rpc_sync(on, begin)
    yield rpc_sync(on, has_begun), (1, 2)
    yield rpc_sync(on, call_on, ("C", has_begun)), (1, 2)


def redefined():
    return "old"


def calls_redefined():
    return redefined()


@case
def a_function_that_is_defined_again(on):
    global redefined
    old = redefined
    yield [rpc_sync(on, each) for each in (redefined, calls_redefined)], ["old"] * 2
    rpc_sync(on, keep, (calls_redefined,))

    def redefined():
        return "new"

    yield [rpc_sync(on, each) for each in (redefined, calls_redefined)], ["new"] * 2
    yield rpc_sync(on, kept_says), "new"
    redefined.__code__ = old.__code__  # as IPython's autoreload does
    yield [rpc_sync(on, each) for each in (redefined, calls_redefined)], ["old"] * 2


stop = False


def loop():
    while not stop:
        time.sleep(0.01)
    return "stopped"


def halt():
    pass


@case
def a_running_call_sees_what_a_function_binds(on):
    """Though it is only now that one does."""
    rpc_sync(on, halt)
    exec("def halt():\n    global stop\n    stop = True", globals())
    future = rpc_async(on, loop)
    rpc_sync(on, halt)
    yield future.result(timeout=60), "stopped"


# ---- classes


class Counting:
    made = 0
    rate = 1
    extra = 1

    def step(self):
        type(self).made += 1
        return type(self).made, self.rate, hasattr(self, "extra")


class Shared(Counting):
    rate = Counting.rate


def name_of(x):
    return type(x).__name__


def pass_on(to, x):
    return rpc_sync(to, name_of, (x,))


def pass_back(x):
    return x


def rate_of_shared():
    Counting.rate = 7
    return Shared.rate


@case
def the_state_of_a_class(on):
    thing = remote(on, Counting)
    yield thing.rpc_sync().step()[0], 1
    yield thing.rpc_sync().step()[0], 2
    rpc_sync(on, name_of, (Counting(),))
    yield thing.rpc_sync().step()[0], 3
    rpc_sync("C", pass_on, (on, Counting()))
    yield thing.rpc_sync().step()[0], 4
    Counting.rate = 5
    rpc_sync(on, name_of, (Counting(),))
    yield thing.rpc_sync().step(), (5, 5, True)
    del Counting.extra
    rpc_sync(on, name_of, (Counting(),))
    yield thing.rpc_sync().step(), (6, 5, False)
    Counting.rate = Shared.rate = 1
    yield rpc_sync(on, rate_of_shared), 1


@case
def a_class_that_is_defined_again(on):
    global Kid
    yield rpc_sync(on, is_kid, (Kid(),)), True

    class Kid:
        def who(self):
            return "v2"

    yield rpc_sync(on, is_kid, (Kid(),)), True
    yield type(rpc_sync(on, make_kid)) is Kid, True
    yield rpc_sync(on, make_kid).who(), "v2"
    Kid.who = lambda self: "v3"
    yield rpc_sync(on, read_with, (Kid(),))[1], "v3"


MISSING = object()
IMPORTED = getattr(functools, "_NOT_FOUND", dataclasses.MISSING)


class Only:
    def __init__(self):
        self.value = 1

    def __reduce__(self):
        return "ONLY"


ONLY = Only()


@dataclasses.dataclass
class Fields:
    a: int
    b: dict = dataclasses.field(default_factory=dict)


def is_missing(x=MISSING, y=ONLY):
    return x is MISSING, y is ONLY, y.value


def are_missing(*things):
    return [thing is MISSING for thing in things]


def imported(x):
    return (
        x is functools._NOT_FOUND if hasattr(functools, "_NOT_FOUND") else x is dataclasses.MISSING
    )


def fields_are_missing():
    return [f.default is dataclasses.MISSING for f in dataclasses.fields(Fields)]


def get_missing():
    return MISSING, ONLY


@case
def objects_that_are_one_of_their_kind(on):
    yield rpc_sync(on, is_missing), (True, True, 1)
    yield rpc_sync(on, is_missing, (MISSING, ONLY)), (True, True, 1)
    yield rpc_sync(on, are_missing, (MISSING, object(), None)), [True, False, False]
    yield rpc_sync(on, imported, (IMPORTED,)), True
    yield rpc_sync(on, fields_are_missing), [True, True]
    yield rpc_sync(on, Fields, (1,)), Fields(1)
    back = rpc_sync(on, get_missing)
    yield [a is b for a, b in zip(back, get_missing(), strict=True)], [True] * 2


kept_in = {}
same_as_kept_in = kept_in


def keep_in(key, where=kept_in, marks=(MISSING,)):
    where[key] = marks[0] is MISSING
    return len(where)


def get_kept_in():
    return kept_in, same_as_kept_in is kept_in


def around(table):
    return lambda key: keep_in(key) and table is kept_in and len(table)


in_closure = around(kept_in)


@case
def objects_of_the_module(on):
    yield rpc_sync(on, keep_in, ("a",)), 1
    yield rpc_sync(on, get_kept_in), ({"a": True}, True)
    yield rpc_sync(on, in_closure, ("b",)), 2
    yield rpc_sync(on, around(kept_in), ("c",)), 3
    yield rpc_sync("C", call_on, (on, get_kept_in))[0], {"a": True, "b": True, "c": True}
    yield kept_in, {}


@functools.singledispatch
def kind(x):
    return "thing", scale


@kind.register
def _(x: int):
    return "number"


@functools.lru_cache(maxsize=3)
def cached(x):
    return [x, scale]


class Lazy:
    @functools.cached_property
    def value(self):
        return [scale]

    @functools.singledispatchmethod
    def of(self, x):
        return "thing"

    @of.register
    def _(self, x: str):
        return "text"

    @property
    def both(self):
        return self.value is self.value, self.of(1), self.of("")


def uses_cached():
    return cached(1) is cached(1), kind(1), kind("")[0]


def both_of(x):
    return x.both, x.value


@case
def functions_of_functools(on):
    global scale
    scale = 1
    yield rpc_sync(on, uses_cached), (True, "number", "thing")
    yield rpc_sync(on, kind, (1,)), "number"
    yield rpc_sync(on, kind, ("",)), ("thing", 1)
    yield rpc_sync(on, cached, (2,)), [2, 1]
    yield rpc_sync(on, both_of, (Lazy(),)), ((True, "thing", "text"), [1])
    kind.register(float, lambda x: "real")
    yield rpc_sync(on, kind, (1.0,)), "real"
    scale = 2
    yield rpc_sync(on, kind, ("",)), ("thing", 2)


class Plugin(abc.ABC):
    known: typing.ClassVar = {}

    def __init_subclass__(cls):
        Plugin.known[cls.__name__] = cls

    @abc.abstractmethod
    def run(self):
        return "Plugin"


class Adder(Plugin):
    def run(self):
        return super().run(), sorted(Plugin.known), type(self) is Plugin.known["Adder"]


Plugin.register(int)


def plugins(x):
    return x.run(), isinstance(1, Plugin)


def make_abstract():
    try:
        Plugin()
    except TypeError:
        return "abstract"


class Movie(typing.TypedDict):
    name: str


@typing.runtime_checkable
class Runs(typing.Protocol):
    def run(self) -> object: ...


class Closed(type):
    def __setattr__(cls, name, value):
        raise TypeError("it is closed")


class Single(metaclass=Closed):
    made = []

    def __new__(cls):
        if not cls.made:
            cls.made.append(super().__new__(cls))
        return cls.made[0]


def single(x):
    return x is Single(), Single() is Single()


def typed(x):
    return isinstance(x, Runs), Movie(name="a"), Movie.__required_keys__


@case
def other_classes(on):
    yield rpc_sync(on, plugins, (Adder(),)), (("Plugin", ["Adder"], True), True)
    yield rpc_sync(on, make_abstract), "abstract"
    yield rpc_sync(on, typed, (Adder(),)), (True, {"name": "a"}, frozenset({"name"}))
    yield rpc_sync(on, single, (Single(),)), (True, True)


class Registered:
    names = []

    def __init_subclass__(cls):
        Registered.names.append(note(cls))


def note(kind):
    return kind.__name__ + SUFFIX


SUFFIX = "!"


class First(Registered):
    pass


class Noting:
    def __init_subclass__(cls):
        cls.noted = note(cls)


class Second(Noting):
    pass


class Key:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Key) and self.value == other.value

    def __hash__(self):
        return hash((self.value, SUFFIX))


keyed = {Key(1): "one"}


def make_first():
    return First()


@case
def code_that_runs_while_it_is_unpickled(on):
    yield rpc_sync("D", lambda: Second.noted), "Second!"
    yield type(rpc_sync(on, make_first)) is First, True
    yield "First!" in rpc_sync(on, lambda: Registered.names), True
    yield rpc_sync(on, lambda key: keyed[key], (Key(1),)), "one"


class Wrong(ValueError):
    seen = 0

    def __init__(self, text, code):
        super().__init__(text)
        self.code = code
        Wrong.seen += 1

    def both(self):
        return str(self), self.code


def fail():
    raise Wrong("no", 3)


@case
def exceptions(on):
    Wrong.seen, method = 0, Wrong.both
    for _ in range(2):
        try:
            rpc_sync(on, fail)
        except Wrong as error:
            yield error.both(), ("no", 3)
    yield Wrong.both is method, True


# ---- by way of others


def make_box(n):
    return Counted(n)


class Counted:
    def __init__(self, n):
        self.n = n

    def get(self):
        return helper(self.n)


def helper(n):
    return n


def through(to, n):
    return rpc_sync(to, make_box, (n,)).get()


@case
def workers_that_pass_things_on(on):
    start = rpc_sync(on, bump)
    for i in range(30):
        a, b = ("BC", "CD", "DB")[i % 3]
        yield rpc_sync(a, through, (b, i)), i
        yield rpc_sync(on, bump), start + i + 1
    yield rpc_sync("C", pass_on, (on, Kid())), "Kid"
    yield rpc_sync("C", call_on, (on, bump)), rpc_sync(on, bump) - 1


def call_on(to, function):
    return rpc_sync(to, function)


class Methods:
    made = 0

    def plain(self):
        return "plain"

    @staticmethod
    def static():
        return "static"

    @classmethod
    def of_class(cls):
        cls.made += 1
        return cls.made


def raises(value):
    error = ValueError()
    error.value = value
    raise error


def raised(call):
    try:
        call()
    except ValueError as error:
        return error.value


@case
def functions_and_methods_stay_themselves(on):
    sent = [Methods.plain, Methods.static, Methods.of_class, Methods().plain.__func__, bump, Kid]
    frozen = farref.RRef(sent, frozen=True)
    yield rpc_sync(on, pass_back, (sent,)), sent
    yield rpc_sync(on, rpc_sync, ("C", pass_back, (sent,))), sent
    yield frozen.to_here(), sent
    yield rpc_sync(on, fetched, (frozen,)), sent
    yield raised(lambda: rpc_sync(on, raises, (sent,))), sent
    yield raised(remote(on, raises, (sent,)).to_here), sent
    yield rpc_sync(on, fetched_and_called, (frozen, 2)), 1
    yield raised(lambda: rpc_sync(on, rpc_sync, ("C", raises, (sent,)))), sent
    yield rpc_sync(on, fetched_and_called, (frozen, 2)), 2
    start = rpc_sync(on, bump)
    yield rpc_sync(on, fetched_and_called, (frozen, 4)), start + 1


def fetched(ref):
    return ref.to_here()


def fetched_and_called(ref, number):
    return ref.to_here()[number]()


def rewritten():
    return 0


def use_rewritten():
    return rewritten()


stopped, undefined = [], []


def use_it_on():
    sys.setswitchinterval(1e-5)
    while not stopped:
        try:
            use_rewritten()
        except NameError as error:
            undefined.append(str(error))


def stop_use():
    stopped.append(True)
    sys.setswitchinterval(0.005)
    return undefined


@case
def changes_while_it_runs(on):
    use = rpc_async(on, use_it_on)
    for n in range(40):
        names = [f"new_{n}_{i}" for i in range(100)]
        globals().update(dict.fromkeys(names, n))
        exec(f"def rewritten():\n    return {' + '.join(names)}", globals())
        yield rpc_sync(on, use_rewritten), 100 * n
    yield rpc_sync(on, stop_use), []
    yield use.wait(), None


def main(names):
    with farref.System(timeout=30) as system:
        for name in "BCD":
            system.worker(name)
        for name in names or CASES:
            pairs = []
            try:
                pairs += CASES[name]("B")
                problem = [repr(pair) for pair in pairs if pair[0] != pair[1]]
            except Exception as error:
                problem = [f"after {len(pairs)}: {type(error).__name__}: {error}"]
            print(json.dumps([name, len(pairs), problem]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
