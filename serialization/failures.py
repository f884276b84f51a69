"""Errors raised by the user's code: which of them are caught, and how they become text.

`errors` has those that are sent to another process.
"""

from __future__ import annotations

import gc
import traceback

# As in `signal`, but without names for the numbers: they take a hundred times as long.
from _signal import NSIG, getsignal  # type: ignore[import-not-found]  # it has no types
from collections.abc import Callable
from types import FrameType

CAUGHT = (Exception, SystemExit, GeneratorExit)
"""Exceptions of the user's classes that become errors in the program's own thread.

A `KeyboardInterrupt` is more likely to be of a signal there, which is to end the program.
"""


def pass_on(error: BaseException) -> None:
    """If a signal handler has raised *error*, raise it again: it says nothing about the value.

    Code on the way may have caught the handler's error and raised another one.
    """
    handlers = filter(callable, map(getsignal, range(1, NSIG)))
    codes = {getattr(each, "__code__", None) for each in handlers}
    seen: list[int] = []
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        if any(
            frame.f_code in codes or _is_handler(frame)
            for frame, _ in traceback.walk_tb(each.__traceback__)
        ):
            raise each
        seen.append(id(each))
        each = each.__cause__ or each.__context__


def _is_handler(frame: FrameType) -> bool:
    """Whether Python has called the function of *frame* with the frame that it interrupted.

    So this also finds handlers that are not functions, and those that have set another one.
    """
    return frame.f_back is not None and _count_of_caller(frame) > _COUNT_OF_CALLER


def _count_of_caller(frame: FrameType) -> int:
    """How often *frame* refers to the one below it: as such, in variables and in ``*args``."""
    # Not by `f_locals`: before Python 3.13 the frame keeps that dict, and with it the error.
    found = gc.get_referents(frame)
    found += [value for each in found if type(each) is tuple for value in each]
    return sum(each is frame.f_back for each in found)


def _count_without_argument() -> int:
    def fail() -> None:
        raise ValueError

    try:
        fail()
    except ValueError as error:
        last = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][-1]
        return _count_of_caller(last)
    raise AssertionError("it has raised")


_COUNT_OF_CALLER = _count_without_argument()


def text_of(error: BaseException) -> str:
    """``str(error)``, which may be code of the user's that raises. Raises nothing itself."""
    return told(lambda: str(error), "<its __str__ raised>")


def details_of(error: BaseException) -> str:
    """The traceback of *error* as text. Raises nothing, whatever code of the user's it runs.

    As text: a log record that is kept would pin the references in the frames (G5).
    """
    whole = told(lambda: "".join(traceback.format_exception(error)), "")
    if whole:
        return whole
    frames = told(lambda: "".join(traceback.format_tb(error.__traceback__)), "")
    name = told(lambda: name_of(type(error)), "an exception")
    return f"Traceback (most recent call last):\n{frames}{name}: {text_of(error)}\n"


def name_of(kind: type) -> str:
    """The full name of *kind*, for people; a builtin's name without the module."""
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def told(tell: Callable[[], str], instead: str) -> str:
    """The result of *tell*, or *instead* if the user's code raised anything in it."""
    try:
        return str.__str__(tell())  # a plain `str`, even if the user's class derives from it
    except BaseException:
        return instead
