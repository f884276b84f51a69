"""The source lines of functions that travel by value, for tracebacks, `inspect` and debuggers.

Code keeps the name of its file and its line numbers wherever it goes. A receiver that has no such
file, because it is on another host or because the code comes from a cell of a notebook, finds the
lines in Python's `linecache`: they come with the definition of the function, once.
"""

from __future__ import annotations

import linecache
import os
from types import CodeType
from typing import TypeAlias

Sources: TypeAlias = "dict[tuple[str, int], list[str]]"
"""Lines of source, by the name of their file and the number of the first one."""

MOST_FILES = 1000
"""The most files of which a process keeps lines that have come."""

_came: dict[str, dict[int, str]] = {}
"""By the name of their file: the lines, by number."""


def lines_of(code: CodeType) -> Sources:
    """The source lines of *code*. None if this process does not have them, as for `exec`."""
    name, first = code.co_filename, code.co_firstlineno
    lines = linecache.getlines(name)[first - 1 : _last_line(code)] if first > 0 else []
    return {(name, first): lines} if lines else {}


def _last_line(code: CodeType) -> int:
    ends = [end or 0 for _, end, _, _ in code.co_positions()]
    inside = [_last_line(each) for each in code.co_consts if type(each) is CodeType]
    return max([code.co_firstlineno, *ends, *inside])


def keep(sources: Sources) -> None:
    """Let `linecache` have these lines, unless it has that file by itself. Any thread."""
    for (name, first), lines in sources.items():
        if os.path.exists(name) or (name in linecache.cache and name not in _came):
            continue  # as for a cell of this process's own, which has come back
        before = _came.pop(name, {})  # never changed, as other threads may read it
        came = before | dict(enumerate(lines, first))
        came.setdefault(first + len(lines), "...\n")  # the block ends there, for `inspect`
        _came[name] = came
        text = [came.get(number, "\n") for number in range(1, max(came) + 1)]
        linecache.cache[name] = sum(map(len, text)), None, text, name
    for name in list(_came)[:-MOST_FILES]:
        _came.pop(name, None)
        linecache.cache.pop(name, None)
