"""Shrinking: the fewest acts of a plan that still go wrong, and in the same way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from . import Act, Outcome, Plan, simulate

MOST = 200_000
"""The most acts played in all tries together: a few minutes, for a plan of any length."""


def shrink(plan: Plan, *, most: int = MOST, play: Callable[[Plan], Outcome] = simulate) -> Plan:
    """*plan* without the acts that are not needed for its failure; unchanged if it has none."""
    first = play(plan)
    if first.wrong is None:
        return plan
    left = most

    def fails(acts: list[Act]) -> Outcome | None:
        nonlocal left
        left -= len(acts)
        outcome = play(replace(plan, acts=tuple(acts)))
        return outcome if outcome.kind == first.kind else None

    # Acts after the moment of the failure are not needed.
    acts = [act for act in plan.acts if act.at <= first.seconds]
    size = max(1, len(acts) // 2)
    while left > 0:
        start, before = 0, len(acts)
        while start < len(acts) and left > 0:
            fewer = acts[:start] + acts[start + size :]
            outcome = fails(fewer)
            if outcome is not None:
                acts = [act for act in fewer if act.at <= outcome.seconds]
            else:
                start += size
        if size == 1 and len(acts) == before:
            break
        size = max(1, size // 2)
    return replace(plan, acts=tuple(acts))
