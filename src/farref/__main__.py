"""`python -m farref` is the command `farref`."""

from .cli import app

app(prog_name="farref")
