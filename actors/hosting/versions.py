"""Whether two processes can read each other's messages; they ask before they exchange any.

Functions and classes travel as code, which only the minor version of Python that wrote it can run.
The messages around the code are made of farref's own classes, which any release may change. The
pickles are cloudpickle's, and name functions of cloudpickle. So these are the same everywhere in a
system: the minor version and implementation of Python, the version of farref, and cloudpickle's
minor version.

A newcomer asks first, and the other process answers. All versions understand these two messages,
for ever: each is a tuple of a text (`ASK` or `TELL`) and a dict of texts. No class is needed to
unpickle them. A program that attaches finds the same dict in the system's entry in the folder of
running systems, which is JSON.
"""

from __future__ import annotations

import functools
import platform

import cloudpickle

from ...protocol.errors import VersionError

FARREF = "0.1.0"
"""The version of this code; ``pyproject.toml`` has the same.

`importlib.metadata` could read it there. But that takes as many calls as all else that a program
does to start a system, and imports a parser of e-mails into each process.
"""

ASK = "farref: these are my versions; which are yours?"
TELL = "farref: these are my versions"


@functools.cache
def mine() -> dict[str, str]:
    """The versions of this process, by the name of each part that must agree."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {
        "Python": f"{python} ({platform.python_implementation()})",
        "farref": FARREF,
        "cloudpickle": ".".join(cloudpickle.__version__.split(".")[:2]),
    }


def conflict(theirs: object, who: str) -> str:
    """Why this process cannot work with *who*, which has versions *theirs*; empty if it can."""
    told = theirs if isinstance(theirs, dict) else {}
    differ = [name for name, version in mine().items() if told.get(name) != version]
    if not differ:
        return ""
    there = ", ".join(f"{name} {told.get(name, '(unknown)')}" for name in mine())
    here = ", ".join(f"{name} {version}" for name, version in mine().items())
    return (
        f"{who} runs on {there}, and this program on {here}: they cannot read each other's "
        f"messages; install the same {' and '.join(differ)} on both"
    )


def check(theirs: object, who: str) -> None:
    """Raise `VersionError` if this process cannot work with *who*, which has versions *theirs*."""
    reason = conflict(theirs, who)
    if reason:
        raise VersionError(reason)
