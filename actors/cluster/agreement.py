"""The registrar's list of deaths that some endpoints have not settled.

The grace of a death ends nowhere before every living endpoint has settled every death (see
`farref.protocol.death`). Each endpoint tells the registrar of that once for each death. The
registrar tells all when nothing is left to settle. So no loss of packets, however long, makes an
owner release an object of a living holder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.ids import WorkerId


class Agreement:
    """The endpoints that have yet to settle deaths."""

    def __init__(self) -> None:
        self._waits_for: dict[WorkerId, set[WorkerId]] = {}
        """The deaths on which not all agree, and the living endpoints that have not settled
        each."""

    @property
    def waits(self) -> bool:
        """Whether a death is not settled everywhere."""
        return bool(self._waits_for)

    def add(self, dead: Iterable[WorkerId], living: Iterable[WorkerId]) -> None:
        """*dead* have died, and *living* are all others. Nothing waits for the dead any more."""
        others = set(living)
        self._waits_for |= dict.fromkeys(dead, others)
        self._waits_for = {worker: those & others for worker, those in self._waits_for.items()}

    def settled(self, by: WorkerId, dead: Iterable[WorkerId]) -> tuple[WorkerId, ...]:
        """*by* has settled these deaths. Returns those of them that all had settled before."""
        before = []
        for worker in dead:
            if worker in self._waits_for:
                self._waits_for[worker].discard(by)
            else:
                before.append(worker)
        return tuple(before)

    def reached(self) -> tuple[WorkerId, ...]:
        """The deaths on which all agree now; each is returned once.

        None before all deaths are settled: the endpoint that has to announce itself for one death
        may hear of it only by the next one.
        """
        if any(self._waits_for.values()):
            return ()
        agreed, self._waits_for = tuple(self._waits_for), {}
        return agreed
