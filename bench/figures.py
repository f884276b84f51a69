"""Figures as people read them: three digits, and a unit that suits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .catalogue import Unit


def shown(value: float, unit: Unit) -> str:
    """*value* with three digits and a unit that suits it."""
    if unit == "per second":
        return f"{digits(value)}/s"
    if unit == "percent":
        return f"{digits(value)} %"
    steps = (
        ((1, "s"), (1e-3, "ms"), (1e-6, "us"))
        if unit == "seconds"
        else ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1, "B"))
    )
    for scale, name in steps:
        if abs(value) >= scale:
            return f"{digits(value / scale)} {name}"
    scale, name = steps[-1]
    return f"{digits(value / scale)} {name}"


def digits(value: float) -> str:
    """*value* with three digits."""
    return f"{float(f'{value:.3g}'):,.10g}"
