"""Exceptions cross the wire with type, message and remote traceback (G7), and pin nothing."""

from __future__ import annotations

import gc
import traceback
import weakref
from typing import Any

import pytest

from farref import RemoteError
from farref.serialization.failures import Failure


class Plain(Exception):
    pass


class TwoArguments(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError

    def __reduce__(self) -> Any:
        raise RuntimeError


def failure_of(error: BaseException) -> Failure:
    try:
        raise error  # noqa: TRY301
    except BaseException as raised:
        return Failure.of(raised, "B", "there()")


def test_type_message_and_traceback_come_back() -> None:
    error = failure_of(Plain("unlucky", 7)).rebuild()
    assert type(error) is Plain
    assert error.args == ("unlucky", 7)
    text = "".join(traceback.format_exception(error))
    assert "raise error" in text
    assert "raised on worker B by there()" in text


@pytest.mark.parametrize("error", [TwoArguments(1, 2), Silent()], ids=["arguments", "silent"])
def test_what_cannot_be_rebuilt_is_a_remote_error(error: Exception) -> None:
    rebuilt = failure_of(error).rebuild()
    assert type(rebuilt) is RemoteError
    assert type(error).__name__ in str(rebuilt)
    assert "raise error" in str(rebuilt.__cause__)


def test_each_rebuilding_is_another_exception() -> None:
    failure = failure_of(KeyError("k"))
    assert failure.rebuild() is not failure.rebuild()


class Big:
    pass


def test_a_failure_pins_nothing_of_the_frames_it_passed() -> None:
    def deep(big: Big) -> None:
        raise Plain("deep")

    big = Big()
    watch = weakref.ref(big)

    def failing(big: Big) -> Failure:
        try:
            deep(big)
        except Plain as error:
            return Failure.of(error, "B", "deep()")
        raise AssertionError("deep() raises")

    failure = failing(big)
    del big
    gc.collect()
    assert watch() is None
    assert "deep(big)" in failure.text
