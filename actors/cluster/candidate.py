"""A candidate for the role of the registrar, and the registrar itself while it holds that role.

In a system with a store (`etcd`) each host has one candidate. It is an actor of its own because it
has threads: one of them asks the store who the registrar is, and the other one writes. They hand
the answers to the actor, so it never waits for the store itself. It creates no actors, and so forks
no process.

A candidate stands for election only once its host is part of the system, because it gets the
settings from there. The store holds no settings, no key and no code: whoever can write to it can at
most stop the system.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import secrets
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
from thespian.actors import ActorAddress, ActorExitRequest, WakeupMessage

from ...printable import logger
from ...protocol.succession.campaign import (
    Campaign,
    Deposed,
    Follow,
    Grant,
    Holder,
    Stand,
    TakeOver,
)
from ...protocol.succession.ledger import Ledger, Refused, Write
from ...serialization.failures import details_of
from ..base import signals
from ..core.threads import Threads
from ..hosting import bases, events, versions
from ..wire import messages as wire
from ..wire.settings import Settings
from .elected import Elected
from .etcd import EtcdStore, UnreadableError
from .facts import home_of, read_home
from .failure_detector import SILENT_TICKS
from .gateway import NoAnswer
from .system_actor import SystemActor

log = logger(__name__)

RENEWALS = 2
"""Ticks between two questions to the store."""
AGAIN = 0.2
"""Seconds until a store that has not answered is asked again."""
WORKS = "the etcd works again"
SURE = 3
"""The number of answers in a row after which the etcd counts as working again. One without space
still answers every other question: those that only read."""
MOST_EARLY = 10_000
"""The most messages for a registrar that wait until this candidate knows whether it is elected."""


class GiveBack(msgspec.Struct, frozen=True):
    """Candidate -> its thread: end this lease. This host cannot be the registrar."""

    lease: int


class Told(msgspec.Struct, frozen=True):
    """Thread -> its candidate: the answer of the store to the question *to*, or None.

    It has the facts, too, if the question was for them.
    """

    to: Any
    answer: Any
    facts: tuple[dict[str, bytes], int] | None = None
    wrong: str = ""
    """The reason why this host can have no part in what the store holds."""


class Silent(msgspec.Struct, frozen=True):
    """Thread -> its candidate: the store fails; without a reason, it works again."""

    why: str


class Candidate(SystemActor):
    takes = wire.TO_CANDIDATE
    title = "the registrar"
    log = log

    def __init__(self) -> None:
        super().__init__()
        self._proxy: ActorAddress | None = None
        self._order = wire.Candidacy("", "", 0.0)
        self._known: Settings | None = None
        """The system's settings, once this host is part of it."""
        self._campaign = Campaign(f"{os.getpid()}-{secrets.token_hex(8)}")
        self._ledger: Ledger | None = None
        self._elected: Elected | None = None
        self._key = b""
        """The system's key."""
        self._looked = False
        """Whether this candidate has checked that no system of this name has another key."""
        self._early: list[tuple[Any, ActorAddress]] = []
        self._threads = Threads()
        self._asking: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._writing: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._ticks = 0
        self._resigning = False
        self._wrong = ""
        """The last reason why this host can have no part in what the store holds."""

    @property
    def _system(self) -> str:
        return self._order.system

    def _take(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case wire.Candidacy():
                self._stand(message, sender)
            case wire.Doubt(term=term, heard=heard):
                if heard:
                    self._campaign.heard(term)
                elif term >= self._campaign.term:
                    self._campaign.suspect()
            case wire.Forward() | wire.HostJoin() | wire.Heartbeat():
                self._serve(message, sender)
            case Silent(why=why):
                self.send(self._proxy, wire.NoStore(why))
            case Told(to=Write()):
                self._written(message)
            case Told(to=GiveBack()):
                pass
            case Told(to=TakeOver(term=term), facts=facts) if facts is not None:
                self._take_over(term, facts)
            case Told():
                if message.wrong:
                    self._cannot(message.wrong)
                self._consequences(self._campaign.answered(message.answer))
            case WakeupMessage():
                self._tick()
            case wire.Resign():
                self._resigning = True
                self._maybe_resign()
            case ActorExitRequest():
                self._asking.put(None)
                self._writing.put(None)

    # ---- the store

    def _stand(self, order: wire.Candidacy, proxy: ActorAddress) -> None:
        begun = bool(self._order.system)
        self._order, self._proxy = order, proxy
        self._known = order.settings or self._known
        if begun:
            return
        signals.die_of_faults()
        transport = bases.own(self._myRef.transport)
        home = home_of(self.myAddress, versions.mine())
        who = self._campaign.me

        assert transport is not None  # noqa: S101 - `System` asks for our base
        key = self._key = transport.settings.key

        def hand(told: Told | Silent) -> None:
            bases.nudge(transport, told)

        def ask(store: EtcdStore, question: Any) -> Told:
            if isinstance(question, TakeOver):
                return Told(question, None, store.read())
            with contextlib.suppress(LookupError):
                if isinstance(question, GiveBack):
                    store.resign(question.lease)
                    return Told(question, None)
                if not self._looked:
                    store.rivals()
                    self._looked = True
                return Told(question, store.ask(question, who, home, order.seconds))
            return Told(question, None)

        def write(store: EtcdStore, question: Write) -> Told:
            return Told(question, store.write(question))

        for jobs, do, sure in ((self._asking, ask, SURE), (self._writing, write, 1)):
            store = EtcdStore(order.registry, order.system, key, order.seconds / 3)
            arguments = (jobs, do, store, hand, sure)
            self._threads.start(_work, "farref candidate", *arguments)
        self._tick()

    def _tick(self) -> None:
        self._ticks += 1
        self._threads.again()
        if self._elected is not None:
            self._elected.tick()
            self._flush()
        if self._ticks % RENEWALS == 0 or not self._campaign.leads:
            question = self._campaign.tick()
            if isinstance(question, Grant | Stand) and self._known is None:
                self._consequences(self._campaign.answered(None))  # it may not stand
            elif question is not None:
                self._asking.put(question)
        self.wakeupAfter(timedelta(seconds=self._order.seconds / SILENT_TICKS))

    def _consequences(self, consequences: list[TakeOver | Deposed | Follow]) -> None:
        for each in consequences:
            match each:
                case TakeOver():
                    self._elected = self._ledger = None
                    self._asking.put(each)
                case Deposed():
                    if self._elected is not None:
                        log.warning("another host becomes the registrar of %s", self._system)
                    self._elected = self._ledger = None
                case Follow(holder=holder):
                    self._early.clear()
                    self._follow(holder)

    def _follow(self, holder: Holder) -> None:
        try:
            registrar, theirs = read_home(holder.home)
        except UnreadableError as error:
            self._cannot(str(error))
            return
        refused = versions.conflict(theirs, "the registrar's host")
        self.send(self._proxy, wire.Meet(holder.term, registrar, refused))

    def _cannot(self, why: str) -> None:
        """This host can have no part in what the store holds now. Each tick it looks again."""
        if why != self._wrong:
            log.error("%s", why)
        self._wrong = why
        self.send(self._proxy, wire.Meet(0, self.myAddress, why))

    def _take_over(self, term: int, read: tuple[dict[str, bytes], int]) -> None:
        """The facts have arrived: become the registrar, unless the role was lost meanwhile."""
        if not self._campaign.leads or self._campaign.term != term or self._known is None:
            return
        facts, revision = read
        ledger = Ledger(term, revision)
        try:
            self._elected = Elected(ledger, self._known, facts, self._proxy)
        except Exception as error:
            # A registrar without all facts might free what somebody holds, so this host is not it.
            self._asking.put(GiveBack(self._campaign.lease))
            self._consequences(self._campaign.deposed())
            unreadable = isinstance(error, UnreadableError)
            self._cannot(str(error if unreadable else UnreadableError.at("as facts", error)))
            return
        self._ledger = ledger
        system = self._system
        text = "this host has the registrar of %s from now on, of term %d"
        events.tell(log, logging.INFO, "registrar.elected", text, system, term, system=system)
        self._flush()
        self.send(self._proxy, wire.Meet(term, self.myAddress))
        early, self._early = self._early, []
        for message, sender in early:
            self._serve(message, sender)

    def _written(self, told: Told) -> None:
        ledger = self._ledger
        if ledger is None or told.to.term != ledger.term:
            return
        if isinstance(told.answer, Refused):
            self._consequences(self._campaign.deposed())
            return
        again = ledger.answered(told.answer)
        if again is not None:
            self._writing.put(again)
        self._flush()
        self._maybe_resign()

    def _flush(self) -> None:
        """Send the messages that may leave, and begin to write."""
        ledger = self._ledger
        if ledger is None:
            return
        write = ledger.write()
        if write is not None:
            self._writing.put(write)
        released: list[Any] = ledger.released()
        for to, message in released:
            self.send(to, message)

    # ---- registrar proxies

    def _serve(self, message: Any, sender: ActorAddress) -> None:
        elected = self._elected
        if elected is None:
            if len(self._early) < MOST_EARLY and not isinstance(message, wire.Heartbeat):
                self._early.append((message, sender))
            return
        try:
            match message:
                case wire.Forward():
                    wire.check_wire(message.message)
                    elected.take(message, sender)
                case wire.HostJoin():
                    elected.host(message, sender)
                case wire.Heartbeat():
                    answer = elected.beat(message, sender)
                    if answer is not None:
                        self.send(sender, answer)
        finally:
            self._flush()

    def _maybe_resign(self) -> None:
        """Give the role back once everything is written; then the host may go."""
        if not self._resigning:
            return
        if self._elected is not None and self._ledger is not None:
            if not self._ledger.idle:
                return
            store = EtcdStore(self._order.registry, self._system, self._key, 1.0)
            with contextlib.suppress(NoAnswer, LookupError):
                forget = self._ledger.term if self._elected.empty else 0
                store.resign(self._campaign.lease, forget)
            self._elected = self._ledger = None
        self.send(self._proxy, wire.Resign())
        self._resigning = False


def _work(
    jobs: queue.SimpleQueue[Any],
    do: Callable[[EtcdStore, Any], Told],
    store: EtcdStore,
    hand: Callable[[Told | Silent], None],
    sure: int,
) -> None:
    """Do *jobs* in order, until one of them is None. Runs in a thread of its own.

    After a failure the store counts as working again once it has answered *sure* jobs in a row.
    """
    silent, good = "", 0
    while (job := jobs.get()) is not None:
        while True:
            told, why = Told(job, None), ""
            try:
                told = do(store, job)
            except NoAnswer as error:
                why = f"the etcd fails: {error}"
            except UnreadableError as error:
                told = Told(job, None, wrong=str(error))
            except Exception as error:
                log.error("the store failed on %s:\n%s", type(job).__name__, details_of(error))
            good = 0 if why else good + 1
            if (why and not silent) or (silent and good == sure):
                silent = why
                log.warning("%s", f"{why}; new names and deaths wait" if why else WORKS)
                hand(Silent(why))
            if told.answer is None:
                time.sleep(AGAIN)  # the question will come again
            if why and isinstance(job, TakeOver):
                continue  # nothing can be done without the facts
            hand(told)
            break
