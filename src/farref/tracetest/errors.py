"""The errors that end a command early."""


class BadCommandError(Exception):
    """A command that the language does not know, or that makes no sense here."""


class Stopped(Exception):
    """The user's code got an exception, which has been shown; its command ends here."""
