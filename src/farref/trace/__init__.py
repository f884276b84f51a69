"""Traces: what the endpoints of a system recorded, read, merged by cause, shown and saved."""

from pathlib import Path

from .records import Recording, TraceError, load
from .saving import SuffixError, save, saver
from .show import show
from .story import Story, tell

__all__ = [
    "Recording",
    "Story",
    "SuffixError",
    "TraceError",
    "load",
    "read",
    "save",
    "saver",
    "show",
    "tell",
]


def read(path: Path, title: str = "", notes: str = "") -> Story:
    """The story of the folder or file *path*. Raises `TraceError` if there is none to tell."""
    return tell(load(path), title, notes)
