"""`mypy --strict`, of farref as `make types` runs it; mypy and pyright, of a user's program.

Beside the tests, as they keep one processor busy.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from .imports import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.timeout(600)  # without its cache mypy takes 90 s of a processor

RIGHT = """
import asyncio
import functools
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

import farref
from farref import ANY, Future, RefActor, RRef, get, on, remote, rpc_async, rpc_sync, wait

T = TypeVar("T")


class Shape:
    def area(self) -> float:
        return 0.0


class Square(Shape):
    pass


class Model:
    rate: float

    def __init__(self, rate: float = 1.0) -> None:
        self.rate = rate

    def step(self, times: int, *, by: float = 1.0) -> float:
        return self.rate * times * by

    async def wait(self) -> str:
        return "done"

    def later(self) -> Future[int]:
        return Future()

    def child(self) -> RRef[int]:
        return RRef(3)

    async def child_later(self) -> RRef[int]:
        return RRef(3)

    def __call__(self, number: int) -> str:
        return str(number)

    @classmethod
    def parse(cls, text: str) -> "Model":
        return cls(float(text))

    @staticmethod
    def twice(number: int) -> int:
        return 2 * number


@dataclass
class Job:
    number: int
    names: list[str] = field(default_factory=list)


class Pair(NamedTuple):
    number: int
    name: str


class Stack(Generic[T]):
    def __init__(self, first: T) -> None:
        self.items = [first]

    def push(self, item: T) -> int:
        return len(self.items)


class Hello(RefActor):
    def __init__(self, name: str = "") -> None:
        self.name = name

    def receiveMsg_str(self, message: str, sender: Any) -> None:
        self.send(sender, self.name)


def plain(number: int, name: str = "") -> str:
    return name * number


async def later(number: int) -> str:
    return str(number)


async def child_later(number: int) -> RRef[int]:
    return RRef(number)


def promised(number: int) -> Future[str]:
    return Future()


def nothing() -> None:
    pass


def same(value: T) -> T:
    return value


def halves(array: NDArray[np.float64]) -> NDArray[np.float64]:
    return array / 2


@functools.cache
def cached(number: int) -> str:
    return str(number)


@overload
def either(value: int) -> int: ...
@overload
def either(value: str) -> str: ...
def either(value: int | str) -> int | str:
    return value


# Functions, with `args=`
text: str = rpc_sync("B", plain, (3,), {"name": "a"})
power: int = rpc_sync("B", pow, args=(2, 10))
root: float = rpc_sync(ANY, math.sqrt, (2.0,), timeout=3)
upper: str = rpc_sync("B", str.upper, ("abc",))
bound: str = rpc_sync("B", "abc".upper)
three: int = rpc_sync("B", lambda: 3)
half: int = rpc_sync("B", functools.partial(Model.twice, 3))
awaited: str = rpc_sync("B", later, (3,))
fulfilled: str = rpc_sync("B", promised, (3,))
memo: str = rpc_sync("B", cached, (3,))
total: Any = rpc_sync("B", np.sum, (np.ones(3),))
array: NDArray[np.float64] = rpc_sync("B", halves, (np.ones(3),))
made: Model = rpc_sync("B", Model.parse, ("1",))
rpc_sync("B", nothing)
rpc_sync("B", print, ("a",), {"sep": ""})
future: Future[str] = rpc_async("B", plain, (3,))
future_of_later: Future[str] = rpc_async("B", later, (3,))
future_of_promised: Future[str] = rpc_async("B", promised, (3,))
chained: Future[int] = future.then(lambda done: len(done.result()))

# Objects
model: RRef[Model] = remote("B", Model, args=(2.0,))
job: RRef[Job] = remote("B", Job, (1,), {"names": ["a"]}, frozen=True)
kept: RRef[str] = remote("B", later, (3,))
alias: RRef[int] = remote("B", child_later, (3,))
numbers = remote("B", list)
counts: RRef[dict[str, int]] = remote("B", dict)
words: RRef[Counter[str]] = remote("B", Counter[str])
groups: RRef[defaultdict[str, list[int]]] = remote("B", defaultdict, (list,))
zeros: RRef[NDArray[np.float64]] = remote("B", np.zeros, (3,))
shape: RRef[Shape] = remote("B", Square)
quotient, rest = remote("B", divmod, (7, 2), num_returns=2)

# Functions, as plain calls
direct: str = on("B", timeout=5).rpc_sync(plain, 3, name="a")
direct_root: float = on(ANY).rpc_sync(math.sqrt, 2.0)
direct_power: int = on("B").rpc_sync(pow, 2, 10)
direct_lambda: int = on("B").rpc_sync(lambda number: 3, 4)
direct_partial: int = on("B").rpc_sync(functools.partial(Model.twice, 3))
direct_same: int = on("B").rpc_sync(same, 3)
direct_either: str = on("B").rpc_sync(either, "a")
direct_sorted: list[int] = on("B").rpc_sync(sorted, [1, 2], reverse=True)
direct_memo: str = on("B").rpc_sync(cached, 3)
direct_array: NDArray[np.float64] = on("B").rpc_sync(halves, np.ones(3))
direct_dot: Any = on("B").rpc_sync(np.dot, np.ones(3), np.ones(3))
direct_job: Job = on("B").rpc_sync(Job, 1, names=["a"])
direct_pair: Pair = on("B").rpc_sync(Pair, 1, name="a")
direct_stack: Stack[int] = on("B").rpc_sync(Stack, 1)
direct_future: Future[str] = on("B").rpc_async(later, 3)
direct_model: RRef[Model] = on("B").remote(Model, rate=3.0)
direct_alias: RRef[int] = on("B").remote(child_later, 3)
direct_counts: RRef[dict[str, int]] = on("B").remote(dict)
stack: RRef[Stack[int]] = on("B").remote(Stack, 1)
on("B").rpc_sync(nothing)
on("B").rpc_sync(print, "a", sep="")

# Methods, as plain calls
stepped: float = on(model).rpc_sync(Model.step, 3, by=2.0)
finished: str = on(model).rpc_sync(Model.wait)
waited: Future[str] = on(model).rpc_async(Model.wait)
fulfilled_there: int = on(model).rpc_sync(Model.later)
child: RRef[int] = on(model).remote(Model.child)
child_of_later: RRef[int] = on(model).remote(Model.child_later)
called: str = on(model).rpc_sync(Model.__call__, 3)
area: float = on(shape).rpc_sync(Shape.area)
squares: RRef[Square] = remote("B", Square)
square_area: float = on(squares).rpc_sync(Shape.area)
pushed: int = on(stack).rpc_sync(Stack.push, 3)
on(numbers).rpc_sync(list.append, 3)
count: int | None = on(counts).rpc_sync(dict.get, "a")
summed: float = on(zeros).rpc_sync(np.ndarray.sum)
long: int = on(RRef("abc")).rpc_sync(str.__len__)

# Proxies
numbers.rpc_sync().append(3)
stepped_there: float = model.rpc_sync(timeout=3).step(3, by=2.0)
called_there: str = model.rpc_sync()(3)
child_there: RRef[int] = model.rpc_sync().child()
array_there: NDArray[np.float64] = zeros.rpc_sync() + 1
rate: float = model.rpc_async().rate.get().result()
model.rpc_sync().rate = 2.0
number_there: RRef[int] = RRef(3)
resolved: float = model.rpc_sync(resolve=True).step(number_there)
untyped: RRef[Any] = model
done: str = untyped.rpc_sync().wait()
done_later: Future[str] = model.rpc_async().wait()
done_there: RRef[str] = model.remote().wait()
length: int = len(numbers.rpc_sync())
keys: list[str] = [key for key in counts.rpc_sync()]
counts.rpc_sync()["a"] = 3

# Streams
items: list[str] = [each for each in counts]
item: str = next(counts.stream(ahead=1))
item_there: RRef[str] = next(counts.stream(values=False))

# Values
one: Model = get(model)
many: list[Model] = get([model, model])
mixed: list[object] = get((model, job))
fetched: Model = model.to_here(timeout=3)
local: Model = model.local_value()
coming: Future[Model] = model.future()
ready, others = wait([model], timeout=3)
first: RRef[Model] = ready[0]


async def main() -> None:
    value: Model = await model
    async for each in counts:
        item_awaited: str = each
    answer: str = await future
    both: tuple[str, int] = await asyncio.gather(rpc_async("B", later, (3,)), chained)
    soon: str = await asyncio.wait_for(future, 3)
    async with farref.System() as system:
        said: Any = await system.ask_async("hello", "hi")
    print(value, answer, both, soon, said)


with farref.System() as system:
    hello = farref.create(Hello, "hello", args=("me",))
    reply: str = system.ask(system.create(Hello), "hi", timeout=3)
    answered: Future[Any] = system.ask_async(hello, "hi")
    system.tell(hello, "hi")
    there: str = rpc_sync(system.worker("B", threads=2), plain, (3,))
    with system.pool(2) as pool:
        result: str = pool.submit(plain, 3).result()
        late: str = pool.submit(later, 3).result()
        put: RRef[str] = pool.keep(plain, 3).result()
        late_put: RRef[str] = pool.keep(later, 3).result()
        all_of: list[str] = list(pool.map(plain, [1, 2]))
        late_ones: list[str] = list(pool.map(later, [1, 2]))
        some: list[str] = list(pool.imap_unordered(str.__add__, ["a"], ["b"]))
"""

PLANTED = """
wrong_argument = on("B").rpc_sync(plain, "a")
wrong_argument_async = on("B").rpc_async(plain, 3, 4)
wrong_argument_object = on("B").remote(Model, "a")
wrong_argument_method = on(model).rpc_sync(Model.step, "a")
wrong_argument_generic = on(stack).rpc_sync(Stack[int].push, "a")
wrong_argument_array = on("B").rpc_sync(halves, "a")
wrong_argument_overload = on("B").rpc_sync(either, 2.0)
missing = on("B").rpc_sync(plain)
missing_method = on(model).rpc_async(Model.step)
missing_field = on("B").remote(Job)
keyword = on("B").rpc_async(plain, 3, nam="a")
keyword_method = on(model).remote(Model.step, 3, bi=2.0)
result_direct: int = on("B").rpc_sync(plain, 3)
result_with_args: int = rpc_sync("B", plain, (3,))
result_of_future: int = rpc_async("B", plain, (3,)).result()
result_of_coroutine: int = rpc_sync("B", later, (3,))
result_of_method: str = on(model).rpc_sync(Model.step, 3)
result_there: RRef[str] = on(model).remote(Model.step, 3)
result_of_chain: str = future.then(lambda done: 3).result()
object_there: RRef[int] = remote("B", Model)
no_tuple = rpc_sync("B", abs, -3)
no_function = rpc_sync("B", "plain")
option = rpc_async("B", plain, (3,), timeuot=3)
option_of_remote = remote("B", Model, frosen=True)
typo = on(model).rpc_sync(Model.stpe, 3)
typo_of_function = rpc_sync("B", math.sqr, (2.0,))
typo_of_reference = model.to_her()
method_of_reference = model.step(3)
typo_of_proxy = model.rpc_sync().stpe(3)
missing_of_proxy = model.rpc_sync().step()
wrong_argument_of_proxy = model.rpc_sync().step("a")
keyword_of_proxy = model.rpc_sync(timeout=3).step(3, bi=2.0)
result_of_proxy: str = model.rpc_sync().step(3)
item_of_proxy: str = counts.rpc_sync()["a"]
counts.rpc_sync()["a"] = "wrong_item"
model.rpc_sync().rate = "wrong_attribute"
operator_of_proxy = counts.rpc_sync() + 1
method_of_other = on(model).rpc_sync(Stack.push, 3)
wrong_item: int = next(counts.stream())
wrong: int = get(model)
wrong_list: list[int] = get([model])
wrong_fetch: int = model.to_here()
one_for_many = wait(model)
futures = get([future])
no_actor = farref.create(Model)
no_message = system.ask("hello")
no_answer: str = system.ask_async("hello", "hi")
no_name = system.worker()
task = pool.submit(plain, "a")
task_result: int = pool.submit(later, 3).result()
task_kept: RRef[int] = pool.keep(plain, 3).result()
task_mapped: list[int] = list(pool.map(plain, [1, 2]))
"""


def test_mypy_finds_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def mypy(path: Path) -> dict[int, str]:
    run = subprocess.run(
        [sys.executable, "-m", "mypy", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(rf"{path.name}:(\d+): error: (.*)", run.stdout)
    return {int(line): said for line, said in found}


def pyright(path: Path) -> dict[int, str]:
    """With pyright's default settings: basedpyright's own are stricter."""
    settings = path.with_name("pyrightconfig.json")
    settings.write_text('{"typeCheckingMode": "standard"}')
    run = subprocess.run(
        [
            *(sys.executable, "-m", "basedpyright", "--outputjson", "--level", "error"),
            *("--pythonpath", sys.executable, "--project", str(settings)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(run.stdout)["generalDiagnostics"]
    return {each["range"]["start"]["line"] + 1: each["message"] for each in found}


@pytest.mark.parametrize(
    ("check", "package"), [(mypy, "mypy"), (pyright, "basedpyright")], ids=["mypy", "pyright"]
)
def test_a_users_mistakes_are_found(
    check: Callable[[Path], dict[int, str]], package: str, tmp_path: Path
) -> None:
    pytest.importorskip(package)
    program = tmp_path / "program.py"
    program.write_text(RIGHT + PLANTED)
    found = check(program)
    lines = (RIGHT + PLANTED).splitlines()
    planted = range(RIGHT.count("\n") + 2, len(lines) + 1)
    assert not (wrong := {line: said for line, said in found.items() if line not in planted}), wrong
    missed = [lines[number - 1] for number in planted if number not in found]
    assert not missed
