"""Progress of work that may take long; the starter of the work shows it, or ignores it."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with the amount of work done, and the whole amount."""


def silent(_done: int, _whole: int) -> None:
    """Show nothing."""
