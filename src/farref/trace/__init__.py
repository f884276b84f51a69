"""Traces: read the recordings of a system's endpoints, merge them by cause, show and save them."""

from pathlib import Path

from .choosing import EVERYTHING, Only
from .progress import Progress, silent
from .records import Recording, TraceError, load
from .saving import SuffixError, save, saver
from .show import show
from .story import Story, tell

__all__ = [
    "EVERYTHING",
    "Only",
    "Progress",
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


def read(
    path: Path,
    title: str = "",
    notes: str = "",
    only: Only = EVERYTHING,
    progress: Progress = silent,
) -> Story:
    """The story of the folder or file *path*, or of a part of it.

    Raises `TraceError` if there is none to tell.
    """
    return tell(load(path, progress), title, notes, only, progress)
