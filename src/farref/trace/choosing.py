"""Choosing a part of a trace: only some references, or only some endpoints.

The names are the displayed ones, ``A/1`` and ``A`` (``A#2`` for the second of two lives), or the
full ones, ``A@6f3a/1`` and ``A@6f3a``. Several names of one kind are alternatives; if names of both
kinds are given, a step must fit one of each. The whole trace is always told, so what is shown of a
part (the owner's view, the summary) is the same as in the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ..plurals import some
from ..printable import printable
from .names import TraceNames
from .records import Record, TraceError
from .view import Fork, Object, View


@dataclass(frozen=True, slots=True)
class Only:
    """The names asked for. No name of a kind means all of that kind."""

    refs: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()


EVERYTHING = Only()


class Chosen:
    """`Only`, resolved in one trace. Raises `TraceError` for a name that is not in the trace."""

    def __init__(self, only: Only, names: TraceNames, ends: Iterable[str], view: View) -> None:
        known = set(view.objects)
        self._refs = set(_found(only.refs, known, names.id, "reference"))
        self._workers = set(_found(only.workers, ends, names.of, "endpoint"))
        self._view = view
        self._only = only

    def __str__(self) -> str:
        words = [", ".join(each) for each in (self._only.refs, self._only.workers) if each]
        return f"[only {' at '.join(words)}]" if words else ""

    @property
    def some(self) -> bool:
        return bool(self._refs or self._workers)

    def shows(self, rrefs: Iterable[str], ends: Iterable[str]) -> bool:
        """Whether to show a row about *rrefs* at the endpoints *ends*."""
        return (not self._refs or not self._refs.isdisjoint(rrefs)) and (
            not self._workers or not self._workers.isdisjoint(ends)
        )

    def objects(self) -> dict[str, Object]:
        concerned = {  # those that these endpoints hold or passed on
            fork.rref
            for fork in self._view.forks.values()
            if self._workers & {fork.holder, fork.parent}
        }
        return {
            rref: each
            for rref, each in self._view.objects.items()
            if (not self._refs or rref in self._refs)
            and (not self._workers or each.owner in self._workers or rref in concerned)
        }

    def forks(self) -> dict[str, Fork]:
        objects = self.objects()
        return {
            fork: each
            for fork, each in self._view.forks.items()
            if each.rref in objects
            and (
                not self._workers
                or self._workers & {each.holder, each.parent, objects[each.rref].owner}
            )
        }


def about(record: Record, view: View) -> frozenset[str]:
    """The references that *record* is about or brings, once *view* has taken the record."""
    return frozenset(filter(None, _about(record, view)))


def _about(record: Record, view: View) -> Iterator[str]:
    yield from (record.text(name) for name in ("rref", "alias", "target"))
    for carried in record.brings:
        yield from (carried.rref, carried.name)
    yield from (report.rref for report in record.reports)
    yield from (rref for rref, _ in record.notices)
    yield from (removal.rref for removal in record.removals)
    call = record.text("call")
    if record.message == "Reply":
        yield from view.calls.get(call, ())
    elif record.kind == "send" and call:
        view.calls[call] = (record.text("rref"), *(each.rref for each in record.carries))


def _found(
    asked: Iterable[str], known: Iterable[str], short: Callable[[str], str], what: str
) -> Iterator[str]:
    known = sorted(known)
    for name in asked:
        mine = [each for each in known if name == each or printable(name) == short(each)]
        if not mine:
            there = some([short(each) for each in known])
            raise TraceError(f"there is no {what} {name} in this trace; there are {there}")
        yield from mine
