"""Errors that nobody fetches are logged once, with their traceback and the line of the call."""

from __future__ import annotations

import gc
import logging
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RRef, System

from ...bases import PROCESSES
from ..helpers import PATIENCE, hold, until
from ..scripts import write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def fail(text: str = "broken") -> None:
    raise KeyError(text)


class Failing:
    def method(self) -> None:
        raise KeyError("in a method")


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name.startswith("farref.")]


def logged(system: System, caplog: pytest.LogCaptureFixture, number: int) -> list[str]:
    """The *number* errors in the log; there are no more."""
    gc.collect()
    until(system, lambda: len(errors(caplog)) >= number, 5)
    until(system, lambda: len(errors(caplog)) > number, 0.2)
    assert len(errors(caplog)) == number, errors(caplog)
    return errors(caplog)


@pytest.mark.parametrize(
    ("ask", "log", "said"),
    [
        (
            farref.rpc_async,
            "core.notices",
            r"nobody looked at the error of the reply of B to fail\(\) {}:\n",
        ),
        (
            farref.remote,
            "calls.unasked",
            r"nobody fetched the error of program/\d+, which fail\(\) {} was to make on B:\n",
        ),
    ],
)
def test_a_request_that_fails_and_is_dropped(
    system: System, caplog: pytest.LogCaptureFixture, ask: Any, log: str, said: str
) -> None:
    ask("B", fail)
    (line,) = logged(system, caplog, 1)
    here = rf"\(called at {re.escape(__file__)}:\d+ in test_a_request_that_fails_and_is_dropped\)"
    assert re.match(said.format(here), line)
    assert "Traceback (most recent call last)" in line
    assert line.endswith("KeyError: 'broken'\n")
    (record,) = [each for each in caplog.records if each.name.startswith("farref.")]
    assert (record.levelno, record.name) == (logging.ERROR, f"farref.actors.{log}")


def test_other_calls_that_are_dropped(system: System, caplog: pytest.LogCaptureFixture) -> None:
    ref = farref.remote("B", Failing)
    ref.rpc_async().method()
    farref.rpc_async("B", fail).then(lambda done: done.result())  # only the chained one
    farref.rpc_async("B", pow, (2, 3)).then(lambda _: fail("in a callback"))
    lines = logged(system, caplog, 3)
    assert all(f"called at {__file__}:" in line for line in lines)
    assert sum("in a method" in line for line in lines) == 1
    assert sum("in a callback" in line for line in lines) == 1
    assert sum("what follows the reply of B to fail()" in line for line in lines) == 1


async def awaited() -> None:
    try:
        await farref.rpc_async("C", fail)
    except KeyError:
        return


def test_errors_that_somebody_looked_at(system: System, caplog: pytest.LogCaptureFixture) -> None:
    future = farref.rpc_async("B", fail)
    with pytest.raises(KeyError):
        future.result()
    future = farref.rpc_async("B", fail)
    assert isinstance(future.exception(), KeyError)
    farref.rpc_async("B", fail).then(lambda done: done.exception())
    farref.rpc_sync("B", awaited)
    refs = [farref.remote("B", fail) for _ in range(3)]
    with pytest.raises(KeyError):
        refs[0].to_here()
    farref.wait(refs, num_returns=3)  # else `get` may give up the third before it is made
    with pytest.raises(KeyError):
        farref.get(refs[1:])  # the third error is not raised, but it has been fetched
    made: RRef[Any] = farref.remote("B", fail)
    with pytest.raises(KeyError):
        made.rpc_sync().anything()
    with pytest.raises(KeyError):
        farref.rpc_sync("B", RRef.local_value, (farref.remote("B", fail),))
    with pytest.raises(KeyError):
        farref.remote("C", pow, (farref.remote("B", fail), 2), resolve=True).to_here()
    del future, refs, made
    assert not logged(system, caplog, 0)


def test_cancelled_calls(system: System, caplog: pytest.LogCaptureFixture, gate: Path) -> None:
    future = farref.rpc_async("B", hold, (gate,))
    future.cancel()
    del future
    gate.touch()
    assert not logged(system, caplog, 0)


async def three_later() -> tuple[int, int, int]:
    return 1, 2, 3


SEVERAL = [
    (fail, KeyError, "KeyError: 'broken'\n"),
    (three_later, ValueError, "return as many as the call asks for\n"),
    (str, TypeError, "return them in a tuple or a list\n"),
]
"""Functions that do not give four results, with their errors."""


@pytest.mark.parametrize("fetched", [False, True])
@pytest.mark.parametrize("case", SEVERAL)
def test_several_results_of_one_call_that_fails(
    system: System,
    caplog: pytest.LogCaptureFixture,
    case: tuple[Any, type[Exception], str],
    fetched: bool,
) -> None:
    """They have one error, so one look at any of them is enough."""
    function, error, end = case
    refs = farref.remote("B", function, num_returns=4)
    farref.wait(refs, num_returns=4)
    if fetched:
        with pytest.raises(error) as caught:
            refs[2].to_here()
        assert f"raised on worker B by {function.__name__}()" in caught.value.__notes__[0]
    del refs[1:]
    assert not logged(system, caplog, 0)
    del refs
    lines = logged(system, caplog, 0 if fetched else 1)
    assert all(line.endswith(end) for line in lines)


@pytest.mark.parametrize("function", [fail, three_later])
def test_several_results_of_one_call_that_fails_are_dropped_at_once(
    system: System, caplog: pytest.LogCaptureFixture, function: Any
) -> None:
    for _ in range(5):
        farref.remote("B", function, num_returns=4)
    assert all("in test_several_results_of_one" in each for each in logged(system, caplog, 5))


def _same(ref: RRef[Any]) -> RRef[Any]:
    return ref


CREATIONS: dict[str, tuple[Callable[[], object], tuple[str, ...]]] = {
    "of the program itself": (
        lambda: farref.remote(farref.get_worker_info(), fail),
        ("which fail() (called at ", "was to make on program:"),
    ),
    "on any worker": (lambda: farref.remote(farref.ANY, fail), ("which fail() (called at ",)),
    "of several results": (
        lambda: farref.remote("B", Failing).remote(num_returns=2).method(),
        ("which method() (called at ", "was to make on B:"),
    ),
    "of an alias": (lambda: farref.remote("C", _same, (farref.remote("B", fail),)), ()),
    "of a chain": (
        lambda: farref.remote("B", Failing).remote().method().remote().anything().remote().more(),
        ("which more() (called at ", "in a method"),
    ),
}


@pytest.mark.parametrize("which", CREATIONS)
def test_a_creation_is_logged_once(
    system: System, caplog: pytest.LogCaptureFixture, which: str
) -> None:
    make, parts = CREATIONS[which]
    make()
    (line,) = logged(system, caplog, 1)
    assert all(part in line for part in parts)


def test_other_operations(system: System, caplog: pytest.LogCaptureFixture) -> None:
    ref = farref.remote("B", Failing)
    ref.rpc_async()["key"] = 1
    ref.rpc_async(resolve=True).method()
    ref.remote()["key"]
    ref.remote(serial=False, resolve=True).method()
    lines = logged(system, caplog, 4)
    assert all(f"(called at {__file__}:" in line for line in lines)
    assert all(" in test_other_operations)" in line for line in lines)
    assert sum(f"the reply of {name}() of" in line for line in lines for name in OPERATIONS) == 2
    assert sum(f"which {name}() (called" in line for line in lines for name in OPERATIONS) == 2


OPERATIONS = ("__setitem__", "__getitem__", "method")


DROPPED = ("a call", "a creation", "nested", "nested call")
KEPT = ("kept creation", "kept call")
"""The errors of what the program keeps; they are told at its end."""
PROGRAM = f"""
import logging, sys
from pathlib import Path
import farref
from farref.testing import until

def fail(text):
    raise KeyError(text)

def nested(text):
    farref.remote("C", fail, (text,))
    farref.rpc_async("C", fail, (text + " call",))

with farref.System(sys.argv[1]) as system:
    system.worker("B"), system.worker("C")
    farref.rpc_async("B", fail, ("a call",))
    farref.remote("B", fail, ("a creation",))
    kept = farref.remote("B", fail, ("kept creation",))
    future = farref.rpc_async("B", fail, ("kept call",))
    farref.rpc_sync("B", nested, ("nested",))
    def told(text):
        return f"KeyError: {{text!r}}" in Path(sys.argv[2]).read_text()
    def all_told():
        return future.done() and all(map(told, {DROPPED}))
    assert until(system, all_told, {PATIENCE}), "not all errors are there"
"""


@pytest.mark.parametrize("base", PROCESSES)
def test_a_program_without_logging_sees_each_error_once(base: str, tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    command = [sys.executable, str(write(tmp_path, PROGRAM)), base, str(errors)]
    with errors.open("w") as file:
        subprocess.run(command, check=True, stderr=file, timeout=60)
    told = errors.read_text()
    for text in DROPPED + KEPT:
        assert told.count(f"KeyError: '{text}'\n") == 1, (text, told)


@pytest.mark.processes
def test_the_errors_of_a_creator_that_has_died(tmp_path: Path) -> None:
    program = """
    import os, farref
    from farref.testing import until

    def fail():
        raise KeyError("of an orphan")

    def make():
        import builtins
        builtins.kept = farref.remote("C", fail)
        farref.wait([builtins.kept])

    with farref.System(orphan_grace=0.1) as system:
        system.worker("B"), system.worker("C")
        farref.rpc_sync("B", make)
        try:
            farref.rpc_sync("B", os._exit, (1,))
        except farref.WorkerDiedError:
            pass
        assert until(system, lambda: not system.references().rows)
    """
    command = [sys.executable, str(write(tmp_path, program))]
    run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert run.stderr.count("KeyError: 'of an orphan'\n") == 1
    assert "for B" in run.stderr
