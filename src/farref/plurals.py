"""Numbers of things, in words."""

from __future__ import annotations

from collections.abc import Sequence


def one(thing: str) -> str:
    """``a step``, ``an ACK``."""
    return f"{'an' if thing[0] in 'aeioAEIO' else 'a'} {thing}"


def plural(thing: str, number: int) -> str:
    """``step``, or ``steps`` unless there is one."""
    return thing if number == 1 else f"{thing}s"


def counted(number: int, thing: str) -> str:
    """``1 step``, ``2 steps``."""
    return f"{number} {plural(thing, number)}"


def some(names: Sequence[str], most: int = 12) -> str:
    """The first *most* of *names*, and how many more there are: ``A, B and 3 more``, ``none``."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "none") + more
