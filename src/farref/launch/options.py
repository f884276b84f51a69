"""The options of one agent, after they have been checked and completed."""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ..printable import printable
from .launchers import Launch

SIGNALS: Final = tuple(
    number
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN  # `nohup`
)
"""The signals that end a run."""


@dataclass(frozen=True, slots=True)
class Options:
    """One node, and its part in the run."""

    launch: Launch
    words: list[str]
    """The program and its arguments."""
    key: bytes = field(repr=False)
    note: Path | None
    """The file in a shared folder, if the launcher does not tell all that is needed."""
    bind: str
    """The address at which the first agent listens; empty for all addresses."""
    host: str | None
    """The address of this node for the others."""
    port: int | None
    """The port of this node's part of the system; None: any free one."""
    capabilities: dict[str, object]
    timeout: float
    """Seconds to wait for the other nodes."""
    registry: str
    """The etcd of the program's system; empty: it has none."""
    no_kill: bool
    """Whether the program goes on when a node is lost."""

    @property
    def nnodes(self) -> int:
        return self.launch.nnodes or 1

    @property
    def rank(self) -> int:
        return self.launch.node_rank or 0


def say(text: str) -> None:
    """Write *text* to standard error. Standard output belongs to the program."""
    sys.stderr.write(f"farref run: {printable(text)}\n")
    sys.stderr.flush()
