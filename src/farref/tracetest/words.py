"""The words of one command, parsed from front to back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from ..protocol.ids import CallId, RRefId, WorkerId
from ..protocol.messages import Busy
from .errors import BadCommandError
from .world import World, WorldEndpoint

CLAUSES = ("with", "into", "on", "within", "at", "for", "is", "unacknowledged")
"""Words that begin a clause of a command."""


def parse_id(text: str, worker: Callable[[str], WorkerId]) -> tuple[WorkerId, int]:
    """The parts of an id such as ``A/1``. Raises `BadCommandError` if *text* is not an id."""
    name, slash, number = text.partition("/")
    if not slash or not number.isdecimal():
        raise BadCommandError(f"{text!r} is not an id such as A/1")
    return worker(name), int(number)


def parse_value(text: str) -> Any:
    """A JSON list, object or truth value, or else the text itself."""
    if text[:1] not in ("[", "{") and text not in ("true", "false"):
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise BadCommandError(f"{text!r} is not JSON: {error}") from error


class Words:
    """The words of one command, taken from the front."""

    def __init__(self, world: World, words: list[str]) -> None:
        self.world = world
        self._words: list[str] = []
        self._clauses: dict[str, list[str]] = {}
        clause = self._words
        for word in words:
            if word in CLAUSES:
                clause = self._clauses.setdefault(word, [])
            else:
                clause += _expanded(word)

    def next(self, what: str) -> str:
        if not self._words:
            raise BadCommandError(f"{what} is missing")
        return self._words.pop(0)

    def rest(self) -> list[str]:
        rest, self._words = self._words, []
        return rest

    def more(self) -> bool:
        return bool(self._words)

    def endpoint(self) -> WorldEndpoint:
        """The endpoint that acts: it must be alive."""
        return self.world.living(self.next("an endpoint"))

    def worker(self) -> WorkerId:
        return self.world.worker(self.next("an endpoint"))

    def route(self) -> tuple[WorkerId, WorkerId]:
        """``A->B``."""
        sender, arrow, to = self.next("a route such as A->B").partition("->")
        if not arrow:
            raise BadCommandError(f"{sender!r} is not a route such as A->B")
        return self.world.worker(sender), self.world.worker(to)

    def rref(self) -> RRefId:
        return RRefId(*parse_id(self.next("a reference"), self.world.worker))

    def rrefs(self) -> list[RRefId]:
        found = [self.rref()]
        while self._words:
            found.append(self.rref())
        return found

    def call(self) -> CallId:
        return CallId(*parse_id(self.next("a call"), self.world.worker))

    def fields(self) -> dict[str, Any]:
        """All remaining words as fields, each ``name=value``. A value may be JSON."""
        found: dict[str, Any] = {}
        for word in self.rest():
            name, equals, value = word.partition("=")
            if not equals:
                raise BadCommandError(f"{word!r} is not of the form field=value")
            found[name] = parse_value(value)
        return found

    def flag(self, name: str) -> bool:
        """Whether *name* is the next word; if so, takes it."""
        if self._words[:1] != [name]:
            return False
        del self._words[0]
        return True

    def clause(self, name: str) -> list[str]:
        return self._clauses.pop(name, [])

    def clause_rrefs(self, name: str) -> list[RRefId]:
        return [RRefId(*parse_id(word, self.world.worker)) for word in self.clause(name)]

    def clause_busy(self, name: str) -> tuple[Busy, ...]:
        """For each ``REF`` the request that now runs on it, or makes it; or ``REF:CALL``."""
        chain: list[Busy] = []
        for word in self.clause(name):
            text, _, of = word.partition(":")
            rref = RRefId(*parse_id(text, self.world.worker))
            calls = [each.context.deadlocks.blocker(rref) for each in self.world.endpoints.values()]
            if of:
                calls = [CallId(*parse_id(of, self.world.worker))]
            call = next(filter(None, calls), None)
            if call is None:
                raise BadCommandError(f"no request runs on {rref}; name one: {rref}:CALL")
            chain.append(Busy(rref, call))
        return tuple(chain)

    def clause_calls(self, name: str) -> list[CallId]:
        return [CallId(*parse_id(word, self.world.worker)) for word in self.clause(name)]

    def at(self, worker: WorkerId) -> list[WorldEndpoint]:
        """The endpoints that hear of *worker*: the named ones, or all other living ones."""
        if named := self.clause("at"):
            return [self.world.living(name) for name in named]
        return [e for e in self.world.endpoints.values() if e.alive and e.me != worker]

    def finish(self) -> None:
        extra = [*self._words, *self._clauses]
        if extra:
            raise BadCommandError(f"too many words: {' '.join(extra)}")


def _expanded(word: str) -> list[str]:
    """The expansion of ``A/1..A/3`` or ``m1..m3``."""
    match = re.fullmatch(r"(\D*?)(\d+)\.\.(\D*?)(\d+)", word)
    if match is None or match[1] != match[3]:
        return [word]
    return [f"{match[1]}{number}" for number in range(int(match[2]), int(match[4]) + 1)]
