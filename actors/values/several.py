"""Several results of one call: ``remote(to, fn, num_returns=3)``, as in Ray.

The callee runs the function once and owns the *run*: an object with the whole result as its value.
Each result is one more creation, a request on the run that takes one part of the value. The caller
makes all of them at once, and then drops the run. So n results are n + 1 creations, and no message
was added to the protocol.

If the function raises, its `Failure` is the value of the run, and of every part. If it returns a
wrong number of values, the first part finds that, and its failure becomes the value of the run.
(Unless the function returned a reference: then each part finds it anew.)
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from itertools import islice
from typing import Any

import msgspec

from ...protocol.ids import RRefId
from .wrapper import OnResult

PART = "__part__"
"""The operation that takes one part of a run."""
TEXTS = str | bytes | bytearray
"""Sequences that count as one value."""


class Several(OnResult, frozen=True):
    """A function, or the name of a method, that gives *number* results.

    The values of a generator are made here, once.
    """

    number: int

    def changed(self, result: Any) -> Any:
        if type(result) is not types.GeneratorType:
            return result
        return tuple(islice(result, self.number + 1))  # one more shows that there are too many


class ResultPart(msgspec.Struct, frozen=True):
    """The argument of the operation `PART`."""

    place: int
    number: int
    """The number of results of the call."""
    name: str
    """The function."""
    run: RRefId


def check_number(num_returns: int) -> int:
    """*num_returns*. Raises `ValueError` if a call cannot have that many results."""
    if type(num_returns) is not int or num_returns < 1:
        raise ValueError(f"num_returns must be an int of 1 or more, not {num_returns!r}")
    return num_returns


def part_of(run: Any, part: ResultPart) -> Any:
    """One of the results in *run*, which `check_run` has checked."""
    return run[part.place]


def check_run(run: Any, part: ResultPart) -> None:
    """Raise `TypeError` if *run* is not a sequence, `ValueError` if it has another length."""
    name, number = part.name, part.number
    if not isinstance(run, Sequence) or isinstance(run, TEXTS):
        raise TypeError(
            f"{name}() returned one {type(run).__name__}, and num_returns={number} asks for "
            f"{number} values: return them in a tuple or a list"
        )
    if len(run) != number:
        raise ValueError(
            f"{name}() returned {len(run)} values, and num_returns={number} asks for {number}: "
            "return as many as the call asks for"
        )
