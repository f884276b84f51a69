"""Work that may take long says how far it is; whoever started it shows that, or does not."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""So much has been done, and there is so much to do."""


def silent(_done: int, _whole: int) -> None:
    """Show nothing."""
