"""The labels of arrows: several for each kind of message, the longest first.

`kinds` has the labels of most messages. For the others, this module writes a label from the
message's contents, or from the request that it answers.

The id of an object names its creator. With *owners*, a label names its owner too, if that is
another endpoint: ``call f(A/1 at B)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .facts import stands_for
from .kinds import LOOKS
from .names import TraceNames
from .records import Carried, Record
from .view import View

FEW = 3
"""Up to this many references are named one by one; more are counted."""


class Labels:
    """The labels of one trace's messages.

    A reply's label names the request, so messages must come in their order.
    """

    def __init__(self, names: TraceNames, view: View, *, owners: bool = False) -> None:
        self._names = names
        self._view = view
        self._owners = owners
        self._asked: dict[str, str] = {}

    def of(self, record: Record) -> tuple[str, ...]:
        """The labels of a message, the longest first. The picture takes the first that fits."""
        return _OWN.get(record.message, Labels._ways)(self, record)

    def _ways(self, record: Record) -> tuple[str, ...]:
        fields = {name: self._names.id(record.text(name)) for name in record.fields}
        fields |= {name: self._ref(record.text(name)) for name in _REFS & record.fields.keys()}
        fields["loans"] = self._list([loan for _, loan in record.notices])
        look = LOOKS[record.message]
        fields["before"] = "again " if record.fields.get("before") else ""
        return tuple(way.format_map(fields) for way in look.forms or (look.word,))

    def _at(self, rref: str) -> str:
        """The words ``at B`` for an object of B with the id of another creator; else nothing."""
        known = self._view.objects.get(rref) if self._owners else None
        if known is None or known.owner == rref.rpartition("/")[0]:
            return ""
        return f" at {self._names.of(known.owner)}"

    def _ref(self, rref: str) -> str:
        return self._names.id(rref) + self._at(rref)

    # ---- messages of the protocol

    def _canonical(self, record: Record) -> tuple[str, ...]:
        return self._moved(record) or self._ways(record)

    def _moved(self, record: Record) -> tuple[str, ...]:
        """The object behind an alias; nothing if the message names none."""
        if record.moved is None:
            return ()
        alias, fork = self._ref(stands_for(record, self._view)), record.moved.fork
        found = self._ref(fork.rref)
        is_it = f"{alias} is {found}"
        return f"{is_it}, fork {self._names.id(fork.fork)}", is_it, f"is {found}"

    def _removed(self, record: Record) -> tuple[str, ...]:
        verb, removals = LOOKS[record.message].word, record.removals
        which = self._list([fork for removal in removals for fork in removal.forks])
        borrowers = self._borrowers(pair for removal in removals for pair in removal.borrowers)
        if not borrowers:
            return f"{verb} {which}", verb
        passed_on = borrowers.removeprefix("borrowers: ")
        return f"{verb} {which}; {borrowers}", borrowers, f"{verb}; {passed_on}", verb

    def _returned(self, record: Record) -> tuple[str, ...]:
        reports = self._reports(record)
        return reports, *reports.split("; "), "returned"

    def _reports(self, record: Record) -> str:
        """The loans in a `Reply` or a `Returned`: which are held, which are back."""
        reports = record.reports
        held = [report.fork for report in reports if report.held]
        back = [report.fork for report in reports if not report.held]
        if record.message == "Reply":
            lent = self._view.lent.get(record.text("call"), ())
            back = [loan.id for loan in lent if loan.id not in held]
        parts = (
            f"holds {self._list(held)}" if held else "",
            f"{self._list(back)} returned" if back else "",
            self._borrowers(pair for report in reports for pair in report.borrowers),
        )
        return "; ".join(filter(None, parts))

    def _borrowers(self, borrowers: Iterable[tuple[str, str]]) -> str:
        pairs = list(borrowers)
        if not pairs:
            return ""
        if len(pairs) > FEW:
            return f"{len(pairs)} borrowers"
        names = self._names
        return "borrowers: " + ", ".join(
            f"{names.of(who)} by {names.id(loan)}" for loan, who in pairs
        )

    def _look(self, record: Record) -> tuple[str, ...]:
        rrefs = self._list(record.fields.get("rrefs", ()))
        return f"who holds {rrefs}?", f"look at {rrefs}", "look"

    def _looked(self, record: Record) -> tuple[str, ...]:
        grips = record.fields.get("grips")
        if not grips:
            return "it is alive", "alive"
        names = self._names
        values = [
            f"{names.id(each['rref'])} by {self._list(each['by'])}" for each in grips if each["by"]
        ]
        if len(values) > FEW:
            return f"only values hold {len(values)}", "only values"
        return f"only values hold {', '.join(values)}", "only values"

    # ---- messages with user content

    def _passed_on(self, record: Record, ways: tuple[str, ...]) -> tuple[str, ...]:
        """*ways* to label a request, with "passes on" if the owner of an alias passes it on."""
        if not record.text("relays"):
            return ways
        return *(f"passes on {way.removeprefix('call ')}" for way in ways), *ways[-1:]

    def _request(self, record: Record) -> tuple[str, ...]:
        return self._passed_on(record, self._asks(record))

    def _asks(self, record: Record) -> tuple[str, ...]:
        name, rref = record.text("label"), self._names.id(record.text("rref"))
        at, target = self._at(record.text("rref")), record.text("target")
        brings = self._brings(record.carries)
        made = f"{name}({brings})"
        ways: tuple[str, ...]
        match record.message:
            case "Create":
                on, of = f"{self._names.id(target)}." if target else "", self._at(target)
                called = f"remote {on}{made}{of}"
                brief = (
                    (f"{on}{name}(){of}", f".{name}()") if on else (f"remote {name}()", f"{name}()")
                )
                ways = f"{called} as {rref}{at}", called, *brief
            case "Invoke":
                self._asked[record.text("call")] = f"{name}()"
                ways = f"call {rref}.{made}{at}", f"{rref}.{name}(){at}", f".{name}()"
            case _:
                self._asked[record.text("call")] = f"{name}()"
                ways = f"call {made}", made, f"{name}()"
        loans = [each for each in record.carries if each.passing == "loan"]
        if not loans:
            return ways
        short = lends = f"lends {self._list([each.rref for each in loans], self._ref)}"
        if len(loans) <= FEW:
            ids = (f"{self._ref(loan.rref)} as {self._names.id(loan.fork)}" for loan in loans)
            lends = f"lends {', '.join(ids)}"
        return f"{ways[0]}, {lends}", f"{name}(), {lends}", f"{name}() {short}", short, *ways

    def _reply(self, record: Record) -> tuple[str, ...]:
        brings = self._brings(record.carries)
        reply = f"reply [{brings}]" if brings else "reply"
        asked = self._asked.get(record.text("call"))
        whole = f"{reply} to {asked}" if asked else reply
        reports, moved = self._reports(record), self._moved(record)
        if moved and record.fields.get("elsewhere"):
            return moved
        if moved:
            return f"{whole}; {moved[0]}", f"{reply}; {moved[1]}", f"reply; {moved[2]}", reply
        if not reports:
            return (whole, reply, "reply") if asked else (reply, "reply")
        said = tuple(dict.fromkeys((whole, reply, "reply")))
        first = reports.partition("; ")[0]  # the part about held loans, if there is one
        if brings or not any(report.held for report in record.reports):
            return (*(f"{way}, {reports}" for way in said), first, *said)
        return (*(f"{way}, {reports}" for way in said), reports, first, "holds")

    def _fetch(self, record: Record) -> tuple[str, ...]:
        wanted = "to_here" if record.fields.get("copy", True) else "wait"
        said = self._asked[record.text("call")] = f"{wanted} {self._ref(record.text('rref'))}"
        return self._passed_on(record, (said, wanted))

    def _tell(self, record: Record) -> tuple[str, ...]:
        name, brings = record.text("label"), self._brings(record.carries)
        said = name if name.startswith(("ask ", "answer ")) else f"tell {name}".rstrip()
        brings = f"({brings})" if brings else ""
        short = said.partition(" ")[2] or said
        return f"{said}{brings}", f"{short}{brings}", short

    def _brings(self, carries: tuple[Carried, ...]) -> str:
        """The references in a message. A reference under an alias's name shows that name, too."""

        def brought(each: Carried) -> str:
            rref = self._ref(each.rref)
            return f"{self._ref(each.name)} is {rref}" if each.name else rref

        return self._list(carries, brought)

    def _list(self, each: Sequence[Any], show: Callable[[Any], str] | None = None) -> str:
        """The texts that *show* makes of a few; by default of their ids."""
        if len(each) > FEW:
            return f"{len(each)} references"
        return ", ".join(map(show or self._names.id, each))


_REFS = frozenset({"rref", "alias"})
"""The fields that name an object."""
_OWN: dict[str, Callable[[Labels, Record], tuple[str, ...]]] = {
    "Delete": Labels._removed,
    "RefRemoved": Labels._removed,
    "Returned": Labels._returned,
    "Canonical": Labels._canonical,
    "Call": Labels._request,
    "Create": Labels._request,
    "Invoke": Labels._request,
    "Fetch": Labels._fetch,
    "Tell": Labels._tell,
    "Reply": Labels._reply,
    "WhoHolds": Labels._look,
    "Holders": Labels._looked,
}
"""Messages that need more than the labels of `kinds`."""
