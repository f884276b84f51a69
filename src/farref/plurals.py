"""Numbers of things, in words."""

from __future__ import annotations


def one(thing: str) -> str:
    """``a step``, ``an ACK``."""
    return f"{'an' if thing[0] in 'aeioAEIO' else 'a'} {thing}"


def plural(thing: str, number: int) -> str:
    """``step``, or ``steps`` unless there is one."""
    return thing if number == 1 else f"{thing}s"


def counted(number: int, thing: str) -> str:
    """``1 step``, ``2 steps``."""
    return f"{number} {plural(thing, number)}"
