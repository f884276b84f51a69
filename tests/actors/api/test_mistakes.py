"""Typical mistakes: each has an error, or a warning, that says what to write."""

from __future__ import annotations

import operator
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RRef, SerializationError, System, SystemDownError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def ref() -> Iterator[RRef[Any]]:
    with System() as system:
        system.worker("B")
        yield farref.remote("B", list)


def another_system() -> None:
    System()


Mistake = tuple["Callable[[Any], object]", type[Exception], str]
MISTAKES: list[Mistake] = [
    (
        lambda _: farref.rpc_sync("B", abs, -3),  # type: ignore[call-overload]  # wrong on purpose
        TypeError,
        r"args must be a tuple of the positional arguments, not -3: for one .* `\(argument,\)`",
    ),
    (
        lambda _: farref.rpc_async("B", os.path.join, "abc"),  # type: ignore[call-overload]  # wrong on purpose
        TypeError,
        "must be a tuple of the positional arguments, not 'abc'",
    ),
    (
        lambda _: farref.remote("B", pow, (2, 3), 5),  # type: ignore[call-overload]  # wrong on purpose
        TypeError,
        "kwargs must be a dict of keyword arguments, not 5",
    ),
    (
        lambda ref: ref.append(3),
        AttributeError,
        r"write `ref\.rpc_sync\(\)\.append`, or",
    ),
    (lambda ref: ref["a"], TypeError, r"not subscriptable; .* `ref\.rpc_sync\(\)\[key\]`"),
    (lambda ref: operator.setitem(ref, "a", 3), TypeError, r"write `ref\.rpc_sync\(\)\[key\]`"),
    (len, TypeError, r"has no len\(\); .* `len\(ref\.rpc_sync\(\)\)`"),
    (lambda ref: ref.id_, AttributeError, "has no attribute 'id_'"),
    (farref.wait, TypeError, r"must be a list of RRefs, not one: write `wait\(\[RRef\("),
    (lambda _: farref.wait([]), ValueError, "`refs` is empty"),
    (
        lambda ref: farref.rpc_sync("B", repr, (ref.rpc_sync(),)),
        SerializationError,
        "<sync access to .*> cannot be sent: pass the reference itself",
    ),
    (
        lambda _: farref.rpc_sync("B", another_system),
        SystemDownError,
        "this code runs on B of system .* cannot enter another system",
    ),
]


@pytest.mark.parametrize(("mistake", "error", "text"), MISTAKES)
def test_a_mistake_says_what_to_write(
    ref: RRef[Any], mistake: Callable[[Any], object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        mistake(ref)
    assert bool(ref)  # it is no empty container


def test_a_list_of_arguments_will_do(ref: RRef[Any]) -> None:
    assert farref.rpc_sync("B", pow, [2, 3]) == 8  # type: ignore[call-overload]  # as PyTorch takes it


def test_completion_shows_what_a_program_uses(ref: RRef[Any]) -> None:
    shown = {name for name in dir(ref.future()) if not name.startswith("_")}
    assert {"result", "then", "wait", "cancel"} <= shown
    assert shown < {*dir(farref.Future), "value"}
    assert len(shown) < 20
    assert {"append", "sort"} <= set(dir(ref.rpc_sync()))  # those of the object


def test_a_program_that_ends_without_its_work_says_so() -> None:
    program = """
import time, farref

system = farref.System()
system.worker("B")
call = farref.rpc_async("B", time.sleep, (600,))
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True, timeout=100
    )
    assert "without the reply of B to sleep()" in run.stderr
    assert "use `with System() as system:`" in run.stderr
    assert run.stdout == ""
