"""The owners' view of every fork and loan, as it changes along a trace.

The view has the RRef note's three stages, and two ends of a fork that the note does not number::

    unknown --> known --> deleted      a user of its own, from the fork to its Delete
    unknown --> home                   the fork reached the owner: it holds its own entry instead
    unknown --> joined                 it reached a user that the owner counts already, under
                                       another fork; that one stands for both

A fork that the owner itself made is known from the start. A loan is a fork that the owner may never
hear of::

    lent --> returned                  the call has run, and the lender has it back
    lent --> known --> deleted         the callee kept it, and the owner has been told
    lent --> held --> known            the same by borrowing: the lender has been told, and the
                                       owner is told by and by, reply by reply
    lent --> home, joined              as for forks

So a loan is over when its call has been answered and nobody holds the reference by this loan.
`View.take` gets the merged records one by one and returns the changed forks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from .records import Record


class Stage(Enum):
    """The owner's knowledge of one fork of its object."""

    UNKNOWN = "unknown"
    LENT = "lent"
    HELD = "held"
    KNOWN = "known"
    RETURNED = "returned"
    DELETED = "deleted"
    HOME = "home"
    JOINED = "joined"

    @property
    def over(self) -> bool:
        return self not in (Stage.UNKNOWN, Stage.LENT, Stage.HELD, Stage.KNOWN)


@dataclass(slots=True)
class Fork:
    """One fork: its object, its holder, whether it is a loan, and the sender of the fork."""

    id: str
    rref: str
    holder: str
    stage: Stage
    loan: bool = False
    parent: str = ""


@dataclass(slots=True)
class Object:
    """One object: its owner, and whether it still lives."""

    id: str
    owner: str
    freed: bool = False
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """*fork* is at *stage* from now on."""

    fork: Fork
    stage: Stage


class View:
    """All objects and forks in a trace so far, in the order of their first mention."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.forks: dict[str, Fork] = {}
        self.lent: dict[str, tuple[Fork, ...]] = {}
        """The loans of each unanswered call, by the call."""
        self.about: dict[str, str] = {}
        """The object of each fetch and method call, by the call."""
        self.calls: dict[str, tuple[str, ...]] = {}
        """The references that each call was about or brought; see `choosing`."""
        self.asking: dict[str, tuple[str, str]] = {}
        """For each unanswered question about an alias's target: the asker, and that alias."""

    def take(self, record: Record) -> list[Change]:
        """Take one more step; returns the forks with a new stage."""
        match record.kind:
            case "send":
                return list(self._sent(record))
            case "receive":
                return list(self._received(record))
            case "known":
                rref, fork, holder = (record.text(each) for each in ("rref", "fork", "holder"))
                if holder == record.at and fork not in self.forks:
                    return []  # it created the object for itself: that is a handle, no fork
                self._object(rref, record.at)
                return list(self._move([fork], Stage.KNOWN, rref, holder))
            case "free":
                self._object(record.text("rref"), record.at).freed = True
            case "died":
                self._ask_no_more(record.peer)
                for each in self.objects.values():
                    each.lost |= each.owner == record.peer and not each.freed
            case "buried":
                return list(self._buried(record.at, record.peer))
            case _:
                pass
        return []

    # ---- messages

    def _sent(self, record: Record) -> Iterator[Change]:
        if record.message == "Create":
            self._object(record.text("rref"), record.peer)
            fork = Fork(record.text("fork"), record.text("rref"), record.at, Stage.UNKNOWN)
            if record.peer != record.at and fork.id not in self.forks:
                self.forks[fork.id] = fork
                yield Change(fork, fork.stage)
        yield from self._shared(record, record.at, record.peer)
        if record.message in ("ForkRequest", "AliasRef"):
            self._object(record.text("rref"), record.peer)
        if record.message == "AliasRef":
            self.asking[record.text("call")] = record.at, record.text("rref")
        if record.message in ("Fetch", "Invoke"):
            self.about[record.text("call")] = record.text("rref")
        if record.message == "ChildAck":
            yield from self._child_ack(record)

    def _received(self, record: Record) -> Iterator[Change]:
        yield from self._shared(record, record.peer, record.at)  # if its send was not recorded
        for carried in record.brings:
            fork = self.forks.get(carried.fork)
            arrives = carried.owner == record.at and carried.passing != "back"
            if arrives and fork is not None and not fork.stage.over:
                yield self._now(fork, Stage.HOME)
        yield from self._answered(record)
        if record.message == "Canonical":
            self.asking.pop(record.text("call"), None)
        for rref, _ in record.notices:
            self._object(rref, record.peer)
        for removal in record.removals:
            self._object(removal.rref, record.at)
            yield from self._borrowed(removal.borrowers, removal.rref, Stage.KNOWN)
            yield from self._move(removal.forks, Stage.DELETED, removal.rref, record.peer)

    def _shared(self, record: Record, sender: str, receiver: str) -> Iterator[Change]:
        loans = []
        for carried in record.brings:
            self._object(carried.rref, carried.owner)
            if carried.fork in self.forks or carried.passing == "back":
                continue
            fork = Fork(carried.fork, carried.rref, receiver, Stage.UNKNOWN, parent=sender)
            if carried.passing == "loan":
                fork.loan, fork.stage = True, Stage.LENT
                loans.append(fork)
            elif carried.owner == sender:
                fork.stage = Stage.KNOWN
            self.forks[fork.id] = fork
            yield Change(fork, fork.stage)
        if loans:
            self.lent[record.text("call")] = tuple(loans)

    def _child_ack(self, record: Record) -> Iterator[Change]:
        fork = self.forks.get(record.text("fork"))
        if fork is not None and fork.stage in (Stage.UNKNOWN, Stage.LENT, Stage.HELD):
            home = self.objects[fork.rref].owner == record.at
            yield self._now(fork, Stage.HOME if home else Stage.JOINED)

    def _answered(self, record: Record) -> Iterator[Change]:
        """The lender has the reply: the reported loans are still held, and the rest is back."""
        loans = self.lent.pop(record.text("call"), ()) if record.message == "Reply" else ()
        held = {report.fork for report in record.reports if report.held}
        for fork in loans:
            if fork.stage is Stage.LENT and fork.id not in held:
                yield self._now(fork, Stage.RETURNED)
        for report in record.reports:
            mine = Stage.KNOWN if report.owner == record.at else Stage.HELD
            self._object(report.rref, report.owner)
            yield from self._borrowed(report.borrowers, report.rref, mine)
            loan = self.forks.get(report.fork)
            # Otherwise it came home meanwhile, or the owner was asked or learned of its end.
            if loan is not None and loan.stage is Stage.LENT:
                yield self._now(loan, mine if report.held else Stage.RETURNED)

    def _borrowed(
        self, borrowers: Iterable[tuple[str, str]], rref: str, stage: Stage
    ) -> Iterator[Change]:
        """A table was handed over: to the owner, who counts them, or to one nearer to it."""
        for loan, borrower in borrowers:
            fork = self.forks.get(loan)
            if fork is None or not (fork.stage.over or fork.stage is Stage.KNOWN):
                yield from self._move([loan], stage, rref, borrower)

    def _move(self, forks: Iterable[str], stage: Stage, rref: str, holder: str) -> Iterator[Change]:
        for fork_id in forks:
            fork = self.forks.setdefault(fork_id, Fork(fork_id, rref, holder, Stage.UNKNOWN))
            if fork.stage is not stage:
                yield self._now(fork, stage)

    # ---- death

    def _ask_no_more(self, dead: str) -> None:
        self.asking = {
            call: (asker, about)
            for call, (asker, about) in self.asking.items()
            if dead not in (asker, self.objects[about].owner)
        }

    def _buried(self, at: str, dead: str) -> Iterator[Change]:
        for fork in self.forks.values():
            mine = self.objects[fork.rref].owner == at
            if mine and fork.holder == dead and not fork.stage.over:
                yield self._now(fork, Stage.DELETED)
            elif (
                # Its borrower is counted under a fork that it announced, or has let go of it.
                (fork.holder, fork.parent) == (at, dead) and fork.stage in (Stage.LENT, Stage.HELD)
            ):
                yield self._now(fork, Stage.JOINED)

    def _now(self, fork: Fork, stage: Stage) -> Change:
        fork.stage = stage
        return Change(fork, stage)

    def _object(self, rref: str, owner: str) -> Object:
        return self.objects.setdefault(rref, Object(rref, owner))
