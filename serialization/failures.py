"""Exceptions that cross the wire: type, message and remote traceback (G7).

An exception is turned into a `Failure` where it is raised, at once. What is kept is text
and bytes: a live exception would pin, through its traceback, every frame it passed and
with them the references among the arguments, and nobody could free those objects (G5).
"""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass

from ..protocol.errors import RemoteError
from . import deep


class RemoteTraceback(Exception):
    """The cause of a rebuilt exception: the traceback, as text, of where it was raised."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception as it travels, and as an owner stores it."""

    type_name: str
    message: str
    text: str
    pickled: bytes | None
    worker: str
    where: str

    @classmethod
    def of(cls, error: BaseException, worker: str, where: str) -> Failure:
        """Describe *error*, raised by *where* (a function, a method) on *worker*."""
        text = "".join(traceback.format_exception(error))
        try:
            pickled = deep.dumps(error)
            pickle.loads(pickled)  # noqa: S301 - just pickled; an exception that cannot be rebuilt is known here already
        except Exception:
            pickled = None
        kind = type(error)
        name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
        return cls(name, text_of(error), text, pickled, worker, where)

    def rebuild(self) -> BaseException:
        """The exception again, with the remote traceback as its cause."""
        error: BaseException | None = None
        if self.pickled is not None:
            try:
                error = pickle.loads(self.pickled)  # noqa: S301 - peers are trusted
            except Exception:
                error = None
        # Not `SystemExit` or a cancellation: they would end the caller, not inform it.
        if not isinstance(error, Exception):
            error = RemoteError(
                f"{self.type_name}: {self.message} (its own type cannot be rebuilt here)"
            )
        error.__cause__ = RemoteTraceback(self.text)
        error.add_note(f"raised on worker {self.worker} by {self.where}")
        return error


def text_of(error: BaseException) -> str:
    """``str(error)``, which may be code of the user's that raises."""
    try:
        return str(error)
    except Exception:
        return "<its __str__ raised>"
