"""The error of `farref run`."""


class LaunchError(Exception):
    """The nodes cannot begin, or cannot go on. The text is for the user."""
