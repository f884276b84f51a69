"""How long requests wait for the next registrar, in ticks: the shipped machines, virtual time.

A tick is a tenth of `silence`. The answers of the store, and messages, take no tick here.
"""

from __future__ import annotations

import itertools

import pytest

from farref.actors.cluster.candidate import RENEWALS
from farref.actors.cluster.failure_detector import SILENT_TICKS
from farref.actors.cluster.forwarder import BEAT, DOUBT, LOST, Due, Forwarder
from farref.actors.wire.messages import (
    Deliver,
    Died,
    Forward,
    Heard,
    Heartbeat,
    HostInfo,
    HostJoin,
    HostJoined,
    Make,
    Spawn,
)
from farref.actors.wire.settings import Settings
from farref.protocol.succession.campaign import Campaign, Grant, Stand, TakeOver, WhoLeads

from ...model.succession import ModelStore
from .terms import Term, at, host_id

REQUESTS = 12
"""Ticks that a request waits, at most: docs/hosts.md has this number."""
DEATHS = 27
"""Ticks until the registrar's host is given up, at most: docs/hosts.md has this number, too."""


class Survivor:
    """Host B, after the registrar on host A has died."""

    def __init__(self, lease: int, last_message: int, parity: int) -> None:
        """The *lease* lasts so many ticks more; A's last message came *last_message* ticks ago."""
        self.store = ModelStore()
        self.lease = lease
        self.store.ask(Stand(self.store.ask(Grant(), "A").lease), "A")
        before = Term()
        for endpoint, host in (("x", "a"), ("e", "b")):
            before.host(host)
            before.endpoint(endpoint, host)
        self._facts = before.facts
        self.forwarder = Forwarder(host_id("b"), HostInfo("b", {}))
        for each in before.delivered("b"):
            self.forwarder.take(each, at("registrar A"))
        for _ in range(parity):
            self.forwarder.tick()
        self.forwarder.take(Deliver(1, (), None, Heard()), at("registrar A"))
        self.campaign = Campaign("B")
        self.campaign.heard(1)
        for _ in range(last_message):
            self._proxy()
        self.term: Term | None = None
        self.made = self.told = False
        self.ticks = 0
        self.looks = 0
        self.forwarder.ask(Spawn(1, b"class", "w", None, 1, "b"), at("e"))  # to A, and lost

    def _proxy(self) -> Due:
        due = self.forwarder.tick()
        assert not due.lost
        if due.doubt:
            self.campaign.suspect()
        return due

    def tick(self) -> None:
        self.ticks += 1
        if self.ticks == self.lease:
            self.store.end(1)
        due = self._proxy()
        if self.term is not None:
            if due.beat:
                self.term.elected.beat(Heartbeat(self.forwarder.me, answer=True), at("proxy b"))
            self.term.ticks(1)
            self._hear()
        if not self.campaign.leads:
            question = self.campaign.tick()
            if question is not None:
                self.looks += isinstance(question, WhoLeads)
                for each in self.campaign.answered(self.store.ask(question, "B")):
                    assert isinstance(each, TakeOver)
                    self.term = Term(each.term, self._facts, own="b")
                    self._hear(Deliver(each.term, (), None, Heard()))

    def _hear(self, *messages: Deliver) -> None:
        """The proxy of B takes *messages*, and then all that the registrar there has for it."""
        assert self.term is not None
        ahead = [*messages, *self.term.delivered("b")]
        for message in ahead:
            for to, each in self.forwarder.take(message, at("registrar B")):
                assert to != at("registrar A")
                match each:
                    case Make():
                        self.made = True
                    case Died(workers=workers):
                        self.told = self.told or any(worker.name == "x" for worker in workers)
                    case HostJoin():
                        self.term.elected.host(each, at("proxy b"))
                    case Forward():
                        self.term.elected.take(each, at("proxy b"))
            self.term.flush()
            ahead += self.term.delivered("b")


@pytest.fixture(scope="module")
def survivors() -> list[tuple[int, int]]:
    """The ticks until a request is done, and a death is told, for all phases of all clocks."""
    found = []
    leases = range(SILENT_TICKS - RENEWALS, SILENT_TICKS + 1)
    for lease, last_message, parity in itertools.product(leases, range(BEAT + 1), range(DOUBT)):
        survivor = Survivor(lease, last_message, parity)
        made = 0
        while not survivor.told:
            survivor.tick()
            made = made or (survivor.ticks if survivor.made else 0)
            assert survivor.ticks < LOST
        found.append((made, survivor.ticks))
    return found


def test_a_request_waits_for_the_lease_and_the_election(survivors: list[tuple[int, int]]) -> None:
    assert max(made for made, _ in survivors) == REQUESTS


def test_the_host_of_the_registrar_is_given_up(survivors: list[tuple[int, int]]) -> None:
    assert max(told for _, told in survivors) == DEATHS


def test_a_host_that_resigns_is_followed_at_the_next_doubt() -> None:
    """The lease is over at once. So only the doubt, and the election, take time."""
    for last_message, parity in itertools.product(range(BEAT + 1), range(DOUBT)):
        survivor = Survivor(1, last_message, parity)
        while not survivor.made:
            survivor.tick()
        assert survivor.ticks <= DOUBT + 4


def test_the_store_is_asked_once_a_turn_at_most() -> None:
    survivor = Survivor(SILENT_TICKS, 0, 0)
    while survivor.term is None:
        survivor.tick()
    assert survivor.looks <= SILENT_TICKS


def test_a_host_that_hears_nothing_counts_as_cut_off() -> None:
    forwarder = Forwarder(host_id("b"), HostInfo("b", {}))
    assert not any(forwarder.tick().lost for _ in range(2 * LOST))  # it has never joined
    for each in (Heard(), HostJoined(Settings())):
        forwarder.take(Deliver(1, (), None, each), at("registrar"))
    assert [forwarder.tick().lost for _ in range(LOST + 1)] == [False] * LOST + [True]
