"""Exceptions that cross the wire: type, message and remote traceback (G7).

An exception is turned into a `Failure` where it is raised, at once. A failure keeps only text
and bytes. A live exception would pin, through its traceback, all its frames and the references
among their arguments, and those objects could not be freed (G5).

The caller gets the exception again, of its own type, with its arguments, attributes and notes. Its
cause is the remote traceback, and a note names the worker, the function and the reference. The
caller gets a `RemoteError` with the same information instead

* if the exception holds references: an owner may store its bytes, where none are counted;
* if its class cannot be imported, or its attributes cannot be pickled;
* if it is no `Exception`: a remote ``SystemExit`` should inform the caller, not end it;
* if it is larger than a message may be.
"""

from __future__ import annotations

import gc
import io
import pickle
import traceback

# As in `signal`, but without names for the numbers: they take a hundred times as long.
from _signal import NSIG, getsignal  # type: ignore[import-not-found]  # it has no types
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from ..protocol.errors import RemoteError
from .by_value import ByValuePickler, dumps

if TYPE_CHECKING:
    from collections.abc import Callable


class RemoteTraceback(Exception):
    """The cause of a rebuilt exception: its remote traceback, as text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


TEXT = 100_000
"""The most characters of a message or a traceback that are sent; longer ones lose their middle."""

CAUGHT = (Exception, SystemExit, GeneratorExit)
"""Exceptions of the user's classes that become errors in the program's own thread.

A `KeyboardInterrupt` is more likely to be of a signal there, which is to end the program.
"""


def pass_on(error: BaseException) -> None:
    """If a signal handler has raised *error*, raise it again: it tells nothing of any value.

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

    So this also finds handlers that are no functions, and those that have set another one.
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


class Failure(msgspec.Struct, frozen=True):
    """An exception as it is sent, and as an owner stores it."""

    type_name: str
    message: str
    text: str
    pickled: bytes | None
    worker: str
    where: str
    about: str = ""
    """The reference on which it was raised, if it was on one."""

    @classmethod
    def of(cls, error: BaseException, worker: str, where: str, about: str = "") -> Failure:
        """Describe *error*, raised by *where* (a function, a method) on *worker*."""
        text, message = (_shortened(each, TEXT) for each in (details_of(error), text_of(error)))
        name = _told(lambda: name_of(type(error)), "an exception")
        return cls(name, message, text, _pickled(error), worker, where, about)

    @property
    def size(self) -> int:
        """Bytes, or a little more."""
        return 4 * (len(self.message) + len(self.text)) + len(self.pickled or b"")

    def within(self, limit: int) -> Failure:
        """The same in *limit* bytes: with less text, and without the exception, if need be."""
        if self.size <= limit:
            return self
        text, message = (_shortened(each, limit // 16) for each in (self.text, self.message))
        return replace(self, text=text, message=message, pickled=None)

    def rebuild(self) -> BaseException:
        """The exception again, with the remote traceback as its cause."""
        about = f", for the reference {self.about}" if self.about else ""
        note = f"raised on worker {self.worker} by {self.where}{about}"
        if self.pickled is not None:
            try:
                error = pickle.loads(self.pickled)  # noqa: S301 - peers are trusted
                # Not `SystemExit` or a cancellation: they would end the caller, not inform it.
                if issubclass(type(error), Exception):
                    return _annotated(error, self.text, note)
            except CAUGHT as error:
                pass_on(error)
        text = f"{self.type_name}: {self.message} (its own type cannot be rebuilt here)"
        return _annotated(RemoteError(text), self.text, note)


def _annotated(error: BaseException, text: str, note: str) -> BaseException:
    """*error*, with *note*, and the remote traceback in *text* as its cause.

    Code of its class may run.
    """
    error.__cause__ = RemoteTraceback(text)
    notes = getattr(error, "__notes__", ())
    notes = notes if isinstance(notes, list | tuple) else ()
    error.__notes__ = [*notes, note]
    return error


def _pickled(error: BaseException) -> bytes | None:
    """The bytes of *error*, tried: one that cannot be rebuilt is known here already."""
    try:
        pickled: bytes = dumps(error)
        if _comes_back(pickled, error):
            return pickled
        # Many constructors want other arguments than `BaseException` was given, and so cannot be
        # called with those: then the object is made without its constructor.
        with io.BytesIO() as file:
            _Bare(file, protocol=5).dump(error)
            bare = file.getvalue()
        return bare if _comes_back(bare, error) else None
    except BaseException:  # code of its class may raise anything
        return None


def _comes_back(pickled: bytes, error: BaseException) -> bool:
    try:
        again = pickle.loads(pickled)  # noqa: S301 - just pickled
        return type(_annotated(again, "", "")) is type(error)  # as `rebuild` does
    except BaseException:
        return False


class _Bare(ByValuePickler):
    """Pickles exceptions so that they are made without their constructors.

    Inside a group, only the members whose constructors cannot be called with their arguments.
    """

    _within = False

    def reducer_override(self, obj: Any) -> Any:
        """Pickle's hook. Exceptions inside *obj* come here too."""
        if isinstance(obj, BaseException):
            inner, self._within = self._within, True
            if not inner or not _comes_back(dumps(obj), obj):
                return _bare, (type(obj), obj.args, vars(obj))
        return super().reducer_override(obj)


def _bare(kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    error: BaseException
    if issubclass(kind, BaseExceptionGroup):  # it has its members from its arguments
        error = BaseExceptionGroup.__new__(kind, *args)
    else:
        error = BaseException.__new__(kind)
    error.args = args
    vars(error).update(state)
    return error


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    left = len(text) - most
    return f"{text[: most // 2]}\n... {left} characters left out ...\n{text[-(most // 2) :]}"


def text_of(error: BaseException) -> str:
    """``str(error)``, which may be code of the user's that raises. Raises nothing itself."""
    return _told(lambda: str(error), "<its __str__ raised>")


def details_of(error: BaseException) -> str:
    """The traceback of *error* as text. Raises nothing, whatever code of the user's it runs.

    As text: a log record that is kept would pin the references in the frames (G5).
    """
    whole = _told(lambda: "".join(traceback.format_exception(error)), "")
    if whole:
        return whole
    frames = _told(lambda: "".join(traceback.format_tb(error.__traceback__)), "")
    name = _told(lambda: name_of(type(error)), "an exception")
    return f"Traceback (most recent call last):\n{frames}{name}: {text_of(error)}\n"


def name_of(kind: type) -> str:
    """Its full name, for people; a builtin's name without the module."""
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def _told(tell: Callable[[], str], instead: str) -> str:
    """The result of *tell*, or *instead* if the user's code raised anything in it."""
    try:
        return str.__str__(tell())  # a plain `str`, even if the user's class derives from it
    except BaseException:
        return instead
