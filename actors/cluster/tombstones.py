"""The dead of a system, as its registrar knows them.

A dead endpoint is *dying* until every other endpoint may have buried it, which means that it has
released the references of the dead. That takes the grace, and the agreement of all: the grace of a
death ends nowhere before every living endpoint has settled every death (see
`farref.protocol.death`). Each endpoint tells the registrar of that once for each death. The
registrar tells all endpoints when nothing is left to settle. So no loss of packets, however long,
makes an owner release an object of a living holder.

A dying endpoint has a `Tombstone` with the cause of its death. Later its number is enough, and the
tombstones are compacted into spans of numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, MutableMapping

import msgspec

from ...protocol.dead import Dead, Span
from ...protocol.ids import WorkerId


class Tombstone(msgspec.Struct, frozen=True):
    """The death of an endpoint."""

    cause: str
    agreed: bool = False
    """Whether all others have settled it."""


class Tombstones:
    """The dead, and the endpoints that have yet to settle deaths."""

    def __init__(
        self,
        dying: MutableMapping[WorkerId, Tombstone],
        dead: MutableMapping[str, tuple[Span, ...]],
    ) -> None:
        """The arguments are tables of facts."""
        self.dying = dying
        """Endpoints that died so recently that some others may not have buried them."""
        self._stored = dead
        """The table with the spans of `_dead`, under ``spans``."""
        self._dead = Dead()
        """All dead endpoints but the dying."""
        self._dead.merge(dead.get("spans", ()))
        self._due = 0.0
        """The time when every endpoint will have buried the dying."""
        self._waits_for: dict[WorkerId, set[WorkerId]] = {}
        """The deaths on which not all agree, and the living endpoints that have not settled
        each."""

    def __contains__(self, worker: WorkerId) -> bool:
        return worker in self.dying or worker in self._dead

    @property
    def spans(self) -> tuple[Span, ...]:
        """The numbers of all dead endpoints but the dying."""
        return self._dead.spans

    @property
    def agreed(self) -> bool:
        """Whether every death is settled everywhere."""
        return not self._waits_for

    def add(self, news: Iterable[WorkerId], cause: str) -> None:
        """Note that the endpoints in *news* have died."""
        self.dying.update(dict.fromkeys(news, Tombstone(cause)))

    def wait(self, dead: Collection[WorkerId], living: Iterable[WorkerId], due: float) -> None:
        """*living*, all others, have to settle *dead*, and have time until *due*.

        Nothing waits for the dead any more.
        """
        # A further death restarts the grace, here and at the others. Theirs starts later.
        self._due = due
        for those in self._waits_for.values():
            those.difference_update(dead)
        self._waits_for |= {worker: set(living) for worker in dead}

    def settled(self, by: WorkerId, dead: Iterable[WorkerId]) -> tuple[WorkerId, ...]:
        """*by* has settled these deaths. Returns those of them that all had settled before."""
        before = []
        for worker in dead:
            if worker in self._waits_for:
                self._waits_for[worker].discard(by)
            else:
                before.append(worker)
        return tuple(before)

    def agree(self) -> tuple[WorkerId, ...]:
        """The deaths on which all agree now; each is returned once.

        There are none before all deaths are settled: the endpoint that has to announce itself for
        one death may hear of it only by the next one.
        """
        if any(self._waits_for.values()):
            return ()
        agreed, self._waits_for = tuple(self._waits_for), {}
        for worker in agreed:
            self.dying[worker] = Tombstone(self.dying[worker].cause, agreed=True)
        return agreed

    def compact(self, now: float) -> None:
        """Move the dying to the spans of the dead, once every endpoint has buried them."""
        if self.dying and self.agreed and now >= self._due:
            self.count(self.dying)
            self.dying.clear()

    def count(self, workers: Iterable[WorkerId]) -> None:
        """Count *workers* as dead for ever."""
        for worker in workers:
            self._dead.add(worker)
        self._stored["spans"] = self.spans
