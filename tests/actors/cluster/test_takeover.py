"""How long requests wait for the next registrar, in ticks: the shipped machines, virtual time.

A tick is a tenth of `silence`. The answers of the store, and messages, take no tick here.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from thespian.actors import ActorAddress

from farref.actors.base.addresses import Address
from farref.actors.cluster.candidate import RENEWALS
from farref.actors.cluster.elected import Elected
from farref.actors.cluster.failure_detector import SILENT_TICKS
from farref.actors.cluster.forwarder import BEAT, DOUBT, LOST, Forwarder
from farref.actors.wire.messages import (
    Deliver,
    Died,
    EndpointJoin,
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
from farref.protocol.ids import WorkerId
from farref.protocol.succession.campaign import Campaign, Grant, Stand, TakeOver, WhoLeads
from farref.protocol.succession.ledger import Ledger, Refused

from ...model.succession import ModelStore

REQUESTS = 12
"""Ticks that a request waits, at most: docs/hosts.md has this number."""
DEATHS = 27
"""Ticks until the registrar's host is given up, at most: docs/hosts.md has this number, too."""
SETTINGS = Settings(silence=5.0)


def at(name: str) -> ActorAddress:
    return ActorAddress(Address(name))


class Survivor:
    """Host B, after the registrar on host A has died."""

    def __init__(self, lease: int, last_message: int, parity: int) -> None:
        """The *lease* lasts so many ticks more; A's last message came *last_message* ticks ago."""
        self.store = ModelStore()
        self.lease = lease
        earlier = self.store.ask(Grant(), "A")
        self.store.ask(Stand(earlier.lease), "A")
        ledger = Ledger(1, 0)
        elected = Elected(ledger, SETTINGS, {})
        self.forwarder = Forwarder(WorkerId("b", 2), HostInfo("b", {}))
        for each in (
            Deliver(1, (), None, Heard()),
            Deliver(1, (), None, HostJoined(SETTINGS)),
        ):
            self.forwarder.take(each, at("registrar A"))
        elected.host(HostJoin(WorkerId("a", 1), HostInfo("a", {})), at("proxy a"))
        elected.host(HostJoin(WorkerId("b", 2), HostInfo("b", {})), at("proxy b"))
        for place, name in (("b", "e"), ("a", "x")):
            host = WorkerId(place, 1 if place == "a" else 2)
            join = EndpointJoin(WorkerId(name, 0), 1, "", beats=False, place=place)
            elected.take(Forward(host, 1, 1, at(name), join), at(f"proxy {place}"))
        self.forwarder.endpoints = {
            w: m.address for w, m in elected._members.items() if w.name == "e"
        }
        write = ledger.write()
        assert write is not None
        assert not isinstance(self.store.ask(write, "A"), Refused)
        for _ in range(parity):
            self.forwarder.tick()
        self.forwarder.take(Deliver(1, (), None, Heard()), at("registrar A"))
        self.campaign = Campaign("B")
        self.campaign.heard(1)
        for _ in range(last_message):
            self._proxy()
        self.elected: Elected | None = None
        self.ledger: Ledger | None = None
        self.made = self.told = False
        self.ticks = 0
        self.looks = 0
        self.forwarder.ask(Spawn(1, b"class", "w", None, 1, "b"), at("e"))  # to A, and lost

    def _proxy(self) -> Any:
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
        if self.elected is not None:
            if due.beat:
                self.elected.beat(Heartbeat(self.forwarder.me, answer=True), at("proxy b"))
            self.elected.tick()
            self._flush()
        if not self.campaign.leads:
            question = self.campaign.tick()
            if question is not None:
                self.looks += isinstance(question, WhoLeads)
                for each in self.campaign.answered(self.store.ask(question, "B")):
                    assert isinstance(each, TakeOver)
                    self._take_over(each.term)

    def _take_over(self, term: int) -> None:
        self.ledger = Ledger(term, self.store.written[2])
        self.elected = Elected(self.ledger, SETTINGS, dict(self.store.facts), at("proxy b"))
        self._hear(Deliver(term, (), None, Heard()))

    def _hear(self, message: Deliver) -> None:
        for to, each in self.forwarder.take(message, at("registrar B")):
            if isinstance(each, Make):
                self.made = True
            elif isinstance(each, Died):
                self.told = self.told or any(worker.name == "x" for worker in each.workers)
            elif isinstance(each, HostJoin):
                assert self.elected is not None
                self.elected.host(each, at("proxy b"))
            elif isinstance(each, Forward):
                assert self.elected is not None
                self.elected.take(each, at("proxy b"))
            assert to is None or to != at("registrar A")
        self._flush()

    def _flush(self) -> None:
        assert self.ledger is not None
        write = self.ledger.write()
        while write is not None:
            written = self.store.ask(write, "B")
            assert not isinstance(written, Refused)
            write = self.ledger.answered(written)
        released: list[Any] = self.ledger.released()
        for to, each in released:
            if to == at("proxy b"):
                self._hear(each)


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
    while survivor.elected is None:
        survivor.tick()
    assert survivor.looks <= SILENT_TICKS


def test_a_host_that_hears_nothing_counts_as_cut_off() -> None:
    forwarder = Forwarder(WorkerId("b", 2), HostInfo("b", {}))
    assert not any(forwarder.tick().lost for _ in range(2 * LOST))  # it has never joined
    for each in (Heard(), HostJoined(SETTINGS)):
        forwarder.take(Deliver(1, (), None, each), at("registrar"))
    assert [forwarder.tick().lost for _ in range(LOST + 1)] == [False] * LOST + [True]
