"""Encodes rows as lines of JSON, for writers, which do not need the rows' classes (see `steps`)."""

from __future__ import annotations

import msgspec

FORMAT = 9
"""The version of the rows, written with each `JoinStep`. A reader refuses every other one."""
encode = msgspec.json.Encoder().encode
"""Encodes a step, or the tuple of its kind and its fields, as a row without a newline."""
encode_lines = msgspec.json.Encoder().encode_lines
"""Encodes several of them, each with its newline."""
