"""Rules of the set of the dead, and of endpoints that join after them."""

from farref.protocol.context import Context
from farref.protocol.dead import Dead

from .mutant import Mutant

DEAD = (
    Mutant("forgets who died", Dead, "add", "self.merge(", "list("),
    Mutant("counts the next one", Dead, "__contains__", "<= self._lasts", "<= 1 + self._lasts"),
    Mutant("forgets the last one", Dead, "__contains__", "<= self._lasts", "< self._lasts"),
    Mutant("forgets the first one", Dead, "__contains__", "bisect_right", "bisect_left"),
    Mutant("looks at the wrong span", Dead, "__contains__", "[place - 1]", "[0]"),
    Mutant("does not join to the left", Dead, "merge", "first - 1", "first"),
    Mutant("does not join to the right", Dead, "merge", "last + 1", "last"),
    Mutant("buries the one before", Dead, "merge", "first - 1", "first - 2"),
    Mutant("buries the one after", Dead, "merge", "last + 1", "last + 2"),
    Mutant("forgets what began before", Dead, "merge", "min(first, self._firsts[begin])", "first"),
    Mutant("forgets what ended after", Dead, "merge", "max(last, self._lasts[end - 1])", "last"),
    Mutant("keeps what was swallowed", Dead, "merge", "begin:end] = [last", "begin:begin] = [last"),
    Mutant(
        "believes who died before it came",
        Context,
        "outlive",
        "(self.dead, self.state.buried)",
        "(self.state.buried,)",
    ),
    Mutant(
        "waits for who died before it came",
        Context,
        "outlive",
        "(self.dead, self.state.buried)",
        "(self.dead,)",
    ),
)
