"""`mypy --strict`, of farref as `make types` runs it, and of a user's program.

Beside the tests, as it keeps one processor busy.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from .imports import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.timeout(600)  # without its cache it takes 90 s of a processor

RIGHT = """
import asyncio
import farref
from farref import Future, RRef


class Model:
    rate: float

    def __init__(self, rate: float = 1.0) -> None:
        self.rate = rate

    def step(self, times: int, *, by: float = 1.0) -> float:
        return self.rate * times * by

    async def wait(self) -> str:
        return "done"

    def child(self) -> RRef[int]:
        return RRef(3)


async def later(number: int) -> str:
    return str(number)


def plain(number: int, name: str = "") -> str:
    return name * number


model: RRef[Model] = farref.remote("B", Model, args=(2.0,))
text: str = farref.rpc_sync("B", plain, (3,), {"name": "a"})
future: Future[str] = farref.rpc_async("B", plain, (3,))
awaited: str = farref.rpc_sync("B", later, (3,))
kept: RRef[str] = farref.remote("B", later, (3,))
alias: RRef[int] = farref.on(model).remote(Model.child)
one: Model = farref.get(model)
many: list[Model] = farref.get([model, model])
ready, rest = farref.wait([model])
same: RRef[Model] = ready[0]
numbers = farref.remote("B", list)
numbers.rpc_sync().append(3)
direct: str = farref.on("B", timeout=5).rpc_sync(plain, 3, name="a")
direct_future: Future[str] = farref.on("B").rpc_async(later, 3)
made: RRef[Model] = farref.on("B").remote(Model, rate=3.0)
stepped: float = farref.on(model).rpc_sync(Model.step, 3, by=2.0)
waited: Future[str] = farref.on(model).rpc_async(Model.wait)


async def main() -> None:
    value: Model = await model
    print(value, await future)


with farref.System() as system:
    with system.pool(2) as pool:
        result: str = pool.submit(plain, 3).result()
        there: RRef[str] = pool.keep(plain, 3).result()
"""

PLANTED = {
    "farref.on('B').rpc_sync(plain, 'a')": "an argument of another type",
    "farref.on('B').rpc_sync(plain)": "a missing argument",
    "farref.on('B').rpc_async(plain, 3, nam='a')": "a keyword that is not there",
    "number: int = farref.on('B').rpc_sync(plain, 3)": "another result",
    "number: int = farref.rpc_sync('B', plain, (3,))": "another result",
    "number: int = farref.rpc_async('B', plain, (3,)).result()": "another result of a future",
    "farref.rpc_sync('B', abs, -3)": "arguments that are no tuple",
    "model.step(3)": "a method on the reference",
    "farref.on(model).rpc_sync(Model.stpe, 3)": "a typing error in a method",
    "farref.on(model).rpc_sync(Model.step, 'a')": "an argument of a method",
    "other: RRef[int] = farref.remote('B', Model)": "another type of object",
    "wrong: int = farref.get(model)": "another value",
    "farref.wait(model)": "one reference in place of a list",
    "pool.submit(plain, 'a')": "an argument of a task",
}


def test_mypy_finds_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def checked_by_mypy(path: Path) -> str:
    run = subprocess.run(
        [sys.executable, "-m", "mypy", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout


def checked_by_pyright(path: Path) -> str:
    run = subprocess.run(["pyright", str(path)], capture_output=True, text=True, check=False)
    return run.stdout


@pytest.mark.parametrize("check", [checked_by_mypy, checked_by_pyright])
def test_a_users_mistakes_are_found(check: Callable[[Path], str], tmp_path: Path) -> None:
    if check is checked_by_mypy:
        pytest.importorskip("mypy")
    elif shutil.which("pyright") is None:
        pytest.skip("there is no pyright")
    right = tmp_path / "right.py"
    right.write_text(RIGHT)
    assert "error" not in check(right).replace("0 errors", ""), check(right)
    planted = tmp_path / "planted.py"
    planted.write_text(RIGHT + "".join(f"{line}\n" for line in PLANTED))
    said = check(planted)
    lines = [int(number) for number in re.findall(r"planted\.py:(\d+):.*error", said)]
    first = RIGHT.count("\n") + 1
    missed = [line for number, line in enumerate(PLANTED, first) if number not in lines]
    assert not missed, said
