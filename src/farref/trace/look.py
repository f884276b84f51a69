"""The look of a trace: its characters and its colours.

The colours are mid-tones of the 256-colour palette, readable on light and on dark backgrounds;
`kinds` has those of the messages. No information is in a colour alone. Every character is one cell
wide. An ASCII set serves terminals and files whose encoding has no other characters.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..console import Console
from .kinds import LOOKS
from .view import Stage

KIND = {kind: f"color({look.hue})" for kind, look in LOOKS.items()}
_STAGES = {
    Stage.UNKNOWN: (166, "?", "?", "┊", ":"),
    Stage.LENT: (73, "○", "l", "╎", ":"),
    Stage.HELD: (166, "◐", "k", "┇", ":"),
    Stage.KNOWN: (71, "●", "o", "┃", "|"),
    Stage.RETURNED: (33, "↲", "r", "", ""),
    Stage.DELETED: (167, "✕", "x", "", ""),
    Stage.HOME: (33, "⌂", "h", "", ""),
    Stage.JOINED: (33, "≡", "u", "", ""),
}
"""The colour of each stage, its sign, and the filling of a fork's column while nothing changes;
sign and filling also in ASCII."""
STAGE = {stage: f"color({look[0]})" for stage, look in _STAGES.items()}
MARK = {
    "free": "bold color(167)",
    "run": "color(37)",
    "died": "bold color(160)",
    "lose": "bold color(160)",
    "fail": "color(160)",
}
QUIET = "color(244)"
NOTE = "italic color(134)"
"""A step of a published example."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    lane: str
    shaft: dict[bool, str]
    """Of messages of the user's, and of others."""
    cross: str
    begin: dict[int, str]
    """The beginning of an arrow to the right (1) and to the left (-1)."""
    head: dict[int, str]
    loop: str
    more: str
    marks: dict[str, str]
    stages: dict[Stage, str]
    lives: dict[Stage, str]


UNICODE = Glyphs(
    lane="│",
    shaft={True: "─", False: "╌"},
    cross="┼",
    begin={1: "├", -1: "┤"},
    head={1: "▶", -1: "◀"},
    loop="⟲",
    more="…",
    marks={"run": "▸", "free": "✕", "died": "†", "buried": "†"},
    stages={stage: look[1] for stage, look in _STAGES.items()},
    lives={stage: look[3] for stage, look in _STAGES.items()},
)
ASCII = Glyphs(
    lane="|",
    shaft={True: "-", False: "."},
    cross="+",
    begin={1: "+", -1: "+"},
    head={1: ">", -1: "<"},
    loop="@",
    more="~",
    marks={"run": ">", "free": "x", "died": "!", "buried": "!"},
    stages={stage: look[2] for stage, look in _STAGES.items()},
    lives={stage: look[4] for stage, look in _STAGES.items()},
)


def glyphs(console: Console) -> Glyphs:
    """The set that *console* can show."""
    encoding = console.encoding.lower().replace("-", "").replace("_", "")
    return UNICODE if encoding.startswith("utf") else ASCII


def clip(text: str, width: int, more: str) -> str:
    """*text* in at most *width* cells."""
    if len(text) <= width:
        return text
    return text[: max(0, width - 1)] + more if width > 0 else ""
