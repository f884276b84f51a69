"""Messages that no correct peer sends, built field by field from a command's words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from ..protocol.delivery import Packet
from ..protocol.ids import CallId, ForkId, RRefId, WorkerId
from ..protocol.messages import (
    BY_NAME,
    Cargo,
    Delete,
    Descriptor,
    Flow,
    Hop,
    Message,
    Moved,
    Passing,
    Report,
    Tell,
)
from .errors import BadCommandError


class Fields:
    """The ``name=value`` words of a command. An unused word is an error."""

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

    def rref(self, name: str) -> RRefId:
        return RRefId(*self._id(self.value(name)))

    def maybe_rref(self, name: str) -> RRefId | None:
        return self.rref(name) if name in self._values else None

    def fork(self, name: str) -> ForkId:
        return ForkId(*self._id(self.value(name)))

    def forks(self, name: str) -> tuple[ForkId, ...]:
        return tuple(ForkId(*self._id(each)) for each in self.value(name).split(",") if each)

    def call(self, name: str) -> CallId:
        return CallId(*self._id(self.value(name)))

    def items(self, name: str, form: str, *, more: bool = False) -> list[list[str]]:
        """The items of a list, joined by ``+``.

        Each has the *form* ``a,b``, or is longer with *more*.
        """
        found = [each.split(",") for each in self._values.pop(name, "").split("+") if each]
        parts = form.count(",") + 1
        for item in found:
            if len(item) < parts or (len(item) > parts and not more):
                raise BadCommandError(f"{name}={','.join(item)}: give {form}")
        return found

    def cargo(self, _: str) -> Cargo:
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

    def moved(self, name: str) -> Moved | None:
        """``moved=A/1,A/2,B,A``: a descriptor as in ``child=``."""
        if name not in self._values:
            return None
        self._values["child"] = self._values.pop(name)
        (fork,) = self.cargo(name).descriptors
        return Moved(fork=fork, path=(fork.rref,))

    def borrowers(self, items: list[str]) -> tuple[tuple[ForkId, WorkerId], ...]:
        """``C/1:D``: the loan C/1 is at D."""
        pairs = [item.partition(":") for item in items]
        return tuple((ForkId(*self._id(fork)), self._worker(who)) for fork, _, who in pairs)

    def table(self, name: str) -> tuple[tuple[ForkId, WorkerId], ...]:
        return self.borrowers([item for (item,) in self.items(name, "fork:endpoint")])

    def reports(self, name: str) -> tuple[Report, ...]:
        """``loans=B/1,A/1,B,held,C/1:D``: reference, fork, owner, held or returned, borrowers."""
        reports = []
        for item in self.items(name, "reference,fork,owner,held", more=True):
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

    def notices(self, name: str) -> tuple[tuple[RRefId, ForkId], ...]:
        """``loans=B/1,A/1``: reference and fork."""
        pairs = self.items(name, "reference,fork")
        return tuple((RRefId(*self._id(r)), ForkId(*self._id(f))) for r, f in pairs)

    def removed(self, name: str) -> tuple[Delete, ...]:
        """``removed=B/1,A/1,C/1:D``: reference, fork and borrowers."""
        return tuple(
            Delete(
                rref=RRefId(*self._id(rref)),
                forks=(ForkId(*self._id(fork)),),
                borrowers=self.borrowers(borrowers),
            )
            for rref, fork, *borrowers in self.items(name, "reference,fork", more=True)
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
    """The message or packet in the words."""
    give = Fields(words, worker)
    if name == "Packet":
        made: Message | Packet = _packet(give)
    elif name in BY_NAME:
        fields = msgspec.structs.fields(BY_NAME[name])
        made = BY_NAME[name](
            **{it.name: READERS[it.type](give, it.name) for it in fields if it.type in READERS}
        )
    else:
        raise BadCommandError(f"{name!r} is none of {', '.join([*BY_NAME, 'Packet'])}")
    give.finish()
    return made


def _packet(give: Fields) -> Packet:
    tells = tuple(Tell(cargo=Cargo(payload=f"m{i + 1}")) for i in range(give.number("messages")))
    return Packet(give.number("first"), tells, give.number("expects"))


READERS: dict[Any, Callable[[Fields, str], Any]] = {
    RRefId: Fields.rref,
    RRefId | None: Fields.maybe_rref,
    ForkId: Fields.fork,
    tuple[ForkId, ...]: Fields.forks,
    CallId: Fields.call,
    CallId | None: Fields.call,
    Cargo: Fields.cargo,
    Moved | None: Fields.moved,
    tuple[tuple[ForkId, WorkerId], ...]: Fields.table,
    tuple[Report, ...]: Fields.reports,
    tuple[tuple[RRefId, ForkId], ...]: Fields.notices,
    tuple[Delete, ...]: Fields.removed,
    tuple[Hop, ...]: Fields.hops,
    Flow: Fields.value,
}
"""The parser of each type of field. Fields of other types keep their defaults."""
