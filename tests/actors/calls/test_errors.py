"""An error that crosses has its type, message, remote traceback, worker and reference (G7)."""

from __future__ import annotations

import threading
import traceback
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RemoteError, RRef, WorkerNotFoundError

from ..helpers import Box, make_box, until

if TYPE_CHECKING:
    from farref import System


class Strict(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


class Holding(Exception):
    """Holds a reference."""


class Raising(Box):
    def strict(self, code: int) -> None:
        raise Strict(code=code)

    def holding(self, *refs: RRef[Any]) -> None:
        raise Holding("it holds", *refs)

    def locked(self) -> None:
        raise Holding(threading.Lock())

    def group(self) -> None:
        raise ExceptionGroup("two", [KeyError("k"), Strict(code=2)])

    def noted(self) -> None:
        error = ValueError("noted")
        error.add_note("look here")
        raise error

    def leave(self) -> None:
        raise SystemExit(3)

    def interrupt(self) -> None:
        raise KeyboardInterrupt

    def huge(self) -> None:
        raise ValueError("x" * 3_000_000)


def told(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def raised(ref: RRef[Any], method: str, *args: Any) -> BaseException:
    error: BaseException | None = getattr(ref.rpc_async(), method)(*args).exception()
    assert error is not None
    text = told(error)
    assert f"raised on worker B by {method}(), for the reference {ref.id}" in text
    assert f"in {method}" in text  # the remote traceback
    return error


def test_type_arguments_and_notes(system: System) -> None:
    ref = farref.remote("B", Raising)
    error = raised(ref, "strict", 7)
    assert type(error) is Strict
    assert (str(error), error.code) == ("code 7", 7)
    assert "look here" in raised(ref, "noted").__notes__


def test_a_group_arrives_as_a_group(system: System) -> None:
    error = raised(farref.remote("B", Raising), "group")
    assert type(error) is ExceptionGroup
    assert [type(each) for each in error.exceptions] == [KeyError, Strict]


def holding(*refs: RRef[Any]) -> None:
    raise Holding("it holds", *refs, farref.remote("C", make_box, ("new",)))


def caught(ref: RRef[Any]) -> Any:
    try:
        ref.to_here()
    except Holding as error:
        return error.args  # the error itself would be in a cycle with frames
    raise AssertionError("it was raised")


def test_references_in_an_error_are_counted(system: System) -> None:
    mine, theirs = RRef([1]), farref.remote("C", make_box, ("theirs",))
    error = raised(farref.remote("B", Raising), "holding", mine, theirs)
    assert error.args == ("it holds", mine, theirs)
    failed = farref.remote("B", holding, (mine, theirs))  # its owner keeps the error
    errors = [caught(failed), farref.rpc_sync("C", caught, (failed,)), caught(failed)]
    for each in errors:
        assert each[1:3] == (mine, theirs)
        assert each[2].rpc_sync().get() == "theirs"
        assert each[3].rpc_sync().get() == "new"
    names = {str(each.id) for each in (mine, theirs, errors[0][3])}
    del mine, theirs, failed, error, errors, each
    assert until(system, lambda: not names & {row.rref for row in system.references()})


def test_what_cannot_travel_is_told(system: System) -> None:
    ref = farref.remote("B", Raising)
    names = ("leave", "SystemExit"), ("interrupt", "KeyboardInterrupt"), ("locked", "Holding: <un")
    for method, name in names:
        error = raised(ref, method)
        assert type(error) is RemoteError
        assert name in str(error)
    assert isinstance(raised(ref, "huge"), ValueError)
    assert ref.rpc_sync().get() is None


def test_our_own_keep_type_and_text(system: System) -> None:
    with pytest.raises(WorkerNotFoundError, match="'nobody' does not exist") as caught:
        farref.rpc_sync("B", _ask_nobody)
    assert "raised on worker B by _ask_nobody()" in told(caught.value)


def _ask_nobody() -> None:
    farref.rpc_sync("nobody", pow, (2, 3))
