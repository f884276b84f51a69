"""Shrinking: the fewest acts of a plan that still go wrong, and in the same way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .world import simulate

if TYPE_CHECKING:
    from .plan import Act, Plan

MOST = 600
"""Simulations that it takes at most."""


def shrink(plan: Plan) -> Plan:
    """*plan* without the acts that it can do without, if it goes wrong; else as it is."""
    first = simulate(plan)
    if first.wrong is None:
        return plan
    left = MOST

    def fails(acts: list[Act]) -> bool:
        nonlocal left
        left -= 1
        return simulate(replace(plan, acts=tuple(acts))).kind == first.kind

    acts = list(plan.acts)
    size = max(1, len(acts) // 2)
    while left > 0:
        start, before = 0, len(acts)
        while start < len(acts) and left > 0:
            fewer = acts[:start] + acts[start + size :]
            if fails(fewer):
                acts = fewer
            else:
                start += size
        if size == 1 and len(acts) == before:
            break
        size = max(1, size // 2)
    return replace(plan, acts=tuple(acts))
