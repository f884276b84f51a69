"""The error of `farref run`."""

from typing import Final

FAILED: Final = 1
"""The exit code of all agents if the run fails, and not the program."""


class LaunchError(Exception):
    """The nodes cannot begin, or cannot go on. The text is for the user."""

    def __init__(self, text: str, code: int = FAILED) -> None:
        super().__init__(text)
        self.code = code
