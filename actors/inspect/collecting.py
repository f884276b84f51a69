"""Collecting garbage in cycles at once, in all endpoints of a system."""

from __future__ import annotations

from ...protocol.effects import Garbage
from .inspector import Inspector

COLLECT_PATIENCE = 30.0
"""The default limit, in seconds, of the searches."""
SLACK = 5.0
"""Seconds for an answer, beside those for the searches."""


def collect(inspector: Inspector, seconds: float, *, cuts: bool) -> tuple[Garbage, ...]:
    """Have each endpoint search for *seconds* at most. Returns each set of garbage once."""
    infos = inspector.registrar_client.workers()
    answers = inspector.inspect(infos, seconds + SLACK, collect=(seconds, cuts))
    found = {
        frozenset(garbage.objects): garbage
        for answer in answers.values()
        if answer is not None
        for garbage in answer.garbage
    }
    return tuple(sorted(found.values(), key=lambda garbage: garbage.objects))
