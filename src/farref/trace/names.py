"""Short names for people: ``A@6f05f83f81a26c`` is A, unless two lives of A are in one trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ..printable import printable


class TraceNames:
    """The short names of one trace's endpoints, and of the ids that they minted."""

    def __init__(self, endpoints: Iterable[str]) -> None:
        known = sorted(set(endpoints))
        lives = Counter(base(each) for each in known)
        seen: Counter[str] = Counter()
        self._short: dict[str, str] = {}
        for each in known:
            name = base(each)
            seen[name] += 1
            self._short[each] = f"{name}#{seen[name]}" if lives[name] > 1 else name

    def of(self, endpoint: str) -> str:
        """``A@6f05`` -> ``A``, or ``A#2`` for the second of two."""
        return printable(self._short.get(endpoint, base(endpoint)))

    def id(self, text: str) -> str:
        """``A@6f05/3`` -> ``A/3``."""
        endpoint, slash, number = text.rpartition("/")
        return f"{self.of(endpoint)}/{printable(number)}" if slash else printable(text)


def base(endpoint: str) -> str:
    """The name without the incarnation."""
    name, at, _ = endpoint.rpartition("@")
    return name if at else endpoint
