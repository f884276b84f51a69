"""Messages that no correct peer sends, built field by field from a command's words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..protocol.delivery import Packet
from ..protocol.ids import CallId, ForkId, RRefId, WorkerId
from ..protocol.messages import (
    Ack,
    AliasGone,
    AliasRef,
    Call,
    Cancel,
    Canonical,
    Cargo,
    ChildAck,
    Create,
    Delete,
    Descriptor,
    Fetch,
    ForkRequest,
    Hop,
    Invoke,
    Message,
    Moved,
    NotifyRefRemoved,
    Passing,
    Probe,
    RefRemoved,
    Reply,
    Report,
    Returned,
    Tell,
)
from .errors import BadCommandError

if TYPE_CHECKING:
    from collections.abc import Callable


class Fields:
    """The ``name=value`` words of a command; every one must be asked for."""

    def __init__(self, words: list[str], worker: Callable[[str], WorkerId]) -> None:
        self._worker = worker
        self._values: dict[str, str] = {}
        for word in words:
            name, equals, value = word.partition("=")
            if not equals:
                raise BadCommandError(f"{word!r} is not of the form field=value")
            self._values[name] = value

    def value(self, name: str) -> str:
        if name not in self._values:
            raise BadCommandError(f"the field {name}= is missing")
        return self._values.pop(name)

    def rref(self, name: str = "rref") -> RRefId:
        return RRefId(*self._id(self.value(name)))

    def maybe_rref(self, name: str) -> RRefId | None:
        return self.rref(name) if name in self._values else None

    def fork(self) -> ForkId:
        return ForkId(*self._id(self.value("fork")))

    def forks(self) -> tuple[ForkId, ...]:
        return tuple(ForkId(*self._id(each)) for each in self.value("forks").split(",") if each)

    def call(self) -> CallId:
        return CallId(*self._id(self.value("call")))

    def items(self, name: str, form: str, *, more: bool = False) -> list[list[str]]:
        """The items of a list, joined by ``+``, each of the *form* ``what,what``, or longer."""
        found = [each.split(",") for each in self._values.pop(name, "").split("+") if each]
        parts = form.count(",") + 1
        for item in found:
            if len(item) < parts or (len(item) > parts and not more):
                raise BadCommandError(f"{name}={','.join(item)}: give {form}")
        return found

    def cargo(self) -> Cargo:
        """``child=A/1,A/2,B,A``: a descriptor's reference, fork, owner, parent, and *passing*."""
        descriptors = []
        for item in self.items("child", "reference,fork,owner,parent", more=True):
            rref, fork, owner, parent, *passing = item
            descriptors.append(
                Descriptor(
                    rref=RRefId(*self._id(rref)),
                    fork=ForkId(*self._id(fork)),
                    owner=self._worker(owner),
                    parent=self._worker(parent),
                    passing=_passing(passing),
                )
            )
        return Cargo(descriptors=tuple(descriptors))

    def moved(self) -> Moved | None:
        """``moved=A/1,A/2,B,A``: a descriptor as in ``child=``."""
        if "moved" not in self._values:
            return None
        self._values["child"] = self._values.pop("moved")
        (fork,) = self.cargo().descriptors
        return Moved(fork=fork, path=(fork.rref,))

    def borrowers(self, items: list[str]) -> tuple[tuple[ForkId, WorkerId], ...]:
        """``C/1:D``: the loan C/1 is at D."""
        pairs = [item.partition(":") for item in items]
        return tuple((ForkId(*self._id(fork)), self._worker(who)) for fork, _, who in pairs)

    def table(self) -> tuple[tuple[ForkId, WorkerId], ...]:
        return self.borrowers([item for (item,) in self.items("borrowers", "fork:endpoint")])

    def reports(self) -> tuple[Report, ...]:
        """``loans=B/1,A/1,B,held,C/1:D``: reference, fork, owner, held or returned, borrowers."""
        reports = []
        for item in self.items("loans", "reference,fork,owner,held", more=True):
            rref, fork, owner, held, *borrowers = item
            reports.append(
                Report(
                    rref=RRefId(*self._id(rref)),
                    fork=ForkId(*self._id(fork)),
                    owner=self._worker(owner),
                    held=held == "held",
                    borrowers=self.borrowers(borrowers),
                )
            )
        return tuple(reports)

    def notices(self) -> tuple[tuple[RRefId, ForkId], ...]:
        """``loans=B/1,A/1``: reference and fork."""
        pairs = self.items("loans", "reference,fork")
        return tuple((RRefId(*self._id(r)), ForkId(*self._id(f))) for r, f in pairs)

    def removed(self) -> tuple[Delete, ...]:
        """``removed=B/1,A/1,C/1:D``: reference, fork and borrowers."""
        return tuple(
            Delete(
                rref=RRefId(*self._id(rref)),
                forks=(ForkId(*self._id(fork)),),
                borrowers=self.borrowers(borrowers),
            )
            for rref, fork, *borrowers in self.items("removed", "reference,fork", more=True)
        )

    def hops(self, name: str) -> tuple[Hop, ...]:
        """``path=A/1,B/2``: the request A/1 waits for B/2."""
        return tuple(
            Hop(run=CallId(*self._id(run)), call=CallId(*self._id(call)))
            for run, call in self.items(name, "call,call")
        )

    def number(self, name: str) -> int:
        value = self.value(name)
        if re.fullmatch(r"-?\d+", value) is None:
            raise BadCommandError(f"{name}={value}: give a number")
        return int(value)

    def finish(self) -> None:
        if self._values:
            raise BadCommandError(f"unknown fields: {', '.join(self._values)}")

    def _id(self, text: str) -> tuple[WorkerId, int]:
        return parse_id(text, self._worker)


def _passing(words: list[str]) -> Passing:
    if not words:
        return Passing.FORK
    ways = {way.value: way for way in Passing}
    if len(words) > 1 or words[0] not in ways:
        raise BadCommandError(f"{','.join(words)!r} is none of {', '.join(ways)}")
    return ways[words[0]]


def parse_id(text: str, worker: Callable[[str], WorkerId]) -> tuple[WorkerId, int]:
    """``A/1`` as any kind of id. Raises `BadCommandError` if it is none."""
    name, slash, number = text.partition("/")
    if not slash or not number.isdecimal():
        raise BadCommandError(f"{text!r} is not an id such as A/1")
    return worker(name), int(number)


def forged(name: str, words: list[str], worker: Callable[[str], WorkerId]) -> Message | Packet:
    """The message, or packet, that the words describe."""
    give = Fields(words, worker)
    builder = BUILDERS.get(name)
    if builder is None:
        raise BadCommandError(f"{name!r} is none of {', '.join(BUILDERS)}")
    message = builder(give)
    give.finish()
    return message


def _packet(give: Fields) -> Packet:
    tells = tuple(Tell(cargo=Cargo(payload=f"m{i + 1}")) for i in range(give.number("messages")))
    return Packet(give.number("first"), tells, give.number("expects"))


BUILDERS: dict[str, Callable[[Fields], Message | Packet]] = {
    "ForkRequest": lambda give: ForkRequest(rref=give.rref(), fork=give.fork()),
    "Ack": lambda give: Ack(rref=give.rref(), fork=give.fork()),
    "ChildAck": lambda give: ChildAck(rref=give.rref(), fork=give.fork()),
    "Delete": lambda give: Delete(rref=give.rref(), forks=give.forks(), borrowers=give.table()),
    "Returned": lambda give: Returned(loans=give.reports()),
    "NotifyRefRemoved": lambda give: NotifyRefRemoved(loans=give.notices()),
    "RefRemoved": lambda give: RefRemoved(removed=give.removed()),
    "Cancel": lambda give: Cancel(call=give.call(), rref=give.maybe_rref("rref")),
    "Tell": lambda give: Tell(cargo=give.cargo()),
    "Call": lambda give: Call(call=give.call(), cargo=give.cargo()),
    "Create": lambda give: Create(
        call=give.call(),
        rref=give.rref(),
        fork=give.fork(),
        cargo=give.cargo(),
        target=give.maybe_rref("target"),
    ),
    "Invoke": lambda give: Invoke(call=give.call(), rref=give.rref(), cargo=give.cargo()),
    "Fetch": lambda give: Fetch(call=give.call(), rref=give.rref()),
    "Reply": lambda give: Reply(
        call=give.call(), cargo=give.cargo(), loans=give.reports(), moved=give.moved()
    ),
    "AliasRef": lambda give: AliasRef(
        call=give.call(), rref=give.rref(), alias=give.rref("alias"), label=give.rref("label")
    ),
    "Canonical": lambda give: Canonical(call=give.call(), rref=give.rref(), moved=give.moved()),
    "AliasGone": lambda give: AliasGone(rref=give.rref(), alias=give.rref("alias")),
    "Probe": lambda give: Probe(
        start=give.rref("start"),
        call=give.call(),
        rref=give.maybe_rref("rref"),
        path=give.hops("path"),
        before=give.hops("before"),
    ),
    "Packet": _packet,
}
