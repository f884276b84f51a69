"""Text of other processes and files, made safe to show.

A name, a type, an error or a line of a file may hold any character. A terminal would obey an escape
sequence, an XML parser refuses it, and a bidirectional override makes a line read as another one.
So each text from elsewhere goes through `printable` where it is shown. `farref.console` does so
for everything that the commands print, and the log's formatters for each record.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

MOST_ROWS = 60
"""The most rows of a table in HTML."""
LONGEST = 4_000
"""The most characters that are shown of one line; of a longer one the middle is left out."""


def printable(text: object, *, lines: bool = False) -> str:
    r"""*text* with every character that cannot be printed as its escape: ``\x1b``, ``\u202e``.

    They are the characters that `repr` of a string escapes. With *lines*, line breaks and tabs
    stay as they are.
    """
    said = str(text)
    if said.isprintable() and len(said) <= LONGEST:  # nearly always
        return said
    if lines:
        return "\n".join("\t".join(map(printable, line.split("\t"))) for line in said.split("\n"))
    if len(said) > LONGEST:
        half = LONGEST // 2
        said = f"{said[:half]} ... ({len(said):,} characters) ... {said[-half:]}"
    return "".join(each if each.isprintable() else _escape(each) for each in said)


def json_text(value: Any, **options: Any) -> str:
    r"""*value* as JSON of printable characters: a reader of JSON gets every character back."""
    import json  # noqa: PLC0415 - a plain program does not need it

    text = json.dumps(value, ensure_ascii=False, **options)
    if text.isprintable():
        return text
    # Only inside of strings are there others than line breaks, which come from ``indent``.
    return "".join(
        each
        if each == "\n" or each.isprintable()
        else json.dumps(each)[1:-1]
        if not each.isascii()
        else f"\\u{ord(each):04x}"
        for each in text
    )


def html_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in HTML, as a notebook shows it. All text in it is escaped."""

    def row(cells: Iterable[object], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{html_text(each)}</{tag}>' for each in cells)}</tr>"

    all_rows = list(rows)
    body = "".join(row(cells, "td") for cells in all_rows[:MOST_ROWS])
    more = f" (the first {MOST_ROWS} of {len(all_rows):,})" if len(all_rows) > MOST_ROWS else ""
    return f"<table><caption>{html_text(caption + more)}</caption>{row(heads, 'th')}{body}</table>"


def html_text(text: object) -> str:
    import html  # noqa: PLC0415 - a plain program does not need it

    return html.escape(printable(text))


class PrintableRecords(logging.Filter):
    """Makes a record's message a text without characters that cannot be printed."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Every record passes."""
        record.msg, record.args = printable(record.getMessage(), lines=True), ()
        return True


def logger(name: str) -> logging.Logger:
    """The logger *name*, one of farref's: the names and errors in its records are printable.

    Its records go to the handlers of the program, which write them as they are.
    """
    made = logging.getLogger(name)
    if not any(isinstance(each, PrintableRecords) for each in made.filters):
        made.addFilter(PrintableRecords())
    return made


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def is_shown(log: logging.Logger) -> bool:
    """Whether a handler of *log*, or of one above it, does more than nothing."""
    above: logging.Logger | None = log
    while above is not None:
        if any(not isinstance(each, logging.NullHandler) for each in above.handlers):
            return True
        above = above.parent if above.propagate else None
    return False
