"""Exceptions cross the wire with type, message and remote traceback (G7), and pin nothing."""

from __future__ import annotations

import asyncio
import gc
import pickle
import sys
import traceback
import weakref
from typing import Any, cast

import pytest
from msgspec.structs import replace

from farref import RemoteError
from farref.serialization.errors import TEXT, Failure


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
        raise error  # noqa: TRY301 - a helper that needs a traceback
    except BaseException as raised:
        return Failure.of(raised, "B", "there()")


def test_type_message_and_traceback_come_back() -> None:
    error = failure_of(Plain("unlucky", 7)).rebuild()
    assert type(error) is Plain
    assert error.args == ("unlucky", 7)
    text = "".join(traceback.format_exception(error))
    assert "raise error" in text
    assert "raised on worker B by there()" in text


def test_a_constructor_that_wants_other_arguments_is_not_called() -> None:
    error = TwoArguments(1, 2)
    error.more = ["attributes"]  # type: ignore[attr-defined]  # users add attributes
    error.add_note("a note")
    rebuilt = failure_of(error).rebuild()
    assert type(rebuilt) is TwoArguments
    assert str(rebuilt) == "1 and 2"
    assert rebuilt.more == ["attributes"]  # type: ignore[attr-defined]  # users add attributes
    assert rebuilt.__notes__ == ["a note", "raised on worker B by there()"]
    assert "raise error" in str(rebuilt.__cause__)


class Strict(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


def test_a_group_comes_with_its_members_and_their_tracebacks() -> None:
    group = failure_of(ExceptionGroup("two", [Plain("one"), Strict(code=2)])).rebuild()
    assert isinstance(group, Exception)
    text = "".join(traceback.format_exception(group))
    assert "two (2 sub-exceptions)" in text
    assert "one" in text
    assert "code 2" in text
    whole = failure_of(ExceptionGroup("two", [Plain("one"), KeyError("k")])).rebuild()
    assert isinstance(whole, ExceptionGroup)
    assert [type(each) for each in whole.exceptions] == [Plain, KeyError]


def test_a_group_keeps_its_type_whatever_its_members_constructors_want() -> None:
    inner = ExceptionGroup("inner", [TwoArguments(1, 2)])
    missing = FileNotFoundError(2, "no file", "name")  # C keeps its attributes elsewhere
    members = [Strict(code=2), missing, inner, Plain("one")]
    group: Any = failure_of(ExceptionGroup("four", members)).rebuild()
    assert isinstance(group, ExceptionGroup)
    strict, file, again, plain = cast("tuple[Any, ...]", group.exceptions)
    assert (type(strict), str(strict), strict.code) == (Strict, "code 2", 2)
    assert (type(file), file.filename) == (FileNotFoundError, "name")
    assert type(again) is ExceptionGroup
    assert [str(each) for each in again.exceptions] == ["1 and 2"]
    assert plain.args == ("one",)
    assert "raise error" in str(group.__cause__)


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        SystemExit(3),
        GeneratorExit(),
        BaseExceptionGroup("a group", [KeyboardInterrupt()]),
        asyncio.CancelledError(),
        Silent(),  # it cannot be rebuilt
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_would_end_the_caller_informs_it(error: BaseException) -> None:
    rebuilt = failure_of(error).rebuild()
    assert type(rebuilt) is RemoteError
    assert type(error).__name__ in str(rebuilt)
    assert "raise error" in str(rebuilt.__cause__)


def test_a_class_that_cannot_be_imported_here(monkeypatch: pytest.MonkeyPatch) -> None:
    failure = failure_of(Plain("unlucky"))
    monkeypatch.delattr(sys.modules[__name__], "Plain")
    rebuilt = failure.rebuild()
    assert type(rebuilt) is RemoteError
    assert "test_failures.Plain: unlucky" in str(rebuilt)


def test_a_huge_one_is_cut_and_one_that_does_not_fit_is_told_of() -> None:
    failure = failure_of(Plain("x" * 1_000_000))
    assert len(failure.message) < TEXT + 100
    assert "characters left out" in failure.text
    assert len(str(failure.rebuild())) == 1_000_000
    small = failure.within(10_000)
    assert small.size <= 10_000
    rebuilt = small.rebuild()
    assert type(rebuilt) is RemoteError
    assert "Plain: xxx" in str(rebuilt)


def test_the_reference_that_it_is_about_is_named() -> None:
    failure = Failure.of(KeyError("k"), "B", "get()", "A/7")
    assert failure.rebuild().__notes__ == ["raised on worker B by get(), for the reference A/7"]


class Exits(Exception):
    def __reduce__(self) -> Any:
        return sys.exit, (3,)


def test_one_that_exits_when_it_is_rebuilt_ends_nobody() -> None:
    assert type(failure_of(Exits("unlucky")).rebuild()) is Exits
    failure = replace(failure_of(KeyError("k")), pickled=pickle.dumps(Exits()))
    assert type(failure.rebuild()) is RemoteError, "it is only seen where it arrives"


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
