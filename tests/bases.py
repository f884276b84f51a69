"""The system bases that the tests run on, by ability: a new one comes from `BASES` of `bases`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, get_args

import pytest

from farref.actors.hosting import bases
from farref.protocol.sharing import Sharing

if TYPE_CHECKING:
    from collections.abc import Callable

    from _pytest.mark import ParameterSet


SAMPLED = pytest.mark.sampled(10)


def about(base: str | None = None) -> bases.Base:
    """The abilities of *base*; by default, of the base that `System()` is on."""
    return bases.BASES[base or bases.DEFAULT]


def those(fit: Callable[[bases.Base], object]) -> list[ParameterSet]:
    """Parameters for the bases that *fit*, with their markers.

    A stock base with processes is `long`, and CI has a sample of its tests: a change that breaks a
    test there nearly always breaks it on our base, too.
    """
    return [
        pytest.param(
            base.name,
            marks=[
                *([pytest.mark.processes] if base.processes else []),
                *([pytest.mark.long, SAMPLED] if base.processes and not base.own else []),
            ],
        )
        for base in bases.BASES.values()
        if fit(base)
    ]


BASES = those(lambda _: True)
PROCESSES = those(lambda base: base.processes)
"""An actor there can be killed, and goes on while its program does not call in."""
HOSTS = those(lambda base: base.hosts)
STOCK_HOSTS = those(lambda base: base.hosts and not base.own)
(IN_PROCESS,) = those(lambda base: not base.processes)
STOCK = those(lambda base: base.processes and not base.own)
"""Thespian's own bases with processes."""
LINKS = those(lambda base: base.own or not base.processes)
"""One with processes and one without, for the layers above the transport."""

SHARINGS = get_args(Sharing)
"""The disciplines of `System(sharing=...)`."""


def default() -> str:
    """The base of `System()` in this run of the tests."""
    return bases.DEFAULT


def has_processes(base: str) -> bool:
    """Whether each actor of *base* has a process, which can be killed."""
    return bases.BASES[base].processes


if __name__ == "__main__":  # for the Makefile: Thespian's bases, or those with an ability
    fits = {(): BASES, ("processes",): PROCESSES, ("in-process",): [IN_PROCESS]}
    names = [str(each.values[0]) for each in fits[tuple(sys.argv[1:])]]
    print(*[name for name in names if not bases.BASES[name].own])  # noqa: T201 - its output
