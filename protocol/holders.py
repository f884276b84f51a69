"""How this endpoint holds some objects: its report on a look, made bit by bit (see `cycles`).

The report has a *grip* (`Grip`) for each object that nothing here holds but values and other
endpoints: it names these holders. An object that anything else holds here has no grip, and lives.

A shell may have to report on very many objects, and messages cannot wait for all of them. So it
makes the report in steps, and lets messages in between them:

1. it begins the report (`HolderReports.begin`);
2. it sees which handles are held by values alone (`HolderReport.see`; the findings may follow
   later). An exact report needs one moment for all connected objects. At this moment
   `HolderReports.count` notes how many handles they have;
3. `HolderReports.grip` makes some grips at a time.

So a grip is made after the moment of the finding. That does no harm: the first look at the object
came before that moment, and the second grip must be equal to the first one. So until then no
reference to the object and no request on it has come or left. Only the number of handles does not
tell the past (a variable may have had one, taken the value by it, and dropped it). Therefore that
number is of the moment of the finding.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping

import msgspec

from .aliases import Aliases
from .entries import Entries
from .ids import RRefId
from .messages import Grip
from .owner import Owner
from .search import MAX_SET, spread
from .state import Tables
from .user import User

Found = Mapping[RRefId, Mapping[RRefId, int]]
"""For each object: the objects here with handles of it in their values, and how many. A handle
that anything else reaches is left out."""

_handles_of = operator.attrgetter("handles")
SOME = 2_000
"""The most objects that one step deals with."""


class HolderReport(msgspec.Struct, eq=False):
    """The report on one look, in the making. No other code touches it, so it needs no lock."""

    exact: bool
    standing: dict[RRefId, list[RRefId]]
    """For each object, the aliases that live here and hold it, each by a handle of its own."""
    ahead: list[RRefId]
    met: set[RRefId]
    next: int = 0
    """The place in `ahead` of the first object that `due` has not given out."""
    handles: dict[RRefId, int] = {}
    """The number of handles of each object, at the moment of the finding."""
    found: dict[RRefId, tuple[tuple[RRefId, ...], int]] = {}
    """For each object, its holders by values, and the number of handles in these."""
    made: dict[RRefId, Grip] = {}
    edges: dict[RRefId, list[RRefId]] = {}
    alive: list[RRefId] = []

    def see(self, found: Found) -> None:
        """Take the finding: which values hold which objects, and by how many handles."""
        self.found = {
            rref: (tuple(sorted(values)), sum(values.values())) for rref, values in found.items()
        }

    def due(self) -> list[RRefId]:
        """The next objects to grip; empty at the end."""
        some = self.ahead[self.next : self.next + SOME]
        self.next += len(some)
        return some

    def add(self, grips: Iterable[tuple[RRefId, Grip | None]]) -> None:
        """Take *grips*; None: something else holds the object."""
        for rref, grip in grips:
            if grip is None or len(self.made) == MAX_SET:
                self.alive.append(rref)
                continue
            self.made[rref] = grip
            for holder in grip.by:
                self.edges.setdefault(holder, []).append(rref)
                if holder not in self.met:
                    self.met.add(holder)
                    self.ahead.append(holder)

    def grips(self) -> tuple[Grip, ...]:
        """The grips on the objects, and on those here that lead to them; not on the live ones."""
        live: set[RRefId] = set()
        gone = (each for each in self.edges if each in self.made and not self.made[each].owned)
        spread(live, (*self.alive, *gone), self.edges)
        return tuple(grip for rref, grip in self.made.items() if rref not in live)


class HolderReports(msgspec.Struct):
    """Answers the looks of searches for rings: how does this endpoint hold these objects?

    It reads the tables, and changes nothing.
    """

    state: Tables
    entries: Entries
    aliases: Aliases

    def begin(self, rrefs: Iterable[RRefId], *, exact: bool) -> HolderReport:
        """Begin the report on a look at *rrefs*."""
        ahead = list(dict.fromkeys(rrefs))
        return HolderReport(exact, self.aliases.standing(), ahead, set(ahead))

    def entries_of(self, rrefs: Iterable[RRefId]) -> dict[RRefId, Owner | User]:
        """The entries of those of *rrefs* that this endpoint knows."""
        found = ((rref, self.entries.find(rref)) for rref in rrefs)
        return {rref: entry for rref, entry in found if entry is not None}

    def count(self, report: HolderReport, entries: Mapping[RRefId, Owner | User]) -> None:
        """Now the shell sees which values hold these objects: note how many handles they have.

        All connected objects must be counted at one moment.
        """
        handles = map(_handles_of, entries.values())
        report.handles.update(zip(entries, handles, strict=True))
        for rref in report.standing.keys() & entries.keys() if report.standing else ():
            report.standing[rref] = [each for each in report.standing[rref] if self._stands(each)]

    def _stands(self, rref: RRefId) -> bool:
        alias = self.state.aliases.get(rref)
        return alias is not None and not alias.gone

    def grip(
        self, report: HolderReport, rrefs: Collection[RRefId]
    ) -> list[tuple[RRefId, Grip | None]]:
        """How this endpoint holds each of *rrefs* now; None: something else holds it, too."""
        if not report.exact:  # any moment will do
            self.count(report, self.entries_of(rrefs))
        return [(rref, self._grip(report, rref)) for rref in rrefs]

    def _grip(self, report: HolderReport, rref: RRefId) -> Grip | None:
        entry = self.entries.find(rref)
        if entry is None:  # a table lists a fork that is over, or the object is gone
            return Grip(rref=rref, stamp=0)
        values, inside = report.found.get(rref, ((), 0))
        aliases = report.standing.get(rref, ())
        if not entry.at_rest or report.handles.get(rref) != inside + len(aliases):
            return None
        return entry.grip(sorted({*values, *aliases}) if aliases else values)

    def finish(self, report: HolderReport) -> tuple[Grip, ...]:
        """Make all grips that are still missing, in one step, and return them."""
        while some := report.due():
            report.add(self.grip(report, some))
        return report.grips()
