"""The references to several results of one call; see `values.several`."""

from __future__ import annotations

from typing import Any

from ..values.freezing import Freezing
from ..values.several import PART


def parts_of(run: Any, name: str, number: int, timeout: float | None, *, frozen: bool) -> list[Any]:
    """References to the *number* results of *run*, a reference to the run of the function *name*.

    *timeout* is the default of waits for them. *frozen*: each is to be frozen.
    """
    take: object = Freezing(PART) if frozen else PART
    made = [
        run._front.calls.remote_method(run.id, (take, (index, number, name), {}))
        for index in range(number)
    ]
    for part in made:
        part._timeout = timeout
    return made
