"""The references to several results of one call; see `values.several`."""

from __future__ import annotations

from typing import Any

from ..core.sites import Place
from ..values.several import PART, ResultPart
from ..values.wrapper import made_as


def parts_of(
    run: Any,
    name: str,
    number: int,
    timeout: float | None,
    place: Place,
    *,
    frozen: bool,
    serial: bool,
) -> list[Any]:
    """References to the *number* results of *run*, a reference to the run of the function *name*.

    Each result is to be made within *timeout* seconds. *frozen* and *serial* are as in `remote`.
    The user's code at *place* has asked for them.
    """
    front, take = run._front, made_as(PART, frozen=frozen, serial=serial)
    front.unasked.asked(run.id, name, place)  # it may be the last to have the error of all
    made = [
        front.calls.remote_method(run.id, (take, (ResultPart(index, number, name, run.id),), {}))
        for index in range(number)
    ]
    for part in made:
        part._asked(name, timeout, place)
    front.unasked.together(run.id, [part.id for part in made])
    return made
