"""Finds the steps of a published example in a recording.

A demo of such an example lists the published steps, one per line::

    3b  F: x.borrowers.append(g)      <= F learns that G holds F/1

The left part is the publication's name and text of the step. The right part is the fact (see
`facts`) that proves the step here. Steps are searched in the order of the list, each at the
previous step's row or later. A step that begins with ``*`` may be anywhere: its order is left open.
A step that is not found is *missing*: a step without a record is never shown. A published step that
the machines do not take is listed too, so that the count is honest, with the reason in place of a
fact::

    3   G asks F to notify G          <= left out: G made the fork of F itself
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..printable import printable

ANYWHERE = "*"
LEFT_OUT = "left out: "


@dataclass(frozen=True, slots=True)
class Note:
    """A published step, under the row that shows it, beside the lane of *at*."""

    at: str
    text: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence, and the endpoint that took the step."""

    at: str
    text: str


def found(steps: str, rows: Sequence[Iterable[Fact]]) -> tuple[list[list[Note]], tuple[str, ...]]:
    """The notes of each row, and the missing steps."""
    notes: list[list[Note]] = [[] for _ in rows]
    missing: list[str] = []
    place = 0
    for step, sentence in parsed(steps):
        anywhere = step.startswith(ANYWHERE)
        for row in range(0 if anywhere else place, len(rows)):
            at = next((fact.at for fact in rows[row] if fact.text == sentence), None)
            if at is not None:
                notes[row].append(Note(at, step))
                place = place if anywhere else row
                break
        else:
            missing.append(f"{step} ({sentence})")
    return notes, tuple(missing)


def parsed(steps: str) -> list[tuple[str, str]]:
    """Each step that is to be found, and its sentence. Raises `ValueError` for a line without."""
    return [each for each in _listed(steps) if not each[1].startswith(LEFT_OUT)]


def left_out(steps: str) -> tuple[str, ...]:
    """The published steps that the machines do not take, each with the reason."""
    return tuple(
        f"{step} ({sentence.removeprefix(LEFT_OUT)})"
        for step, sentence in _listed(steps)
        if sentence.startswith(LEFT_OUT)
    )


def _listed(steps: str) -> list[tuple[str, str]]:
    lines = [line.partition("<=") for line in steps.splitlines() if line.strip()]
    if any(not arrow or not sentence.strip() for _, arrow, sentence in lines):
        raise ValueError("a step is written: its text <= the fact that shows it")
    return [(printable(" ".join(step.split())), sentence.strip()) for step, _, sentence in lines]


def of_discipline(steps: str, sharing: str) -> str:
    """The lines of *steps* that apply to *sharing*: a line may begin with ``[borrow]``.

    Lines without a prefix apply to each discipline that lends. There are no lines for ``fork``.
    """
    if sharing == "fork":
        return ""
    lines = (line.strip() for line in steps.splitlines())
    mine = (line.removeprefix(f"[{sharing}]") for line in lines)
    return "\n".join(line for line in mine if not line.startswith("["))
