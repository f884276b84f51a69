"""Exceptions that cross the wire: type, message and remote traceback (G7).

An exception is turned into a `Failure` where it is raised, at once: text, and the pickle of the
exception, which is made like that of any value. The live exception would pin, through its
traceback, all its frames and the references among their arguments, and those objects could not be
freed (G5).

The caller gets the exception again, of its own type, with its arguments, attributes and notes. Its
cause is the remote traceback, and a note names the worker, the function and the reference. The
caller gets a `RemoteError` with the same information instead

* if its class cannot be imported, or its attributes cannot be pickled;
* if it is not an `Exception`: a remote ``SystemExit`` should inform the caller, not end it;
* if it is larger than a message may be, or a reference in it cannot be passed on any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ..protocol.errors import RemoteError
from .definitions import Definition, Exported  # also a check reads them, in an annotation
from .failures import CAUGHT, details_of, name_of, pass_on, text_of, told
from .library import Library
from .pickling import Pickled, Pickler, Reference, pickle_value, unpickle
from .shared import copied


class RemoteTraceback(Exception):
    """The cause of a rebuilt exception: its remote traceback, as text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


TEXT = 100_000
"""The most characters of a message or a traceback that are sent; longer ones lose their middle."""


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
    buffers: tuple[bytes | bytearray, ...] = ()
    """The out-of-band buffers of the pickle."""
    inert: tuple[object, ...] = ()
    """The addresses in the exception."""
    references: tuple[object, ...] = ()
    """The handles in it, at the endpoint that stores it; a reply has descriptors beside it."""
    peers: tuple[Any, ...] = ()
    """In a reply: the endpoints that it introduces."""
    functions: tuple[Definition | Exported, ...] = ()
    """As those of a `Payload`."""

    @classmethod
    def of(
        cls,
        error: BaseException,
        worker: str,
        where: str,
        about: str = "",
        inert: type | tuple[()] = (),
        *,
        library: Library | None = None,
    ) -> Failure:
        """Describe *error*, raised by *where* (a function, a method) on *worker*.

        *inert* is the type of the addresses in it. *library*: see `Pickler`.
        """
        text, message = (_shortened(each, TEXT) for each in (details_of(error), text_of(error)))
        name = told(lambda: name_of(type(error)), "an exception")
        made = _pickled(error, inert, library)
        if made is None:
            return cls(name, message, text, None, worker, where, about)
        rest: Any = made.buffers, made.inert, made.references, (), made.functions
        return cls(name, message, text, made.data, worker, where, about, *rest)

    @property
    def size(self) -> int:
        """Bytes, or a little more; without definitions."""
        size = 4 * (len(self.message) + len(self.text)) + len(self.pickled or b"")
        return size + sum(map(len, self.buffers))

    @property
    def framed(self) -> int:
        """Bytes, or a little more."""
        return self.size + sum(len(each.data) for each in self.functions)

    def within(self, limit: int) -> Failure:
        """The same in *limit* bytes: with less text, and without the exception, if need be."""
        if self.framed <= limit:
            return self
        text, message = (_shortened(each, limit // 16) for each in (self.text, self.message))
        return replace(self.as_text(), text=text, message=message)

    def as_text(self) -> Failure:
        """The same without the exception."""
        return replace(self, pickled=None, buffers=(), inert=(), references=(), functions=())

    def rebuild(self, references: Sequence[Any] | None = None) -> BaseException:
        """The exception again, with the remote traceback as its cause.

        *references* are the handles of those that came beside it.
        """
        about = f", for the reference {self.about}" if self.about else ""
        note = f"raised on worker {self.worker} by {self.where}{about}"
        if self.pickled is not None:
            handles: Any = self.references if references is None else references
            try:
                error = _unpickled(self.pickled, self.buffers, self.inert, handles, self.functions)
                # Not `SystemExit` or a cancellation: they would end the caller, not inform it.
                if issubclass(type(error), Exception):
                    return _annotated(error, self.text, note)
            except CAUGHT as error:
                pass_on(error)
        text = f"{self.type_name}: {self.message} (its own type cannot be rebuilt here)"
        return _annotated(RemoteError(text), self.text, note)


def _unpickled(
    data: bytes,
    buffers: Sequence[Any],
    inert: Sequence[object],
    handles: Sequence[Reference],
    functions: Sequence[Any],
) -> Any:
    # Each exception has arrays of its own.
    own = [bytearray(each) if type(each) is bytearray else each for each in buffers]
    return unpickle(data, own, inert, handles, functions=functions)


def _annotated(error: BaseException, text: str, note: str) -> BaseException:
    """*error*, with *note*, and the remote traceback in *text* as its cause.

    Code of its class may run.
    """
    error.__cause__ = RemoteTraceback(text)
    notes = getattr(error, "__notes__", ())
    notes = notes if isinstance(notes, list | tuple) else ()
    error.__notes__ = [*notes, note]
    return error


def _pickled(error: BaseException, inert: Any, library: Library | None) -> Pickled | None:
    """*error*, pickled and tried: one that cannot be rebuilt is known here already."""
    try:
        # Many constructors want other arguments than `BaseException` was given, and so cannot be
        # called with those: then the object is made without its constructor.
        return _tried(error, inert, Pickler, library) or _tried(error, inert, _Bare, library)
    except BaseException:  # code of its class may raise anything
        return None


def _tried(
    error: BaseException, inert: Any, kind: type[Pickler], library: Library | None
) -> Pickled | None:
    """*error*, pickled; None if that does not come back. Raises what its class raises."""
    made = pickle_value(
        error, inert, lambda views: tuple(map(copied, views)), kind, library=library
    )
    try:
        again = _unpickled(made.data, made.buffers, made.inert, made.references, made.functions)
        same = type(_annotated(again, "", "")) is type(error)  # as `rebuild` does
    except BaseException:
        return None
    return made if same else None


class _Bare(Pickler):
    """Pickles exceptions so that they are made without their constructors.

    Inside a group, only the members whose constructors cannot be called with their arguments.
    """

    _within = False

    def reducer_override(self, obj: Any) -> Any:
        """Pickle's hook. Exceptions inside *obj* come here too."""
        if isinstance(obj, BaseException):
            inner, self._within = self._within, True
            if not inner or _tried(obj, self.addresses, Pickler, self._library) is None:
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
