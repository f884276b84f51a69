"""Outcomes that nobody has asked for: errors, which are logged once, and work that still goes on.

If a call's future is dropped and no code has looked at its error, the caller logs the error. A
creation's error stays with the owner of its object. If it is freed before anybody has fetched it,
the owner reports it to the creator by an `Unfetched`, which logs it, or logs it itself if the
creator is gone. Several results of one call have one error together: the last of them counts.

At its orderly end a program asks the owners of its creations by `Unfinished`: for creations that
are still being made, and for errors that nobody has fetched yet. Reports are plain messages, no
part of the protocol: one that is lost with a process is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

import msgspec

from ...printable import logger
from ...protocol.ids import RRefId, WorkerId
from ...serialization.errors import Failure
from ..core import notices, sites
from ..core.brief import Later
from ..core.core import Core, Internal
from ..core.duties import in_mailbox_thread, under_lock
from ..core.sites import Place
from ..values.objects import Objects
from ..wire.messages import StillMaking, Unfetched, Unfinished, WorkerInfo
from .calls import Calls
from .futures import Future
from .waiter import Waiter

log = logger(__name__)

MOST_PLACES = 4096
"""The most creations of which an endpoint remembers the name and the line."""
MOST_TOLD = 100
"""The most creations, and the most errors, in one `StillMaking`."""
REPORT = 50_000
"""Bytes of a reported error; a longer one loses its middle."""


class CreationSite(msgspec.Struct, frozen=True, gc=False):
    """A creation that this endpoint asked for."""

    name: str
    """The name of the function that was asked to make the object."""
    place: Place

    def __str__(self) -> str:
        return f"{self.name}() (called at {sites.said(self.place)})"


class Unasked(Internal):
    """The outcomes of one endpoint's requests that nobody has asked for."""

    def __init__(self, core: Core, objects: Objects, calls: Calls) -> None:
        self._core = core
        self._objects = objects
        self._calls = calls
        core.takers |= {Unfetched: self._told, Unfinished: self._answer}
        objects.unfetched = self._freed
        self._asked: dict[RRefId, CreationSite] = {}
        """The latest creations of this endpoint."""

    # ---- the user's thread

    def asked(self, rref: RRefId, function: object, place: Place) -> None:
        """The user's code at *place* has asked *function* to make *rref*."""
        name = function if isinstance(function, str) else getattr(function, "__name__", "?")
        self._asked[rref] = CreationSite(name, place)
        if len(self._asked) > MOST_PLACES:
            self._asked.pop(next(iter(self._asked)), None)

    def together(self, run: RRefId, parts: Iterable[RRefId]) -> None:
        """One call, that for *run*, makes all of *parts*."""
        site = self._asked.get(run)
        if site is not None:
            self._asked |= dict.fromkeys(parts, site)

    # ---- errors

    @under_lock
    def _freed(self, rref: RRefId, failure: Failure, later: Later) -> None:
        """*rref* is freed, and nobody has fetched its error."""
        report = report_of(rref, failure)
        core = self._core
        creator = core.peers.addresses.get(rref.creator)
        if rref.creator == core.me:
            core.chores.submit(self._log_creation, report)
        elif creator is None or rref.creator in core.context.dead:
            core.chores.submit(self._log_creation, report, f" for {rref.creator}")
        else:
            later.append(partial(core.port.post, creator, report))

    @in_mailbox_thread
    def _told(self, report: Unfetched) -> None:
        """An owner reports an error that nobody fetched."""
        self._core.chores.submit(self._log_creation, report)

    def _log_creation(self, report: Unfetched, on_behalf: str = "") -> None:
        asked = self._asked.get(report.rref)
        site = self._core.sites.of(report.rref)
        at = f" (called at {site})" if site else ""
        what = str(asked) if asked is not None and not site else f"{report.where}{at}"
        notices.notice(
            log,
            logging.ERROR,
            f"nobody fetched the error of {report.rref}, which {what} was to make on "
            f"{report.owner}{on_behalf}:\n{report.text}",
        )

    # ---- work that goes on

    def _answer(self, question: Unfinished) -> None:
        self._core.step(list)  # settle the dropped references
        answer = self.making(question.token, question.me, last=question.last)
        self._core.port.post(question.asker, answer)

    def making(self, token: int, creator: WorkerId, *, last: bool) -> StillMaking:
        """The objects that this endpoint makes for *creator*; if *last*, also unfetched errors."""
        with self._core.lock:
            state = self._core.context.state
            rrefs = [rref for rref, call in state.making.items() if call.caller == creator]
            rrefs += [
                alias.rref
                for alias in state.aliases.values()
                if alias.rref.creator == creator and not alias.gone and alias.canonical is None
            ]
            errors = self._objects.unfetched_of(creator, MOST_TOLD) if last else []
        reports = tuple(report_of(rref, failure) for rref, failure in errors)
        return StillMaking(token, tuple(rrefs[:MOST_TOLD]), reports)

    def log_creations(self, reports: Iterable[Unfetched]) -> None:
        for report in reports:
            self._log_creation(report)

    def unanswered(self) -> list[Future[object]]:
        """The program's calls without an answer; those whose time is over end."""
        with self._core.lock:
            futures = [
                self._calls.future_of(each) if isinstance(each, Waiter) else each
                for each in self._calls.awaited()
            ]
        waiting = [each for each in futures if not each.overlooked and not each.done()]
        for each in waiting:
            if each.left() <= 0:
                each.expire()  # or the mailbox thread would do so a moment later
        return [each for each in waiting if not each.done()]

    def arriving(self) -> bool:
        """Whether a living owner still has to accept a creation."""
        with self._core.lock:
            return bool(self._core.context.state.asked)

    def owners(self) -> list[WorkerInfo]:
        """The living endpoints that this one has asked for objects."""
        with self._core.lock:
            dead = self._core.context.dead
            return [info for info in self._calls.owners.values() if info.id not in dead]

    def calls(self, rrefs: list[tuple[RRefId | None, WorkerInfo]]) -> list[str]:
        """The creations under way at each owner, in words: one text for each call."""
        words: dict[object, str] = {}
        for rref, to in rrefs:
            site = self._asked.get(rref) if rref is not None else None
            words.setdefault((rref, to) if site is None else id(site), self.words(rref, to))
        return list(words.values())

    def words(self, rref: RRefId | None, to: WorkerInfo) -> str:
        """The making of *rref* on *to*, in words; None: *to* has not answered."""
        if rref is None:
            return f"{to}, which does not say whether it still makes objects"
        return f"{self._asked.get(rref, rref)} on {to}"


def report_of(rref: RRefId, failure: Failure) -> Unfetched:
    """The *failure* in the place of *rref*, as a report."""
    short = failure.within(REPORT)
    return Unfetched(rref, short.worker, short.where, short.text)
